"""What every kind shares: how an object is named in a statement, its comment, owner and grants.

Not for anything that one kind alone needs. The planner calls ``attributes`` after each create
and alter, so that no kind repeats these steps.
"""

from __future__ import annotations

from dataclasses import replace

from ....planning.model import Context, Facts, ObjectId, Severity, Step
from ..quote import ident, literal, qualified
from . import acl

_NOUNS = {
    "schema": "SCHEMA",
    "extension": "EXTENSION",
    "enum": "TYPE",
    "composite": "TYPE",
    "range": "TYPE",
    "domain": "DOMAIN",
    "function": "FUNCTION",
    "procedure": "PROCEDURE",
    "aggregate": "AGGREGATE",
    "operator": "OPERATOR",
    "view": "VIEW",
    "matview": "MATERIALIZED VIEW",
    "table": "TABLE",
    "column": "COLUMN",
    "sequence": "SEQUENCE",
    "index": "INDEX",
    "rule": "RULE",
    "trigger": "TRIGGER",
    "policy": "POLICY",
    "constraint": "CONSTRAINT",
    "domain constraint": "CONSTRAINT",
    "base type": "TYPE",
    "shell type": "TYPE",
    "extended statistics": "STATISTICS",
    "foreign server": "SERVER",
}
_ON_TABLE = frozenset({"rule", "trigger", "policy"})
_GRANT_NOUNS = {"VIEW": "TABLE", "MATERIALIZED VIEW": "TABLE", "AGGREGATE": "FUNCTION"}
_ALTER_LOCKED = frozenset({"view", "matview", "table", "sequence"})


def target(oid: ObjectId, facts: Facts) -> tuple[str, str]:
    """The noun and name of an object, as COMMENT ON, ALTER and DROP want them.

    An aggregate's ``identity`` fact stands in for its argument types: ordered-set aggregates
    cannot be named by types alone.
    """
    kind, name = oid.kind, oid.name
    noun = _NOUNS.get(kind, kind.upper())
    if kind in ("function", "procedure", "aggregate"):
        return noun, f"{qualified(name[:2])}({facts.get('identity', name[2])})"
    if kind == "operator":
        return noun, f"{ident(name[0])}.{name[1]} ({name[2]}, {name[3]})"
    if kind == "domain constraint":
        return noun, f"{ident(name[2])} ON DOMAIN {qualified(name[:2])}"
    if kind in ("operator class", "operator family"):
        return noun, f"{qualified(name[:2])} USING {ident(name[2])}"
    if kind == "cast":
        return noun, f"({name[0]} AS {name[1]})"
    if kind in _ON_TABLE or kind == "constraint":
        return noun, f"{ident(name[2])} ON {qualified(name[:2])}"
    return noun, qualified(name)


def drop(
    ctx: Context, oid: ObjectId, facts: Facts, reason: str, lock: str = "", step_kind: str = ""
) -> list[Step]:
    """A DROP statement: destructive with ``reason``, unless the plan creates the object again."""
    noun, name = target(oid, facts)
    severity: Severity = "destructive"
    if oid in ctx.rebuilt:
        severity, reason = "warning", "no in-place form exists: it is dropped and created again"
    kind = step_kind or "Drop" + _camel(oid.kind)
    return [Step(f"DROP {noun} {name}", kind, oid, severity, lock, reason)]


def _camel(kind: str) -> str:
    words = {"matview": "materialized view", "composite": "composite type", "range": "range type"}
    return "".join(word.capitalize() for word in words.get(kind, kind).split())


def attributes(ctx: Context, oid: ObjectId, old: Facts | None, new: Facts) -> list[Step]:
    """Steps that bring comment, owner and grants from ``old`` (None: just created) to ``new``.

    A missing ``owner`` means that nobody states one. The owner changes before the grants do,
    since a change of owner moves the old owner's rights to the new one.
    """
    before: Facts = old if old is not None else {}
    steps = _comment(oid, before, new)
    owner = new.get("owner")
    # What was just created belongs to the role that runs the plan.
    had = before.get("owner") if old is not None else ctx.current.context.get("user")
    moved = owner is not None and owner != had and not _owned_through_table(oid, before, new)
    if moved:
        noun, name = target(oid, new)
        lock = f"AccessExclusiveLock {name}" if oid.kind in _ALTER_LOCKED else ""
        steps.append(
            Step(
                f"ALTER {noun} {name} OWNER TO {ident(str(owner))}",
                f"Alter{_camel(oid.kind)}Owner",
                oid,
                "privilege",
                lock,
                f"{oid} gets another owner",
            )
        )
    return steps + _grants(ctx, oid, old, new)


def _owned_through_table(oid: ObjectId, before: Facts, new: Facts) -> bool:
    """A sequence that stays with its column changes hands with the table, and only so."""
    linked = before.get("owned_by")
    return oid.kind == "sequence" and linked is not None and linked == new.get("owned_by")


def _comment(oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    before, after = old.get("comment"), new.get("comment")
    if before == after:
        return []
    noun, name = target(oid, new)
    text = "NULL" if after is None else literal(str(after))
    return [Step(f"COMMENT ON {noun} {name} IS {text}", "Comment", oid)]


def _grants(ctx: Context, oid: ObjectId, old: Facts | None, new: Facts) -> list[Step]:
    initial = acl.default(oid.kind, ctx.server_version)
    if initial is None:
        return []
    after = acl.entries(new.get("acl"), initial)
    noun, name = target(oid, new)
    noun = _GRANT_NOUNS.get(noun, noun)
    if oid.kind == "aggregate":
        name = f"{qualified(oid.name[:2])}({oid.name[2]})"
    owner = new.get("owner") or (old or {}).get("owner")
    where = acl.Target(oid, f"{noun} {name}", str(owner) if owner is not None else None)
    if oid.kind == "column":
        table = ObjectId("table", oid.name[:2])
        owner = ctx.desired.objects.get(table, {}).get("owner")
        where = replace(where, owner=str(owner) if owner is not None else None)
        where = acl.Target(
            oid, f"TABLE {qualified(oid.name[:2])}", where.owner, f" ({ident(oid.name[2])})"
        )
    if old is None:
        if "acl" not in new and ctx.policy.privileges == "Declared":
            return []
        before = acl.entries(acl.created(ctx.current, oid), initial)
        had = ctx.current.context.get("user")
    else:
        before = acl.entries(old.get("acl"), initial)
        had = old.get("owner")
    if new.get("owner") is not None and new["owner"] != had:
        before = acl.owned_by(before, str(new["owner"]))
    return [*acl.change(where, before, after), *_column_grants(ctx, where, new, before, after)]


def _column_grants(
    ctx: Context, where: acl.Target, new: Facts, before: acl.Grants, after: acl.Grants
) -> list[Step]:
    """Grants on single columns again: what is revoked from a relation goes from its columns too."""
    oid = where.oid
    if oid.kind not in ("table", "view", "matview"):
        return []
    taken = {key for key, option in before.items() if key not in after or option > after[key]}
    if not taken:
        return []
    columns = {column["name"]: column.get("acl") for column in new.get("columns", ())}
    if oid.kind == "table":
        columns = {
            other.name[2]: facts.get("acl")
            for other, facts in ctx.desired.objects.items()
            if other.kind == "column"
            and other.name[:2] == oid.name
            and other in ctx.current.objects
        }
    steps: list[Step] = []
    for name, grants in columns.items():
        held = {key: option for key, option in acl.entries(grants, {}).items() if key in taken}
        steps += acl.change(replace(where, columns=f" ({ident(name)})"), {}, held)
    return steps
