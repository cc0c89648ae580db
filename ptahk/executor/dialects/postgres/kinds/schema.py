"""Schemas."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident
from . import address, common


class SchemaKind:
    """A schema. It has no facts of its own; comment, owner and grants are everybody's."""

    name = "schema"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT oid::int8, nspname FROM pg_namespace WHERE nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, schema in rows:
            yield ObjectId(self.name, (schema,)), {"@": [(address.PG_NAMESPACE, oid, 0)]}

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        return [Step(f"CREATE SCHEMA {ident(oid.name[0])}", "CreateSchema", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "a schema is dropped")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        return []
