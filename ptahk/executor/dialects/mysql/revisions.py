"""The revision rows of MySQL and MariaDB: what was run of a stream (C-11.8).

DML commits together with its row. DDL commits by itself: its row says before that it runs, and
where the word after it is missing, the ledger's row of that statement tells what became of it, by
the definition of the object that it is about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ptahk import __version__
from ptahk.errors import Refused
from ptahk.executor.dialects.mysql import custody, marking
from ptahk.executor.dialects.mysql.session import Session
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

_NOW: Final = "UTC_TIMESTAMP(6)"


def _table(session: Session) -> str:
    return custody.name(session, revisionsql.MYSQL_TABLE)


def present(session: Session, table: str = revisionsql.MYSQL_TABLE) -> bool:
    """The table is there.

    :raises Refused: ``LedgerUntrusted``: it is not the one that ptahk makes; what is written to it
        would not commit with the work.
    """
    found = session.query(
        "SELECT t.table_type, t.engine, count(g.trigger_name) FROM information_schema.tables t"
        " LEFT JOIN information_schema.triggers g ON g.event_object_schema = t.table_schema"
        " AND g.event_object_table = t.table_name"
        " WHERE t.table_schema = %s AND t.table_name = %s GROUP BY t.table_type, t.engine",
        (session.database, table),
    )
    if not found:
        return False
    kind, engine, triggers = found[0]
    if kind != "BASE TABLE" or str(engine).lower() != "innodb" or triggers:
        raise Refused(
            f"the revision rows cannot be trusted: {table} is not the plain "
            "InnoDB table that ptahk makes",
            reason="LedgerUntrusted",
            hint="find out who made it; drop or rename it",
        )
    custody.is_readable(session, table)
    return True


def require(session: Session, table: str = revisionsql.MYSQL_TABLE) -> None:
    """The table may be written, or made (C-6.16). :raises Refused: ``LedgerMissing``."""
    if present(session, table):
        allowed = custody.may_write(session, table, "stream")
    else:
        allowed = custody.may_create(session)
    if allowed:
        return
    account = session.identity.account
    raise Refused(
        f"no revision rows can be kept in this database (account={account}): this account may "
        f"neither write nor make {table}",
        reason="LedgerMissing",
        hint=f"let a DBA run `ptahk ledger-sql --engine mysql --grant-to '{account}'` in it",
    )


def mend(session: Session, stream: str) -> None:
    """Write the mark that is missing of files whose every statement is recorded as applied.

    Only behind a fence: whoever left them there writes no more.
    """
    if not present(session):
        return
    with session.transaction():
        session.change(
            f"UPDATE {_table(session)} SET state = 'applied', statement_digests = NULL,"
            f" finished_at = {_NOW} WHERE stream = %s AND state = 'running'"
            " AND running IS NULL AND applied = total AND total > 0",
            (stream,),
        )


def create(session: Session) -> None:
    """Make the table where it is missing, outside any transaction."""
    if not present(session):
        name = revisionsql.MYSQL_TABLE
        for text in revisionsql.MYSQL:
            session.run(text.replace(f"EXISTS {name}", f"EXISTS {_table(session)}", 1))


def rows(session: Session, stream: str) -> list[Row]:
    """The rows of a stream in order of application; empty where there is no table.

    A row that was left running is given as the ledger's row of its statement settles it.
    """
    if not present(session):
        return []
    found = session.query(
        f"SELECT {ROW_COLUMNS} FROM {_table(session)} WHERE stream = %s ORDER BY ordinal",
        (stream,),
    )
    return [_settled(session, row_of(values)) for values in found]


def _settled(session: Session, row: Row) -> Row:
    if row.state != "running" or row.running is None or row.claim is None:
        return row
    effect = marking.effect_of_last(session, row.claim)
    if effect is None:
        return row
    applied = row.running if effect else row.applied
    return dataclasses.replace(row, applied=applied, running=None)


def entries(session: Session, stream: str) -> list[dict[str, Any]]:
    """The rows of a stream as an account: with times and errors, in order of application."""
    if not present(session):
        return []
    moment = "DATE_FORMAT({}, '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ')"
    found = session.query(
        "SELECT version, kind, state, ordinal, file, description, format, total, applied, running,"
        " claim, error, error_code, error_statement, error_line, duration_ms, checksum IS NOT NULL,"
        f" {moment.format('started_at')}, {moment.format('finished_at')}, tx_mode"
        f" FROM {_table(session)} WHERE stream = %s ORDER BY ordinal",
        (stream,),
    )
    out = [dict(zip(ENTRY, values, strict=True)) for values in found]
    return [{**each, "verified": bool(each["verified"])} for each in out]


def any_stream(session: Session) -> bool:
    """Some stream has a row: what is in the database is accounted for."""
    return present(session) and bool(session.query(f"SELECT 1 FROM {_table(session)} LIMIT 1"))


def other_streams(session: Session, stream: str) -> list[str]:
    """Names of the other streams that have a row, the first few."""
    if not present(session):
        return []
    found = session.query(
        f"SELECT DISTINCT stream FROM {_table(session)} WHERE stream <> %s ORDER BY stream LIMIT 5",
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
        where = (attempt.stream, str(row["version"]))
        found = session.query(
            f"SELECT statement_digests FROM {_table(session)} WHERE stream = %s AND version = %s"
            " FOR UPDATE",
            where,
        )
        digests = str(found[0][0] or "").split() if found else []
        digests[row["applied"] - len(row["append"]) : row["applied"]] = row["append"]
        values = {
            "kind": row["kind"], "state": row["state"], "file": row["file"],
            "checksum": row["checksum"], "token_digest": row["tokenDigest"],
            "raw_digest": row["rawDigest"], "tx_mode": row["txMode"], "total": row["total"],
            "running": None, "applied": row["applied"], "error": row["note"],
            "claim": attempt.operation_id,
            "statement_digests": "\n".join(digests) if row["state"] == "partial" else None,
        }  # fmt: skip
        if not found:
            values |= {
                "ordinal": _next_ordinal(session, attempt.stream),
                "description": row["description"], "format": attempt.layout,
                "executor": __version__, "db_user": session.identity.account,
                "server": version(session), "attempt": attempt.number,
                "sequence_digest": attempt.sequence_digest,
            }  # fmt: skip
        _write(session, where, values, f"finished_at = {_NOW}", is_new=not found)


def start(
    session: Session, attempt: Attempt, migration: Migration, *, done: int = 0, tx_mode: str = ""
) -> None:
    """Commit the ``running`` row.

    :param done: statements of an earlier attempt that a resume keeps.
    :param tx_mode: how it runs in fact, where that is not what the file says.
    """
    values: dict[str, Any] = {
        "kind": kind_of(migration),
        "state": "running",
        "description": migration.description,
        "file": migration.file,
        "format": attempt.layout,
        "checksum": migration.checksum,
        "token_digest": migration.token_digest,
        "raw_digest": migration.raw_digest,
        "tx_mode": tx_mode or migration.tx_mode,
        "total": len(migration.statements),
        "applied": done,
        "running": None,
        "statement_digests": "\n".join(statement_digest(each) for each in migration.statements),
        "error": None,
        "error_code": None,
        "error_statement": None,
        "error_line": None,
        "finished_at": None,
        "duration_ms": None,
        "executor": __version__,
        "db_user": session.identity.account,
        "server": version(session),
        "claim": attempt.operation_id,
        "attempt": attempt.number,
        "sequence_digest": attempt.sequence_digest,
    }
    with session.transaction():
        _put(session, attempt, migration, values)


def version(session: Session) -> str:
    """The server's, as a row keeps it."""
    number = session.identity.version
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _put(
    session: Session, attempt: Attempt, migration: Migration, values: Mapping[str, Any]
) -> None:
    """Insert the row, or write it anew, last in order; of a version that is not applied."""
    where = (attempt.stream, key(migration))
    found = session.query(
        f"SELECT claim, state, kind FROM {_table(session)} WHERE stream = %s AND version = %s"
        " FOR UPDATE",
        where,
    )
    if found and found[0][1] == "applied" and found[0][2] != "repeatable":
        raise not_ours(migration, found[0][0])
    named = {"ordinal": _next_ordinal(session, attempt.stream), **values}
    _write(session, where, named, f"started_at = {_NOW}", is_new=not found)


def _next_ordinal(session: Session, stream: str) -> int:
    found = session.query(
        f"SELECT coalesce(max(ordinal), 0) + 1 FROM {_table(session)} WHERE stream = %s", (stream,)
    )
    return int(found[0][0])


def _write(
    session: Session, where: tuple[str, str], values: Mapping[str, Any], moment: str, *,
    is_new: bool,
) -> None:  # fmt: skip
    """Insert a row, or change it.

    :param moment: which of its times is now; a new row has been started now too.
    """
    assigned = ", ".join([moment, *(f"{name} = %s" for name in values)])
    if not is_new:
        session.change(
            f"UPDATE {_table(session)} SET {assigned} WHERE stream = %s AND version = %s",
            (*values.values(), *where),
        )
        return
    session.change(
        f"INSERT INTO {_table(session)} SET stream = %s, version = %s, started_at = {_NOW},"
        f" {assigned.removeprefix(f'started_at = {_NOW}, ')}",
        (*where, *values.values()),
    )


def intend(session: Session, attempt: Attempt, migration: Migration, number: int) -> None:
    """Statement ``number`` is about to run; within the transaction that is open."""
    _update(session, attempt, migration, "running = %s", (number,))


def progress(session: Session, attempt: Attempt, migration: Migration, done: int) -> None:
    """``done`` statements took effect; within the transaction that is open."""
    _update(session, attempt, migration, "applied = %s, running = NULL", (done,))


def applied(session: Session, attempt: Attempt, migration: Migration) -> None:
    """All of the file took effect; within the transaction that is open."""
    _update(
        session, attempt, migration,
        "state = 'applied', applied = total, running = NULL, statement_digests = NULL,"
        f" finished_at = {_NOW},"
        f" duration_ms = TIMESTAMPDIFF(MICROSECOND, started_at, {_NOW}) DIV 1000",
        (),
    )  # fmt: skip


def ended(
    session: Session, attempt: Attempt, migration: Migration, state: RowState, failure: Failure
) -> None:
    """Commit how the file ended short: ``failed``, ``partial`` or ``unknown``."""
    running = failure.statement if state == "unknown" else None
    with session.transaction():
        _update(
            session, attempt, migration,
            "state = %s, running = %s, error = %s, error_code = %s, error_statement = %s,"
            f" error_line = %s, finished_at = {_NOW}",
            (state, running, failure.kept, failure.code, failure.statement, failure.line),
        )  # fmt: skip


def applied_digests(session: Session, stream: str, migration: Migration) -> list[str]:
    """Token digests of the statements of an earlier attempt, in the file's order: those that it
    applied are the first of them."""
    found = session.query(
        f"SELECT coalesce(statement_digests, '') FROM {_table(session)}"
        " WHERE stream = %s AND version = %s",
        (stream, key(migration)),
    )
    return str(found[0][0]).split() if found else []


def _update(
    session: Session, attempt: Attempt, migration: Migration, change: str, params: Sequence[Any]
) -> None:
    # The row is asked for, not counted: the server counts no row that it need not change.
    where = " WHERE stream = %s AND version = %s"
    found = session.query(
        f"SELECT claim, state FROM {_table(session)}{where} FOR UPDATE",
        (attempt.stream, key(migration)),
    )
    if not found or tuple(found[0]) != (attempt.operation_id, "running"):
        raise row_gone(migration)
    session.change(
        f"UPDATE {_table(session)} SET {change}{where}",
        (*params, attempt.stream, key(migration)),
    )
