"""Whether the attempt ledger is there, is one, and what this account can do with it (C-6.16).

Tables have no owners here, and triggers on them run as whoever made them, so there is no stranger's
code that would run as us. What is left to check: that they are the tables that ptahk makes. A
trigger is seen only by an account that could make one; to others what it did shows in the row.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pymysql
from pymysql.constants import FIELD_TYPE

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql.driver import code_of
from ptahk.executor.dialects.mysql.session import Column, Session
from ptahk.wire import ledgersql, revisionsql
from ptahk.wire.jobspec import JobSpec

TABLES: Final = ledgersql.MYSQL_TABLES
_NO_RIGHT: Final = frozenset({1044, 1142, 1143, 1227, 1370})
_NO_TABLE: Final = 1146
_READ_ONLY: Final = frozenset({1290, 1792, 1836})


@dataclass(frozen=True, slots=True)
class Presence:
    """What this account can do with the ledger."""

    present: bool
    readable: bool
    writable: bool
    creatable: bool
    """What is missing of it can be made."""


def name(session: Session, table: str) -> str:
    """A ledger table's qualified name: the session may be in a scratch database."""
    return "`" + session.database.replace("`", "``") + "`." + table


def presence(session: Session) -> Presence:
    """Look for the ledger without changing anything; where it is whole, within any transaction.

    :raises Refused: ``LedgerUntrusted``: not the tables that ptahk makes; ``LedgerVersion``: of
        another version.
    """
    found = {
        str(row[0]): row[1:]
        for row in session.query(
            "SELECT table_name, table_type, engine, table_comment FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name IN (%s, %s, %s)",
            (session.database, *TABLES),
        )
    }
    if not found:
        return Presence(False, False, False, may_create(session))
    for table, (kind, engine, comment) in sorted(found.items()):
        if str(comment) != ledgersql.VERSION and kind == "BASE TABLE":
            raise Refused(
                f"table {table} is of another ledger (comment={str(comment)[:80]!r}): "
                f"this ptahk knows {ledgersql.VERSION!r}",
                reason="LedgerVersion",
            )
        if kind != "BASE TABLE" or str(engine).lower() != "innodb":
            raise untrusted(f"{table} is not the plain InnoDB table that ptahk makes")
    _refuse_triggers(session)
    if len(found) < len(TABLES):
        # Made in part: by us, before we were stopped, or by an account that sees no more.
        return Presence(False, False, False, may_create(session))
    readable = all(is_readable(session, each) for each in TABLES)
    # Nothing is missing, so nobody asks what may be made: to try would end a transaction.
    return Presence(True, readable, readable and _writable(session), False)


def is_readable(session: Session, table: str) -> bool:
    """Whether this account may read a table of ptahk's, which has that table's columns and key.

    :raises Refused: ``LedgerUntrusted``: it has others.
    """
    try:
        found = session.columns(f"SELECT * FROM {name(session, table)} LIMIT 0")
    except pymysql.MySQLError as error:
        if code_of(error) in _NO_RIGHT:
            return False
        raise
    wrong = {column[0] for column in _SHAPES[table].symmetric_difference(found)}
    if wrong:
        raise untrusted(
            f"{table} is not the table that ptahk makes (columns={', '.join(sorted(wrong))})",
            (table,),
        )
    return True


def kept_for(
    session: Session, spec: JobSpec, start_nonce: str, not_after: str, statements: int
) -> float:
    """What an account does not see a trigger do, it sees in the row that it has just written.

    :returns: seconds that the attempt has left by the database's clock.
    :raises Refused: ``LedgerUntrusted``: the row is another one.
    """
    left, kept = session.query(
        "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), %s), (SELECT count(*)"
        f" FROM {name(session, TABLES[0])} WHERE operation_id = %s AND store_uid = %s"
        " AND store_kind = %s AND coordination_digest = %s AND shared_realm = %s"
        " AND server_identity = %s AND number = %s AND epoch = %s AND state = 'started'"
        " AND start_nonce = %s AND plan_digest = %s AND not_after = %s"
        " AND statements_total = %s)",
        (
            not_after, spec.operation_id, spec.store_uid, spec.store_kind,
            spec.coordination_digest, spec.shared_realm, str(session.identity), spec.number,
            spec.epoch, start_nonce, spec.plan_digest or "none", not_after, statements,
        ),
    )[0]  # fmt: skip
    if kept != 1:
        raise untrusted(f"something changes what is written to {TABLES[0]}")
    return int(left) / 1e6


_COLUMN: Final = re.compile(r"^  ([a-z_]+) ([a-z]+)(?:\((\d+)\))?( unsigned)?[^\n]*", re.MULTILINE)
_KEY: Final = re.compile(r"^  PRIMARY KEY \(([^)]*)\)", re.MULTILINE)
_TYPES: Final = {
    "char": FIELD_TYPE.STRING, "varchar": FIELD_TYPE.VAR_STRING, "text": FIELD_TYPE.BLOB,
    "boolean": FIELD_TYPE.TINY, "int": FIELD_TYPE.LONG, "bigint": FIELD_TYPE.LONGLONG,
    "datetime": FIELD_TYPE.DATETIME, "longtext": FIELD_TYPE.BLOB,
}  # fmt: skip
_LENGTHS: Final = {
    "longtext": 2**32 - 1,
    "text": 65535 * 4,
    "boolean": 1,
    "int": 11,
    "bigint": 20,
    "datetime": 26,
}
"""Of types whose length is not theirs to say."""


def _shape(text: str) -> frozenset[Column]:
    """The columns that ``CREATE TABLE`` of the ledger's DDL gives, as an answer describes them."""
    key = _KEY.search(text)
    keyed = set(key[1].split(", ")) if key else set()
    return frozenset(
        Column(
            found[1], _TYPES[found[2]], _LENGTHS.get(found[2]) or int(found[3]) * 4,
            found[1] in keyed or "PRIMARY KEY" in found[0],
        )
        for found in _COLUMN.finditer(text)
    )  # fmt: skip


_SHAPES: Final = {
    table: _shape(text)
    for table, text in (
        *zip(TABLES, ledgersql.MYSQL, strict=True),
        (revisionsql.MYSQL_TABLE, revisionsql.MYSQL[0]),
        (revisionsql.MYSQL_FOREIGN_TABLE, revisionsql.MYSQL_FOREIGN),
    )
}


def _refuse_triggers(session: Session) -> None:
    rows = session.query(
        "SELECT trigger_name FROM information_schema.triggers"
        " WHERE event_object_schema = %s AND event_object_table IN (%s, %s, %s)",
        (session.database, *TABLES),
    )
    if rows:
        raise untrusted(f"trigger {rows[0][0]} changes what is written to it")


def _writable(session: Session) -> bool:
    return all(may_write(session, each, "operation_id") for each in TABLES)


def may_write(session: Session, table: str, column: str) -> bool:
    """Statements that touch no row, and want the right to."""
    whole = name(session, table)
    return _may(session, f"INSERT INTO {whole} SELECT * FROM {whole} WHERE 1 = 0") and _may(
        session, f"UPDATE {whole} SET {column} = {column} WHERE 1 = 0"
    )


def may_create(session: Session) -> bool:
    """Whether tables may be made here. Commits whatever is open, as DDL does.

    The server looks at the rights before it finds that there is nothing to copy.
    """
    nothing = name(session, f"ptahk_none_{secrets.token_hex(8)}")
    try:
        session.run(f"CREATE TABLE {nothing}_copy LIKE {nothing}")
    except pymysql.MySQLError as error:
        if code_of(error) in _NO_RIGHT | _READ_ONLY:
            return False
        if code_of(error) != _NO_TABLE:
            raise
    return True


def _may(session: Session, sql: str) -> bool:
    try:
        session.run(sql)
    except pymysql.MySQLError as error:
        if code_of(error) in _NO_RIGHT | _READ_ONLY:
            return False
        raise
    return True


def untrusted(why: str, tables: Sequence[str] = TABLES) -> Refused:
    """The refusal of a ledger that is not the one that ptahk makes."""
    return Refused(
        f"the attempt ledger cannot be trusted: {why}",
        reason="LedgerUntrusted",
        hint=f"find out who made it; drop or rename {', '.join(tables)}",
    )
