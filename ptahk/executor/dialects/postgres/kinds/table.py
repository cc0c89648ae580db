"""Tables: ordinary, partitioned, partitions, inheritance children."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptahk.executor.dialects.postgres.kinds import column, lineage, relation
from ptahk.executor.dialects.postgres.kinds.address import PG_CLASS, PG_TYPE
from ptahk.executor.dialects.postgres.quote import ident, qualified
from ptahk.executor.planning.model import (
    Alter,
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Query,
    Rebuild,
    Scope,
    Step,
)

_READ = """
select c.oid::int8, c.reltype::int8, n.nspname::text, c.relname::text, c.relkind::text,
       c.relpersistence::text, c.reloptions, t.reloptions, am.amname::text, sp.spcname::text,
       c.relreplident::text, null,
       c.relrowsecurity, c.relforcerowsecurity,
       case when c.relkind = 'p' then pg_catalog.pg_get_partkeydef(c.oid) end,
       case when c.relispartition then pg_catalog.pg_get_expr(c.relpartbound, c.oid) end,
       case when c.relhassubclass or c.relispartition or exists (
              select from pg_catalog.pg_inherits h where h.inhrelid = c.oid) then
         (select pg_catalog.array_agg(array[pn.nspname::text, p.relname::text] order by h.inhseqno)
            from pg_catalog.pg_inherits h join pg_catalog.pg_class p on p.oid = h.inhparent
            join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
            where h.inhrelid = c.oid) end,
       case when c.reloftype <> 0 then c.reloftype::pg_catalog.regtype::text end
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_class t on t.oid = c.reltoastrelid
left join pg_catalog.pg_am am on am.oid = c.relam
left join pg_catalog.pg_tablespace sp on sp.oid = c.reltablespace
where c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname = any(%s)
order by 3, 4
"""


class TableKind:
    """``CREATE TABLE`` with what it can carry inline, and what of a table can change in place."""

    name = "table"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (list(scope.schemas),)):
            oid = ObjectId("table", (row[2], row[3]))
            facts = _facts(row)
            yield oid, facts
            yield from lineage.links(oid.name, facts)

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step] | PlanRefusal:
        refusal = _unsupported(oid, new)
        if refusal is not None:
            return refusal
        inline = ctx.inline.get(oid, ())
        # Links that could not be carried come later; until then the table stands alone.
        held = dict(new)
        if ObjectId("partition", oid.name) not in inline:
            held.pop("partition_of", None)
        parents = [p for p in new.get("inherits", ()) if _inheritance(oid, p) in inline]
        held.pop("inherits", None)
        new = {**held, "inherits": parents} if parents else held
        body = column.definitions(ctx, oid, new, inline)
        for part in inline:
            if part.kind == "constraint":
                body.append(relation.constraint_clause(part, ctx.desired.objects[part]))
        steps = [Step(_create_sql(oid, new, body), "CreateTable", oid)]
        steps += column.after_create(ctx, oid, new, inline)
        steps += _flags(oid, {}, new, existing=False)
        return steps

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return [
            Step(
                f"DROP TABLE {qualified(oid.name)}",
                "DropTable",
                oid,
                "destructive",
                relation.lock("AccessExclusiveLock", oid.name),
                "drops the table with its rows",
            )
        ]

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | Alter | Rebuild | PlanRefusal:
        refusal = _unsupported(oid, new) or _unalterable(oid, old, new)
        if refusal is not None:
            return refusal
        steps = _storage(oid, old, new)
        steps += _flags(oid, old, new, existing=True)
        return steps


def _inheritance(oid: ObjectId, parent: list[str]) -> ObjectId:
    return ObjectId("inheritance", (*oid.name, *parent))


def _facts(row: tuple[Any, ...]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "@": ((PG_CLASS, row[0], 0), (PG_TYPE, row[1], 0)),
    }
    if row[5] == "u":
        facts["unlogged"] = True
    if row[6]:
        facts["options"] = sorted(row[6])
    if row[7]:
        facts["toast_options"] = sorted(row[7])
    if row[8] not in (None, "heap"):
        facts["access_method"] = row[8]
    if row[9]:
        facts["tablespace"] = row[9]
    if row[10] != "d":
        # With an index, the index carries the flag too and makes the statement.
        facts["replica_identity"] = {"f": "full", "n": "nothing", "i": "index"}[row[10]]
    if row[12]:
        facts["row_security"] = True
    if row[13]:
        facts["force_row_security"] = True
    if row[14]:
        facts["partition_key"] = row[14]
    if row[15]:
        facts["bound"] = row[15]
        facts["partition_of"] = row[16][0]
    elif row[16]:
        facts["inherits"] = row[16]
    if row[17]:
        facts["of_type"] = row[17]
    return facts


def _unsupported(oid: ObjectId, new: Facts) -> PlanRefusal | None:
    for fact, words in (("tablespace", "a tablespace"), ("of_type", "a row type (OF)")):
        if fact in new:
            message = f"{oid}: tables with {words} cannot be planned"
            return PlanRefusal("UnsupportedObject", message, oid)
    return None


def _unalterable(oid: ObjectId, old: Facts, new: Facts) -> PlanRefusal | None:
    for fact, words in (
        ("partition_key", "partition key"),
        ("of_type", "row type"),
        ("tablespace", "tablespace"),
    ):
        if old.get(fact) != new.get(fact):
            message = f"{oid}: its {words} cannot be changed without a copy of its rows"
            return PlanRefusal("UnsupportedChange", message, oid)
    return None


def _create_sql(oid: ObjectId, new: Facts, body: list[str]) -> str:
    head = "CREATE UNLOGGED TABLE" if new.get("unlogged") else "CREATE TABLE"
    sql = f"{head} {qualified(oid.name)}"
    inner = "(\n    " + ",\n    ".join(body) + "\n)" if body else "()"
    if "partition_of" in new:
        sql += f" PARTITION OF {qualified(new['partition_of'])}"
        sql += (f" {inner}" if body else "") + f" {new['bound']}"
    else:
        sql += f" {inner}"
    if "inherits" in new:
        sql += " INHERITS (" + ", ".join(qualified(p) for p in new["inherits"]) + ")"
    if "partition_key" in new:
        sql += f" PARTITION BY {new['partition_key']}"
    if "access_method" in new:
        sql += f" USING {ident(new['access_method'])}"
    options = list(new.get("options", ()))
    options += [f"toast.{option}" for option in new.get("toast_options", ())]
    if options:
        sql += f" WITH ({', '.join(relation.option(o) for o in options)})"
    return sql


def _storage(oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    steps: list[Step] = []
    name = qualified(oid.name)
    exclusive = relation.lock("AccessExclusiveLock", oid.name)
    if old.get("unlogged") != new.get("unlogged"):
        to = "UNLOGGED" if new.get("unlogged") else "LOGGED"
        reason = "the table is rewritten" + (
            "; its rows do not survive a crash" if new.get("unlogged") else ""
        )
        steps.append(
            Step(f"ALTER TABLE {name} SET {to}", "SetLogged", oid, "warning", exclusive, reason)
        )
    if old.get("access_method") != new.get("access_method"):
        method = ident(new.get("access_method", "heap"))
        sql = f"ALTER TABLE {name} SET ACCESS METHOD {method}"
        reason = "the table is rewritten"
        steps.append(Step(sql, "SetAccessMethod", oid, "warning", exclusive, reason))
    was = {**_named(old, "options"), **_named(old, "toast_options", "toast.")}
    now = {**_named(new, "options"), **_named(new, "toast_options", "toast.")}
    steps += relation.options(f"ALTER TABLE {name}", "AlterTableOptions", oid, was, now)
    return steps


def _named(facts: Facts, key: str, prefix: str = "") -> dict[str, str]:
    return {
        prefix + option.partition("=")[0]: option.partition("=")[2] for option in facts.get(key, ())
    }


def _flags(oid: ObjectId, old: Facts, new: Facts, *, existing: bool) -> list[Step]:
    """Row security (who may see which rows, so a privilege) and replica identity."""
    steps: list[Step] = []
    name = qualified(oid.name)
    lock = relation.lock("AccessExclusiveLock", oid.name) if existing else ""
    for fact, on, off in (
        ("row_security", "ENABLE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY"),
        ("force_row_security", "FORCE ROW LEVEL SECURITY", "NO FORCE ROW LEVEL SECURITY"),
    ):
        if bool(old.get(fact)) != bool(new.get(fact)):
            clause = on if new.get(fact) else off
            sql = f"ALTER TABLE {name} {clause}"
            reason = "changes which rows are visible"
            steps.append(Step(sql, "RowSecurity", oid, "privilege", lock, reason))
    identity = new.get("replica_identity", "default")
    if old.get("replica_identity", "default") != identity and identity != "index":
        sql = f"ALTER TABLE {name} REPLICA IDENTITY {identity.upper()}"
        steps.append(Step(sql, "ReplicaIdentity", oid, lock=lock))
    return steps
