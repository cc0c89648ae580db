"""Indexes that no constraint owns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.kinds.address import PG_CLASS
from ptahk.executor.dialects.postgres.quote import clip, ident, literal, qualified
from ptahk.executor.planning.model import (
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
select i.oid::int8, n.nspname::text, i.relname::text, tn.nspname::text, t.relname::text,
       t.relkind::text, pg_catalog.pg_get_indexdef(i.oid), x.indisunique, x.indisvalid,
       x.indisclustered, x.indisreplident, sp.spcname::text, i.relispartition,
       case when x.indexprs is not null then
         (select pg_catalog.array_agg(array[a.attnum::int, a.attstattarget::int] order by a.attnum)
          from pg_catalog.pg_attribute a
          where a.attrelid = i.oid and a.attstattarget >= 0) end
from pg_catalog.pg_index x
join pg_catalog.pg_class i on i.oid = x.indexrelid
join pg_catalog.pg_namespace n on n.oid = i.relnamespace
join pg_catalog.pg_class t on t.oid = x.indrelid
join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace
left join pg_catalog.pg_tablespace sp on sp.oid = i.reltablespace
where t.relkind in ('r', 'p', 'm') and t.relpersistence <> 't' and n.nspname = any(%s)
  and not exists (select from pg_catalog.pg_constraint k
                  where k.conindid = i.oid and k.contype in ('p', 'u', 'x'))
order by 2, 3
"""


class IndexKind:
    """Built and dropped beside the writers where the table exists and is not tiny."""

    name = "index"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (list(scope.schemas),)):
            yield ObjectId("index", (row[1], row[2])), _facts(row)

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step] | PlanRefusal:
        if "tablespace" in new:
            message = f"{oid}: indexes in a tablespace cannot be planned"
            return PlanRefusal("UnsupportedObject", message, oid)
        if oid in ctx.current.context.get("attached", {}):
            message = f"{oid}: the live index of this name belongs to the parent's; rename it first"
            return PlanRefusal("UnsupportedChange", message, oid)
        steps: list[Step] = []
        if new.get("unique") and _live(ctx, oid, new):
            steps += _duplicates(oid, new)
        steps.append(_build(ctx, oid, oid.name[1], new))
        return steps + _settings(oid, {}, new)

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return [_drop(ctx, oid, oid.name[1], old)]

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | Rebuild | PlanRefusal:
        if old.get("tablespace") != new.get("tablespace"):
            message = f"{oid}: the tablespace of an index cannot be planned"
            return PlanRefusal("UnsupportedChange", message, oid)
        same = all(old.get(f) == new.get(f) for f in ("unique", "table", "using", "invalid"))
        if same and _body(old) == _body(new):
            was, now = relation.named_options(old), relation.named_options(new)
            head = f"ALTER INDEX {qualified(oid.name)}"
            steps = relation.options(head, "AlterIndexOptions", oid, was, now)
            return steps + _settings(oid, old, new)
        table = _table(ctx, new)
        if old.get("invalid") or old["table"] != new["table"] or not relation.online(ctx, table):
            return Rebuild("the definition of an index changes", "warning")
        return _replace(ctx, oid, old, new)


def _facts(row: tuple[Any, ...]) -> dict[str, Any]:
    using, options, where = _split(row[6])
    facts: dict[str, Any] = {
        "@": ((PG_CLASS, row[0], 0),),
        "table": [row[3], row[4]],
        "using": using,
    }
    if options:
        facts["options"] = options
    if where:
        facts["where"] = where
    if row[7]:
        facts["unique"] = True
    if not row[8]:
        facts["invalid"] = True
    if row[5] == "p":
        facts["partitioned"] = True
    if row[9]:
        facts["clustered"] = True
    if row[10]:
        facts["replica_identity"] = True
    if row[11]:
        facts["tablespace"] = row[11]
    if row[12]:
        facts["@attached"] = True
    if row[13]:
        facts["statistics"] = row[13]
    return facts


def _split(definition: str) -> tuple[str, list[str], str]:
    """``USING …``, storage options and predicate of ``pg_get_indexdef``'s text."""
    place = 0
    using = -1
    cut_with = cut_where = len(definition)
    for place in _top_level(definition):
        if using < 0 and definition.startswith(" USING ", place):
            using = place + 1
        elif using >= 0 and definition.startswith(" WITH (", place):
            cut_with = min(cut_with, place)
        elif using >= 0 and definition.startswith(" WHERE ", place):
            cut_where = min(cut_where, place)
    head = definition[using : min(cut_with, cut_where)]
    options: list[str] = []
    if cut_with < len(definition):
        inner = definition[cut_with + len(" WITH (") : cut_where].strip().removesuffix(")")
        options = sorted(_option(part) for part in inner.split(", "))
    where = definition[cut_where + len(" WHERE ") :] if cut_where < len(definition) else ""
    return head, options, where


def _option(text: str) -> str:
    """As the catalog stores it: without the quotes that the deparser adds."""
    name, _, value = text.partition("=")
    if value.startswith("'"):
        value = value[1:-1].replace("''", "'")
    return f"{name}={value}"


def _top_level(text: str) -> Iterable[int]:
    """Places of spaces outside quotes and parentheses."""
    depth = 0
    quote = ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == " " and depth == 0:
            yield place


def _body(facts: Facts) -> tuple[Any, ...]:
    return facts["using"], facts.get("where")


def _table(ctx: Context, facts: Facts) -> ObjectId:
    table = ObjectId("table", tuple(facts["table"]))
    view = ObjectId("matview", table.name)
    if view in ctx.desired.objects or view in ctx.current.objects:
        return view
    return table


def _live(ctx: Context, oid: ObjectId, new: Facts) -> bool:
    """True where the keys can be read before the first statement."""
    table = _table(ctx, new)
    live = table in ctx.current.objects and table.kind == "table"
    return live and relation.all_live(ctx, oid)


_KEY_TAIL = re.compile(
    r"( COLLATE (\"[^\"]*\"|[\w.])+| ([\w\".]+_ops)(\([^)]*\))?| DESC| ASC| NULLS (FIRST|LAST))+\Z"
)


def _keys(using: str) -> list[str]:
    """Key expressions of ``USING method (…)``, without operator classes and order."""
    inner = using.partition("(")[2]
    keys: list[str] = []
    depth, start, quote = 0, 0, ""
    for place, char in enumerate(inner):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif depth == 0 and char in ",)":
            keys.append(_KEY_TAIL.sub("", inner[start:place].strip()))
            start = place + 1
            if char == ")":
                break
        elif char in ")]":
            depth -= 1
    return keys


def _duplicates(oid: ObjectId, new: Facts) -> list[Step]:
    """A query for rows that a unique index would refuse."""
    keys = _keys(new["using"])
    table = qualified(new["table"])
    conditions = [f"({new['where']})"] if "where" in new else []
    if "NULLS NOT DISTINCT" not in new["using"]:
        conditions += [f"{key} IS NOT NULL" for key in keys]
    where = " WHERE " + " AND ".join(conditions) if conditions else ""
    text = literal(f"{table} has rows that the unique index {oid.name[1]} would refuse")
    sql = (
        f"SELECT {text} FROM {table}{where} GROUP BY {', '.join(keys)} HAVING count(*) > 1 LIMIT 1"
    )
    return [Step(sql, "CheckData", oid, lock=relation.lock("AccessShareLock", new["table"]))]


def _build(ctx: Context, oid: ObjectId, name: str, new: Facts) -> Step:
    table = _table(ctx, new)
    online = relation.online(ctx, table)
    unique = "UNIQUE " if new.get("unique") else ""
    how = "CONCURRENTLY " if online else ""
    only = "ONLY " if new.get("partitioned") and new.get("invalid") else ""
    settings = ""
    if new.get("options"):
        settings = " WITH (" + ", ".join(relation.option(o) for o in new["options"]) + ")"
    where = f" WHERE {new['where']}" if "where" in new else ""
    sql = (
        f"CREATE {unique}INDEX {how}{ident(name)} ON {only}{qualified(table.name)}"
        f" {new['using']}{settings}{where}"
    )
    if online:
        lock = relation.lock("ShareUpdateExclusiveLock", table.name)
        return Step(sql, "CreateIndex", oid, lock=lock, transaction=False, lock_timeout_s=0)
    lock = "" if relation.is_new(ctx, table) else relation.lock("ShareLock", table.name)
    return Step(sql, "CreateIndex", oid, lock=lock)


def _drop(ctx: Context, oid: ObjectId, name: str, old: Facts) -> Step:
    table = _table(ctx, old)
    reason = "" if oid in ctx.rebuilt or old.get("invalid") else "queries may depend on the index"
    severity = "warning" if reason else "safe"
    index = qualified((oid.name[0], name))
    if relation.online(ctx, table) or (old.get("invalid") and not old.get("partitioned")):
        return Step(
            f"DROP INDEX CONCURRENTLY {index}",
            "DropIndex",
            oid,
            "warning" if severity == "warning" else "safe",
            relation.lock("ShareUpdateExclusiveLock", table.name),
            reason,
            transaction=False,
            lock_timeout_s=0,
        )
    lock = relation.lock("AccessExclusiveLock", table.name)
    if severity == "warning":
        return Step(f"DROP INDEX {index}", "DropIndex", oid, "warning", lock, reason)
    return Step(f"DROP INDEX {index}", "DropIndex", oid, lock=lock)


def _replace(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    """The new one is built first, so that queries are never without an index."""
    number = 0
    while True:
        name = clip(f"{oid.name[1]}_ptahk{number or ''}")
        if ObjectId("index", (oid.name[0], name)) not in ctx.current.objects:
            break
        number += 1
    index = qualified((oid.name[0], name))
    lock = relation.lock("AccessExclusiveLock", new["table"])
    rename = Step(
        f"ALTER INDEX {index} RENAME TO {ident(oid.name[1])}", "RenameIndex", oid, lock=lock
    )
    steps = _duplicates(oid, new) if new.get("unique") and _live(ctx, oid, new) else []
    dropped = _drop(ctx, oid, oid.name[1], old)
    steps += [_build(ctx, oid, name, new), replace(dropped, severity="safe", reason=""), rename]
    return steps + _settings(oid, {}, new)


def _settings(oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    steps = relation.index_flags(oid, qualified(new["table"]), oid.name[1], old, new)
    was = dict(map(tuple, old.get("statistics", ())))
    now = dict(map(tuple, new.get("statistics", ())))
    for number in sorted({*was, *now}):
        if was.get(number) != now.get(number):
            target = now.get(number, -1)
            sql = f"ALTER INDEX {qualified(oid.name)} ALTER COLUMN {number} SET STATISTICS {target}"
            steps.append(Step(sql, "SetStatistics", oid))
    return steps
