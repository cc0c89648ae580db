"""What is a part of what, which names clash, and what goes with what. Pure.

The planner orders objects without knowing what they are; this is what it must know of
PostgreSQL's kinds beside the recorded dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from ptahk.executor.dialects.postgres.quote import object_name
from ptahk.executor.planning.model import Facts, ObjectId

RELATIONS = ("table", "view", "matview")
_PARTS_OF_RELATION = frozenset({"trigger", "rule", "policy"})

NEVER_REBUILT = frozenset(
    {"schema", "extension", "table", "column", "sequence", "partition", "inheritance"}
)
"""Kinds that hold rows or counters, or others' objects: never dropped to be created again just
because something they use is. They are asked to alter themselves instead."""

INLINE = frozenset({"column", "default", "constraint", "partition", "inheritance"})
"""Kinds that a new table's own statement can carry."""

LAST = frozenset({"default privileges"})
"""Kinds that would reach the objects which the same plan creates."""

LINKS = frozenset({"partition", "inheritance"})
"""Links of a table to its parents."""

FIRST = LINKS | {"sequence owner"}
"""Ties through which a statement would reach another object: cut before anything else."""

_RELATION_NAMES = frozenset({"table", "view", "matview", "sequence", "index", "composite"})
_TYPE_NAMES = frozenset({"table", "view", "matview", "composite", "enum", "domain", "range"})
_ROUTINES = frozenset({"function", "procedure", "aggregate"})


def parents(oid: ObjectId, facts: Facts) -> Iterator[ObjectId]:
    """What ``oid`` is a part of, and vanishes with, nearest first; some may not exist."""
    kind, name = oid.kind, oid.name
    if kind == "column" or kind == "constraint":
        yield ObjectId("table", name[:2])
    elif kind == "default":
        yield ObjectId("column", name)
    elif kind == "partition" or kind == "inheritance":
        yield ObjectId("table", name[:2])
    elif kind == "index":
        for relation in ("table", "matview"):
            yield ObjectId(relation, tuple(facts["table"]))
    elif kind in _PARTS_OF_RELATION:
        for relation in RELATIONS:
            yield ObjectId(relation, name[:2])
    elif kind == "domain constraint":
        yield ObjectId("domain", name[:2])
    elif kind == "sequence owner":
        yield ObjectId("sequence", name)
    elif kind == "sequence" and "owned_by" in facts:
        yield ObjectId("column", tuple(facts["owned_by"]))


def parent(oid: ObjectId, facts: Facts, objects: Container[ObjectId]) -> ObjectId | None:
    """The first of ``parents`` that is in ``objects``."""
    return next((whole for whole in parents(oid, facts) if whole in objects), None)


def implied_dependencies(
    objects: Mapping[ObjectId, Facts],
) -> Iterator[tuple[ObjectId, ObjectId]]:
    """Dependencies that ``pg_depend`` does not record: of parts, and of what owns a sequence."""
    linked = {oid.name[:2] for oid in objects if oid.kind in LINKS}
    for oid, facts in objects.items():
        kind = oid.kind
        if kind == "sequence":
            continue
        if kind in LINKS:
            yield oid, ObjectId("table", tuple(facts.get("of", oid.name[2:])))
        elif kind == "column" and oid.name[:2] in linked:
            # A link goes before what it holds, and comes after it.
            for link in _links(objects, oid.name[:2]):
                yield link, oid
        for whole in parents(oid, facts):
            if whole in objects:
                yield oid, whole
                break
        if kind == "default" or kind == "constraint":
            yield oid, ObjectId("table", oid.name[:2])
            if "references" in facts:
                yield oid, ObjectId("table", tuple(facts["references"]))
        elif kind == "sequence owner":
            yield oid, ObjectId("column", tuple(facts["owned_by"]))
            yield oid, ObjectId("table", tuple(facts["owned_by"][:2]))  # for its owner


def _links(objects: Mapping[ObjectId, Facts], table: tuple[str, ...]) -> Iterator[ObjectId]:
    facts = objects.get(ObjectId("table", table), {})
    if "partition_of" in facts:
        yield ObjectId("partition", table)
    for parent in facts.get("inherits", ()):
        yield ObjectId("inheritance", (*table, *parent))


def after_parents(objects: Mapping[ObjectId, Facts]) -> Iterator[tuple[ObjectId, ObjectId]]:
    """Inherited columns come after their parents' (only so: a drop reaches them through those)."""
    for oid, facts in objects.items():
        if oid.kind == "column" and "inherited" in facts:
            for above in lineage(objects.get(ObjectId("table", oid.name[:2]), {})):
                yield oid, ObjectId("column", (*above, oid.name[2]))


def through_parents(
    depends: Iterable[tuple[ObjectId, ObjectId]], objects: Mapping[ObjectId, Facts]
) -> Iterator[tuple[ObjectId, ObjectId]]:
    """What uses an inherited column uses the parent's too: whose changes reach it."""
    for user, used in depends:
        if used.kind == "column" and "inherited" in objects.get(used, {}):
            pending = [used]
            while pending:
                table, column = pending[-1].name[:2], pending.pop().name[2]
                for above in lineage(objects.get(ObjectId("table", table), {})):
                    parent_column = ObjectId("column", (*above, column))
                    pending.append(parent_column)
                    yield user, parent_column


def lineage(table: Facts) -> list[tuple[str, ...]]:
    """Names of the tables that a table is a partition of or inherits from."""
    if "partition_of" in table:
        return [tuple(table["partition_of"])]
    return [tuple(name) for name in table.get("inherits", ())]


def names(oid: ObjectId, facts: Facts) -> Iterator[tuple[str, ...]]:
    """Keys that no two objects can hold at one time: the old holder goes first."""
    kind, name = oid.kind, oid.name
    if kind in _RELATION_NAMES:
        yield ("relation", *name)
    if kind in _TYPE_NAMES:
        yield ("type", *name)
    if kind == "constraint" and facts.get("type") in ("p", "u", "x"):
        yield ("relation", name[0], name[2])
        if facts["type"] == "p":
            yield ("primary key", name[0], name[1])
    if kind == "column" and "identity" in facts:
        given = facts["identity"].get("name")
        yield ("relation", name[0], given or object_name(name[1], name[2], "seq"))
    if kind in _ROUTINES:
        yield ("routine", name[0], name[1])
    if kind == "partition":
        yield ("partitions", *facts["of"])
    if kind in LINKS:
        yield ("parts", *name[:2])
        yield ("parts", *(facts.get("of") or name[2:]))
    if kind in ("column", "constraint", "default"):
        yield (kind, *name)


def frees(oid: ObjectId, facts: Facts) -> Iterator[tuple[str, ...]]:
    """A table is linked to a parent only when neither has a part left that is to go."""
    if oid.kind == "column" or oid.kind == "constraint":
        yield ("parts", *oid.name[:2])
    elif oid.kind == "index":
        yield ("parts", *facts["table"])


def inliner(objects: Mapping[ObjectId, Facts]) -> Callable[[ObjectId, Facts], bool]:
    """What ``CREATE TABLE`` (a default also ``ADD COLUMN``) can say itself.

    Foreign keys come after all tables. NOT VALID means nothing on a table without rows, so a
    constraint that is to stay so is added afterwards. Of two keys over the same columns in one
    statement the server makes only one, so the second comes afterwards too.
    """
    keys: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, str]] = {}
    for oid, facts in objects.items():
        if oid.kind == "constraint" and facts["type"] in ("p", "u"):
            place = oid.name[:2], tuple(facts["columns"])
            mine = facts["type"], oid.name[2]
            keys[place] = min(mine, keys.get(place, mine))

    def inlines(oid: ObjectId, facts: Facts) -> bool:
        if oid.kind != "constraint":
            return oid.kind in INLINE
        if facts["type"] == "f" or facts.get("not_valid"):
            return False
        if facts["type"] not in ("p", "u"):
            return True
        return keys[oid.name[:2], tuple(facts["columns"])] == (facts["type"], oid.name[2])

    return inlines


def label(oid: ObjectId, facts: Facts) -> str:
    """The kind, with foreign keys and generated columns told apart."""
    if oid.kind == "constraint" and facts["type"] == "f":
        return "foreign key"
    if oid.kind == "column" and "generated" in facts:
        return "generated column"
    return oid.kind
