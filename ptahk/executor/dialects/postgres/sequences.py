"""PostgreSQL to the operations of a migration: see ``executor.dialect.Sequences``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from ptahk.errors import PtahkError
from ptahk.executor.attempt import result_digest
from ptahk.executor.dialects.postgres import foreign, ledger, migrating, revisions
from ptahk.executor.dialects.postgres.applying import begin, record_failure, refuse_read_only
from ptahk.executor.dialects.postgres.foreign import find, watched
from ptahk.executor.dialects.postgres.foreign import table_of as foreign_table
from ptahk.executor.dialects.postgres.revisions import (
    any_stream,
    entries,
    mend,
    other_streams,
    require,
    rows,
)
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.filerun import attempt_of
from ptahk.migrations.foreign.tables import Content
from ptahk.migrations.model import Migration
from ptahk.wire.jobspec import JobSpec

__all__ = [
    "any_stream", "entries", "find", "foreign_table", "mend", "other_streams", "record_failure",
    "require", "rows", "watched",
]  # fmt: skip

_OCCUPIED: Final = """
select exists (
  select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'ptahk')
    and n.nspname !~ '^pg_(temp|toast_temp)_' and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
    and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_class'::regclass
                    and d.objid = c.oid and d.deptype = 'e')
  union all
  select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where n.nspname not in ('pg_catalog', 'information_schema', 'ptahk')
    and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_proc'::regclass
                    and d.objid = p.oid and d.deptype = 'e')
  union all
  select from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'ptahk')
    and n.nspname !~ '^pg_(temp|toast_temp)_' and t.typtype in ('e', 'd', 'r')
    and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_type'::regclass
                    and d.objid = t.oid and d.deptype = 'e'))
"""


def occupied(session: Session) -> bool:
    """The database has an object of a user's."""
    return bool(session.query(_OCCUPIED)[0][0])


def require_import(session: Session) -> None:
    """What is imported may be kept beside the rows. :raises Refused: ``LedgerMissing``."""
    foreign.require(session)


def admit(session: Session, spec: JobSpec) -> None:
    """What refuses an Apply whatever it would run. :raises Refused: why."""
    refuse_read_only(session)
    ledger.refuse_repeat(session, spec)
    require(session)


def start(session: Session, spec: JobSpec, nonce: str, total: int, out: dict[str, Any]) -> None:
    """Commit the ledger's row and make sure of the revision table (C-6.11)."""
    begin(session, spec, nonce, total, out)
    with session.transaction():
        revisions.create(session)


def run(
    session: Session, spec: JobSpec, layout: str, migrations: Sequence[Migration], done: int,
    covered: Sequence[dict[str, Any]],
) -> None:  # fmt: skip
    """Run files in order, or the rest of one that stopped after ``done`` statements.

    :param covered: rows that the first file, a checkpoint, stands for.
    """
    attempt = attempt_of(spec, layout)
    first = len(migrations[0].statements) if migrations else 0

    def intend(number: int) -> None:
        ledger.intend(session, spec, number)

    def progress(number: int) -> None:
        ledger.done(session, spec, number)
        if covered and number == first:
            revisions.record(session, attempt, covered)

    run_ = migrating.Run(attempt, spec.policy.lock_timeout_seconds, intend, progress)
    if done:
        migrating.resume(session, migrations[0], run_, done)
    else:
        migrating.run(session, migrations, run_)
    migrating.reset(session)


def record(session: Session, spec: JobSpec, layout: str, given: Sequence[dict[str, Any]]) -> None:
    """Write rows alone, with the end of the attempt, in one transaction (C-11.17)."""
    with session.transaction():
        revisions.record(session, attempt_of(spec, layout), given)
        ledger.done(session, spec, len(given))
        _finished(session, spec, len(given))


def adopt(
    session: Session, spec: JobSpec, layout: str, content: Content,
    given: Sequence[dict[str, Any]], *, again: bool,
) -> None:  # fmt: skip
    """Write an imported history, with the end of the attempt, in one transaction (C-11.9)."""

    def end() -> None:
        ledger.done(session, spec, len(given))
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
    with contextlib.suppress(PtahkError, psycopg.Error):
        return ledger.row_of(session, spec.operation_id)
    return None


def drift(bench: Any, migrations: Sequence[Migration]) -> dict[str, Any]:
    """How the live schema differs from what these files give, run again in scratch."""
    from ptahk.executor.dialects.postgres import replaying

    return replaying.drift(bench, migrations)


def compare(
    bench: Any, one: Sequence[Migration], other: Sequence[Migration]
) -> dict[str, Any] | None:
    """How what the others give differs from what the first give; None: there are no others."""
    from ptahk.executor.dialects.postgres import replaying

    return replaying.compare(bench, one, other)
