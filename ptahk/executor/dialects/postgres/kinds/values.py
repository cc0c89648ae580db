"""Queries for stored values that a declared domain does not let in, asked before it is there.

Only what the plan leaves as it is can be asked: a condition that uses something which the plan is
yet to make or change is left to the server.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, ObjectId, Step
from ..quote import ident, literal, qualified
from . import relation, retype

_CHECK = "CHECK "


def converts_to_domain(ctx: Context, column: ObjectId, new_type: str) -> str | None:
    """A query for values of a live column that a domain which is yet to come refuses.

    None where ``new_type`` is no domain, or one over a type of the database itself.
    """
    domain = retype.find(ctx.desired, new_type)
    if domain is None or domain.kind != "domain" or new_type.endswith("[]"):
        return None
    conditions: list[str] = []
    base = new_type
    while domain is not None:
        if domain.kind != "domain":
            return None
        facts = ctx.desired.objects[domain]
        conditions += _conditions(ctx, domain)
        base = str(facts["type"])
        domain = retype.find(ctx.desired, base)
    why = f"does not convert to {new_type}"
    return _query(column, f"{ident(column.name[2])}::text::{base}", conditions, why)


def fit_constraint(ctx: Context, constraint: ObjectId, definition: str) -> list[Step]:
    """Checks that columns of a live domain satisfy a constraint that it gets."""
    domain = ObjectId("domain", constraint.name[:2])
    condition = list(_asked(ctx, constraint, definition))
    if not condition:
        return []
    steps = []
    for column, facts in sorted(ctx.current.objects.items(), key=lambda item: item[0]):
        if column.kind != "column" or facts["type"] != qualified(domain.name):
            continue
        if column not in ctx.desired.objects:
            continue
        why = f"violates {ident(constraint.name[2])} of the declared {domain}"
        sql = _query(column, ident(column.name[2]), condition, why)
        lock = relation.lock("AccessShareLock", column.name[:2])
        steps.append(Step(sql, "CheckData", constraint, lock=lock))
    return steps


def _conditions(ctx: Context, domain: ObjectId) -> Iterable[str]:
    for name, definition in ctx.desired.objects[domain].get("constraints", {}).items():
        yield from _asked(ctx, ObjectId("domain constraint", (*domain.name, name)), definition)


def _asked(ctx: Context, constraint: ObjectId, definition: str) -> Iterable[str]:
    """The condition, if the server will judge stored values by it and can be asked now."""
    if definition.endswith(" NOT VALID") or not definition.startswith(_CHECK):
        return
    for used in relation.uses(ctx.desired, constraint):
        whole = used == ObjectId("domain", constraint.name[:2])
        if not whole and ctx.current.objects.get(used) != ctx.desired.objects.get(used):
            return
    yield definition.removeprefix(_CHECK)


def _query(column: ObjectId, value: str, conditions: Iterable[str], why: str) -> str:
    """Rows of one message. ``VALUE`` in a condition means, here, the column of that name."""
    name = qualified(column.name).replace("%", "%%")
    message = literal(f"column {name} holds %L, which {why.replace('%', '%%')}")
    refused = " OR ".join(["value::text IS NULL", *(f"NOT {one}" for one in conditions)])
    stored = ident(column.name[2])
    return (
        f"SELECT pg_catalog.format({message}, stored::text)"
        f" FROM (SELECT {stored} AS stored, {value} AS value FROM {qualified(column.name[:2])}) d"
        f" WHERE stored IS NOT NULL AND ({refused}) LIMIT 1"
    )
