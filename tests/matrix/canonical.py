"""What of a world can still matter, as text in which random values have no face of their own.

Two moments with one text go on alike: they differ in random values, in numbers that are compared
and never counted, in what is only told, and in what is over. ``test_sharing_changes_no_verdict``
holds whole first crashes to that, without sharing anything.
"""

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine.model.fields import parse_time
from ptahk.engine.model.job import OPERATION_ID, Collected, Result
from ptahk.engine.model.resource import LEASE
from ptahk.engine.ports import Document
from ptahk.wire import frame
from tests.kit import toy
from tests.kit.memory import MemoryJob
from tests.matrix.bed import Bed
from tests.matrix.strikes import Late

_TOKEN = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<epoch>\d+\.[0-9a-f]{16})|(?P<hex>[0-9a-f]{12,})"
)
_COUNTED = frozenset({"number", "realmNumber", "highestNumber", "thawed", "frozen"})
_LONG = frozenset({"inputs", "planBytes", "summary", "drift", "snapshot", "message"})
"""Follows from what is kept (a digest of it stands beside it), or is read by people alone."""
_OVER = frozenset({
    "startTime", "finishTime", "dispatchTime", "dispatchNotAfter", "executionNotAfter", "message",
})  # fmt: skip
"""Of a claim or debt: told, or carried by its Job's order, where it still counts (``_job``)."""
_ENTRY = ("operationId", "outcome", "plan", "settled", "converged")
_LAST_PLAN = ("name", "statements", "inputs", "observedFingerprint", "scopeFingerprint")
_DATABASE = (
    "targetIdentity", "ledgerPresent", "ledgerWritable", "highestNumber", "clockOffsetSeconds",
    "binding", "request",
)  # fmt: skip
FRESH_S, PAUSE_S, THIRD_S, WHOLE_S = 120.0, 60.0, 320.0, 960.0
"""Older is all alike: a reading of the database, the end of a mutation that may be tried again, a
renewal, a Lease that is watched. The Leases of all stories last ``WHOLE_S``."""


class _Random(str):
    """A value whose identity alone matters."""


class _Counted(int):
    """A number whose order alone matters."""


Atom = str | _Random | _Counted | datetime
_atoms: dict[str, tuple[Atom, ...]] = {}
"""Text → its parts; nearly every text comes again and again."""
_known: dict[int, tuple[Any, list[Atom]]] = {}
"""Stored document → its atoms. It is held, so its id stays its own."""


def key(bed: Bed) -> bytes:
    """The state's text, hashed."""
    return hashlib.blake2b(text(bed).encode(), digest_size=16).digest()


def text(bed: Bed) -> str:
    """The state's text."""
    atoms: list[Atom] = []
    for document in sorted(bed.api.all(), key=_born):
        atoms += _document(bed, document)
    _flatten(_state(bed), atoms, "")
    now = bed.clock.now()
    counted = sorted({int(atom) for atom in atoms if type(atom) is _Counted} | {0})
    ranks = {number: f"n{rank}" for rank, number in enumerate(counted)}
    names: dict[str, str] = {}
    out = []
    for atom in atoms:
        kind = type(atom)
        if kind is str:
            out.append(atom)
        elif kind is _Random:
            out.append(names.setdefault(atom, f"x{len(names)}"))  # type: ignore[arg-type]
        elif kind is _Counted:
            out.append(ranks[int(atom)])  # type: ignore[arg-type]
        else:
            out.append(_since(now - atom))  # type: ignore[operator]
    return "\x1f".join(out)  # type: ignore[arg-type]


def _since(age: timedelta) -> str:
    """Times to come exactly; what is past to ten seconds, up to the third of a Lease."""
    seconds = age.total_seconds()
    if seconds < 0:
        return f"{seconds:.3f}"
    return f"{min(THIRD_S, seconds) // 10:.0f}"


def _born(document: Document) -> str:
    return str(document["metadata"]["uid"][-12:])


def _flatten(value: Any, out: list[Atom], name: str) -> None:
    kind = type(value)
    if kind is str:
        if name == "resourceVersion":
            out.append(_Random("v" + value))
            return
        parts = _atoms.get(value)
        if parts is None:
            parts = _atoms[value] = tuple(_parts(value))
        out.extend(parts)
    elif kind is dict:
        out.append("{")
        for key, item in value.items():
            if key not in _LONG or (key == "inputs" and type(item) is str):
                out.append(key)
                _flatten(item, out, key)
        out.append("}")
    elif kind is list or kind is tuple:
        out.append("[")
        for item in value:
            _flatten(item, out, "")
        out.append("]")
    elif name in _COUNTED and kind is int:
        out.append(_Counted(value))
    else:
        out.append(repr(value))


def _joined(value: Any) -> list[Atom]:
    """The atoms of a value, plain text joined."""
    atoms: list[Atom] = []
    _flatten(value, atoms, "")
    out: list[Atom] = []
    plain: list[str] = []
    for atom in atoms:
        if type(atom) is str:
            plain.append(atom)
            continue
        if plain:
            out.append(" ".join(plain))
            plain = []
        out.append(atom)
    if plain:
        out.append(" ".join(plain))
    return out


def _parts(value: str) -> Iterable[Atom]:
    last = 0
    for match in _TOKEN.finditer(value):
        yield value[last : match.start()]
        last = match.end()
        if match["time"]:
            yield datetime.fromisoformat(match["time"])
        elif match["epoch"]:
            number, _, bits = match["epoch"].partition(".")
            yield _Counted(number)
            yield _Random(bits)
        else:
            yield _Random(match["hex"])
    if last < len(value) or not value:
        yield value[last:]


def _state(bed: Bed) -> list[Any]:
    document = bed.document()
    status = {} if document is None else document.get("status") or {}
    claim, owed = status.get("activeOperation") or {}, status.get("pendingObservation") or {}
    live: set[str] = {str(item["jobName"]) for item in (claim, owed) if item}
    live |= {item.document["job"] for item in bed.late if item.name in ("CreateJob", "SetJobTtl")}
    operations = {item.get("operationId") for item in (claim, owed)}
    unseen = {item["job"] for item in status.get("history") or () if item.get("unseen")}
    db, lingering, jobs = bed.database, bed.lingering, bed.jobs.jobs.values()
    return [
        [_job(bed, job) for job in jobs if job.order.name in live],
        sorted(_left_over(bed, job, unseen) for job in jobs if _matters(job, live)),
        [_row(row, operations) for row in db.rows.values()],
        _effects(bed, operations), db.live, db.binding, sorted(db.failing),
        [[row.version, row.state, row.applied, row.running, row.claim]
         for row in db.revisions.values()],
        db.session is not None,
        # Not when it ends: every moment for that is gone on from.
        lingering and [lingering.run.order.spec.operation_id, lingering.sent],
        [_late(item, unseen) for item in bed.late],
        _memory(bed, claim, owed), _ages(bed, status),
        None if bed.due is None else round(bed.due - bed.now_s, 3), bed.idle, bed.phase,
    ]  # fmt: skip


def _ages(bed: Bed, status: dict[str, Any]) -> list[float | bool | None]:
    """How old things are, as far as it counts."""

    def age(text: Any, most: float) -> float | None:
        if not text:
            return None
        return min(most, (bed.clock.now() - parse_time(text)).total_seconds()) // 10

    claim, seen = status.get("activeOperation") or {}, status.get("lastObservation") or {}
    waits = None if claim.get("dispatchStarted") else claim.get("startTime")
    ended = [item["finishTime"] for item in status.get("history") or ()
             if item["type"] in ("Apply", "Touch")]  # fmt: skip
    return [
        age((status.get("database") or {}).get("time"), FRESH_S),
        age(waits, FRESH_S),
        age(ended[-1], PAUSE_S) if ended and bed.story.automatic else None,
        seen.get("time", "") > (status.get("lastPlan") or {}).get("time", ""),
    ]


def _row(row: dict[str, Any], operations: set[Any]) -> Any:
    """A row of an attempt that is over counts by its number alone."""
    if row["operationId"] in operations or row["state"] == "started":
        # Its deadline counts while its executor runs: within one turn.
        return {
            name: value for name, value in row.items() if name not in ("notAfter", "startNonce")
        }
    return [{"number": row["number"]}, row["storeUid"], row["serverIdentity"]]


def _effects(bed: Bed, operations: set[Any]) -> Any:
    """Statements of a declaration take effect once at all, a toy's once in an operation."""
    live = [effect for effect in bed.database.effects if effect[0] in operations]
    if bed.story.kind == toy.KIND:
        return live
    return [live, [text for operation, text in bed.database.effects if operation not in operations]]


def _document(bed: Bed, item: Document) -> list[Atom]:
    known = _known.get(id(item))
    if known is None:
        if len(_known) > 50_000:
            _known.clear()
        known = _known[id(item)] = (item, _joined(_kept(item)))
    metadata = item["metadata"]
    name = f"{item['kind']}/{metadata['namespace']}/{metadata['name']}"
    return [*known[1], "published"] if name in bed.ports.memory.published else known[1]


def _kept(item: Document) -> Any:
    """Resource and Leases as they stand; of what never changes, its name and what it names."""
    metadata = item["metadata"]
    if "status" in item or "finalizers" in metadata or "interval" in item.get("spec", {}):
        return _resource(item)
    if item["kind"] == LEASE:
        return [metadata["uid"], _version(item), metadata["annotations"], _lease(item)]
    named = (item.get("spec") or {}).get("plan")
    return [item["kind"], metadata["name"], metadata["uid"], named]


def _lease(item: Document) -> Any:
    spec = item["spec"]
    return [spec.get(name) for name in ("holderIdentity", "leaseDurationSeconds", "renewTime")]


def _version(item: Document) -> dict[str, str]:
    return {"resourceVersion": item["metadata"]["resourceVersion"]}


def _resource(item: Document) -> Any:
    metadata = item["metadata"]
    return [
        metadata["uid"], _version(item), metadata["generation"], metadata.get("finalizers"),
        metadata.get("annotations"), "deletionTimestamp" in metadata,
        item["spec"].get("suspend"), _status(item.get("status") or {}),
    ]  # fmt: skip


def _status(status: dict[str, Any]) -> list[Any]:
    """What is read back of a status; what is only told is left out, or said in short."""
    history = status.get("history") or []
    mutations = [entry for entry in history if entry["type"] in ("Apply", "Touch")]
    shown = status.get("conditions") or ()
    return [
        status.get("phase"),
        " ".join(f"{item['type']} {item['status']} {item['reason']}" for item in shown),
        [_debt(status.get(name)) for name in _DEBTS],
        _some(status.get("database"), _DATABASE), _some(status.get("lastPlan"), _LAST_PLAN),
        _some(status.get("lastObservation"), ("scopeFingerprint", "source", "verdict")),
        _debt(status.get("unresolvedRun")),
        {name: status.get(name) for name in _PLAIN},
        _some(status.get("frozen"), ("reason", "number")),
        _debt(status.get("request")), status.get("retry"),
        [item["uid"] for item in status.get("consumedApprovals") or ()],
        history[-1:] and history[-1]["type"],
        [_some(entry, _ENTRY) for entry in mutations[-1:]],
        sorted({entry.get("settled") is not None for entry in mutations[:-1]}),
    ]  # fmt: skip


_PLAIN = ("realmNumber", "thawed", "approvalsNotBefore", "observedGeneration")
_DEBTS = ("activeOperation", "pendingObservation", "pendingLockRelease")


def _debt(item: dict[str, Any] | None) -> Any:
    return item and {name: value for name, value in item.items()
                     if name not in _OVER and name != "time"}  # fmt: skip


def _some(item: dict[str, Any] | None, names: tuple[str, ...]) -> Any:
    return item and {name: item.get(name) for name in names}


def _job(bed: Bed, job: MemoryJob) -> Any:
    runs_until = job.order.spec.execution_not_after if job.output is None else None
    return [job.order.name, job.uid, job.pods, job.present, job.lost, job.ttl_s, runs_until,
            dict(job.order.annotations), _output(bed, job), job.uid in bed.waited]  # fmt: skip


def _matters(job: MemoryJob, live: set[str]) -> bool:
    """It is over, and still runs or is never cleaned up."""
    done = job.ttl_s is not None and job.output is not None
    return job.order.name not in live and job.present and not done


def _left_over(bed: Bed, job: MemoryJob, unseen: set[str]) -> str:
    """A Job that no claim names any more: whether it runs, whether it will be cleaned up."""
    flags = job.output is None, job.uid in bed.waited, job.order.name in unseen
    return f"{job.order.spec.operation} {job.ttl_s} {flags}"


def _output(bed: Bed, job: MemoryJob) -> Any:
    """What its frame says; its bytes are compressed, so random values would show."""
    if job.output is None:
        return None
    found = bed.frames.get(job.output)
    if found is None:
        decoder = frame.Decoder(job.order.annotations[OPERATION_ID], job.order.spec.epoch)
        decoder.feed(job.output)
        read = decoder.finish()
        found = "noise" if isinstance(read, frame.Refused) else _result(read.document)
        bed.frames[job.output] = found
    return found


def _result(document: dict[str, Any]) -> Any:
    dropped = ("startNonce", "durationSeconds")
    return {name: value for name, value in document.items() if name not in dropped}


def _late(item: Late, unseen: set[str]) -> Any:
    """Not when it lands: every moment for that is gone on from."""
    document = item.document
    if "status" in document:
        document = [_version(document), _status(document["status"])]
    elif document.get("kind") == LEASE:
        document = [document["metadata"], _lease(document)]
    elif "kind" in document:
        document = document["metadata"]
    return [item.name, document, item.document.get("job") in unseen]


def _memory(bed: Bed, claim: dict[str, Any], owed: dict[str, Any]) -> Any:
    """What the process remembers of what still stands."""
    memory, found = bed.ports.memory, []
    standing = {f"{lease['metadata']['uid']}/{lease['metadata']['resourceVersion']}"
                for lease in bed.leases()}  # fmt: skip
    for what, seen in sorted(memory.watched.items()):
        if what.startswith("lease/") and seen.mark in standing and bed.story.automatic:
            found.append(["lease", min(WHOLE_S, bed.now_s - seen.since_s) // 10])
        if owed and what == f"wait/{owed['operationId']}":
            found.append(["wait", min(WHOLE_S, bed.now_s - seen.since_s) // 10])
    results = [_collected(item) for uid, item in memory.results.items()
               if uid == claim.get("jobUid")]  # fmt: skip
    return [found, results]


def _collected(item: Collected) -> str:
    return "result" if isinstance(item, Result) else repr(item)
