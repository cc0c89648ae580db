"""What two catalogs are compared in: the scope of C-10.6, applied to both sides before a diff.

Nothing of this is a difference: who owns what where nobody states it, objects of the database
that nobody declares, whether a materialized view is filled.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from ....planning.model import Catalog, Facts, ObjectId, Policy
from . import acl
from .unsupported import DATABASE_WIDE

_ATTRIBUTES = ("owner", "acl")


def settle(
    current: Catalog, desired: Catalog, policy: Policy, schemas: Container[str]
) -> tuple[Catalog, Catalog]:
    """Both catalogs with everything taken out, or carried over, that is not to be compared.

    :param schemas: the schemas of the scope.

    ``desired.context["stated"]`` says for which objects (as text) the declaration states
    ``owner`` or ``acl``. Without statement, and unless privileges are managed, the live ones
    are kept, and so are carried over when an object is rebuilt. What a new object has in
    ``desired`` without a statement is the doing of declared default privileges, and stays.
    """
    kept = {
        oid: facts
        for oid, facts in current.objects.items()
        if oid in desired.objects or _in_scope(oid, facts, policy, schemas)
    }
    if len(kept) == len(current.objects):
        live = current
    else:
        depends = frozenset((a, b) for a, b in current.depends if a in kept and b in kept)
        given = {o: f for o, f in current.objects.items() if o.kind == "default privileges"}
        context = {**current.context, acl.DEFAULT_PRIVILEGES: given}
        live = replace(current, objects=kept, depends=depends, context=context)
    stated: Mapping[str, Container[str]] = desired.context.get("stated", {})
    managed = policy.privileges == "Managed"
    wanted = {
        oid: _wanted(oid, kept.get(oid), facts, None if managed else stated.get(str(oid), ()))
        for oid, facts in desired.objects.items()
    }
    return live, replace(desired, objects=wanted)


def after_plan(live: Catalog, wanted: Mapping[ObjectId, Facts]) -> dict[ObjectId, Facts]:
    """``wanted`` with what live default privileges will give to new objects."""
    result = dict(wanted)
    if not any(oid.kind == "default privileges" for oid in live.objects):
        return result
    for oid, facts in wanted.items():
        if oid in live.objects or "acl" in facts:
            continue
        given = acl.created(live, oid)
        if given is not None:
            result[oid] = {**facts, "acl": given}
    return result


def _in_scope(oid: ObjectId, facts: Facts, policy: Policy, schemas: Container[str]) -> bool:
    """Whether a live object that is not declared is our business."""
    if oid.kind == "extension":
        return facts["schema"] in schemas
    if oid.kind == "default privileges":
        return policy.privileges == "Managed" and bool(oid.name[1])
    return oid.kind not in DATABASE_WIDE


def _wanted(
    oid: ObjectId, live: Facts | None, facts: Facts, stated: Container[str] | None
) -> Facts:
    if live == facts:
        return facts
    changed: dict[str, Any] = {}
    if stated is not None:
        for attribute in _ATTRIBUTES:
            if attribute not in stated and (live is not None or attribute == "owner"):
                changed[attribute] = (live or {}).get(attribute)
        if "acl" not in stated and oid.kind in ("view", "matview"):
            changed["columns"] = _column_grants(live, facts)
    if oid.kind == "matview" and live is not None:
        changed["populated"] = live["populated"]
    if not changed:
        return facts
    merged = {**facts, **changed}
    return {key: value for key, value in merged.items() if value is not None}


def _column_grants(live: Facts | None, facts: Facts) -> list[dict[str, Any]]:
    before = {one["name"]: one.get("acl") for one in (live or {}).get("columns", [])}
    result = []
    for column in facts["columns"]:
        plain = {key: value for key, value in column.items() if key != "acl"}
        grants = before.get(column["name"])
        result.append(plain if grants is None else {**plain, "acl": grants})
    return result
