"""The live schema as a declaration, and how far it is from the declared one (C-10.1). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ptahk.executor.dialects.postgres.grammar import GRAMMAR
from ptahk.executor.dialects.postgres.kinds.unsupported import NAMES
from ptahk.executor.dialects.postgres.planner import PlanResult, context_of
from ptahk.executor.planning.model import (
    SEVERITIES,
    Catalog,
    Facts,
    ObjectId,
    PlanRefusal,
    Policy,
    Severity,
    Step,
)
from ptahk.executor.planning.plan import make_steps

ITEMS_MAX = 500
"""Longest list of a drift report; the counts say how many there really are."""


_PUBLIC: Facts = {
    "owner": "pg_database_owner",
    "comment": "standard public schema",
    "acl": [
        ["owner", "", "CREATE", False],
        ["owner", "", "USAGE", False],
        ["public", "", "USAGE", False],
    ],
}


@dataclass(frozen=True, slots=True)
class DriftItem:
    """One object that is not as declared."""

    category: str
    """``missing``, ``undeclared`` or ``changed``."""
    object: str
    severity: Severity
    """Of the strongest statement that a plan would run on it."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Advisory; never a planning scope, and authorises nothing."""

    counts: Mapping[str, int]
    highest: Severity | None
    items: tuple[DriftItem, ...]


def drift(made: PlanResult) -> DriftReport:
    """What a plan found to differ. Parts of a missing or undeclared whole are not counted."""
    strongest: dict[ObjectId, Severity] = {}
    for step in made.steps:
        known = strongest.get(step.object, "safe")
        strongest[step.object] = max(known, step.severity, key=SEVERITIES.index)
    items = []
    for category, oid in made.differences:
        fallback: Severity = "destructive" if category == "undeclared" else "safe"
        items.append(DriftItem(category, str(oid), strongest.get(oid, fallback)))
    levels = [*strongest.values(), *(item.severity for item in items)]
    return DriftReport(
        counts=dict(Counter(item.category for item in items)),
        highest=max(levels, key=SEVERITIES.index) if items else None,
        items=tuple(items[:ITEMS_MAX]),
    )


def declaration(catalog: Catalog) -> str:
    """SQL that makes, in an empty database, what ``catalog`` holds.

    Kinds that are not planned are listed as comments, with what could not be written.
    """
    objects = {oid: facts for oid, facts in catalog.objects.items() if oid.kind not in NAMES}
    left_out = sorted(oid for oid in catalog.objects if oid.kind in NAMES)
    wanted = replace(
        catalog,
        objects=objects,
        depends=frozenset((a, b) for a, b in catalog.depends if a in objects and b in objects),
    )
    empty = Catalog(_empty(catalog), frozenset(), {}, catalog.context)
    made = make_steps(context_of(empty, wanted, Policy()), GRAMMAR)
    lines = [f"-- not written, change it by hand: {oid}" for oid in left_out]
    for each in made:
        if isinstance(each, PlanRefusal):
            lines.append("-- " + each.message.replace("\n", " "))
        elif isinstance(each, Step):
            lines.append(each.sql + ";\n")
    return "\n".join(lines) + ("\n" if lines else "")


def _empty(catalog: Catalog) -> dict[ObjectId, Facts]:
    """What a new database has: the public schema as ``template0`` holds it from 15 on."""
    public = ObjectId("schema", ("public",))
    return {public: _PUBLIC} if public in catalog.objects else {}
