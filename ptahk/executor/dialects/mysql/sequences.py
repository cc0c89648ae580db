"""MySQL and MariaDB to the operations of a migration: what they ask of an engine (C-11)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import pymysql

from ptahk.errors import PtahkError
from ptahk.executor.attempt import result_digest
from ptahk.executor.dialects.mysql import foreign, ledger, marking, migrating, revisions
from ptahk.executor.dialects.mysql.applying import begin, record_failure
from ptahk.executor.dialects.mysql.foreign import find, watched
from ptahk.executor.dialects.mysql.foreign import table_of as foreign_table
from ptahk.executor.dialects.mysql.revisions import (
    any_stream,
    entries,
    mend,
    other_streams,
    require,
    rows,
)
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.filerun import Run, attempt_of
from ptahk.migrations.foreign.tables import Content
from ptahk.migrations.model import Migration
from ptahk.wire import ledgersql, revisionsql
from ptahk.wire.jobspec import JobSpec

__all__ = [
    "any_stream", "entries", "find", "foreign_table", "mend", "other_streams", "record_failure",
    "require", "rows", "watched",
]  # fmt: skip

_OWN: Final = (*ledgersql.MYSQL_TABLES, *revisionsql.MYSQL_TABLES)
_OCCUPIED: Final = (
    "SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = %s"
    f" AND table_name NOT IN ({', '.join(['%s'] * len(_OWN))})"
    " UNION ALL SELECT 1 FROM information_schema.routines WHERE routine_schema = %s"
    " UNION ALL SELECT 1 FROM information_schema.events WHERE event_schema = %s)"
)


def occupied(session: Session) -> bool:
    """The database has an object of a user's."""
    name = session.database
    return bool(session.query(_OCCUPIED, (name, *_OWN, name, name))[0][0])


def require_import(session: Session) -> None:
    """What is imported may be kept beside the rows. :raises Refused: ``LedgerMissing``."""
    foreign.require(session)


def admit(session: Session, spec: JobSpec) -> None:
    """What refuses an Apply whatever it would run. :raises Refused: why."""
    session.check_still_mine()
    ledger.refuse_repeat(session, spec)
    require(session)


def start(session: Session, spec: JobSpec, nonce: str, total: int, out: dict[str, Any]) -> None:
    """Commit the ledger's row and make sure of the revision table (C-6.11)."""
    begin(session, spec, nonce, total, out)
    revisions.create(session)


def run(
    session: Session, spec: JobSpec, layout: str, migrations: Sequence[Migration], done: int,
    covered: Sequence[dict[str, Any]],
) -> None:  # fmt: skip
    """Run files in order, or the rest of one that stopped after ``done`` statements.

    :param covered: rows that the first file, a checkpoint, stands for.
    """
    assert spec.migration is not None, "checked with the family"
    attempt = attempt_of(spec, layout)
    first = len(migrations[0].statements) if migrations else 0
    plain = Run(
        attempt, spec.policy.lock_timeout_seconds,
        foreign_key_checks=spec.migration.foreign_key_checks,
    )  # fmt: skip
    marked = marking.with_marks(plain, session, spec, migrations)

    def progress(number: int) -> None:
        marked.done(number)
        if covered and number == first:
            revisions.record(session, attempt, covered)

    run_ = dataclasses.replace(marked, done=progress)
    if done:
        migrating.resume(session, migrations[0], run_, done)
    else:
        migrating.run(session, migrations, run_)


def record(session: Session, spec: JobSpec, layout: str, given: Sequence[dict[str, Any]]) -> None:
    """Write rows alone, with the end of the attempt, in one transaction (C-11.17)."""
    with session.transaction():
        revisions.record(session, attempt_of(spec, layout), given)
        ledger.update(session, spec, "statements_done = %s", (len(given),))
        _finished(session, spec, len(given))


def adopt(
    session: Session, spec: JobSpec, layout: str, content: Content,
    given: Sequence[dict[str, Any]], *, again: bool,
) -> None:  # fmt: skip
    """Write an imported history, with the end of the attempt, in one transaction (C-11.9)."""

    def end() -> None:
        ledger.update(session, spec, "statements_done = %s", (len(given),))
        _finished(session, spec, len(given))

    foreign.adopt(session, attempt_of(spec, layout), content, given, again=again, beside=end)


def finish(session: Session, spec: JobSpec, total: int) -> None:
    """Close the attempt as applied."""
    with session.transaction():
        _finished(session, spec, total)


def _finished(session: Session, spec: JobSpec, total: int) -> None:
    ledger.finish(session, spec, "applied", result_digest(spec, "applied", total))


def row_of(session: Session, spec: JobSpec) -> Any:
    """The ledger's row of this attempt; None where it cannot be read."""
    with contextlib.suppress(PtahkError, pymysql.MySQLError):
        return ledger.row_of(session, spec.operation_id)
    return None


def drift(bench: Any, migrations: Sequence[Migration]) -> dict[str, Any]:
    """How the live schema differs from what these files give, run again in scratch."""
    from ptahk.executor.dialects.mysql import replaying

    return replaying.drift(bench, migrations)


def compare(
    bench: Any, one: Sequence[Migration], other: Sequence[Migration]
) -> dict[str, Any] | None:
    """How what the others give differs from what the first give; None: there are no others."""
    from ptahk.executor.dialects.mysql import replaying

    return replaying.compare(bench, one, other)
