"""Other tools' history tables on MySQL and MariaDB: found, read, imported, watched (C-11.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pymysql

from ptahk.executor import adopting
from ptahk.executor.dialects.mysql import custody, revisions
from ptahk.executor.dialects.mysql.driver import code_of
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.filerun import Attempt
from ptahk.migrations.foreign import tables
from ptahk.migrations.foreign.tables import Content, Table, Tool
from ptahk.wire import revisionsql

_ATLAS: Final = "atlas_schema_revisions"
"""Database of atlas's own, where a connection names none."""
_GONE: Final = frozenset({1049, 1146})


def candidates(session: Session, named: str | None) -> list[Table]:
    """Tables of a tool's default name in the target, or of the name that was given."""
    database, name = tables.split_name(named) if named else (None, None)
    databases = [session.database, _ATLAS] if database is None else [database]
    names = list(tables.NAMES) if name is None else [name]
    return _described(session, databases, names)


def _described(session: Session, databases: list[str], names: list[str]) -> list[Table]:
    def marks(values: list[str]) -> str:
        return ", ".join(["%s"] * len(values))

    found = session.query(
        "SELECT c.table_schema, c.table_name, c.column_name FROM information_schema.columns c"
        " JOIN information_schema.tables t ON t.table_schema = c.table_schema"
        " AND t.table_name = c.table_name WHERE t.table_type = 'BASE TABLE'"
        f" AND t.table_schema IN ({marks(databases)}) AND t.table_name IN ({marks(names)})"
        " ORDER BY 1, 2, c.ordinal_position",
        (*databases, *names),
    )
    columns: dict[tuple[str, str], list[str]] = {}
    for database, name, column in found:
        columns.setdefault((str(database), str(name)), []).append(str(column))
    return [Table(database, name, tuple(each)) for (database, name), each in columns.items()]


def find(session: Session, tool: Tool | None, named: str | None) -> Content:
    """The history that another tool recorded here.

    :param tool: whose; None: whoever's (``--from auto``).
    :param named: ``historyTable``, with or without its database.
    :raises InvalidSource: ``MG704``.
    """
    return _read(session, *tables.choose(candidates(session, named), tool, named))


def _read(session: Session, tool: Tool, table: Table) -> Content:
    columns = ", ".join(ident(column) for column in tables.columns_of(tool, table))
    rows = session.query(
        f"SELECT {columns} FROM {ident(table.schema)}.{ident(table.name)} LIMIT %s",
        (tables.ROWS_MAX + 1,),
    )
    return tables.content(tool, table, rows)


def require(session: Session) -> None:
    """What is imported may be kept (C-6.16). :raises Refused: ``LedgerMissing``."""
    revisions.require(session, revisionsql.MYSQL_FOREIGN_TABLE)


def adopt(
    session: Session, attempt: Attempt, content: Content, given: Sequence[Mapping[str, Any]], *,
    again: bool = False, beside: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Write an imported history and the digest of where it came from, in one transaction.

    :param given: rows as ``revisions.record`` takes them.
    :param again: the stream was imported before.
    :param beside: the ledger's own word, in the same transaction.
    :raises Refused: ``HistoryMoved``: the stream has a history.
    """
    revisions.create(session)
    name = revisionsql.MYSQL_FOREIGN_TABLE
    own = custody.name(session, name)
    if not revisions.present(session, name):
        session.run(revisionsql.MYSQL_FOREIGN.replace(f"EXISTS {name}", f"EXISTS {own}", 1))
    values = {
        "tool": content.tool, "table_schema": content.table.schema,
        "table_name": content.table.name, "digest": content.digest,
        "claim": attempt.operation_id,
    }  # fmt: skip
    assigned = ", ".join(
        [*(f"{column} = %s" for column in values), "imported_at = UTC_TIMESTAMP(6)"]
    )
    with session.transaction():
        there = len(revisions.rows(session, attempt.stream))
        adopting.refuse_history(attempt, there, again=again)
        revisions.record(session, attempt, given)
        session.change(
            f"INSERT INTO {own} SET stream = %s, {assigned} ON DUPLICATE KEY UPDATE {assigned}",
            (attempt.stream, *values.values(), *values.values()),
        )
        beside()


def table_of(session: Session, stream: str) -> tuple[str, str] | None:
    """Database and name of the table that a stream's history was imported from."""
    if not revisions.present(session, revisionsql.MYSQL_FOREIGN_TABLE):
        return None
    own = custody.name(session, revisionsql.MYSQL_FOREIGN_TABLE)
    kept = session.query(f"SELECT table_schema, table_name FROM {own} WHERE stream = %s", (stream,))
    return (str(kept[0][0]), str(kept[0][1])) if kept else None


def watched(session: Session, stream: str) -> tuple[str, bool] | None:
    """Digest of the table that a stream's history was imported from, and whether it has moved.

    :returns: None: the history was not imported.
    """
    if not revisions.present(session, revisionsql.MYSQL_FOREIGN_TABLE):
        return None
    own = custody.name(session, revisionsql.MYSQL_FOREIGN_TABLE)
    kept = session.query(
        f"SELECT tool, table_schema, table_name, digest FROM {own} WHERE stream = %s", (stream,)
    )
    if not kept:
        return None
    tool, database, name, digest = kept[0]
    try:  # what may not be seen is not gone
        session.run(f"SELECT 1 FROM {ident(database)}.{ident(name)} LIMIT 0")
    except pymysql.MySQLError as error:
        if code_of(error) not in _GONE:
            raise
        return adopting.watched(tuple(kept[0]), None)
    found = _described(session, [database], [name])
    if not found or tables.recognise(found[0]) != tool:
        return str(digest), True
    return adopting.watched(tuple(kept[0]), _read(session, tool, found[0]))
