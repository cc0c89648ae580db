"""Composite types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, literal, qualified
from . import address, common, retype


class CompositeKind:
    """A composite type: its attributes in order, with collations and comments."""

    name = "composite"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT t.oid::int8, t.typarray::int8, c.oid::int8, n.nspname, t.typname,"
            " (SELECT json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod),"
            "   CASE WHEN a.attcollation <> y.typcollation THEN"
            "    (SELECT quote_ident(cn.nspname) || '.' || quote_ident(l.collname)"
            "     FROM pg_collation l JOIN pg_namespace cn ON cn.oid = l.collnamespace"
            "     WHERE l.oid = a.attcollation) END) ORDER BY a.attnum)"
            "  FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid"
            "  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),"
            " (SELECT json_object_agg(a.attname, d.description)"
            "  FROM pg_description d JOIN pg_attribute a"
            "   ON a.attrelid = d.objoid AND a.attnum = d.objsubid"
            "  WHERE d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid > 0)"
            " FROM pg_class c JOIN pg_type t ON t.oid = c.reltype"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'c' AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, array, relation, schema, name, attributes, comments in rows:
            facts: dict[str, object] = {
                "@": [
                    (address.PG_TYPE, oid, 0),
                    (address.PG_TYPE, array, 0),
                    (address.PG_CLASS, relation, 0),
                ],
                "attributes": attributes or [],
            }
            if comments:
                facts["attribute_comments"] = comments
            yield ObjectId(self.name, (schema, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        attributes = ", ".join(_attribute(row) for row in new["attributes"])
        sql = f"CREATE TYPE {qualified(oid.name)} AS ({attributes})"
        step = Step(sql, "CreateCompositeType", oid)
        return [step, *_comments(oid, {}, new.get("attribute_comments", {}))]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "a type is dropped")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        before = {row[0]: row for row in old["attributes"]}
        after = {row[0]: row for row in new["attributes"]}
        kept = [row[0] for row in old["attributes"] if row[0] in after]
        # In place only where nothing else reads the attributes: a view or function that does
        # would stop the statement, and so does a column where an attribute's type changes.
        simple = [row[0] for row in new["attributes"]][: len(kept)] == kept
        changed = any(before[name] != after[name] for name in kept)
        gone = [name for name in before if name not in after]
        users = {one.kind for one, other in ctx.current.depends if other == oid}
        if not simple or (changed and users) or (gone and users - {"column"}):
            reason = f"{oid} changes its attributes: its columns are rewritten"
            severity = "destructive" if gone else "warning"
            around = retype.aside(oid, old, reason)
            return Rebuild(reason, severity, around)  # type: ignore[arg-type]
        comments = {
            name: text for name, text in old.get("attribute_comments", {}).items() if name in after
        }
        steps = _attributes(oid, before, new["attributes"], gone)
        return steps + _comments(oid, comments, new.get("attribute_comments", {}))


def _attribute(row: Sequence[str | None]) -> str:
    name, kind, collation = row
    suffix = f" COLLATE {collation}" if collation is not None else ""
    return f"{ident(str(name))} {kind}{suffix}"


def _attributes(
    oid: ObjectId,
    before: dict[str, list[str | None]],
    after: Sequence[list[str | None]],
    gone: Sequence[str],
) -> list[Step]:
    head = f"ALTER TYPE {qualified(oid.name)}"
    steps = [
        Step(
            f"{head} DROP ATTRIBUTE {ident(name)}",
            "DropAttribute",
            oid,
            "destructive",
            "",
            f"the attribute {name} of every stored value is lost",
        )
        for name in gone
    ]
    for row in after:
        name = str(row[0])
        if name not in before:
            steps.append(Step(f"{head} ADD ATTRIBUTE {_attribute(row)}", "AddAttribute", oid))
        elif row != before[name]:
            collation = f" COLLATE {row[2]}" if row[2] is not None else ""
            sql = f"{head} ALTER ATTRIBUTE {ident(name)} TYPE {row[1]}{collation}"
            reason = f"the attribute {name} gets another type"
            steps.append(Step(sql, "AlterAttributeType", oid, "warning", "", reason))
    return steps


def _comments(oid: ObjectId, before: dict[str, str], after: dict[str, str]) -> list[Step]:
    steps = []
    for name in sorted({**before, **after}):
        if before.get(name) == after.get(name):
            continue
        text = literal(after[name]) if name in after else "NULL"
        sql = f"COMMENT ON COLUMN {qualified((*oid.name, name))} IS {text}"
        steps.append(Step(sql, "Comment", oid))
    return steps
