"""Other tools' history tables on PostgreSQL: found, read, imported, watched (C-11.9).

Read only, qualified, and only plain tables without row security: no code of anybody's runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ptahk.executor import adopting
from ptahk.executor.dialects.postgres import revisions
from ptahk.executor.dialects.postgres.quote import ident
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.filerun import Attempt
from ptahk.migrations.foreign import tables
from ptahk.migrations.foreign.tables import Content, Table, Tool
from ptahk.wire import revisionsql

_KEPT: Final = "foreign_history"
_FIND = (
    "SELECT n.nspname::text, c.relname::text,"
    " array(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid"
    " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind = 'r' AND NOT c.relrowsecurity AND n.nspname NOT LIKE 'pg\\_%%'"
    " AND n.nspname NOT IN ('information_schema', 'ptahk')"
    " AND c.relname = ANY(%s) AND (%s::text IS NULL OR n.nspname = %s) ORDER BY 1, 2"
)


def candidates(session: Session, named: str | None) -> list[Table]:
    """Tables of a tool's default name, or of the name that was given."""
    schema, name = tables.split_name(named) if named else (None, None)
    names = list(tables.NAMES) if name is None else [name]
    found = session.query(_FIND, (names, schema, schema))
    return [Table(there, called, tuple(columns)) for there, called, columns in found]


def find(session: Session, tool: Tool | None, named: str | None) -> Content:
    """The history that another tool recorded here.

    :param tool: whose; None: whoever's (``--from auto``).
    :param named: ``historyTable``, with or without its schema.
    :raises InvalidSource: ``MG704``.
    """
    return _read(session, *tables.choose(candidates(session, named), tool, named))


def _read(session: Session, tool: Tool, table: Table) -> Content:
    columns = ", ".join(ident(column) for column in tables.columns_of(tool, table))
    rows = session.query(
        f"SELECT {columns} FROM ONLY {ident(table.schema)}.{ident(table.name)} LIMIT %s",
        (tables.ROWS_MAX + 1,),
    )
    return tables.content(tool, table, rows)


def require(session: Session) -> None:
    """What is imported may be kept (C-6.16). :raises Refused: ``LedgerMissing``."""
    revisions.require(session, _KEPT)


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
    if not revisions.present(session, _KEPT):
        session.run(revisionsql.POSTGRESQL_FOREIGN)
    table = content.table
    with revisions.recording(session):
        session.run("LOCK TABLE ptahk.revisions IN SHARE ROW EXCLUSIVE MODE")
        there = len(revisions.rows(session, attempt.stream))
        adopting.refuse_history(attempt, there, again=again)
        revisions.record(session, attempt, given)
        session.query(
            "INSERT INTO ptahk.foreign_history AS f"
            " (stream, tool, table_schema, table_name, digest, claim)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (stream) DO UPDATE SET tool ="
            " excluded.tool, table_schema = excluded.table_schema, table_name ="
            " excluded.table_name, digest = excluded.digest, claim = excluded.claim,"
            " imported_at = clock_timestamp() RETURNING 1",
            (attempt.stream, content.tool, table.schema, table.name, content.digest,
             attempt.operation_id),
        )  # fmt: skip
        beside()


def table_of(session: Session, stream: str) -> tuple[str, str] | None:
    """Schema and name of the table that a stream's history was imported from."""
    if not revisions.present(session, _KEPT):
        return None
    kept = session.query(
        "SELECT table_schema, table_name FROM ptahk.foreign_history WHERE stream = %s", (stream,)
    )
    return (str(kept[0][0]), str(kept[0][1])) if kept else None


def watched(session: Session, stream: str) -> tuple[str, bool] | None:
    """Digest of the table that a stream's history was imported from, and whether it has moved.

    :returns: None: the history was not imported.
    """
    if not revisions.present(session, _KEPT):
        return None
    kept = session.query(
        "SELECT tool, table_schema, table_name, digest FROM ptahk.foreign_history"
        " WHERE stream = %s",
        (stream,),
    )
    if not kept:
        return None
    tool, schema, name, _ = kept[0]
    found = session.query(_FIND, ([name], schema, schema))
    if not found:
        return adopting.watched(tuple(kept[0]), None)
    table = Table(schema, name, tuple(found[0][2]))
    if tables.recognise(table) != tool:
        return str(kept[0][3]), True
    return adopting.watched(tuple(kept[0]), _read(session, tool, table))
