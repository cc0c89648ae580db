"""The operations of a migration: history, apply, prove. One way for every engine.

What is chosen to run is decided here twice, when it is planned and under the lock when it is
applied, by the same functions over the same files; nothing runs unless both are the same (C-11.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ptahk.errors import PtahkError, Refused, UsageError
from ptahk.executor import replaying
from ptahk.executor.attempt import after_start
from ptahk.executor.budget import ConnectionLost
from ptahk.executor.dialect import Dialect, Sequences, Session
from ptahk.executor.publishing import publish_bytes
from ptahk.migrations import history, importing, plans, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import InvalidSource
from ptahk.migrations.foreign import baseline
from ptahk.migrations.foreign.baseline import Baseline
from ptahk.migrations.foreign.tables import Content
from ptahk.migrations.history import History, Row
from ptahk.migrations.model import REPEATABLE, Engine, Format
from ptahk.migrations.model import Sequence as Directory
from ptahk.migrations.plans import Chosen, Refusal
from ptahk.wire.jobspec import JobSpec, SequenceJob

Files = Sequence[tuple[str, str]]
ENTRIES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Read:
    """A directory and its stream's rows, judged."""

    directory: Directory
    rows: tuple[Row, ...]
    judged: History
    fingerprint: str
    occupied: bool
    """User objects are there, and no stream accounts for them."""
    foreign: str | None
    """Digest of another tool's table that the history was imported from, or is to be."""
    known: str | None
    """The same, of when it was imported; None: it was not."""
    imported: Baseline | None
    """What is to be imported."""
    change: Mapping[str, str]
    """What was asked for; a proof of rows alone asks for nothing more."""

    def choose(self, ahead: str) -> Chosen | Refusal:
        """What is to run, or to be recorded."""
        if self.imported is None:
            return plans.choose(
                self.directory, self.rows, self.judged,
                change=self.change, ahead=ahead, occupied=self.occupied,
            )  # fmt: skip
        return importing.choose(
            self.directory, self.rows, self.imported, self.change, known=self.known
        )  # fmt: skip


def _job(spec: JobSpec) -> SequenceJob:
    assert spec.migration is not None, "checked with the family"
    return spec.migration


def _directory(spec: JobSpec, files: Files) -> Directory:
    """:raises InvalidSource: the first finding that refuses it."""
    job = _job(spec)
    engine = cast("Engine", "postgresql" if spec.engine == "postgresql" else spec.make or "mysql")
    return reading.read(
        [SourceFile(name, text) for name, text in files],
        engine=engine,
        layout=cast("Format | None", job.layout),
        placeholders="off" if job.placeholders_off else job.placeholders or None,
        default_mode="none" if spec.policy.transaction_mode == "none" else "file",
    ).required()


def _read(dialect: Dialect, session: Session, spec: JobSpec, files: Files) -> Read:
    directory = _directory(spec, files)
    sequences = dialect.sequences()
    job = _job(spec)
    rows = tuple(sequences.rows(session, job.stream))
    occupied = not rows and not sequences.any_stream(session) and sequences.occupied(session)
    foreign, moved = sequences.watched(session, job.stream) or (None, False)
    judged = history.judge(directory, rows, empty=not rows and not occupied, foreign_moved=moved)
    known, change, imported = foreign, _asked(spec), None
    if change.get("action") == importing.ACTION:
        content = _found(sequences, session, spec)
        foreign = None if content is None else content.digest
        imported = None if content is None else baseline.of(directory, content)
    fingerprint = _fingerprint(spec, directory, rows, foreign)
    return Read(
        directory, rows, judged, fingerprint, occupied, foreign, known, imported, change
    )  # fmt: skip


def _asked(spec: JobSpec) -> Mapping[str, str]:
    """What is to be chosen; a proof of rows that were recorded looks at what is left."""
    change = _job(spec).change
    return {} if spec.fenced is not None and "action" in change else change


def _found(sequences: Sequences, session: Session, spec: JobSpec) -> Content | None:
    """The history that is to be imported; None: what was planned of it is gone (Apply).

    :raises UsageError: no such tool.
    :raises InvalidSource: ``MG704``: there is none, or more than one.
    """
    tool = importing.tool_of(_job(spec).change)
    try:
        return sequences.find(session, tool, _job(spec).history_table)
    except InvalidSource:
        if spec.operation == "Apply":
            return None  # the fingerprint will say that it moved
        raise


def _fingerprint(
    spec: JobSpec, directory: Directory, rows: Sequence[Row], foreign: str | None
) -> str:
    settled = [history.settled(row, directory.engine == "postgresql") for row in rows]
    return history.fingerprint(_job(spec).stream, settled, foreign)


def read_history(
    dialect: Dialect, session: Session, spec: JobSpec, files: Files | None, out: dict[str, Any],
    bench: replaying.Bench | None = None,
) -> None:  # fmt: skip
    """Compare the directory with the database, and plan what is pending.

    :param bench: where files are run again, if they are to be.
    :raises PtahkError: the directory is invalid, or the verdict runs nothing.
    """
    if files is None:
        return
    if bench is not None and _job(spec).replay == "check":
        replaying.check(dialect, _directory(spec, files), bench, out)
        return
    read = _read(dialect, session, spec, files)
    chosen = read.choose(_job(spec).ahead)
    out["history"] = _document(read, chosen)
    entries = dialect.sequences().entries(session, _job(spec).stream)
    out["history"]["entries"] = entries[-ENTRIES_MAX:]
    if spec.fenced is not None and (isinstance(chosen, Refusal) or "action" in _job(spec).change):
        return  # a proof reads, and refuses nothing; of rows that were recorded it plans nothing
    if isinstance(chosen, Refusal):
        raise Refused(chosen.message, reason=chosen.reason, hint=chosen.hint)
    if bench is not None and _job(spec).replay == "drift":
        replaying.drift(dialect, session, spec, read.directory, read.rows, bench, out)
    if plans.total(chosen) and spec.fenced is None:
        dialect.sequences().require(session)
        if read.imported is not None:
            dialect.sequences().require_import(session)
    data = plans.encode(read.directory, chosen, read.change, read.fingerprint)
    publish_bytes(data, out)
    out["sequence"] = {
        "digest": plans.sequence_digest(chosen),
        "action": chosen.action,
        "approval": chosen.approval,
        "change": dict(read.change),
        "files": len(chosen.migrations) or len(chosen.rows),
    }
    out["summary"] = plans.summary(chosen)
    if plans.total(chosen):
        out["summary"]["notes"] += session.identity.notes


def _document(read: Read, chosen: Chosen | Refusal) -> dict[str, Any]:
    judged, directory = read.judged, read.directory
    unsettled = next((row for row in _settled(read) if row.state in ("partial", "unknown")), None)
    return {
        "verdict": judged.verdict,
        "reason": chosen.reason if isinstance(chosen, Refusal) else None,
        "message": chosen.message if isinstance(chosen, Refusal) else _sentence(judged),
        "nextStep": _next_step(judged, chosen),
        "fingerprint": read.fingerprint,
        "format": directory.format,
        "applied": sum(row.state == "applied" for row in _settled(read)),
        "pending": len(judged.pending),
        "findings": [each.document() for each in (*judged.findings, *directory.findings)],
        "unsettled": None if unsettled is None else _unsettled(unsettled),
        "files": [
            {
                "version": each.version,
                "file": each.file,
                "kind": each.kind,
                "description": each.description,
                "txMode": each.tx_mode,
                "statements": len(each.statements),
                "pending": each in judged.pending,
            }
            for each in directory.migrations
        ],
    }


def _next_step(judged: History, chosen: Chosen | Refusal) -> str:
    if isinstance(chosen, Refusal):
        return chosen.hint or judged.next_step
    if chosen.action == "resume":
        return "plan and apply: that resumes it; or settle it with ptahk acknowledge"
    return judged.next_step


def _settled(read: Read) -> list[Row]:
    postgresql = read.directory.engine == "postgresql"
    return [history.settled(row, postgresql) for row in read.rows]


def _sentence(judged: History) -> str:
    if judged.verdict == "nothingPending" or not judged.pending:
        return "nothing is pending"
    count = len(judged.pending)
    return f"{count} file{'' if count == 1 else 's'} pending"


def _unsettled(row: Row) -> dict[str, Any]:
    if row.state == "partial":
        text = f"version {row.version} stopped after {row.applied} of {row.total} statements"
    else:
        at = row.running if row.running is not None else row.applied + 1
        text = f"version {row.version}: nobody saw how statement {at} of {row.total} ended"
    return {
        "state": row.state, "claim": row.claim, "version": row.version, "file": row.file,
        "applied": row.applied, "total": row.total, "running": row.running, "message": text,
    }  # fmt: skip


def apply(
    dialect: Dialect, session: Session, spec: JobSpec, plan: bytes, files: Files | None,
    nonce: str, out: dict[str, Any],
) -> None:  # fmt: skip
    """Run the approved sequence under the lock that the session holds, once.

    :raises PtahkError: what ended it; ``out`` then says how certain and how far.
    """
    if files is None:
        raise Refused("an apply needs the migration directory (source)", reason="NoSource")
    sequences = dialect.sequences()
    sequences.admit(session, spec)
    selected = select(dialect, session, spec, plan, files, out)
    if selected is None:
        return
    read, chosen = selected
    total = plans.total(chosen)
    out["statementsTotal"] = total
    layout = read.directory.format
    sequences.start(session, spec, nonce, total, out)
    try:
        if chosen.rows:
            _record(sequences, session, spec, read, chosen)
        else:
            _require_unchanged(sequences, session, spec, read)
            sequences.run(session, spec, layout, chosen.migrations, chosen.done, chosen.covered)
            sequences.finish(session, spec, total)
        out["statementsDone"] = total
        out["result"] = "applied"
    except ConnectionLost:
        raise
    except (PtahkError, dialect.Error) as error:
        sequences.record_failure(session, spec, out)
        failed = error if isinstance(error, PtahkError) else dialect.unexpected(error)
        raise after_start(failed) from error
    finally:
        if not session.lost and not session.in_transaction:
            out["row"] = row = sequences.row_of(session, spec)
            if row is not None:
                out["statementsDone"] = row["statementsDone"]


def _record(
    sequences: Sequences, session: Session, spec: JobSpec, read: Read, chosen: Chosen
) -> None:
    """Write rows instead of running files (C-11.17)."""
    layout = read.directory.format
    if read.imported is None:
        sequences.record(session, spec, layout, chosen.rows)
        return
    _require_unchanged(sequences, session, spec, read)
    content = read.imported.content
    sequences.adopt(session, spec, layout, content, chosen.rows, again=read.known is not None)


def select(
    dialect: Dialect, session: Session, spec: JobSpec, plan: bytes, files: Files,
    out: dict[str, Any],
) -> tuple[Read, Chosen] | None:  # fmt: skip
    """What is to run, under the lock; None: all of it is applied already.

    :raises Refused: it is not what was approved; nothing ran.
    """
    read = _read(dialect, session, spec, files)
    approved = plans.decode(plan)
    if _already(read, approved):
        out["result"] = "alreadyConverged"
        return None
    return read, _same(spec, read, approved, out)


def _require_unchanged(sequences: Any, session: Session, spec: JobSpec, read: Read) -> None:
    """The rows are still those that were judged: the table may have been made only now."""
    rows = tuple(sequences.rows(session, _job(spec).stream))
    if _fingerprint(spec, read.directory, rows, read.foreign) != read.fingerprint:
        raise Refused("the history moved under the lock", reason="HistoryMoved", hint="plan again")


def _already(read: Read, approved: Mapping[str, Any]) -> bool:
    """Every file of the plan is applied, with the text that was approved."""
    sequence = approved["sequence"]
    if sequence["action"] not in ("run", "resume") or not sequence["files"]:
        return False
    done = {(row.version, row.checksum) for row in _settled(read) if row.state == "applied"}
    return all((item["version"], item["checksum"]) in done for item in sequence["files"])


def _same(spec: JobSpec, read: Read, approved: Mapping[str, Any], out: dict[str, Any]) -> Chosen:
    """What would be chosen now, which must be what was approved (C-11.2).

    :raises Refused: ``SequenceChanged``, ``StalePlan``; they name what differs.
    """
    job, sequence = _job(spec), approved["sequence"]
    named = plans.changed(read.directory, sequence["directory"])
    if named is not None:
        out["result"] = "stale"
        raise Refused(
            f"the directory is not the one that was approved: {named} "
            f"(sequence={job.sequence_digest}): nothing ran",
            reason="SequenceChanged",
            hint="plan again and approve what is there now, or put the file back",
        )
    if read.fingerprint != job.history_fingerprint:
        out["result"] = "stale"
        raise Refused(
            f"the history moved since it was planned (history={job.history_fingerprint}, "
            f"now={read.fingerprint}): the plan is stale, nothing ran",
            reason="StalePlan",
            hint="plan again",
        )
    chosen = read.choose(job.ahead)
    if isinstance(chosen, Refusal):
        raise Refused(chosen.message, reason=chosen.reason, hint=chosen.hint)
    same = plans.sequence_digest(chosen) == job.sequence_digest
    if not same or chosen.action != sequence["action"]:
        out["result"] = "stale"
        raise Refused(
            f"another sequence would be chosen now (sequence={job.sequence_digest}, "
            f"now={plans.sequence_digest(chosen)}): nothing ran",
            reason="SequenceChanged",
            hint="plan again",
        )
    return chosen


def prove(
    dialect: Dialect, session: Session, spec: JobSpec, files: Files | None, out: dict[str, Any]
) -> None:
    """Behind the fence: the rows of the attempt, then the history."""
    assert spec.fenced is not None, "a proof has an attempt to settle"
    dialect.sequences().mend(session, _job(spec).stream)
    out["run"] = {"files": _rows_of(dialect, session, spec, spec.fenced.operation_id)}
    try:
        read_history(dialect, session, spec, files, out)
    except UsageError:
        # Its directory cannot be read any more; what ran is known all the same.
        out.pop("history", None)


def _rows_of(
    dialect: Dialect, session: Session, spec: JobSpec, operation_id: str
) -> list[dict[str, Any]]:
    """Every row that this operation wrote, as what it proves."""
    sequences = dialect.sequences()
    stream = _job(spec).stream
    told = {(item["version"], item["ordinal"]): item for item in sequences.entries(session, stream)}
    found = []
    for row in sequences.rows(session, stream):
        if row.claim != operation_id or row.kind not in ("executed", "repeatable"):
            continue
        settled = history.settled(row, spec.engine == "postgresql")
        key = row.version if row.kind != "repeatable" else REPEATABLE + row.version
        entry = told.get((key, row.ordinal), {})
        found.append(
            {
                "version": row.version,
                "file": row.file,
                "state": settled.state,
                "applied": settled.applied,
                "total": settled.total,
                "running": settled.running,
                "error": entry.get("error"),
                "errorLine": entry.get("errorLine"),
                "errorStatement": entry.get("errorStatement"),
                "errorCode": entry.get("errorCode"),
            }
        )
    return found
