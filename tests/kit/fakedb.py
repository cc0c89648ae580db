"""A database and its executor in memory: an attempt ledger, a lock, objects, and nothing else.

Objects are lines of text; the declaration is a list of lines; a plan creates the missing and drops
the surplus ones, one statement a line. A line that starts with ``!`` runs outside a transaction.
What matters is exact: the order lock, identity, state, ledger, statements of C-9.8, the refusals
of C-6.11 and C-6.14, and the tombstone. It speaks ``wire.protocol`` inside real frames.

``FakeDatabase.work`` runs one executor to its end. ``FakeDatabase.start`` gives an ``Execution``
that its caller moves step by step, so that several may run at once and die at any step; then the
lock stays with its session until ``end_session``.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ptahk.engine.model import source
from ptahk.engine.model.fields import parse_time
from ptahk.engine.model.job import JobOrder
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY
from ptahk.migrations.history import Row
from ptahk.wire import canonical, digest, frame
from tests.kit import fakesequence
from tests.kit.fakeplan import finding, whole

TARGET = "sha256:" + "7" * 64
SERVER = "postgresql/1/1"


class Died(Exception):
    """The process ends without a frame."""


class Refused(Exception):
    """A check before the ledger row refused."""

    def __init__(self, reason: str, message: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.reason, self.message, self.exit_code = reason, message, exit_code


Step = Callable[[JobOrder, str], None]
"""Called with the name of each durable step of an executor; raises Died to end it there."""


@dataclass
class FakeDatabase:
    """Everything that survives a process."""

    now: Callable[[], datetime]
    live: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: list[tuple[str, str]] = field(default_factory=list)
    """(operation id, statement) of every effect, in order."""
    identity: str = SERVER
    target: str = TARGET
    lock_holder: str | None = None
    down: bool = False
    clock_offset_s: float = 0.0
    creatable: bool = True
    binding: str | None = None
    frozen: list[dict[str, Any]] = field(default_factory=list)
    plans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Plan digest → statements, for Jobs without a plan file."""
    names: dict[str, str] = field(default_factory=dict)
    """JobSpec operation → the claim's type, where a family has words of its own."""
    failing: set[str] = field(default_factory=set)
    """Lines whose statements the server refuses."""
    step: Step = lambda order, name: None
    whole: bool = False
    """Statements are written as the planner writes them, for commands that show a plan."""
    starts: int = 0
    revisions: dict[tuple[str, str], Row] = field(default_factory=dict)
    """(stream, version) → row, as the revision table has them."""
    session: "Execution | None" = None
    """Whose session holds the advisory lock."""

    def work(self, order: JobOrder, pod: str) -> tuple[bytes, bytes | None]:
        """One process of a Job: its log and its termination message."""
        run = self.start(order, pod)
        try:
            for name in run.steps():
                self.step(order, name)
        except Died:
            return b"noise of a process that ended\n", None
        finally:
            run.end_session()
        return run.log, None

    def start(self, order: JobOrder, pod: str) -> "Execution":
        """One process of a Job that its caller moves."""
        self.starts += 1
        return Execution(self, order, pod, f"{self.starts:032x}")

    def drift(self, declared: list[str]) -> dict[str, Any]:
        """How what is live differs from these lines."""
        missing = [line for line in declared if line not in self.live]
        surplus = [line for line in self.live if line not in declared]
        items = [
            {"category": "missing", "object": line, "severity": "safe"} for line in missing
        ] + [{"category": "surplus", "object": line, "severity": "warning"} for line in surplus]
        counts = {"missing": len(missing), "surplus": len(surplus)}
        highest = "warning" if surplus else "safe" if missing else None
        return {
            "digest": digest.drift_digest(items),
            "counts": {key: value for key, value in counts.items() if value},
            "highest": highest,
            "items": items,
        }

    def fingerprint(self, lines: list[str]) -> str:
        return digest.state_fingerprint(sorted(lines))

    def time(self) -> datetime:
        """The database's clock."""
        return self.now() + timedelta(seconds=self.clock_offset_s)

    def before_effect(self, run: "Execution", statement: str) -> None:
        """A statement is about to take effect; for those who watch."""


@dataclass(eq=False)
class Execution:
    """One executor process and its session."""

    db: FakeDatabase
    order: JobOrder
    pod: str
    nonce: str
    mutation_started: bool = False
    in_flight: str | None = None
    """The statement that was sent and not answered yet."""
    landing: Callable[[], None] | None = None
    """Of a sequence: what commits of that which was sent and not answered yet."""
    log: bytes = b""
    """What the runner printed; empty while it runs."""

    def steps(self, guard: Refused | None = None) -> Iterator[str]:
        """Run; the name of each durable step, right after it.

        :param guard: what the runner refuses with before it starts the executor (C-9.2).
        """
        result: dict[str, Any] = {}
        yield from self._result(result, guard)
        self.log = self.printed(self.payload(result))

    def payload(self, result: dict[str, Any]) -> dict[str, Any]:
        """What the frame says of this result."""
        order, error = self.order, result.get("error")
        return {
            "version": 1,
            "operationId": order.spec.operation_id,
            "epoch": order.spec.epoch,
            "operation": self.db.names.get(order.spec.operation, order.spec.operation),
            "attempt": order.spec.attempt,
            "podUid": self.pod,
            "startNonce": self.nonce,
            "mutationStarted": self.mutation_started,
            "outcomeCertain": error is None,
            "exitCode": 0 if error is None else error["exitCode"],
            "targetIdentity": self.db.target,
            "durationSeconds": 0.1,
            "error": error,
            "result": result,
        }

    def printed(self, payload: dict[str, Any]) -> bytes:
        """The log of a run that came to its end."""
        spec = self.order.spec
        return b"noise\n" + frame.encode(spec.operation_id, spec.epoch, payload)

    def end_session(self) -> None:
        """The server notices that the session is over."""
        if self.db.session is self:
            self.db.session = None

    def land(self) -> None:
        """What was in flight when the client died commits after all (invariant 4, hazard P1)."""
        statement, self.in_flight = self.in_flight, None
        if statement is not None and self.landing is not None:
            self.landing()
        elif statement is not None:
            self._commit(statement)

    def _result(self, document: dict[str, Any], guard: Refused | None) -> Iterator[str]:
        self.begin_document(document)
        steps = getattr(self, f"_{document['command']}", None)
        if self.order.spec.migration is not None:
            steps = partial(fakesequence.steps, self)
        assert steps is not None, "a command of the protocol"
        try:
            yield "start"
            if guard is not None:
                raise guard
            self.connect(document)
            yield from steps(document)
        except Refused as refused:
            self.refuse(document, refused)

    def begin_document(self, document: dict[str, Any]) -> None:
        """The head of every result document."""
        document.update(
            version=1,
            command=self.order.spec.operation.lower(),
            ok=True,
            executorVersion="fake-1",
            startNonce=self.nonce,
            serverIdentity=None,
            serverVersion=170000,
            timeline=1,
            targetIdentity=self.db.target,
            ledger=None,
            clockOffsetSeconds=None,
        )

    def refuse(self, document: dict[str, Any], refused: Refused) -> None:
        """The document of an operation that was refused."""
        document["ok"] = False
        document["error"] = {
            "reason": refused.reason,
            "message": refused.message,
            "exitCode": refused.exit_code,
        }
        if document["command"] == "apply":
            document.setdefault("result", "refused")
            document.setdefault("statementsTotal", 0)
            document.setdefault("statementsDone", 0)
            document.update(mutationStarted=self.mutation_started, row=None)

    def connect(self, document: dict[str, Any]) -> None:
        """C-9.8 up to the ledger: lock and identity."""
        db, spec = self.db, self.order.spec
        if db.down:
            raise Refused("Unreachable", "the server does not answer", 6)
        document["serverIdentity"] = db.identity
        document["clockOffsetSeconds"] = db.clock_offset_s
        if spec.operation in ("Plan", "Apply", "Prove", "History"):
            holder = db.lock_holder
            if holder is None and db.session is not None:
                holder = db.session.order.spec.application_name
            if holder is not None:
                document["ledger"] = self._ledger()
                raise Refused("LockHeld", f"the lock is held by {holder}")
            db.session = self
        if spec.server_identity not in (None, db.identity):
            raise Refused("ServerIdentityMismatch", f"the server is {db.identity}")
        document["ledger"] = self._ledger()

    def _ledger(self) -> dict[str, Any]:
        rows = [row for row in self.db.rows.values() if row["serverIdentity"] == self.db.identity]
        return {
            "present": bool(self.db.rows),
            "writable": bool(self.db.rows),
            "creatable": self.db.creatable,
            "highestNumber": max((row["number"] for row in rows), default=0),
            "binding": self.db.binding,
            "unfinished": [dict(row) for row in rows if row["state"] == "started"],
            "frozen": [*self.db.frozen, *self._frozen(rows)],
        }

    def _frozen(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """C-6.14: a number of this store that it does not know, another cluster's open attempt."""
        spec, found = self.order.spec, []
        known = max(spec.known_number, spec.number or 0)
        if spec.fenced is not None:
            known = max(known, int(spec.fenced.epoch.split(".")[0]))
        own = [
            row for row in rows if row["storeUid"] == spec.store_uid
            and (row["number"] > known
                 or (row["number"] == spec.number and row["epoch"] != spec.epoch))
        ]  # fmt: skip
        for row in sorted(own, key=lambda row: -row["number"])[:1]:
            text = f"the ledger holds number {row['number']} of this store"
            found.append(finding("UnknownNumber", row, text))
        for row in rows if not spec.shared_realm else ():
            foreign = row["storeUid"] != spec.store_uid and row["storeKind"] == "cluster"
            if foreign and row["state"] == "started" and not row["sharedRealm"]:
                text = f"another cluster has an unfinished attempt {row['operationId']}"
                if row["operationId"] not in spec.thawed:
                    found.append(finding("ForeignCluster", row, text))
        return found

    def _declared(self) -> list[str]:
        data = next(item.data for item in self.order.inputs if item.name == SOURCE_KEY)
        text = "\n".join(text for _, text in source.decode(data))
        return [line for line in text.splitlines() if line]

    def _observe(self, document: dict[str, Any]) -> Iterator[str]:
        self._read(document)
        yield from ()

    def _read(self, document: dict[str, Any]) -> None:
        live = self.db.live
        document["observedFingerprint"] = self.db.fingerprint(live)
        document["scopeFingerprint"] = self.db.fingerprint(live)
        if self.order.spec.declaration:
            document["declaration"] = "\n".join(live)
        if any(item.name == SOURCE_KEY for item in self.order.inputs):
            document["drift"] = self.db.drift(list(self._declared()))

    def _plan(self, document: dict[str, Any]) -> Iterator[str]:
        self._make_plan(document)
        yield "planned"

    def _make_plan(self, document: dict[str, Any]) -> None:
        declared, live = self._declared(), self.db.live
        statements = [f"create {line}" for line in declared if line not in live]
        statements += [f"drop {line}" for line in live if line not in declared]
        written = map(whole, range(1, len(statements) + 1), statements)
        raw = canonical.encode(
            {"version": 1, "statements": list(written) if self.db.whole else statements}
        )
        self._read(document)
        document.update(
            planBytes=source.base64_text(source.pack(raw)),
            planDigest=digest.plan_content_digest(raw),
            desiredFingerprint=self.db.fingerprint(declared),
            summary={
                "scope": ["public"],
                "statements": len(statements),
                "severities": {},
                "destructive": any(item.startswith("drop ") for item in statements),
                "privileges": False,
                "setup": [],
                "sizes": {},
                "notes": [],
                "timingsSeconds": {},
            },
        )

    def _statements(self) -> tuple[str, ...]:
        spec = self.order.spec
        for item in self.order.inputs:
            if item.name == PLAN_KEY:
                raw = source.unpack(item.data, 1 << 20)
                assert digest.plan_content_digest(raw) == spec.plan_digest
                found = json.loads(raw)["statements"]
                return tuple(item["sql"] if isinstance(item, dict) else item for item in found)
        if spec.explicit_key and spec.rebind:
            self.db.binding = spec.coordination_digest
            return ()
        return self.db.plans[spec.plan_digest or ""]

    def _apply(self, document: dict[str, Any]) -> Iterator[str]:
        statements = self.begin_apply(document)
        if statements is None:
            return
        row = self.db.rows[self.order.spec.operation_id]
        yield "started"
        for statement in statements:
            yield from self._statement(document, row, statement)
        self.finish_apply(document, len(statements))
        yield "finished"

    def begin_apply(self, document: dict[str, Any]) -> tuple[str, ...] | None:
        """State and ledger row; the statements, or None where nothing is left to do."""
        db, spec = self.db, self.order.spec
        statements = self._statements()
        live = db.fingerprint(db.live)
        if spec.desired_fingerprint == live:
            document.update(
                result="alreadyConverged", statementsTotal=len(statements), statementsDone=0,
                mutationStarted=False, row=None,
            )  # fmt: skip
            return None
        if spec.observed_fingerprint not in (None, live):
            document["result"] = "stale"
            text = f"the state is not {spec.observed_fingerprint} any more"
            raise Refused("StalePlan", text)
        self.begin(len(statements))
        self.mutation_started = True
        document["statementsTotal"] = len(statements)
        return statements

    def finish_apply(self, document: dict[str, Any], total: int) -> None:
        """The ledger's row is closed, in one transaction with the last statement's progress."""
        row = self.db.rows[self.order.spec.operation_id]
        row["state"], row["outcome"] = "finished", "applied"
        document.update(
            result="applied", statementsTotal=total, statementsDone=total,
            mutationStarted=True, row=dict(row),
        )  # fmt: skip

    def _statement(
        self, document: dict[str, Any], row: dict[str, Any], statement: str
    ) -> Iterator[str]:
        self.in_time(document, row)
        outside = "!" in statement
        if outside:
            row["statementRunning"] = row["statementsDone"] + 1
            yield "running"
            self.in_time(document, row)
        self.in_flight = statement
        yield "sent"
        self.in_flight = None
        if statement.partition(" ")[2] in self.db.failing:
            self.failed(document, row, "StatementFailed", f"{statement} failed")
        self._commit(statement)
        if outside:
            yield "effect"
            row["statementsDone"] += 1
            row["statementRunning"] = None
        yield "statement"

    def in_time(self, document: dict[str, Any], row: dict[str, Any]) -> None:
        if self.db.time() >= parse_time(row["notAfter"]):
            self.failed(document, row, "DeadlineExceeded", "the deadline has passed")

    def failed(self, document: dict[str, Any], row: dict[str, Any], reason: str, text: str) -> None:
        """Close the row as failed: it names what is committed."""
        row["state"], row["outcome"] = "finished", "failed"
        document.update(result="failed", statementsDone=row["statementsDone"])
        raise Refused(reason, text, 5)

    def _commit(self, statement: str) -> None:
        """The statement's effect; in a transaction, its progress goes with it (P8)."""
        self.db.before_effect(self, statement)
        verb, _, line = statement.partition(" ")
        self.db.effects.append((self.order.spec.operation_id, statement))
        if verb == "create":
            self.db.live.append(line)
        elif line in self.db.live:
            self.db.live.remove(line)
        if "!" not in statement:
            self.db.rows[self.order.spec.operation_id]["statementsDone"] += 1

    def begin(self, total: int) -> None:
        """C-6.11 and C-6.14, in one transaction."""
        db, spec = self.db, self.order.spec
        if spec.operation_id in db.rows:
            raise Refused("AttemptExists", "the ledger has a row of this operation")
        rows = [row for row in db.rows.values() if row["serverIdentity"] == db.identity]
        own = [row["number"] for row in rows if row["storeUid"] == spec.store_uid]
        if any(number >= (spec.number or 0) for number in own):
            raise Refused("StaleEpoch", "a number as high is recorded")
        if db.time() >= parse_time(spec.execution_not_after):
            raise Refused("DeadlineExceeded", "the deadline has passed")
        if self._frozen(rows):
            raise Refused("Frozen", self._frozen(rows)[0]["message"])
        for row in rows:
            if row["state"] == "started" and row["storeKind"] == "local":
                if db.time() < parse_time(row["notAfter"]):
                    raise Refused("UnfinishedAttempt", f"{row['operationId']} is not settled")
                row["state"] = "fenced"
        db.rows[spec.operation_id] = self._row(spec.operation_id, total, "started", self.nonce)

    def _row(self, operation_id: str, total: int, state: str, nonce: str | None) -> dict[str, Any]:
        spec = self.order.spec
        fenced = spec.fenced
        number = int(fenced.epoch.split(".")[0]) if fenced is not None else spec.number
        return {
            "operationId": operation_id,
            "storeUid": spec.store_uid,
            "storeKind": spec.store_kind,
            "serverIdentity": self.db.identity,
            "coordinationDigest": spec.coordination_digest,
            "sharedRealm": spec.shared_realm,
            "number": number,
            "epoch": fenced.epoch if fenced is not None else spec.epoch,
            "startNonce": nonce,
            "planDigest": spec.plan_digest if fenced is None else fenced.plan_digest,
            "notAfter": spec.execution_not_after if fenced is None else fenced.not_after,
            "state": state,
            "statementsTotal": total,
            "statementsDone": 0,
            "statementRunning": None,
            "outcome": None,
            "resultDigest": None,
            "startedAt": None,
            "finishedAt": None,
            "fencedAt": None,
        }

    def _prove(self, document: dict[str, Any]) -> Iterator[str]:
        self.fence(document)
        yield "fenced"
        self.read_proof(document)

    def fence(self, document: dict[str, Any]) -> None:
        """The tombstone, under the lock (C-6.9)."""
        db, fenced = self.db, self.order.spec.fenced
        assert fenced is not None
        row = db.rows.get(fenced.operation_id)
        found = None if row is None else dict(row)
        if row is None:
            db.rows[fenced.operation_id] = self._row(fenced.operation_id, 0, "fenced", None)
        elif row["state"] == "started":
            row["state"] = "fenced"
        document["fence"] = {"tombstone": True, "row": found}

    def read_proof(self, document: dict[str, Any]) -> None:
        """What a proof reads behind its fence."""
        if any(item.name == SOURCE_KEY for item in self.order.inputs):
            self._make_plan(document)
        elif not self.db.plans:
            raise Refused("NoSource", "a plan needs a declaration")
