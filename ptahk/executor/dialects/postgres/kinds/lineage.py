"""Partitions and inheritance: the link of a table to each of its parents, a node of its own.

A new table carries its links in its own statement. A link that goes, goes before everything else,
since nothing that a table has through a parent can be touched before; a link that comes, comes
after the table has what the parent demands of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.quote import ident, qualified
from ptahk.executor.planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step


def links(name: tuple[str, ...], table: Facts) -> Iterator[tuple[ObjectId, Facts]]:
    """The link objects of a table as its facts tell them."""
    if "partition_of" in table:
        facts = {"of": table["partition_of"], "bound": table["bound"]}
        yield ObjectId("partition", name), facts
    for parent in table.get("inherits", ()):
        yield ObjectId("inheritance", (*name, *parent)), {}


def reaching(ctx: Context, column: ObjectId) -> Iterator[ObjectId]:
    """Columns of parents whose changes reach ``column``: over links that stay as they are."""
    table = ctx.current.objects.get(relation.table_of(column), {})
    for link, facts in links(column.name[:2], table):
        if link in ctx.desired.objects and link not in ctx.rebuilt:
            above = facts.get("of") or link.name[2:]
            yield ObjectId("column", (*above, column.name[2]))


def requirements(ctx: Context, child: tuple[str, ...], parent: tuple[str, ...]) -> Iterator[Step]:
    """What a table must have before it can be linked: the parent's not nulls and checks."""
    table = qualified(child)
    owner = ObjectId("table", child)
    lock = relation.lock("AccessExclusiveLock", child)
    for oid, facts in ctx.desired.objects.items():
        if oid.name[:2] != parent or oid.kind not in ("column", "constraint"):
            continue
        own = ObjectId(oid.kind, (*child, oid.name[2]))
        if oid.kind == "column" and facts.get("not_null") and not facts.get("not_null_no_inherit"):
            if not ctx.current.objects.get(own, {}).get("not_null"):
                sql = f"ALTER TABLE {table} ALTER COLUMN {ident(oid.name[2])} SET NOT NULL"
                yield Step(sql, "SetNotNull", owner, lock=lock)
        elif (
            oid.kind == "constraint"
            and facts["type"] == "c"
            and "NO INHERIT" not in facts["definition"]
            and not _holds(ctx, own, facts)
        ):
            clause = relation.constraint_clause(own, facts)
            yield Step(f"ALTER TABLE {table} ADD {clause}", "AddCheck", owner, lock=lock)


def children_that_keep(ctx: Context, oid: ObjectId) -> list[tuple[str, ...]]:
    """Inheritance children that declare a column or check themselves too.

    Dropping the parent's leaves theirs, so that needs a statement of its own.
    """
    if relation.table_of(oid) not in ctx.parents:
        return []
    found = []
    local = ctx.current.context.get("local", ())
    for child, facts in sorted(ctx.current.objects.items()):
        if child.kind == "table" and oid.name[:2] in shape.lineage(facts):
            own = ObjectId(oid.kind, (*child.name, oid.name[2]))
            if str(own) in local and own not in ctx.desired.objects:
                found.append(child.name)
    return [name for name in found if ObjectId("table", name) in ctx.desired.objects]


def _holds(ctx: Context, own: ObjectId, facts: Facts) -> bool:
    """Whether a check that a parent demands is there, and stays."""
    if own in ctx.current.context.get("adopted", ()):
        return True
    attached: Facts = ctx.current.context.get("attached", {}).get(own, {})
    same = bool(attached.get("definition") == facts["definition"])
    return same and own not in ctx.current.objects


class PartitionKind:
    """``ATTACH PARTITION`` and ``DETACH PARTITION``; other bounds are both."""

    name = "partition"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        return ()  # read with the tables

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        child, parent = qualified(oid.name), qualified(new["of"])
        return [
            *requirements(ctx, oid.name, tuple(new["of"])),
            Step(
                f"ALTER TABLE {parent} ATTACH PARTITION {child} {new['bound']}",
                "AttachPartition",
                oid,
                "warning",
                relation.lock("AccessExclusiveLock", oid.name),
                "the table is read to check that its rows fit",
            ),
        ]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return [
            Step(
                f"ALTER TABLE {qualified(old['of'])} DETACH PARTITION {qualified(oid.name)}",
                "DetachPartition",
                oid,
                "warning",
                relation.lock("AccessExclusiveLock", old["of"]),
                "its rows leave the partitioned table",
            )
        ]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        if old == new:
            return []
        return Rebuild("the bounds of a partition change: it is detached and attached again")


class InheritanceKind:
    """``INHERIT`` and ``NO INHERIT``."""

    name = "inheritance"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        return ()  # read with the tables

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        child, parent = oid.name[:2], oid.name[2:]
        sql = f"ALTER TABLE {qualified(child)} INHERIT {qualified(parent)}"
        lock = relation.lock("AccessExclusiveLock", child)
        return [*requirements(ctx, child, parent), Step(sql, "Inherit", oid, lock=lock)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        child, parent = oid.name[:2], oid.name[2:]
        sql = f"ALTER TABLE {qualified(child)} NO INHERIT {qualified(parent)}"
        lock = relation.lock("AccessExclusiveLock", child)
        return [Step(sql, "NoInherit", oid, "warning", lock, "its rows leave the parent table")]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
        return []
