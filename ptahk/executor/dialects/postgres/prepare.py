"""What of both sides is compared at all: scope, privileges and partitions (C-10.6). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds.lineage import links
from ptahk.executor.dialects.postgres.kinds.settle import after_plan, settle
from ptahk.executor.planning.model import Catalog, Facts, ObjectId, Policy


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides as they are compared, and what the live one will be once the plan has run."""

    current: Catalog
    desired: Catalog
    expected: Catalog
    """``desired`` and everything of the live side that is left alone."""


def prepare(current: Catalog, desired: Catalog, policy: Policy) -> Sides:
    """Leave alone what is not declared and not managed; keep what nobody states."""
    schemas = {
        oid.name[0]
        for catalog in (current, desired)
        for oid in catalog.objects
        if oid.kind == "schema"
    }
    live, wanted = settle(current, desired, policy, schemas)
    if policy.partitions == "Declared":
        live = _without_partitions(live, wanted)
    live = _without_adopted(_with_detached(live, wanted), wanted)
    lineage = frozenset(shape.after_parents(wanted.objects))
    wanted = replace(
        wanted,
        objects=dict(_owned(live, wanted, policy)),
        depends=wanted.depends | lineage if lineage else wanted.depends,
    )
    attached = wanted.context.get("attached", {})
    rest = {
        oid: facts
        for oid, facts in current.objects.items()
        if oid not in live.objects and oid not in attached
    }
    given = wanted.objects
    if policy.privileges == "Declared":
        given = after_plan(current, wanted.objects)
    expected = replace(wanted, objects={**given, **rest})
    return Sides(live, wanted, expected)


def _without_adopted(live: Catalog, wanted: Catalog) -> Catalog:
    """Keys and indexes that a table brings along when it becomes a partition stay."""
    attached: Mapping[ObjectId, Facts] = wanted.context.get("attached", {})
    adopted = {
        oid
        for oid, facts in attached.items()
        if oid not in wanted.objects and live.objects.get(oid) == facts
    }
    if not adopted:
        return live
    kept = {oid: facts for oid, facts in live.objects.items() if oid not in adopted}
    depends = frozenset((a, b) for a, b in live.depends if a in kept and b in kept)
    context = {**live.context, "adopted": frozenset(adopted)}
    return replace(live, objects=kept, depends=depends, context=context)


def _has(live: Catalog, link: ObjectId, oid: ObjectId) -> bool:
    """Whether an inherited constraint comes over this link too; they have one name."""
    return ObjectId(oid.kind, (*link.name[2:], oid.name[-1])) in live.objects


def _with_detached(live: Catalog, wanted: Catalog) -> Catalog:
    """Give a table that loses a parent what it keeps of the parent's.

    The table comes first: nothing of this can be touched while it is attached.
    """
    attached: Mapping[ObjectId, Facts] = live.context.get("attached", {})
    kept: dict[ObjectId, Facts] = {}
    depends: set[tuple[ObjectId, ObjectId]] = set()
    for oid, facts in attached.items():
        table = ObjectId("table", tuple(facts.get("table", oid.name[:2])))
        if table not in wanted.objects or table not in live.objects:
            continue
        stays: list[ObjectId] = []
        goes: list[ObjectId] = []
        for link, _ in links(table.name, live.objects[table]):
            (stays if link in wanted.objects else goes).append(link)
        if not goes or any(_has(live, link, oid) for link in stays):
            continue
        kept[oid] = facts
        depends.update((link, oid) for link in goes)
    if not kept:
        return live
    return replace(live, objects={**live.objects, **kept}, depends=live.depends | depends)


def _without_partitions(live: Catalog, wanted: Catalog) -> Catalog:
    """Partitions of a declared parent that are not declared are left alone, parts and all."""
    partitions = set(_undeclared_partitions(live.objects, wanted.objects))
    if not partitions:
        return live
    kept: dict[ObjectId, Facts] = {}
    for oid, facts in live.objects.items():
        whole: ObjectId | None = oid
        while whole is not None and whole not in partitions:
            whole = shape.parent(whole, live.objects.get(whole, facts), live.objects)
        if whole is None:
            kept[oid] = facts
    depends = frozenset((a, b) for a, b in live.depends if a in kept and b in kept)
    return replace(live, objects=kept, depends=depends)


def _undeclared_partitions(
    live: Mapping[ObjectId, Facts], declared: Mapping[ObjectId, Facts]
) -> Iterable[ObjectId]:
    """Partitions of a declared parent, at any depth, that are not declared themselves."""
    for oid, facts in live.items():
        if oid.kind != "table" or oid in declared:
            continue
        above = facts
        while "partition_of" in above:
            parent = ObjectId("table", tuple(above["partition_of"]))
            if parent in declared:
                yield oid
                break
            above = live.get(parent, {})


def _owned(live: Catalog, wanted: Catalog, policy: Policy) -> Iterable[tuple[ObjectId, Facts]]:
    """Owners as they will be: who loaded the declaration stands for who runs the plan.

    A sequence that belongs to a column belongs to whoever owns the table, and only so.
    """
    owners: dict[ObjectId, Facts] = {}
    for oid, facts in wanted.objects.items():
        if _has_owner(oid):
            owners[oid] = _with_owner(live, wanted, policy, oid, facts)
    for oid, facts in wanted.objects.items():
        given = owners.get(oid, facts)
        if oid.kind == "sequence" and "owned_by" in facts:
            table = owners.get(ObjectId("table", tuple(facts["owned_by"][:2])), {})
            if "owner" in table:
                given = {**facts, "owner": table["owner"]}
        yield oid, given


def _with_owner(
    live: Catalog, wanted: Catalog, policy: Policy, oid: ObjectId, facts: Facts
) -> Facts:
    stated: Mapping[str, Any] = wanted.context.get("stated", {})
    user, loader = live.context.get("user"), wanted.context.get("user")
    if user is None or "owner" in stated.get(str(oid), ()):
        return facts
    managed = policy.privileges == "Managed"
    unknown = "owner" not in facts and not managed
    if unknown or (managed and facts.get("owner") == loader and loader != user):
        return {**facts, "owner": user}
    return facts


def _has_owner(oid: ObjectId) -> bool:
    return oid.kind in _OWNED


_OWNED = frozenset(
    {
        "schema", "enum", "domain", "composite", "range", "function", "procedure", "aggregate",
        "operator", "sequence", "table", "view", "matview",
    }
)  # fmt: skip
"""Kinds whose owner the catalog reads."""
