"""A sequence run again in a scratch database: to compare what it gives, never for its record.

A replay that cannot be made is refused with its reason; it says neither that there is drift nor
that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ptahk.errors import PtahkError, Refused
from ptahk.executor.dialect import Dialect
from ptahk.migrations import history, replays
from ptahk.migrations.findings import Finding
from ptahk.migrations.history import Row
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Migration
from ptahk.migrations.model import Sequence as Directory
from ptahk.wire.jobspec import JobSpec

REASON: Final = "ReplayImpossible"
_NO_DRIFT_CHECK: Final = frozenset({REASON, "ScratchUnavailable"})
Bench = Callable[[Sequence[str]], Any]
"""Makes what planning works with; the globs of what is compared by nobody."""


class ReplayImpossible(Refused):
    """A file cannot be run again on an empty database beside the real one (exit 3)."""

    default_reason = REASON

    def __init__(
        self, migration: Migration, statement: Statement, message: str,
        place: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        number = migration.statements.index(statement) + 1
        line, column = place or (statement.line, statement.column)
        self.finding = Finding(
            "MG801", migration.file, line, column, message, statement=number
        )  # fmt: skip
        super().__init__(
            f"{self.finding.where}: statement {number} of {len(migration.statements)} cannot be "
            f"replayed: {message}",
            field=self.finding.where,
        )


def drift(
    dialect: Dialect, session: Any, spec: JobSpec, directory: Directory, rows: Sequence[Row],
    bench: Bench, out: dict[str, Any],
) -> None:  # fmt: skip
    """Compare the live schema with the one that the applied files give.

    Fills ``drift``, or ``driftRefused`` where no comparison can be made.
    """
    try:
        migrations = _applied(dialect, session, spec, directory, rows)
        sequences = dialect.sequences()
        assert spec.migration is not None, "of a migration"
        table = sequences.foreign_table(session, spec.migration.stream)
        globs = [] if table is None else [".".join(table)]
        out["drift"] = sequences.drift(bench(globs), migrations)
    except PtahkError as error:
        if error.reason not in _NO_DRIFT_CHECK:
            raise
        out["driftRefused"] = {"reason": error.reason, "message": error.message}


def _applied(
    dialect: Dialect, session: Any, spec: JobSpec, directory: Directory, rows: Sequence[Row]
) -> tuple[Migration, ...]:
    assert spec.migration is not None, "of a migration"
    others = dialect.sequences().other_streams(session, spec.migration.stream)
    if others:
        raise Refused(
            f"other streams have a history in this database ({', '.join(others)}): what their "
            "files made, this directory does not say",
            reason=REASON,
        )
    postgresql = directory.engine == "postgresql"
    try:
        return replays.applied(directory, [history.settled(row, postgresql) for row in rows])
    except replays.NotThere as error:
        raise Refused(str(error), reason=REASON) from None


def check(dialect: Dialect, directory: Directory, bench: Bench, out: dict[str, Any]) -> None:
    """Replay a directory on a development server: from empty, and from its checkpoint.

    Fills ``findings``.
    """
    findings: list[Finding] = []
    try:
        made = dialect.sequences().compare(
            bench(()), replays.from_empty(directory), replays.from_checkpoint(directory)
        )
    except ReplayImpossible as error:
        findings.append(error.finding)
    else:
        if made is not None and made["items"]:
            findings.append(_differs(replays.from_checkpoint(directory)[0], made))
    out["findings"] = [each.document() for each in findings]


def _differs(checkpoint: Migration, made: dict[str, Any]) -> Finding:
    shown = ", ".join(f"{item['object']} ({item['category']})" for item in made["items"][:5])
    more = len(made["items"]) - 5
    tail = f"; and {more} more" if more > 0 else ""
    return Finding(
        "MG802", checkpoint.file, 0, 0,
        f"it does not give what the files give that it stands for: {shown}{tail}",
        "write the checkpoint anew from a database that ran the files",
    )  # fmt: skip
