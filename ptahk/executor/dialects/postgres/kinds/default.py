"""Column defaults, each a node of its own: they may use what exists only after the table."""

from __future__ import annotations

from collections.abc import Iterable

from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.kinds.address import PG_ATTRDEF
from ptahk.executor.dialects.postgres.quote import ident, literal, qualified
from ptahk.executor.planning.model import Context, Facts, ObjectId, Query, Scope, Step

_READ = """
select d.oid::int8, n.nspname::text, c.relname::text, a.attname::text,
       pg_catalog.pg_get_expr(d.adbin, d.adrelid)
from pg_catalog.pg_attrdef d
join pg_catalog.pg_class c on c.oid = d.adrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
where c.relkind in ('r', 'p') and c.relpersistence <> 't' and a.attgenerated = ''
  and n.nspname = any(%s)
"""


class DefaultKind:
    """``SET DEFAULT`` and ``DROP DEFAULT``; never on the children, whose defaults are theirs."""

    name = "default"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for oid, schema, table, column, expression in query(_READ, (list(scope.schemas),)):
            yield (
                ObjectId("default", (schema, table, column)),
                {"@": ((PG_ATTRDEF, oid, 0),), "expression": expression},
            )

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        steps = [self._set(ctx, oid, f"SET DEFAULT {new['expression']}", "SetDefault")]
        return steps + list(self._advance(ctx, oid))

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return [self._set(ctx, oid, "DROP DEFAULT", "DropDefault")]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
        if old.get("expression") == new["expression"]:
            return []
        return self.create(ctx, oid, new)

    def _set(self, ctx: Context, oid: ObjectId, action: str, kind: str) -> Step:
        table = relation.table_of(oid)
        only = "ONLY " if _has_children(ctx, table) else ""
        sql = (
            f"ALTER TABLE {only}{qualified(table.name)} ALTER COLUMN {ident(oid.name[2])} {action}"
        )
        lock = relation.lock("AccessExclusiveLock", table.name)
        return Step(sql, kind, oid, lock="" if relation.is_new(ctx, table) else lock)

    def _advance(self, ctx: Context, oid: ObjectId) -> Iterable[Step]:
        """A new counter on a column with rows starts after them, not at their first value."""
        column = ObjectId("column", oid.name)
        if column not in ctx.current.objects:
            return
        for sequence in relation.uses(ctx.desired, oid):
            if sequence.kind == "sequence" and sequence not in ctx.current.objects:
                facts = ctx.desired.objects[sequence]
                if "-" not in facts.get("increment", ""):
                    yield advance(oid, sequence.name, facts)


def advance(oid: ObjectId, sequence: tuple[str, ...], options: Facts) -> Step:
    """Move an ascending sequence past the values that its column already holds."""
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    name = literal(qualified(sequence))
    sql = (
        f"SELECT pg_catalog.setval({name}::pg_catalog.regclass, max({column}))"
        f" FROM {table} HAVING max({column}) >= {options.get('min', '1')}"
    )
    if "max" in options:
        sql += f" AND max({column}) <= {options['max']}"
    return Step(sql, "AdvanceSequence", oid, lock=relation.lock("AccessShareLock", oid.name[:2]))


def _has_children(ctx: Context, table: ObjectId) -> bool:
    facts = ctx.desired.objects.get(table) or ctx.current.objects.get(table) or {}
    return "partition_key" in facts or table in ctx.parents
