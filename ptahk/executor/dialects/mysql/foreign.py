"""Other tools' history tables on MySQL and MariaDB: found, read, imported, watched (C-11.9)."""

from __future__ import annotations

from typing import Final

import pymysql

from ptahk.executor import adopting
from ptahk.executor.dialects.mysql import custody, revisions
from ptahk.executor.dialects.mysql.driver import code_of
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.filerun import Attempt
from ptahk.migrations.foreign import tables
from ptahk.migrations.foreign.baseline import Baseline
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


def adopt(session: Session, attempt: Attempt, baseline: Baseline) -> None:
    """Write an imported history and the digest of where it came from, in one transaction.

    :raises Refused: ``HistoryMoved``: the stream has a history.
    """
    revisions.create(session)
    own = custody.name(session, revisionsql.MYSQL_FOREIGN_TABLE)
    text = revisionsql.MYSQL_FOREIGN
    session.run(text.replace(f"EXISTS {revisionsql.MYSQL_FOREIGN_TABLE}", f"EXISTS {own}", 1))
    rows = custody.name(session, revisionsql.MYSQL_TABLE)
    content = baseline.content
    with session.transaction():
        adopting.refuse_history(attempt, len(revisions.rows(session, attempt.stream)))
        for values in adopting.rows_of(attempt, baseline, revisions.version(session)):
            marks = ", ".join(["%s"] * (len(values) + 1))
            session.change(
                f"INSERT INTO {rows} (started_at, finished_at, db_user, {', '.join(values)})"
                f" VALUES (UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {marks})",
                (session.identity.account, *values.values()),
            )
        session.change(
            f"INSERT INTO {own} (stream, tool, table_schema, table_name, digest, claim,"
            " imported_at) VALUES (%s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
            (attempt.stream, content.tool, content.table.schema, content.table.name,
             content.digest, attempt.operation_id),
        )  # fmt: skip


def watched(session: Session, stream: str) -> tuple[str, bool] | None:
    """Digest of the table that a stream's history was imported from, and whether it has moved.

    :returns: None: the history was not imported.
    """
    if not _described(session, [session.database], [revisionsql.MYSQL_FOREIGN_TABLE]):
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
