"""Changes of a column's type: what must stand aside, how values are converted, what is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptahk.executor.dialects.postgres.kinds import lineage, relation, retype, values
from ptahk.executor.dialects.postgres.quote import ident, literal, qualified
from ptahk.executor.planning.model import (
    Alter,
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Severity,
    Step,
)

DISPLACED = frozenset(
    {
        "view",
        "matview",
        "rule",
        "trigger",
        "policy",
        "default",
        "foreign key",
        "function",
        "generated column",
    }
)
"""What the server refuses to carry over a change of a column's type, and defaults and foreign
keys, whose expression or operators belong to the old type."""

DISPLACED_CHANGED = frozenset({"index", "constraint"})

_MODIFIED = re.compile(r"(?P<base>[^(]+?)\s*\((?P<mods>[0-9, -]+)\)(?P<rest>.*)\Z")
_INTEGERS = {"smallint": 15, "integer": 31, "bigint": 63}
_TEXTS = ("character varying", "text", "character")
_EXACT = {
    ("smallint", "numeric"),
    ("integer", "numeric"),
    ("bigint", "numeric"),
    ("smallint", "real"),
    ("smallint", "double precision"),
    ("integer", "double precision"),
    ("real", "double precision"),
    ("date", "timestamp without time zone"),
    ("json", "jsonb"),
    ("inet", "text"),
    ("cidr", "inet"),
}
_FAMILIES = (
    {*_INTEGERS, "numeric", "real", "double precision", "money"},
    {"integer", "boolean"},
    {"date", "timestamp without time zone", "timestamp with time zone"},
    {"time without time zone", "time with time zone", "interval"},
    {"timestamp without time zone", "timestamp with time zone", "time without time zone"},
    {*_TEXTS, "name"},
    {"json", "jsonb"},
    {"inet", "cidr"},
    {"bit", "bit varying"},
)
_CALL = re.compile(r"[A-Za-z_0-9\"]\s*\(")
_STABLE_CALLS = re.compile(r"^(now|CURRENT_TIMESTAMP|CURRENT_DATE|transaction_timestamp)\b")


@dataclass(frozen=True, slots=True)
class Type:
    """A type as ``format_type`` prints it, taken apart."""

    base: str
    mods: tuple[int, ...]
    array: bool


def parse(text: str) -> Type:
    """Base, modifiers and whether it is an array; unknown types are their own base."""
    array = text.endswith("[]")
    plain = text[:-2] if array else text
    match = _MODIFIED.match(plain)
    if match is None:
        return Type(plain, (), array)
    mods = tuple(int(m) for m in match["mods"].split(","))
    return Type(match["base"] + match["rest"], mods, array)


def may_be_volatile(expression: str) -> bool:
    """True where a default may have to be computed row by row; wrong only on the safe side."""
    return bool(_CALL.search(expression)) and not _STABLE_CALLS.match(expression)


def change(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> Alter | PlanRefusal:
    """``ALTER COLUMN … TYPE`` where type or collation differ, or the type itself is rebuilt."""
    remade = _rebuilt_type(ctx, oid)
    same = old["type"] == new["type"] and old.get("collation") == new.get("collation")
    if same and remade is None:
        return Alter([])
    if _parent_changes(ctx, oid, old, new):
        return Alter([], DISPLACED, DISPLACED_CHANGED)
    key = ctx.current.objects[relation.table_of(oid)].get("partition_key", "")
    if re.search(rf"(?<![\w\"]){re.escape(ident(oid.name[2]))}(?![\w\"])", key):
        message = f"{oid} is a part of the partition key {key}: its type cannot be changed"
        return PlanRefusal("UnsupportedChange", message, oid)
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    severity, reason, check = _judge(ctx, oid, old, new, remade)
    using = _using(ctx, oid, old, new, remade)
    collate = f" COLLATE {new['collation']}" if "collation" in new else ""
    steps: list[Step] = []
    if check:
        lock = relation.lock("AccessShareLock", oid.name[:2])
        steps.append(Step(check, "CheckData", oid, lock=lock))
    steps.append(
        Step(
            f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {new['type']}{collate}{using}",
            "AlterColumnType",
            oid,
            severity,
            relation.lock("AccessExclusiveLock", oid.name[:2]),
            reason,
        )
    )
    return Alter(steps, DISPLACED, DISPLACED_CHANGED, "the type of a column changes")


def _rebuilt_type(ctx: Context, oid: ObjectId) -> ObjectId | None:
    for used in relation.uses(ctx.current, oid) if ctx.rebuilt else ():
        if used in ctx.rebuilt and used.kind in ("enum", "domain", "composite", "range"):
            return used
    return None


def _parent_changes(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> bool:
    """A change that reaches an inherited column through its parent's own statement."""
    for column in lineage.reaching(ctx, oid):
        was, now = ctx.current.objects.get(column), ctx.desired.objects.get(column)
        if was is not None and now is not None and now["type"] == new["type"]:
            return True
    return False


def _using(ctx: Context, oid: ObjectId, old: Facts, new: Facts, remade: ObjectId | None) -> str:
    """The conversion, where the server's own assignment is not certain to exist."""
    column = ident(oid.name[2])
    if remade is not None:
        return f" USING {retype.using(ctx, column, old['type'], new['type'])}"
    if old.get("enum") or new.get("enum"):
        return f" USING {_through_text(column, old['type'], new['type'])}"
    one, two = parse(old["type"]), parse(new["type"])
    if one.array == two.array and (one.base == two.base or _assignable(one.base, two.base)):
        return ""
    return f" USING {_cast(column, one, two, new['type'])}"


def _cast(column: str, one: Type, two: Type, target: str) -> str:
    """Directly within a family; else through text, which every type can be read from."""
    direct = one.array == two.array and any(
        one.base in family and two.base in family for family in _FAMILIES
    )
    if direct:
        return f"{column}::{target}"
    return f"{column}::{'text[]' if one.array and two.array else 'text'}::{target}"


def _through_text(column: str, old: str, new: str) -> str:
    through = "text[]" if old.endswith("[]") and new.endswith("[]") else "text"
    return f"{column}::{through}::{new}"


def _assignable(one: str, two: str) -> bool:
    numbers = (*_INTEGERS, "numeric", "real", "double precision")
    return (
        (one in numbers and two in numbers)
        or (one in _TEXTS and two in _TEXTS)
        or (one, two) in _EXACT
    )


def _judge(
    ctx: Context, oid: ObjectId, old: Facts, new: Facts, remade: ObjectId | None
) -> tuple[Severity, str, str]:
    """Severity, its reason, and a query for values that the new type cannot hold."""
    rewrite = f"{old['type']} to {new['type']}: the table is rewritten"
    if new.get("enum") or (remade and retype.enum_under(ctx.desired, new["type"])):
        check = _enum_check(ctx, oid, old, new)
        return "warning", f"{rewrite}; values are converted through text", check
    if old["type"] == new["type"]:
        return "warning", rewrite if remade else "indexes on the column are rebuilt", ""
    one, two = parse(old["type"]), parse(new["type"])
    if one.array != two.array:
        live = _is_live(ctx, oid)
        check = _cast_check(oid, one, two, new) if live else _no_values(ctx, oid, new)
        return "destructive", f"{rewrite}; values may not convert", check
    if two.base == "text" and not one.array:
        quiet = one.base in ("character varying", "text")
        return ("safe", "", "") if quiet else ("warning", rewrite, "")
    if one.base in _INTEGERS and two.base in _INTEGERS:
        if _INTEGERS[one.base] < _INTEGERS[two.base]:
            return "warning", rewrite, ""
        limit = 2 ** _INTEGERS[two.base]
        where = f"{ident(oid.name[2])} NOT BETWEEN {-limit} AND {limit - 1}"
        return "destructive", f"{rewrite}; narrower", _value_check(oid, where, new)
    if one.base in _TEXTS and two.base in _TEXTS:
        return _judge_text(oid, one, two, new)
    if one.base == two.base and _wider(one, two):
        return "safe", "", ""
    if (one.base, two.base) in _EXACT and not two.mods:
        return "warning", rewrite, ""
    reason = f"{rewrite}; values may change or not convert"
    if not _is_live(ctx, oid):
        return "destructive", reason, _no_values(ctx, oid, new)
    return "destructive", reason, _cast_check(oid, one, two, new)


def _judge_text(oid: ObjectId, one: Type, two: Type, new: Facts) -> tuple[Severity, str, str]:
    if one.base == two.base == "character varying" and (
        not two.mods or (one.mods and one.mods <= two.mods)
    ):
        return "safe", "", ""
    rewrite = "the table is read or rewritten"
    if two.base == "character varying" and not two.mods:
        return "warning", rewrite, ""
    size = two.mods[0] if two.mods else 1
    where = f"length(rtrim({ident(oid.name[2])}::text)) > {size}"
    check = _value_check(oid, where, new)
    if one.mods and one.mods[0] <= size and one.base == two.base:
        return "warning", rewrite, ""
    return "destructive", f"{one.base} to {new['type']}: narrower", check


def _wider(one: Type, two: Type) -> bool:
    """The same base, and every value of the one is a value of the other without a rewrite."""
    if not two.mods:
        return one.base != "bit" and not (one.base.startswith("interval") and one.mods)
    if not one.mods:
        return False
    if one.base == "numeric":
        scales = [*one.mods, 0][1], [*two.mods, 0][1]
        return scales[0] == scales[1] and one.mods[0] <= two.mods[0]
    if one.base == "bit":
        return one.mods == two.mods
    return one.mods <= two.mods


def _value_check(oid: ObjectId, where: str, new: Facts) -> str:
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    text = _message(oid, f"does not fit {new['type']}")
    return f"SELECT pg_catalog.format({text}, {column}::text) FROM {table} WHERE {where} LIMIT 1"


def _message(oid: ObjectId, why: str) -> str:
    """A literal for ``format``, with one place for the value; names may hold a percent sign."""
    name, why = (text.replace("%", "%%") for text in (qualified(oid.name), why))
    return literal(f"column {name} holds %L, which {why}")


def _is_live(ctx: Context, oid: ObjectId) -> bool:
    """True where the declared type exists already, and means the same."""
    return all(
        ctx.current.objects.get(used) == ctx.desired.objects.get(used)
        for used in relation.uses(ctx.desired, oid)
        if used.kind in ("enum", "domain", "composite", "range")
    )


def _no_values(ctx: Context, oid: ObjectId, new: Facts) -> str:
    """A type that the plan is yet to make cannot be tried on the values that are there.

    Of a domain, what it is made of can.
    """
    made_of = values.converts_to_domain(ctx, oid, new["type"])
    if made_of is not None:
        return made_of
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    text = _message(oid, f"does not convert to {new['type']}")
    return (
        f"SELECT pg_catalog.format({text}, {column}::text) FROM {table}"
        f" WHERE {column} IS NOT NULL LIMIT 1"
    )


def _cast_check(oid: ObjectId, one: Type, two: Type, new: Facts) -> str:
    """Evaluating the cast raises the server's own data error, which names the value."""
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    message = literal(f"column {qualified(oid.name)} holds a value that is not {new['type']}")
    cast = _cast(column, one, two, new["type"])
    where = f"{column} IS NOT NULL AND ({cast})::text IS NULL"
    return f"SELECT {message} FROM {table} WHERE {where} LIMIT 1"


def _enum_check(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> str:
    labels = _labels(ctx, oid)
    if labels is None:
        return ""
    if old["type"].endswith("[]") != new["type"].endswith("[]"):
        if not _is_live(ctx, oid):
            return _no_values(ctx, oid, new)
        return _cast_check(oid, parse(old["type"]), parse(new["type"]), new)
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    among = ", ".join(literal(label) for label in labels)
    text = _message(oid, f"{new['type']} does not have")
    if new["type"].endswith("[]"):
        return (
            f"SELECT pg_catalog.format({text}, v) FROM {table},"
            f" pg_catalog.unnest({column}::text[]) v WHERE v <> ALL (ARRAY[{among}]::text[])"
            " LIMIT 1"
        )
    return (
        f"SELECT pg_catalog.format({text}, {column}::text) FROM {table}"
        f" WHERE {column}::text <> ALL (ARRAY[{among}]::text[]) LIMIT 1"
    )


def _labels(ctx: Context, oid: ObjectId) -> list[str] | None:
    """The values of the enum that the column is to have, under its domains too."""
    enum = retype.enum_under(ctx.desired, ctx.desired.objects[oid]["type"])
    return None if enum is None else list(ctx.desired.objects[enum]["labels"])
