"""Domains, and their check constraints as objects of their own.

A constraint stands alone so that a function which it calls can be rebuilt without the domain.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, qualified
from . import address, common, retype, values

_NOT_VALID = " NOT VALID"


class DomainKind:
    """A domain: base type, collation, default, NOT NULL.

    ``constraints`` repeats what stands in the constraints' own objects, so that the domain is
    asked when one of them changes.
    """

    name = "domain"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT t.oid::int8, t.typarray::int8, n.nspname, t.typname,"
            " format_type(t.typbasetype, t.typtypmod),"
            " CASE WHEN t.typcollation <> b.typcollation THEN"
            "  (SELECT quote_ident(cn.nspname) || '.' || quote_ident(c.collname)"
            "   FROM pg_collation c JOIN pg_namespace cn ON cn.oid = c.collnamespace"
            "   WHERE c.oid = t.typcollation) END,"
            " pg_get_expr(t.typdefaultbin, 'pg_type'::regclass), t.typnotnull,"
            " (SELECT json_object_agg(k.conname, pg_get_constraintdef(k.oid))"
            "  FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c')"
            " FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
            " JOIN pg_type b ON b.oid = t.typbasetype"
            " WHERE t.typtype = 'd' AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, array, schema, name, base, collation, default, not_null, checks in rows:
            facts: dict[str, object] = {
                "@": [(address.PG_TYPE, oid, 0), (address.PG_TYPE, array, 0)],
                "type": base,
                "not_null": not_null,
            }
            if collation is not None:
                facts["collation"] = collation
            if default is not None:
                facts["default"] = default
            if checks:
                facts["constraints"] = checks
            yield ObjectId(self.name, (schema, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        sql = f"CREATE DOMAIN {qualified(oid.name)} AS {new['type']}"
        if "collation" in new:
            sql += f" COLLATE {new['collation']}"
        if "default" in new:
            sql += f" DEFAULT {new['default']}"
        if new["not_null"]:
            sql += " NOT NULL"
        return [Step(sql, "CreateDomain", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "a type is dropped")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        if (old["type"], old.get("collation")) != (new["type"], new.get("collation")):
            reason = f"{oid} gets another base type: its columns are rewritten"
            return Rebuild(reason, "warning", retype.aside(oid, old, reason))
        if _is_stricter(old, new) and _is_nested(ctx, oid):
            # The server looks through columns of the domain, not through what holds it.
            reason = f"{oid} is stricter inside other types: their columns are rewritten"
            return Rebuild(reason, "warning", retype.aside(oid, old, reason))
        head = f"ALTER DOMAIN {qualified(oid.name)}"
        steps = []
        if old.get("default") != new.get("default"):
            what = f"SET DEFAULT {new['default']}" if "default" in new else "DROP DEFAULT"
            steps.append(Step(f"{head} {what}", "AlterDomainDefault", oid))
        if old["not_null"] != new["not_null"]:
            what, reason = "DROP NOT NULL", "columns of the domain take NULL from now on"
            lock = ""
            if new["not_null"]:
                what, reason = "SET NOT NULL", "every column of the domain is read for NULL"
                lock = _lock(oid)
            steps.append(Step(f"{head} {what}", "AlterDomainNotNull", oid, "warning", lock, reason))
        return steps


def _is_stricter(old: Facts, new: Facts) -> bool:
    before = old.get("constraints", {})
    return (new["not_null"] and not old["not_null"]) or any(
        before.get(name) != definition and not definition.endswith(_NOT_VALID)
        for name, definition in new.get("constraints", {}).items()
    )


def _is_nested(ctx: Context, oid: ObjectId) -> bool:
    """Whether a column holds the domain in an array, composite or range."""
    users: dict[ObjectId, list[ObjectId]] = {}
    for user, used in ctx.current.depends:
        if user.kind == "column" or user.kind in retype.TYPE_KINDS:
            users.setdefault(used, []).append(user)
    pending, seen = [(oid, False)], {(oid, False)}
    while pending:
        used, inside = pending.pop()
        for user in users.get(used, ()):
            kind = str(ctx.current.objects[user].get("type", ""))
            deeper = inside or user.kind in ("composite", "range") or kind.endswith("[]")
            if deeper and user.kind == "column":
                return True
            if (user, deeper) not in seen:
                seen.add((user, deeper))
                pending.append((user, deeper))
    return False


def _lock(oid: ObjectId) -> str:
    return f"ShareLock every table with a column of {qualified(oid.name[:2])}"


class DomainConstraintKind:
    """A CHECK constraint of a domain, NOT VALID among them."""

    name = "domain constraint"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT c.oid::int8, n.nspname, t.typname, c.conname, pg_get_constraintdef(c.oid)"
            " FROM pg_constraint c JOIN pg_type t ON t.oid = c.contypid"
            " JOIN pg_namespace n ON n.oid = t.typnamespace"
            " WHERE c.contype = 'c' AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, schema, domain, name, definition in rows:
            facts = {"@": [(address.PG_CONSTRAINT, oid, 0)], "definition": definition}
            yield ObjectId(self.name, (schema, domain, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        sql = (
            f"ALTER DOMAIN {qualified(oid.name[:2])} ADD CONSTRAINT {ident(oid.name[2])}"
            f" {new['definition']}"
        )
        domain = ObjectId("domain", oid.name[:2])
        fresh = domain not in ctx.current.objects or domain in ctx.rebuilt
        if fresh or new["definition"].endswith(_NOT_VALID):
            return [Step(sql, "AddDomainConstraint", oid)]
        checks = values.fit_constraint(ctx, oid, new["definition"])
        return [*checks, Step(sql, "AddDomainConstraint", oid, "safe", _lock(oid))]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        sql = f"ALTER DOMAIN {qualified(oid.name[:2])} DROP CONSTRAINT {ident(oid.name[2])}"
        reason = "values that the constraint kept out can be stored"
        return [Step(sql, "DropDomainConstraint", oid, "warning", "", reason)]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        if old["definition"] == new["definition"] + _NOT_VALID:
            name = ident(oid.name[2])
            sql = f"ALTER DOMAIN {qualified(oid.name[:2])} VALIDATE CONSTRAINT {name}"
            return [Step(sql, "ValidateDomainConstraint", oid, "safe", _lock(oid))]
        return Rebuild(f"{oid} is another condition", "warning")
