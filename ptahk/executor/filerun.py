"""What running a sequence is on every engine: who runs it, what a row keeps, what stops it. Pure.

The dialects' ``revisions`` write the rows and their ``migrating`` runs the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ptahk.errors import OperationFailed, Refused
from ptahk.migrations.history import Row, RowKind, RowState
from ptahk.migrations.model import REPEATABLE, Format, Migration
from ptahk.migrations.reading import statement_digest
from ptahk.wire.jobspec import JobSpec

ERROR_BYTES_MAX: Final = 8 * 1024
ROW_COLUMNS: Final = (
    "version, kind, state, ordinal, file, checksum, token_digest, tx_mode, total, applied,"
    " running, claim"
)
"""What ``row_of`` reads, in its order."""
ENTRY: Final = (
    "version", "kind", "state", "ordinal", "file", "description", "format", "total", "applied",
    "running", "claim", "error", "errorCode", "errorStatement", "errorLine", "durationMs",
    "verified", "startedAt", "finishedAt", "txMode",
)  # fmt: skip
"""A row as an account, in the order that both dialects ask for."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who writes rows: one operation, for one approved sequence."""

    stream: str
    operation_id: str
    number: int
    sequence_digest: str
    layout: Format


def attempt_of(spec: JobSpec, layout: str) -> Attempt:
    """The attempt that an operation's document makes."""
    job = spec.migration
    assert job is not None and spec.number is not None, "checked with the family"
    return Attempt(
        job.stream, spec.operation_id, spec.attempt, str(job.sequence_digest),
        cast("Format", layout),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """What a row keeps of an error; the first of its attempt."""

    message: str
    code: str | None
    statement: int
    line: int

    @property
    def kept(self) -> str:
        """The message, as long as a row may hold it."""
        return self.message.encode()[:ERROR_BYTES_MAX].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a sequence."""

    attempt: Attempt
    lock_timeout_s: float
    """For files that say nothing themselves."""
    intend: Callable[[int], None] = lambda done: None
    """The ledger's own mark, within the transaction of the row's; called with the number of the
    statement over all files."""
    done: Callable[[int], None] = lambda done: None
    """The ledger's progress, within the transaction that records it here."""
    undone: Callable[[int, str], None] = lambda number, error: None
    """The ledger's word that a statement it marked took no effect, and why."""
    foreign_key_checks: bool = True
    """``session.foreignKeyChecks``; the MySQL family's."""


class MigrationFailed(OperationFailed):
    """A statement of a file failed; ``state`` says what that proves of the file (C-11.13)."""

    default_reason = "StatementFailed"

    def __init__(self, migration: Migration, state: RowState, failure: Failure, place: str) -> None:
        total = len(migration.statements)
        super().__init__(
            f"{place}: statement {failure.statement} of {total} failed: {failure.message}"
        )
        self.state = state
        self.sqlstate = failure.code
        self.file = migration.file
        self.line = failure.line


class EndedTransaction(Exception):
    """A statement ended the transaction that it ran in: what it ended, only the database knows."""


def key(migration: Migration) -> str:
    """How a migration's row is found."""
    return (REPEATABLE if migration.kind == "repeatable" else "") + migration.version


def kind_of(migration: Migration) -> RowKind:
    """The kind of row of a file that is run."""
    return "repeatable" if migration.kind == "repeatable" else "executed"


def row_of(values: tuple[Any, ...]) -> Row:
    """A row from its ``ROW_COLUMNS``."""
    version, kind, state, *rest = values
    if kind == "repeatable":
        version = version.removeprefix(REPEATABLE)
    return Row(version, cast("RowKind", kind), cast("RowState", state), *rest)


def not_ours(migration: Migration, operation: object) -> Refused:
    """A row that another operation holds, or that is applied."""
    return Refused(
        f"{migration.file}: version {migration.version} is not this operation's to run "
        f"(operation={operation})",
        reason="HistoryMoved",
        hint="plan again",
    )


def row_gone(migration: Migration) -> Refused:
    """A row of ours that is not there any more."""
    return Refused(
        f"{migration.file}: the row of version {migration.version} is gone or another's: "
        "nothing more is sent",
        reason="HistoryMoved",
    )


def requirement_not_met(migration: Migration, query: str) -> Refused:
    """A file's own precondition that does not hold."""
    return Refused(
        f"{migration.file}: its precondition does not hold: {query}",
        reason="RequirementNotMet",
        hint="make it true, or take '-- ptahk:requires' out and plan again",
    )


def resume_refused(migration: Migration, why: str) -> Refused:
    """A run that cannot go on where it stopped."""
    return Refused(
        f"{migration.file}: version {migration.version} cannot be resumed: {why}",
        reason="ResumeRefused",
        hint="put the statements back as they were applied, or settle the run by hand: "
        "ptahk acknowledge --operation ID --resolved or --abandon",
    )


def refuse_changed(migration: Migration, kept: Sequence[str], done: int) -> None:
    """Compare what was applied with what the file says now (C-11.14), lengths first.

    :param kept: token digests of the statements that were applied.
    :raises Refused: ``ResumeRefused``, naming the first that is another.
    """
    now = [statement_digest(each) for each in migration.statements[:done]]
    if len(kept) == done and len(now) == done and list(kept) == now:
        return
    changed = next(
        (n for n, (a, b) in enumerate(zip(kept, now, strict=False), 1) if a != b), len(now) + 1
    )
    raise resume_refused(migration, f"statement {changed} is not the one that was applied")
