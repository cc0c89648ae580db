"""Asks the server how it would carry out each ALTER TABLE: on an empty copy, in scratch.

What can be done at once, in place or only by a copy depends on the server's version and on the
table; nobody knows but the server. What it said is then part of the plan's statement, so on the
live table it cannot fall back to anything worse: it refuses, and nothing has happened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pymysql

from ptahk.executor.dialects.mysql.kinds import table
from ptahk.executor.dialects.mysql.planner import COPY, INPLACE, INSTANT, SHARED
from ptahk.executor.dialects.mysql.quote import ident, literal
from ptahk.executor.planning.model import Catalog, ObjectId, Query, Step

Run = Callable[[str], object]

_NOT_SO: Final = frozenset({1845, 1846, 1235, 4092})
"""The server does not do it this way: not supported, not supported because of, not yet, too many
row versions."""
_SYNTAX: Final = 1064
_ASKED: Final = frozenset({table.ALTER, "AddPartition", "DropPartition", "RenameColumn"})
_KNOWN: Final = {"DropForeignKey": INPLACE, "AddForeignKey": COPY}
"""Where a copy without its neighbours cannot tell. A key that is checked is always a copy."""
_ROW_VERSIONS_MAX: Final = 60
"""InnoDB takes 64 changes of this kind before the table must be rewritten."""


def probe(
    run: Run, query: Query, live: Catalog, steps: Sequence[Step], *, scratch: str
) -> dict[str, str]:
    """The way of each ALTER TABLE of a plan, by its text: one of ``planner.LOCKS``.

    :param steps: of a plan that was made without knowing any way.
    :param scratch: an empty database, the session's current one; what is made in it stays there.
    :returns: statements that fail on the copy are left out: whoever rehearses the plan sees why.
    """
    ways = {step.sql: _KNOWN[step.kind] for step in steps if step.kind in _KNOWN}
    copies: set[ObjectId] = set()
    target = str(live.context["database"])
    full = _many_versions(query, target)
    with _modes(run, live):
        for step in steps:
            if step.kind == "SetSession":
                run(step.sql)
            if step.kind not in _ASKED or step.object not in live.objects:
                continue
            try:
                if step.object not in copies:
                    copies.add(step.object)
                    run(_copy(live, step.object, target, scratch))
                ways[step.sql] = _ask(run, step, full, target, scratch)
            except pymysql.MySQLError as error:
                if _code(error) in (0, 2006, 2013, 4031):
                    raise
    return ways


def _copy(live: Catalog, oid: ObjectId, target: str, scratch: str) -> str:
    text = table.create_text(oid.name[0], live.objects[oid], {}, {})
    return text.replace(f"{ident(target)}.", f"{ident(scratch)}.")


def _ask(run: Run, step: Step, full: set[str], target: str, scratch: str) -> str:
    head = f"ALTER TABLE {ident(step.object.name[0])} "
    sql = step.sql.replace(f"{ident(target)}.", f"{ident(scratch)}.")
    for way in (INSTANT, INPLACE, SHARED):
        if way == INSTANT and step.object.name[0] in full:
            continue
        try:
            run(sql.replace(head, f"{head}{way}, ", 1))
        except pymysql.MySQLError as error:
            if _code(error) not in _NOT_SO | {_SYNTAX}:
                raise
        else:
            return way
    run(sql)
    return COPY


def _many_versions(query: Query, target: str) -> set[str]:
    """Tables of MySQL that are near the end of their row versions; needs PROCESS to be seen."""
    with contextlib.suppress(pymysql.MySQLError):
        rows: Iterable[tuple[object, ...]] = query(
            "SELECT substring_index(name, '/', -1) FROM information_schema.innodb_tables"
            " WHERE name LIKE concat(%s, '/%%') AND total_row_versions > %s",
            (target, _ROW_VERSIONS_MAX),
        )
        return {str(row[0]) for row in rows}
    return set()


@contextlib.contextmanager
def _modes(run: Run, live: Catalog) -> Iterator[None]:
    """The session's own modes again, whatever the steps set."""
    try:
        yield
    finally:
        modes: Mapping[str, str] = {
            name: str(live.context[name]) for name in ("sql_mode", "time_zone")
        }
        assigned = ", ".join(f"SESSION {name} = {literal(value)}" for name, value in modes.items())
        run(f"SET {assigned}")


def _code(error: pymysql.MySQLError) -> int:
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
