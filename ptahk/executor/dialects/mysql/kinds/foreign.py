"""Foreign keys: added and dropped by statements of their own, out of the way of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ptahk.executor.dialects.mysql.kinds import column as columns
from ptahk.executor.dialects.mysql.kinds.table import foreign_clause, index_clause, names_in
from ptahk.executor.dialects.mysql.model import World
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Facts, ObjectId, Step


def add(world: World, oid: ObjectId, facts: Facts) -> Step:
    """The server reads the whole table, and lets nobody write to it meanwhile.

    An index that was made for a foreign key without being declared would be replaced by one with
    the new key's name. Nothing shows which index is such a one, so it is made again as it is: the
    server copies the table anyway.
    """
    table, name = oid.name
    clauses = [f"ADD {foreign_clause(name, facts)}"]
    place = ObjectId("table", (table,))
    before: Mapping[str, Any] = world.current.get(place, {}).get("indexes", {})
    after: Mapping[str, Any] = world.desired[place].get("indexes", {})
    for key, index in before.items():
        exact = index[0] == "KEY" and names_in(index[1]) == list(facts["columns"])
        if exact and after.get(key) == index:
            clauses += [f"DROP INDEX {ident(key)}", f"ADD {index_clause(key, index)}"]
    sql = f"ALTER TABLE {ident(table)} " + ", ".join(clauses)
    reason = "the server looks at every row of the table, and writes to it wait"
    return Step(sql, "AddForeignKey", oid, "warning", reason=reason, transaction=False)


def drop(oid: ObjectId, again: str) -> Step:
    """:param again: why it comes back; empty where it is gone for good."""
    table, name = oid.name
    sql = f"ALTER TABLE {ident(table)} DROP FOREIGN KEY {ident(name)}"
    reason = again or "nothing keeps its references whole any more"
    return Step(sql, "DropForeignKey", oid, "warning", reason=reason, transaction=False)


def in_the_way(world: World) -> Iterator[tuple[ObjectId, str]]:
    """Unchanged foreign keys that a change of their tables cannot leave in place, and why."""
    for oid, facts in world.current.items():
        if oid.kind != "foreign key" or world.desired.get(oid) != facts:
            continue
        for table, named in (
            (oid.name[0], facts["columns"]),
            (facts["references"], facts["referenced_columns"]),
        ):
            place = ObjectId("table", (table,))
            old, new = world.current.get(place), world.desired.get(place)
            if old is None or new is None or old == new:
                continue
            why = _conflict(old, new, named)
            if why:
                yield oid, f"{place} changes {why}"
                break


def _conflict(old: Facts, new: Facts, named: list[str]) -> str:
    before, after = _by_name(old), _by_name(new)
    for name in named:
        if name not in before or name not in after:
            return f"column {name}"
        if columns.changes_type(before[name], after[name]):
            return f"the type of column {name}"
        if columns.nullable(before[name]) != columns.nullable(after[name]):
            return f"whether column {name} takes NULL"
    if old["engine"] != new["engine"]:
        return "its engine"
    if old.get("partition", "") != new.get("partition", ""):
        return "its partitions"
    kept = [
        body
        for key, (what, body) in old.get("indexes", {}).items()
        if new.get("indexes", {}).get(key) == [what, body] and what != "FULLTEXT KEY"
    ]
    if not any(names_in(body)[: len(named)] == named for body in kept):
        return "the index that it uses"
    return ""


def _by_name(facts: Facts) -> Mapping[str, Facts]:
    return {column["name"]: column for column in facts["columns"]}
