"""Extensions. Their members are never planned (C-10.6)."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, literal
from . import address, common


class ExtensionKind:
    """An extension of the database.

    All are read, whatever their schema: what is declared may live outside the scope. The planner
    leaves a live one alone that nobody declares and whose schema is outside the scope.
    """

    name = "extension"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT e.oid::int8, e.extname, n.nspname, e.extversion, e.extrelocatable"
            " FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
            " WHERE e.extname <> 'plpgsql'"
        )
        for oid, extension, schema, version, relocatable in rows:
            facts = {
                "@": [(address.PG_EXTENSION, oid, 0)],
                "schema": schema,
                "version": version,
                "relocatable": relocatable,
            }
            yield ObjectId(self.name, (extension,)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        sql = (
            f"CREATE EXTENSION {ident(oid.name[0])} WITH SCHEMA {ident(new['schema'])}"
            f" VERSION {literal(new['version'])}"
        )
        return [Step(sql, "CreateExtension", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "an extension is dropped with everything it brought")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        name = ident(oid.name[0])
        steps = []
        if old["version"] != new["version"]:
            sql = f"ALTER EXTENSION {name} UPDATE TO {literal(new['version'])}"
            reason = f"the extension's own script from {old['version']} to {new['version']} runs"
            steps.append(Step(sql, "UpdateExtension", oid, "warning", "", reason))
        if old["schema"] != new["schema"]:
            if not old["relocatable"]:
                reason = f"{oid} cannot be moved to another schema: it is dropped with its members"
                return Rebuild(reason, "destructive")
            sql = f"ALTER EXTENSION {name} SET SCHEMA {ident(new['schema'])}"
            reason = "statements that name its members by schema no longer find them"
            steps.append(Step(sql, "MoveExtension", oid, "warning", "", reason))
        return steps
