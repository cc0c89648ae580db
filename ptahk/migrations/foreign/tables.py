"""Another tool's history table: known by its columns, since three tools use one name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ptahk.migrations.findings import Finding, InvalidSource
from ptahk.wire import digest

Tool = Literal["golang-migrate", "dbmate", "goose", "atlas", "flyway", "diesel", "ptah"]
Value = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Shape:
    """How a tool's table looks."""

    names: tuple[str, ...]
    """By default."""
    columns: frozenset[str]
    """It has these, in whatever case."""
    reads: tuple[str, ...]
    """What its history is read from, in the order of ``Content.rows``; no times, no users."""
    order: str
    """The column that its rows are read by."""
    others: bool = True
    """It may have other columns too."""


SHAPES: Final[Mapping[Tool, Shape]] = {
    "flyway": Shape(
        ("flyway_schema_history", "schema_version"),
        frozenset({"installed_rank", "version", "description", "type", "script", "checksum",
                   "success"}),
        ("installed_rank", "version", "description", "type", "script", "checksum", "success"),
        "installed_rank",
    ),
    "atlas": Shape(
        ("atlas_schema_revisions",),
        frozenset({"version", "description", "type", "applied", "total", "error", "hash",
                   "partial_hashes", "operator_version"}),
        ("version", "description", "type", "applied", "total", "error", "hash"),
        "version",
    ),
    "goose": Shape(
        ("goose_db_version",),
        frozenset({"id", "version_id", "is_applied"}),
        ("id", "version_id", "is_applied"),
        "id",
    ),
    "ptah": Shape(
        ("schema_migrations",),
        frozenset({"version", "description", "applied_at", "state", "applied", "total", "error",
                   "checksum"}),
        ("version", "description", "state", "applied", "total", "error", "checksum"),
        "version",
    ),
    "golang-migrate": Shape(
        ("schema_migrations",), frozenset({"version", "dirty"}), ("version", "dirty"), "version",
        others=False,
    ),
    "diesel": Shape(
        ("__diesel_schema_migrations",), frozenset({"version", "run_on"}), ("version",), "version",
        others=False,
    ),
    "dbmate": Shape(
        ("schema_migrations",), frozenset({"version"}), ("version",), "version", others=False
    ),
}  # fmt: skip
"""By tool; the one with most columns first."""
TOOLS: Final[tuple[Tool, ...]] = tuple(SHAPES)
NAMES: Final = tuple(dict.fromkeys(name for shape in SHAPES.values() for name in shape.names))
"""Every name that a tool's table has by default."""
ROWS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Table:
    """A table that may be some tool's."""

    schema: str
    """Of MySQL and MariaDB the database."""
    name: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Content:
    """What a tool's table holds, as far as its history is read from it."""

    tool: Tool
    table: Table
    rows: tuple[tuple[Value, ...], ...]
    """Of ``SHAPES[tool].reads``."""

    @property
    def digest(self) -> str:
        """Moves when somebody runs the tool again (C-11.9)."""
        return digest.foreign_history(self.tool, [list(row) for row in self.rows])


def columns_of(tool: Tool, table: Table) -> list[str]:
    """The columns that its history is read from, as the table spells them."""
    spelled = {column.lower(): column for column in table.columns}
    return [spelled[name] for name in SHAPES[tool].reads]


def content(tool: Tool, table: Table, rows: Sequence[Sequence[Any]]) -> Content:
    """What was read, the same of every engine and in one order whatever the collation.

    :param rows: of ``columns_of``.
    :raises InvalidSource: ``MG704``: too many rows for a history.
    """
    if len(rows) > ROWS_MAX:
        raise _none(f"{table} has more than {ROWS_MAX} rows: that is no history", "look at it")
    at = SHAPES[tool].reads.index(SHAPES[tool].order)
    known = [tuple(_plain(value) for value in row) for row in rows]
    known.sort(key=lambda row: (isinstance(row[at], str), row[at]))
    return Content(tool, table, tuple(known))


def split_name(named: str) -> tuple[str | None, str]:
    """Schema and table of what a person called a table."""
    schema, dot, name = named.rpartition(".")
    return (schema if dot else None), name


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, (bool, int)):
        return int(value) if isinstance(value, bool) else value
    return value.decode() if isinstance(value, bytes) else str(value)


def recognise(table: Table) -> Tool | None:
    """Whose table it is; None: of no tool that ptahk knows."""
    there = frozenset(column.lower() for column in table.columns)
    for tool, shape in SHAPES.items():
        if shape.columns <= there and (shape.others or there == shape.columns):
            return tool
    return None


def choose(found: Sequence[Table], tool: Tool | None, named: str | None) -> tuple[Tool, Table]:
    """The one table that is meant.

    :param found: tables of a tool's default name, or of the name that was given.
    :param tool: whose it must be; None: whoever's.
    :param named: what a person called it.
    :raises InvalidSource: ``MG704``: there is none, or more than one.
    """
    known = [(whose, table) for table in found if (whose := recognise(table)) is not None]
    fits = [(whose, table) for whose, table in known if tool in (None, whose)]
    if len(fits) == 1:
        return fits[0]
    wanted = tool or "a tool that ptahk knows"
    if len(fits) > 1:
        text = ", ".join(f"{table} ({whose})" for whose, table in fits)
        raise _none(f"more than one history table: {text}", "name it: historyTable SCHEMA.TABLE")
    seen = ", ".join(
        f"{table} ({recognise(table) or 'columns ' + ' '.join(table.columns)})" for table in found
    )
    where = f"{named} is not one" if named and not found else f"found: {seen or 'nothing'}"
    raise _none(f"no history table of {wanted} in the database ({where})",
                "--from names the tool, historyTable the table")  # fmt: skip


def _none(message: str, hint: str) -> InvalidSource:
    return InvalidSource([Finding("MG704", "", 0, 0, message, hint)])
