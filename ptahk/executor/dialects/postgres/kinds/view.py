"""Views and materialized views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, literal, qualified
from . import acl, address, common

# Everything of a column that the query of the view does not say.
_COLUMNS = (
    "(SELECT json_agg(json_build_object('name', a.attname,"
    "  'type', format_type(a.atttypid, a.atttypmod),"
    "  'collation', CASE WHEN a.attcollation <> y.typcollation THEN"
    "    (SELECT quote_ident(s.nspname) || '.' || quote_ident(l.collname)"
    "     FROM pg_collation l JOIN pg_namespace s ON s.oid = l.collnamespace"
    "     WHERE l.oid = a.attcollation) END,"
    "  'default', (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d"
    "    WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum),"
    "  'comment', col_description(a.attrelid, a.attnum),"
    "  'statistics', nullif(a.attstattarget, -1),"
    "  'storage', CASE WHEN a.attstorage <> y.typstorage THEN"
    "    a.attstorage::text || y.typstorage::text END,"
    "  'compression', nullif(a.attcompression, ''),"
    "  'options', a.attoptions,"
    "  'acl', (SELECT json_agg(json_build_array(CASE x.grantee WHEN 0 THEN 'public'"
    "     WHEN c.relowner THEN 'owner' ELSE 'role' END,"
    "     CASE WHEN x.grantee IN (0, c.relowner) THEN '' ELSE pg_get_userbyid(x.grantee) END,"
    "     x.privilege_type, x.is_grantable)) FROM aclexplode(a.attacl) x)) ORDER BY a.attnum)"
    " FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid"
    " WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"
)

_READ = (
    "SELECT c.oid::int8, n.nspname, c.relname, pg_get_viewdef(c.oid), c.reloptions,"
    f" {_COLUMNS}, ARRAY[c.reltype::int8, y.typarray::int8],"
    " ARRAY(SELECT r.oid::int8 FROM pg_rewrite r"
    "  WHERE r.ev_class = c.oid AND r.rulename = '_RETURN'),"
    " ARRAY(SELECT d.oid::int8 FROM pg_attrdef d WHERE d.adrelid = c.oid),"
    " c.relispopulated, m.amname"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_type y ON y.oid = c.reltype LEFT JOIN pg_am m ON m.oid = c.relam"
    " WHERE c.relkind = %s AND n.nspname = ANY(%s)"
)

_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}


def _read(
    query: Query, scope: Scope, kind: str, relkind: str
) -> Iterable[tuple[ObjectId, dict[str, Any], bool, str | None]]:
    for row in query(_READ, (relkind, list(scope.schemas))):
        oid, schema, name, definition, options, columns, types, rules, defaults = row[:9]
        facts: dict[str, Any] = {
            "@": [
                (address.PG_CLASS, oid, 0),
                *((address.PG_TYPE, one, 0) for one in types if one),
                *((address.PG_REWRITE, one, 0) for one in rules),
                *((address.PG_ATTRDEF, one, 0) for one in defaults),
            ],
            "definition": definition.strip().removesuffix(";"),
            "columns": [
                {key: value for key, value in column.items() if value is not None}
                for column in columns or []
            ],
        }
        for column in facts["columns"]:
            if "acl" in column:
                column["acl"] = sorted(column["acl"])
        if options:
            facts["options"] = sorted(options)
        yield ObjectId(kind, (schema, name)), facts, row[9], row[10]


class ViewKind:
    """A view: query, options, and what its columns have beside it."""

    name = "view"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for oid, facts, _, _ in _read(query, scope, self.name, "v"):
            yield oid, facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        step = Step(_definition("CREATE", oid, new), "CreateView", oid)
        return [step, *_columns(ctx, oid, "VIEW", None, new)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "readers of the view fail")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        before, after = _shape(old), _shape(new)
        if after[: len(before)] != before:
            return Rebuild(f"{oid} changes or loses columns, which CREATE OR REPLACE cannot do")
        name = qualified(oid.name)
        steps = []
        if old["definition"] != new["definition"]:
            lock = f"AccessExclusiveLock {name}"
            reason = "readers of the view get other rows or columns"
            sql = _definition("CREATE OR REPLACE", oid, new)
            steps.append(Step(sql, "ReplaceView", oid, "warning", lock, reason))
        elif old.get("options") != new.get("options"):
            steps += options(oid, "VIEW", old, new)
        return steps + _columns(ctx, oid, "VIEW", old, new)


class MaterializedViewKind:
    """A materialized view. Whether it is filled is data: told on create, never compared alone."""

    name = "matview"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for oid, facts, populated, method in _read(query, scope, self.name, "m"):
            facts["populated"] = populated
            if method is not None and method != "heap":
                facts["method"] = method
            yield oid, facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        using = f" USING {ident(new['method'])}" if "method" in new else ""
        data = "WITH DATA" if new["populated"] else "WITH NO DATA"
        sql = (
            f"CREATE MATERIALIZED VIEW {qualified(oid.name)}{using}{_with(new)} AS\n"
            f"{new['definition']}\n{data}"
        )
        step = Step(sql, "CreateMaterializedView", oid)
        return [step, *_columns(ctx, oid, "MATERIALIZED VIEW", None, new)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "readers of the view fail and its rows are lost")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        if old["definition"] != new["definition"] or _shape(old) != _shape(new):
            return Rebuild(f"{oid} has another query: it is filled again")
        if old.get("method") != new.get("method"):
            return Rebuild(f"{oid} has another access method: it is filled again")
        steps = []
        if old.get("options") != new.get("options"):
            steps += options(oid, "MATERIALIZED VIEW", old, new)
        return steps + _columns(ctx, oid, "MATERIALIZED VIEW", old, new)


def _definition(verb: str, oid: ObjectId, new: Facts) -> str:
    return f"{verb} VIEW {qualified(oid.name)}{_with(new)} AS\n{new['definition']}"


def _with(new: Facts) -> str:
    if "options" not in new:
        return ""
    return f" WITH ({', '.join(_setting(one) for one in new['options'])})"


def _setting(option: str) -> str:
    key, _, value = option.partition("=")
    return f"{'.'.join(ident(part) for part in key.split('.'))} = {literal(value)}"


def options(oid: ObjectId, noun: str, old: Facts, new: Facts) -> list[Step]:
    """SET and RESET of storage parameters."""
    before = dict(one.split("=", 1) for one in old.get("options", []))
    after = dict(one.split("=", 1) for one in new.get("options", []))
    head = f"ALTER {noun} {qualified(oid.name)}"
    lock = f"AccessExclusiveLock {qualified(oid.name)}"
    kind = "AlterViewOptions" if noun == "VIEW" else "AlterMaterializedViewOptions"
    reason = "what a reader or writer may see or do through the view can change"
    changed = [f"{key}={after[key]}" for key in sorted(after) if after[key] != before.get(key)]
    gone = sorted(set(before) - set(after))
    steps = []
    if changed:
        sql = f"{head} SET ({', '.join(_setting(one) for one in changed)})"
        steps.append(Step(sql, kind, oid, "warning", lock, reason))
    if gone:
        sql = f"{head} RESET ({', '.join(ident(key) for key in gone)})"
        steps.append(Step(sql, kind, oid, "warning", lock, reason))
    return steps


def _shape(facts: Facts) -> list[tuple[str, str, str | None]]:
    return [(one["name"], one["type"], one.get("collation")) for one in facts["columns"]]


def _columns(ctx: Context, oid: ObjectId, noun: str, old: Facts | None, new: Facts) -> list[Step]:
    """Defaults, comments, settings and grants of single columns."""
    before = {one["name"]: one for one in old["columns"]} if old is not None else {}
    owner = new.get("owner") or (old or {}).get("owner")
    steps = []
    for column in new["columns"]:
        was: Mapping[str, Any] = before.get(column["name"], {})
        name = ident(column["name"])
        head = f"ALTER {noun} {qualified(oid.name)} ALTER COLUMN {name}"
        steps += [
            Step(f"{head} {what}", "AlterViewColumn", oid, "safe", lock)
            for what, lock in _settings(oid, was, column)
        ]
        if was.get("comment") != column.get("comment"):
            text = literal(column["comment"]) if "comment" in column else "NULL"
            sql = f"COMMENT ON COLUMN {qualified((*oid.name, column['name']))} IS {text}"
            steps.append(Step(sql, "Comment", oid))
        where = acl.Target(
            oid, f"TABLE {qualified(oid.name)}", str(owner) if owner else None, f" ({name})"
        )
        steps += acl.change(
            where, acl.entries(was.get("acl"), {}), acl.entries(column.get("acl"), {})
        )
    return steps


def _settings(
    oid: ObjectId, was: Mapping[str, Any], column: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    lock = f"AccessExclusiveLock {qualified(oid.name)}"
    weak = f"ShareUpdateExclusiveLock {qualified(oid.name)}"
    if was.get("default") != column.get("default"):
        default = f"SET DEFAULT {column['default']}" if "default" in column else "DROP DEFAULT"
        yield default, lock
    if was.get("statistics") != column.get("statistics"):
        yield f"SET STATISTICS {column.get('statistics', -1)}", weak
    if was.get("storage") != column.get("storage"):
        # Two letters: what it is and what is usual for its type; 15 has no SET STORAGE DEFAULT.
        letter = column["storage"][0] if "storage" in column else was["storage"][1]
        yield f"SET STORAGE {_STORAGE[letter]}", lock
    if was.get("compression") != column.get("compression"):
        method = _COMPRESSION.get(column.get("compression", ""), "DEFAULT")
        yield f"SET COMPRESSION {method}", lock
    before = dict(one.split("=", 1) for one in was.get("options", []))
    after = dict(one.split("=", 1) for one in column.get("options", []))
    changed = [key for key in sorted(after) if after[key] != before.get(key)]
    if changed:
        settings = ", ".join(f"{ident(key)} = {literal(after[key])}" for key in changed)
        yield f"SET ({settings})", weak
    gone = sorted(set(before) - set(after))
    if gone:
        yield f"RESET ({', '.join(ident(key) for key in gone)})", weak
