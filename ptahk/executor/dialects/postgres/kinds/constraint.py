"""Primary, unique, foreign, check and exclusion constraints of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptahk.executor.dialects.postgres.kinds import lineage, relation
from ptahk.executor.dialects.postgres.kinds.address import PG_CLASS, PG_CONSTRAINT
from ptahk.executor.dialects.postgres.quote import ident, idents, literal, qualified
from ptahk.executor.planning.model import (
    Context,
    Facts,
    ObjectId,
    Query,
    Rebuild,
    Scope,
    Step,
)

# Most keys have one column, which is found in half the time.
_COLUMNS = """
         case when pg_catalog.cardinality(k.{key}) = 1 then
           array[(select a.attname::text from pg_catalog.pg_attribute a
                    where a.attrelid = k.{table} and a.attnum = k.{key}[1])]
         else
           (select pg_catalog.array_agg(a.attname::text order by u.ord)
              from pg_catalog.unnest(k.{key}) with ordinality u(num, ord)
              join pg_catalog.pg_attribute a on a.attrelid = k.{table} and a.attnum = u.num) end"""

# Copies on partitions (conparentid, coninhcount) follow their parent and are no objects here,
# except as what a detached partition keeps.
_READ = """
select k.oid::int8, k.conindid::int8, n.nspname::text, c.relname::text, k.conname::text,
       k.contype::text, pg_catalog.pg_get_constraintdef(k.oid), i.reloptions, x.indisclustered,
       x.indisreplident, sp.spcname::text, k.conparentid <> 0 or k.coninhcount > 0, k.convalidated,
       k.conislocal and k.coninhcount > 0 and k.conparentid = 0 and not c.relispartition,
       case when k.contype in ('p', 'u', 'f') then {own} end,
       fn.nspname::text, f.relname::text,
       case when k.contype = 'f' then {referenced} end
from pg_catalog.pg_constraint k
join pg_catalog.pg_class c on c.oid = k.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_class i on i.oid = k.conindid and k.contype in ('p', 'u', 'x')
left join pg_catalog.pg_index x on x.indexrelid = i.oid
left join pg_catalog.pg_tablespace sp on sp.oid = i.reltablespace
left join pg_catalog.pg_class f on f.oid = k.confrelid and k.contype = 'f'
left join pg_catalog.pg_namespace fn on fn.oid = f.relnamespace
where k.contype in ('p', 'u', 'f', 'c', 'x') and c.relkind in ('r', 'p')
  and c.relpersistence <> 't' and n.nspname = any(%s)
""".format(
    own=_COLUMNS.format(key="conkey", table="conrelid"),
    referenced=_COLUMNS.format(key="confkey", table="confrelid"),
)

_LABELS = {
    "p": "PrimaryKey",
    "u": "Unique",
    "f": "ForeignKey",
    "c": "Check",
    "x": "Exclusion",
}
_SHARED = ("type", "columns", "references", "referenced_columns")


class ConstraintKind:
    """``ADD CONSTRAINT``: validated apart, or from an index built apart, where that pays."""

    name = "constraint"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (list(scope.schemas),)):
            yield ObjectId("constraint", (row[2], row[3], row[4])), _facts(row)

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        table = relation.table_of(oid)
        steps: list[Step] = []
        inherited = ctx.current.context.get("attached", {}).get(oid, {})
        own = str(oid) in ctx.current.context.get("local", ())
        if own and inherited.get("definition") == new["definition"]:
            return []  # there already; only the parent's goes
        if not relation.is_new(ctx, table) and not new.get("not_valid"):
            steps += _checks(ctx, oid, new)
        if new["type"] in ("p", "u") and relation.online(ctx, table):
            steps += _from_index(ctx, oid, new)
        elif new["type"] in ("f", "c") and _validates_apart(ctx, oid, new):
            steps += _validated_apart(ctx, oid, new)
        else:
            sql = f"ALTER TABLE {qualified(table.name)} ADD {relation.constraint_clause(oid, new)}"
            steps.append(_step(ctx, oid, new, sql, f"Add{_LABELS[new['type']]}"))
        return steps + _index_flags(oid, {}, new)

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        table = relation.table_of(oid)
        sql = f"ALTER TABLE {qualified(table.name)} DROP CONSTRAINT {ident(oid.name[2])}"
        lock = relation.lock("AccessExclusiveLock", table.name)
        label = _LABELS[old["type"]]
        reason = "the rows are no longer held to it"
        steps = [Step(sql, f"Drop{label}", oid, "warning", lock, reason)]
        for child in lineage.children_that_keep(ctx, oid) if old["type"] == "c" else ():
            sql = f"ALTER TABLE {qualified(child)} DROP CONSTRAINT {ident(oid.name[2])}"
            lock = relation.lock("AccessExclusiveLock", child)
            steps.append(Step(sql, f"Drop{label}", oid, "warning", lock, reason))
        return steps

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        if old["definition"] == new["definition"]:
            steps = _index_flags(oid, old, new)
            was, now = relation.named_options(old), relation.named_options(new)
            index = f"ALTER INDEX {qualified((oid.name[0], oid.name[2]))}"
            return relation.options(index, "AlterIndexOptions", oid, was, now) + steps
        table = qualified(oid.name[:2])
        if old["definition"] == f"{new['definition']} NOT VALID":
            return [*_checks(ctx, oid, new), *_validate(oid, new)]
        if old["type"] == new["type"] == "f":
            bare = _without_timing(old["definition"]), _without_timing(new["definition"])
            if bare[0] == bare[1] and "NOT ENFORCED" not in old["definition"] + new["definition"]:
                timing = new["definition"][len(bare[1]) :].strip() or "NOT DEFERRABLE"
                sql = f"ALTER TABLE {table} ALTER CONSTRAINT {ident(oid.name[2])} {timing}"
                return [_step(ctx, oid, new, sql, "AlterForeignKey")]
        return Rebuild("the definition of a constraint changes", "warning")


def _facts(row: tuple[Any, ...]) -> dict[str, Any]:
    addresses = [(PG_CONSTRAINT, row[0], 0)]
    facts: dict[str, Any] = {"@": addresses, "type": row[5], "definition": row[6]}
    if row[5] in ("p", "u", "x"):
        addresses.append((PG_CLASS, row[1], 0))
        if row[7]:
            facts["options"] = sorted(row[7])
        if row[8]:
            facts["clustered"] = True
        if row[9]:
            facts["replica_identity"] = True
        if row[10]:
            facts["tablespace"] = row[10]
    if row[11]:
        facts["@attached"] = True
    if not row[12]:
        facts["not_valid"] = True
    if row[13]:
        facts["@local"] = True
    if row[14]:
        facts["columns"] = row[14]
    if row[5] == "f":
        facts["references"] = [row[15], row[16]]
        facts["referenced_columns"] = row[17]
    return facts


def _without_timing(definition: str) -> str:
    for tail in (" DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE", " NOT DEFERRABLE"):
        if definition.endswith(tail):
            return definition[: -len(tail)]
    return definition


def _step(ctx: Context, oid: ObjectId, new: Facts, sql: str, kind: str) -> Step:
    """One statement with the lock that its kind of constraint takes."""
    table = relation.table_of(oid)
    mode = "ShareRowExclusiveLock" if new["type"] == "f" else "AccessExclusiveLock"
    if kind.startswith("Validate"):
        mode = "ShareUpdateExclusiveLock"
    existing = not relation.is_new(ctx, table)
    return Step(sql, kind, oid, lock=relation.lock(mode, table.name) if existing else "")


def _validates_apart(ctx: Context, oid: ObjectId, new: Facts) -> bool:
    return (
        relation.online(ctx, relation.table_of(oid))
        and not new.get("not_valid")
        and "NOT ENFORCED" not in new["definition"]
    )


def _validated_apart(ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
    """New rows are held to it at once; old ones are read under a lock that lets writers pass."""
    table = qualified(oid.name[:2])
    add = f"ALTER TABLE {table} ADD {relation.constraint_clause(oid, new)} NOT VALID"
    return [_step(ctx, oid, new, add, f"Add{_LABELS[new['type']]}"), *_validate(oid, new)]


def _validate(oid: ObjectId, new: Facts) -> list[Step]:
    sql = f"ALTER TABLE {qualified(oid.name[:2])} VALIDATE CONSTRAINT {ident(oid.name[2])}"
    lock = relation.lock("ShareUpdateExclusiveLock", oid.name[:2])
    kind = f"Validate{_LABELS[new['type']]}"
    return [Step(sql, kind, oid, lock=lock, commit_before=True)]


def _from_index(ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
    """Build the index beside the writers, then adopt it."""
    table = relation.table_of(oid)
    name = ident(oid.name[2])
    word = "PRIMARY KEY" if new["type"] == "p" else "UNIQUE"
    definition: str = new["definition"]
    tail = ""
    bare = _without_timing(definition)
    if bare != definition:
        tail = definition[len(bare) :]
    body = bare[len(word) :].strip()
    nulls = ""
    if body.startswith("NULLS NOT DISTINCT"):
        nulls, body = " NULLS NOT DISTINCT", body[len("NULLS NOT DISTINCT") :].strip()
    settings = ""
    if new.get("options"):
        settings = " WITH (" + ", ".join(relation.option(o) for o in new["options"]) + ")"
    on = qualified(table.name)
    build = f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {on} {body}{nulls}{settings}"
    adopt = f"ALTER TABLE {on} ADD CONSTRAINT {name} {word} USING INDEX {name}{tail}"
    return [
        Step(
            build,
            "BuildIndex",
            oid,
            lock=relation.lock("ShareUpdateExclusiveLock", table.name),
            transaction=False,
            lock_timeout_s=0,
        ),
        _step(ctx, oid, new, adopt, f"Add{_LABELS[new['type']]}"),
    ]


def _index_flags(oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    """Flags that the index behind a constraint, or a plain one, carries."""
    table = qualified(oid.name[:2])
    return relation.index_flags(oid, table, oid.name[2], old, new)


def _checks(ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
    """Read-only queries for rows that the new constraint would refuse."""
    if "NOT ENFORCED" in new["definition"] or not relation.all_live(ctx, oid):
        return []
    sql = ""
    if new["type"] in ("p", "u"):
        sql = _duplicates(oid, new)
    elif new["type"] == "f":
        sql = _orphans(ctx, oid, new)
    elif new["type"] == "c":
        sql = _violations(oid, new)
    if not sql:
        return []
    lock = relation.lock("AccessShareLock", oid.name[:2])
    return [Step(sql, "CheckData", oid, lock=lock)]


def _duplicates(oid: ObjectId, new: Facts) -> str:
    columns = new["columns"]
    text = literal(f"{qualified(oid.name[:2])} has more than one row with ({', '.join(columns)}) =")
    shown = " || ', ' || ".join(f"coalesce({ident(c)}::text, 'NULL')" for c in columns)
    distinct = "NULLS NOT DISTINCT" in new["definition"]
    where = "" if distinct else " WHERE " + " AND ".join(f"{ident(c)} IS NOT NULL" for c in columns)
    return (
        f"SELECT {text} || ' (' || {shown} || ')' FROM {qualified(oid.name[:2])}{where}"
        f" GROUP BY {idents(columns)} HAVING count(*) > 1 LIMIT 1"
    )


def _orphans(ctx: Context, oid: ObjectId, new: Facts) -> str:
    if "PERIOD" in new["definition"]:
        return ""
    table = qualified(oid.name[:2])
    columns = new["columns"]
    target = new["references"]
    text = literal(
        f"{table} ({', '.join(columns)}) has a value without a row in {qualified(target)}:"
    )
    shown = " || ', ' || ".join(f"t.{ident(c)}::text" for c in columns)
    filled = " AND ".join(f"t.{ident(c)} IS NOT NULL" for c in columns)
    if ObjectId("table", tuple(target)) not in ctx.current.objects:
        return f"SELECT {text} || ' (' || {shown} || ')' FROM {table} t WHERE {filled} LIMIT 1"
    for column in new["referenced_columns"]:
        if ObjectId("column", (*target, column)) not in ctx.current.objects:
            return ""
    pairs = zip(columns, new["referenced_columns"], strict=True)
    joined = " AND ".join(f"r.{ident(r)} = t.{ident(c)}" for c, r in pairs)
    return (
        f"SELECT {text} || ' (' || {shown} || ')' FROM {table} t WHERE {filled}"
        f" AND NOT EXISTS (SELECT FROM {qualified(target)} r WHERE {joined}) LIMIT 1"
    )


def _violations(oid: ObjectId, new: Facts) -> str:
    definition: str = new["definition"].removesuffix(" NO INHERIT")
    expression = definition.removeprefix("CHECK ")
    table = qualified(oid.name[:2])
    text = literal(f"{table} has a row that breaks the new constraint {oid.name[2]}")
    return f"SELECT {text} FROM {table} WHERE NOT ({expression}) LIMIT 1"
