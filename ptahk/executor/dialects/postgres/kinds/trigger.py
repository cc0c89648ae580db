"""Triggers, constraint triggers among them. Clones on partitions follow their parent."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import qualified
from . import address, common
from .rule import enable


class TriggerKind:
    """A trigger: the server's definition and when it fires."""

    name = "trigger"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT t.oid::int8, t.tgconstraint::int8, n.nspname, c.relname, t.tgname,"
            " pg_get_triggerdef(t.oid), t.tgenabled::text"
            " FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, constraint, schema, table, name, definition, enabled in rows:
            addresses = [(address.PG_TRIGGER, oid, 0)]
            facts: dict[str, object] = {"@": addresses, "definition": definition}
            facts["enabled"] = enabled
            if constraint:
                addresses.append((address.PG_CONSTRAINT, constraint, 0))
                facts["constraint"] = True
            yield ObjectId(self.name, (schema, table, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        lock = f"ShareRowExclusiveLock {qualified(oid.name[:2])}"
        steps = [Step(new["definition"], "CreateTrigger", oid, "safe", lock)]
        if new["enabled"] != "O":
            steps.append(enable(oid, "TRIGGER", new["enabled"]))
        return steps

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        lock = f"AccessExclusiveLock {qualified(oid.name[:2])}"
        return common.drop(ctx, oid, old, "what the trigger did is no longer done", lock)

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        steps = []
        state = old["enabled"]
        if old["definition"] != new["definition"]:
            if "constraint" in old or "constraint" in new:
                return Rebuild(f"{oid} is a constraint trigger, which cannot be replaced")
            sql = new["definition"].replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1)
            lock = f"ShareRowExclusiveLock {qualified(oid.name[:2])}"
            reason = "what happens on a change of the table's rows is different"
            steps.append(Step(sql, "ReplaceTrigger", oid, "warning", lock, reason))
            state = "O"
        if state != new["enabled"]:
            steps.append(enable(oid, "TRIGGER", new["enabled"]))
        return steps
