"""The revision rows of PostgreSQL: what was run of a stream, written beside the work (C-11.8).

Always qualified, and as the session's own user: a file may have changed role and search path.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ptahk import __version__
from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import custody
from ptahk.executor.dialects.postgres.quote import ident
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.filerun import (
    ENTRY,
    ROW_COLUMNS,
    Attempt,
    Failure,
    key,
    kind_of,
    not_ours,
    row_gone,
    row_of,
)
from ptahk.migrations.history import Row, RowState
from ptahk.migrations.model import Migration
from ptahk.migrations.reading import statement_digest
from ptahk.wire import revisionsql

__all__ = ["Attempt", "Failure", "key"]


@contextlib.contextmanager
def recording(session: Session) -> Iterator[None]:
    """A transaction in which the session is its own user again; both revert at its end."""
    with session.transaction():
        own_user(session)
        yield


def own_user(session: Session) -> None:
    """Undo what the file did to the role, within the transaction that is open."""
    session.run("SET LOCAL SESSION AUTHORIZATION DEFAULT")
    session.run("SET LOCAL ROLE NONE")


_COLUMN: Final = re.compile(r"^  ([a-z_]+) ", re.MULTILINE)
_COLUMNS: Final = {
    "revisions": _COLUMN.findall(revisionsql.POSTGRESQL[0]),
    "foreign_history": _COLUMN.findall(revisionsql.POSTGRESQL_FOREIGN),
}


def present(session: Session, table: str = "revisions") -> bool:
    """The table is there.

    :raises Refused: ``LedgerUntrusted``: a stranger's, or with code on it that would run as us.
    """
    return custody.has(session, table, _COLUMNS[table])


_MAY: Final = """
select case when c.oid is not null then has_table_privilege(c.oid, 'SELECT')
    and has_table_privilege(c.oid, 'INSERT') and has_table_privilege(c.oid, 'UPDATE')
  else n.oid is null or has_schema_privilege(n.oid, 'CREATE') end
from (select) one left join pg_catalog.pg_namespace n on n.nspname = 'ptahk'
left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = %s
"""


def require(session: Session, table: str = "revisions") -> None:
    """The table may be written, or made beside a ledger that may be (C-6.16).

    :raises Refused: ``LedgerMissing``.
    """
    if session.query(_MAY, (table,))[0][0]:
        return
    role = session.identity.role
    raise Refused(
        f"no revision rows can be kept in this database (role={role}): this role may neither "
        f"write nor make ptahk.{table}",
        reason="LedgerMissing",
        hint=f"let a DBA run `ptahk ledger-sql --engine postgresql --grant-to {ident(role)}`",
    )


def create(session: Session) -> None:
    """Make the table where it is missing. Schema ``ptahk`` is the ledger's and is there."""
    if not present(session):
        for text in revisionsql.POSTGRESQL:
            session.run(text)


def rows(session: Session, stream: str) -> list[Row]:
    """The rows of a stream in order of application; empty where there is no table."""
    if not present(session):
        return []
    found = session.query(
        f"SELECT {ROW_COLUMNS} FROM ptahk.revisions WHERE stream = %s ORDER BY ordinal",
        (stream,),
    )
    return [row_of(values) for values in found]


def entries(session: Session, stream: str) -> list[dict[str, Any]]:
    """The rows of a stream as an account: with times and errors, in order of application."""
    if not present(session):
        return []
    found = session.query(
        "SELECT version, kind, state, ordinal, file, description, format, total, applied, running,"
        " claim, error, error_code, error_statement, error_line, duration_ms, checksum IS NOT NULL,"
        " to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'),"
        " to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), tx_mode"
        " FROM ptahk.revisions WHERE stream = %s ORDER BY ordinal",
        (stream,),
    )
    return [dict(zip(ENTRY, values, strict=True)) for values in found]


def mend(session: Session, stream: str) -> None:
    """Write the mark that is missing of files whose every statement is recorded as applied.

    Only behind a fence: whoever left them there writes no more.
    """
    if not present(session):
        return
    with recording(session):
        session.query(
            "UPDATE ptahk.revisions SET state = 'applied', statement_digests = NULL,"
            " finished_at = clock_timestamp() WHERE stream = %s AND state = 'running'"
            " AND running IS NULL AND applied = total AND total > 0 RETURNING 1",
            (stream,),
        )


def any_stream(session: Session) -> bool:
    """Some stream has a row: what is in the database is accounted for."""
    return present(session) and bool(
        session.query("SELECT EXISTS (SELECT FROM ptahk.revisions)")[0][0]
    )


def other_streams(session: Session, stream: str) -> list[str]:
    """Names of the other streams that have a row, the first few."""
    if not present(session):
        return []
    found = session.query(
        "SELECT DISTINCT stream FROM ptahk.revisions WHERE stream <> %s ORDER BY stream LIMIT 5",
        (stream,),
    )
    return [str(name) for (name,) in found]


def record(session: Session, attempt: Attempt, given: Sequence[Mapping[str, Any]]) -> None:
    """Write rows that stand for files that are not run now, within the transaction that is open.

    :param given: ``version``, ``kind``, ``state``, ``file``, ``description``, ``checksum``,
        ``tokenDigest``, ``rawDigest``, ``txMode``, ``total``, ``applied``, ``note``, and
        ``append``, digests of the statements that now count as applied.
    """
    for row in given:
        session.query(
            "INSERT INTO ptahk.revisions AS r (stream, version, ordinal, kind, state, description,"
            " file, format, checksum, token_digest, raw_digest, tx_mode, total, applied, error,"
            " executor, server, claim, attempt, sequence_digest, finished_at)"
            " SELECT %s, %s, coalesce(max(o.ordinal), 0) + 1, %s, %s, %s, %s, %s, %s, %s, %s, %s,"
            " %s, %s, %s, %s, pg_catalog.current_setting('server_version'), %s, %s, %s,"
            " clock_timestamp() FROM ptahk.revisions o WHERE o.stream = %s"
            " ON CONFLICT (stream, version) DO UPDATE SET kind = excluded.kind,"
            " state = excluded.state, file = excluded.file, checksum = excluded.checksum,"
            " token_digest = excluded.token_digest, raw_digest = excluded.raw_digest,"
            " tx_mode = excluded.tx_mode, total = excluded.total, applied = excluded.applied,"
            " running = NULL, error = excluded.error, claim = excluded.claim,"
            " statement_digests = CASE WHEN excluded.state = 'partial'"
            " THEN coalesce(r.statement_digests, '{}') || %s::text[] ELSE NULL END,"
            " finished_at = clock_timestamp() RETURNING 1",
            (
                attempt.stream, row["version"], row["kind"], row["state"], row["description"],
                row["file"], attempt.layout, row["checksum"], row["tokenDigest"],
                row["rawDigest"], row["txMode"], row["total"], row["applied"], row["note"],
                __version__, attempt.operation_id, attempt.number, attempt.sequence_digest,
                attempt.stream, list(row["append"]),
            ),
        )  # fmt: skip


def start(session: Session, attempt: Attempt, migration: Migration, *, done: int = 0) -> None:
    """Commit the ``running`` row.

    :param done: statements of an earlier attempt that a resume keeps.
    """
    digests = [statement_digest(each) for each in migration.statements[:done]]
    kind = kind_of(migration)
    with recording(session):
        session.query(
            "INSERT INTO ptahk.revisions AS r (stream, version, ordinal, kind, state, description,"
            " file, format, checksum, token_digest, raw_digest, tx_mode, total, applied,"
            " statement_digests, executor, server, claim, attempt, sequence_digest)"
            " SELECT %s, %s, coalesce(max(o.ordinal), 0) + 1, %s, 'running', %s, %s, %s, %s, %s,"
            " %s, %s, %s, %s, %s::text[], %s, pg_catalog.current_setting('server_version'), %s,"
            " %s, %s FROM ptahk.revisions o WHERE o.stream = %s"
            " ON CONFLICT (stream, version) DO UPDATE SET (ordinal, kind, state, description, file,"
            " format, checksum, token_digest, raw_digest, tx_mode, total, applied,"
            " statement_digests, executor, server, claim, attempt, sequence_digest, running, error,"
            " error_code, error_statement, error_line, started_at, finished_at, duration_ms,"
            " db_user) = (excluded.ordinal, excluded.kind, 'running', excluded.description,"
            " excluded.file, excluded.format, excluded.checksum, excluded.token_digest,"
            " excluded.raw_digest, excluded.tx_mode, excluded.total, excluded.applied,"
            " excluded.statement_digests, excluded.executor, excluded.server, excluded.claim,"
            " excluded.attempt, excluded.sequence_digest, NULL, NULL, NULL, NULL, NULL,"
            " clock_timestamp(), NULL, NULL, session_user)"
            " WHERE r.state <> 'applied' OR r.kind = 'repeatable' RETURNING 1",
            (
                attempt.stream, key(migration), kind, migration.description, migration.file,
                attempt.layout, migration.checksum, migration.token_digest, migration.raw_digest,
                migration.tx_mode, len(migration.statements), done, digests, __version__,
                attempt.operation_id, attempt.number, attempt.sequence_digest, attempt.stream,
            ),
        )  # fmt: skip
        _mine(session, attempt, migration)


def _mine(session: Session, attempt: Attempt, migration: Migration) -> None:
    found = session.query(
        "SELECT claim, state FROM ptahk.revisions WHERE stream = %s AND version = %s",
        (attempt.stream, key(migration)),
    )
    if not found or tuple(found[0]) != (attempt.operation_id, "running"):
        raise not_ours(migration, found[0][0] if found else None)


def intend(
    session: Session, attempt: Attempt, migration: Migration, number: int,
    beside: Callable[[], None],
) -> None:  # fmt: skip
    """Commit that statement ``number`` is about to run outside a transaction.

    :param beside: the ledger's own mark, in the same transaction: neither says more than the other.
    """
    with recording(session):
        _update(session, attempt, migration, "running = %s", (number,))
        beside()


def progress(session: Session, attempt: Attempt, migration: Migration, done: int) -> None:
    """``done`` statements took effect; within the transaction that is open."""
    digest_ = statement_digest(migration.statements[done - 1])
    _update(
        session, attempt, migration,
        "applied = %s, running = NULL, statement_digests = statement_digests || %s::text",
        (done, digest_),
    )  # fmt: skip


def applied(session: Session, attempt: Attempt, migration: Migration) -> None:
    """All of the file took effect; within the transaction that is open."""
    _update(
        session, attempt, migration,
        "state = 'applied', applied = total, running = NULL, statement_digests = NULL,"
        " finished_at = clock_timestamp(),"
        " duration_ms = (extract(epoch FROM clock_timestamp() - started_at) * 1000)::bigint",
        (),
    )  # fmt: skip


def ended(
    session: Session, attempt: Attempt, migration: Migration, state: RowState, failure: Failure
) -> None:
    """Commit how the file ended short: ``failed``, ``partial`` or ``unknown``."""
    running = "running" if state == "unknown" else "NULL"
    with recording(session):
        _update(
            session, attempt, migration,
            f"state = %s, running = {running}, error = %s, error_code = %s, error_statement = %s,"
            " error_line = %s, finished_at = clock_timestamp()",
            (state, failure.kept, failure.code, failure.statement, failure.line),
        )  # fmt: skip


def applied_digests(session: Session, stream: str, migration: Migration) -> list[str]:
    """Token digests of the statements that an earlier attempt applied."""
    found = session.query(
        "SELECT coalesce(statement_digests, '{}') FROM ptahk.revisions"
        " WHERE stream = %s AND version = %s",
        (stream, key(migration)),
    )
    return list(found[0][0]) if found else []


def _update(
    session: Session, attempt: Attempt, migration: Migration, change: str, params: Sequence[Any]
) -> None:
    found = session.query(
        f"UPDATE ptahk.revisions SET {change} WHERE stream = %s AND version = %s AND claim = %s"
        " AND state = 'running' RETURNING 1",
        (*params, attempt.stream, key(migration), attempt.operation_id),
    )
    if len(found) != 1:
        raise row_gone(migration)
