"""Questions to the live rows, asked before anything runs: what would the plan not keep? Pure.

Each answers rows of one text, a message; the server would refuse, or change, the same rows later.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptahk.executor.dialects.mysql.kinds import column as columns
from ptahk.executor.dialects.mysql.kinds.table import names_in
from ptahk.executor.dialects.mysql.model import World
from ptahk.executor.dialects.mysql.quote import ident, literal
from ptahk.executor.planning.model import Facts, ObjectId, Step
from ptahk.executor.planning.plan import CHECK


def data_checks(world: World, renamed: set[str]) -> Iterator[Step]:
    """The checks of a plan, in the order of its tables.

    :param renamed: tables that are called otherwise on the live side: not asked about.
    """
    for oid in sorted(world.desired):
        facts, live = world.desired[oid], world.current.get(oid)
        if oid.name[0] in renamed or live == facts:
            continue
        if oid.kind == "table" and live is not None:
            yield from _columns(oid, live, facts)
            yield from _unique(oid, live, facts)
        elif oid.kind == "foreign key":
            yield from _orphans(world, oid, facts)


def _step(oid: ObjectId, message: str, table: str, where: str, group: str = "") -> Step:
    sql = f"SELECT {message} FROM {ident(table)}{where}{group} LIMIT 1"
    return Step(sql, CHECK, oid)


def _columns(oid: ObjectId, live: Facts, facts: Facts) -> Iterator[Step]:
    table = oid.name[0]
    before = {column["name"]: column for column in live["columns"]}
    for new in facts["columns"]:
        name = new["name"]
        old = before.get(name)
        if old is None:
            yield from _date_without_default(oid, new)
            continue
        if columns.storage(old) != "base" or columns.storage(new) != "base" or old == new:
            continue
        place, column = f"{table}.{name}", ident(name)
        if columns.nullable(old) and not columns.nullable(new) and "AS ROW" not in new["rest"]:
            message = literal(f"{place} has rows with NULL, which it will not take")
            yield _step(oid, message, table, f" WHERE {column} IS NULL")
        yield from _values(oid, old, new)


def _date_without_default(oid: ObjectId, new: Facts) -> Iterator[Step]:
    """Of these the server has no empty value that it takes itself."""
    base = columns.parts(new)[0]
    if base not in ("date", "datetime", "timestamp", "point", "geometry", "json", "polygon"):
        return
    rest = new["rest"]
    if columns.nullable(new) or "DEFAULT" in rest or "GENERATED" in rest:
        return
    place = f"{oid.name[0]}.{new['name']}"
    message = literal(f"{place} is NOT NULL without a default and {oid.name[0]} has rows")
    yield _step(oid, message, oid.name[0], "")


def _values(oid: ObjectId, old: Facts, new: Facts) -> Iterator[Step]:
    table, name = oid.name[0], new["name"]
    place, column = f"{table}.{name}", ident(name)
    one, two = columns.values_of(old), columns.values_of(new)
    if one is not None and two is not None:
        gone = [value for value in one if value not in two]
        if columns.parts(old)[0] == columns.parts(new)[0] == "enum" and gone:
            listed = ", ".join(f"'{value}'" for value in gone)
            message = (
                f"CONCAT({literal(f'{place} holds a value that it will not have: ')}, {column})"
            )
            yield _step(oid, message, table, f" WHERE {column} IN ({listed})")
        return
    ranges = columns.integer_range(old), columns.integer_range(new)
    if ranges[0] and ranges[1]:
        (low, high), (least, most) = ranges[0], ranges[1]
        if least > low or most < high:
            message = f"CONCAT({literal(f'{place} holds a number that does not fit: ')}, {column})"
            yield _step(oid, message, table, f" WHERE {column} < {least} OR {column} > {most}")
        return
    if columns.parts(new)[0] in ("char", "varchar") and old.get("charset"):
        before, after = columns.length_of(old), columns.length_of(new)
        if before is not None and after is not None and after < before:
            message = literal(f"{place} holds a value that is longer than {after} characters")
            yield _step(oid, message, table, f" WHERE CHAR_LENGTH({column}) > {after}")


def _unique(oid: ObjectId, live: Facts, facts: Facts) -> Iterator[Step]:
    """Rows that a new key would not keep apart; not asked of expressions."""
    table = oid.name[0]
    there = {column["name"] for column in live["columns"]}
    known = [tuple(index) for index in live.get("indexes", {}).values()]
    for name, (what, body) in facts.get("indexes", {}).items():
        if what not in ("UNIQUE KEY", "PRIMARY KEY") or (what, body) in known:
            continue
        parts = _plain_parts(body)
        if parts is None or not all(column in there for column in names_in(body)):
            continue
        listed = ", ".join(parts)
        not_null = " AND ".join(f"{ident(column)} IS NOT NULL" for column in names_in(body))
        message = literal(f"{table} has rows that are equal in key {name}")
        yield _step(
            oid, message, table, f" WHERE {not_null}", f" GROUP BY {listed} HAVING COUNT(*) > 1"
        )


def _plain_parts(body: str) -> list[str] | None:
    """The columns of a key, prefixes as LEFT; None where it holds an expression."""
    inside = body[1 : body.rindex(")")]
    found: list[str] = []
    for part in inside.split(","):
        name, _, length = part.removesuffix(" DESC").partition("(")
        if not (name.startswith("`") and name.endswith("`")):
            return None
        if length and not length.removesuffix(")").isdigit():
            return None
        found.append(f"LEFT({name}, {length.removesuffix(')')})" if length else name)
    return found


def _orphans(world: World, oid: ObjectId, facts: Facts) -> Iterator[Step]:
    child, parent = world.table(oid.name[0]), world.table(facts["references"])
    if child is None or parent is None:
        return
    mine = {column["name"]: column for column in child["columns"]}
    theirs = {column["name"]: column for column in parent["columns"]}
    pairs = list(zip(facts["columns"], facts["referenced_columns"], strict=True))
    if not all(a in mine and b in theirs for a, b in pairs):
        return
    if any(mine[a].get("charset") != theirs[b].get("charset") for a, b in pairs):
        return  # not comparable as they are
    joined = " AND ".join(f"c.{ident(a)} = p.{ident(b)}" for a, b in pairs)
    present = " AND ".join(f"c.{ident(a)} IS NOT NULL" for a, _ in pairs)
    message = literal(f"{oid.name[0]} has rows that {oid} finds no {facts['references']} for")
    sql = (
        f"SELECT {message} FROM {ident(oid.name[0])} c LEFT JOIN {ident(facts['references'])} p"
        f" ON {joined} WHERE {present} AND p.{ident(pairs[0][1])} IS NULL LIMIT 1"
    )
    yield Step(sql, CHECK, oid)
