"""What of both sides is compared at all: scope, privileges and partitions (C-10.6). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds.unsupported import DATABASE_WIDE
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
    alone = _left_alone(current, desired, policy)
    compared = {oid: facts for oid, facts in current.objects.items() if oid not in alone}
    wanted = {
        oid: _stated(oid, facts, current, desired, policy) for oid, facts in desired.objects.items()
    }
    rest = {oid: facts for oid, facts in current.objects.items() if oid in alone}
    return Sides(
        current=_restrict(current, compared),
        desired=replace(desired, objects=wanted),
        expected=replace(desired, objects={**wanted, **rest}),
    )


def _restrict(catalog: Catalog, objects: Mapping[ObjectId, Facts]) -> Catalog:
    if len(objects) == len(catalog.objects):
        return catalog
    depends = frozenset((a, b) for a, b in catalog.depends if a in objects and b in objects)
    return replace(catalog, objects=objects, depends=depends)


def _left_alone(current: Catalog, desired: Catalog, policy: Policy) -> set[ObjectId]:
    live, declared = current.objects, desired.objects
    alone = {
        oid
        for oid in live
        if oid not in declared
        and (
            oid.kind in DATABASE_WIDE
            or (oid.kind == "default privileges" and policy.privileges == "Declared")
        )
    }
    partitions = set(_undeclared_partitions(live, declared))
    if policy.partitions == "Declared" and partitions:
        for oid, facts in live.items():
            whole: ObjectId | None = oid
            while whole is not None and whole not in partitions:
                whole = shape.parent(whole, live.get(whole, facts), live)
            if whole is not None:
                alone.add(oid)
    return alone


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


def _stated(
    oid: ObjectId, facts: Facts, current: Catalog, desired: Catalog, policy: Policy
) -> Facts:
    """Declared facts, with owner and privileges as they will really be.

    An owner that the declaration does not state is the role that loaded it: live, that is the
    present owner, or the role that runs the plan.
    """
    stated: Mapping[str, Any] = desired.context.get("stated", {})
    said = stated.get(str(oid), ())
    live = current.objects.get(oid)
    user = current.context.get("user")
    result = dict(facts)
    if policy.privileges == "Managed":
        if "owner" in result and "owner" not in said:
            loader = desired.context.get("user")
            if result["owner"] == loader and user is not None:
                result["owner"] = user
        return result
    if live is None:
        if "owner" in result and "owner" not in said and user is not None:
            result["owner"] = user
        return result
    for fact in ("owner", "acl"):
        if fact not in said:
            result.pop(fact, None)
            if fact in live:
                result[fact] = live[fact]
    return result
