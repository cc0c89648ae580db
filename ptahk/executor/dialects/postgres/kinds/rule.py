"""Rewrite rules, except those that make a view."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, qualified
from . import address, common

_ENABLE = {
    "O": "ENABLE",
    "D": "DISABLE",
    "R": "ENABLE REPLICA",
    "A": "ENABLE ALWAYS",
}


def enable(oid: ObjectId, noun: str, state: str) -> Step:
    """When a rule or trigger fires; ``state`` as in ``tgenabled``."""
    table = qualified(oid.name[:2])
    sql = f"ALTER TABLE {table} {_ENABLE[state]} {noun} {ident(oid.name[2])}"
    lock = "AccessExclusiveLock" if noun == "RULE" else "ShareRowExclusiveLock"
    reason = f"when the {noun.lower()} fires changes"
    kind = f"Alter{noun.capitalize()}State"
    return Step(sql, kind, oid, "warning", f"{lock} {table}", reason)


class RuleKind:
    """A rewrite rule: the server's definition and when it fires."""

    name = "rule"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT r.oid::int8, n.nspname, c.relname, r.rulename, pg_get_ruledef(r.oid),"
            " r.ev_enabled::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE r.rulename <> '_RETURN' AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, schema, table, name, definition, enabled in rows:
            facts = {
                "@": [(address.PG_REWRITE, oid, 0)],
                "definition": definition.rstrip(";"),
                "enabled": enabled,
            }
            yield ObjectId(self.name, (schema, table, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        lock = f"AccessExclusiveLock {qualified(oid.name[:2])}"
        steps = [Step(new["definition"], "CreateRule", oid, "safe", lock)]
        if new["enabled"] != "O":
            steps.append(enable(oid, "RULE", new["enabled"]))
        return steps

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        lock = f"AccessExclusiveLock {qualified(oid.name[:2])}"
        return common.drop(ctx, oid, old, "statements are no longer rewritten by the rule", lock)

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        steps = []
        state = old["enabled"]
        if old["definition"] != new["definition"]:
            sql = new["definition"].replace("CREATE RULE", "CREATE OR REPLACE RULE", 1)
            lock = f"AccessExclusiveLock {qualified(oid.name[:2])}"
            reason = "statements are rewritten differently"
            steps.append(Step(sql, "ReplaceRule", oid, "warning", lock, reason))
        if state != new["enabled"]:
            steps.append(enable(oid, "RULE", new["enabled"]))
        return steps
