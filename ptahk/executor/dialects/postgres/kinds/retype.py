"""Types whose stored values survive a change that has no in-place form.

The old type is renamed out of the way, the new one created, every column converted, the old one
dropped. Values that the new type does not have are looked for before anything is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ....planning.model import Catalog, Context, Facts, ObjectId, PlanRefusal, Query, Step
from ..quote import clip, ident, literal, qualified
from . import common

TYPE_KINDS = frozenset({"enum", "domain", "composite", "range"})

_SUFFIX = "__ptahk_old"


def aside(oid: ObjectId, old: Facts, reason: str) -> tuple[Step, Step]:
    """The statement that renames the old type away, and the one that drops it at the end."""
    schema, name = oid.name
    retired = clip(name, 63 - len(_SUFFIX)) + _SUFFIX
    noun, _ = common.target(oid, old)
    sql = f"ALTER {noun} {qualified(oid.name)} RENAME TO {ident(retired)}"
    if oid.kind == "range":
        sql = _range_aside(oid, old, retired)
    rename = Step(sql, "SetTypeAside", oid, "warning", "", reason)
    drop = f"DROP {noun} {qualified((schema, retired))}"
    return rename, Step(drop, "DropOldType", oid, "warning", "", reason)


def _range_aside(oid: ObjectId, old: Facts, retired: str) -> str:
    """A range's multirange and constructors keep their names when it is renamed; rename all."""
    schema, name = oid.name
    multirange = str(old["multirange"])
    other = clip(multirange, 63 - len(_SUFFIX)) + _SUFFIX
    subtype = old["subtype"]
    statements = [
        f"ALTER FUNCTION {qualified(oid.name)}({arguments}) RENAME TO {ident(retired)};"
        for arguments in (f"{subtype}, {subtype}", f"{subtype}, {subtype}, text")
    ]
    own = qualified((schema, multirange))
    statements += [
        f"ALTER FUNCTION {own}({arguments}) RENAME TO {ident(other)};"
        for arguments in ("", qualified(oid.name), f"VARIADIC {qualified(oid.name)}[]")
    ]
    statements += [
        f"ALTER TYPE {own} RENAME TO {ident(other)};",
        f"ALTER TYPE {qualified((schema, name))} RENAME TO {ident(retired)};",
    ]
    return "DO " + literal("BEGIN " + " ".join(statements) + " END")


def using(ctx: Context, column: str, old_type: str, new_type: str) -> str:
    """The expression that turns a stored value of a set-aside type into the new one.

    :param column: the column as an SQL identifier.
    :param old_type: its type as the live side prints it, before anything is renamed.
    :param new_type: its type as the declared side prints it.

    Through text, which enums, domains and ranges share with their successors; a composite whose
    attributes changed is put together again, attribute by attribute.
    """
    oid = type_of(ctx.desired, new_type)
    if oid is None or oid.kind != "composite" or new_type.endswith("[]"):
        return f"{column}::text::{new_type}"
    before = ctx.current.objects.get(oid)
    after = ctx.desired.objects[oid]
    if before is None or before["attributes"] == after["attributes"]:
        return f"{column}::text::{new_type}"
    known = {name for name, _, _ in before["attributes"]}
    values = ", ".join(
        f"({column}).{ident(name)}::text::{kind}" if name in known else f"NULL::{kind}"
        for name, kind, _ in after["attributes"]
    )
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE ROW({values})::{new_type} END"


def type_of(catalog: Catalog, text: str) -> ObjectId | None:
    """The type object that ``format_type``'s text names, arrays of it included."""
    return _type_names(catalog).get(text.split("[")[0] if text.endswith("]") else text)


def _type_names(catalog: Catalog) -> dict[str, ObjectId]:
    names = {_format_type(oid.name): oid for oid in catalog.objects if oid.kind in TYPE_KINDS}
    for oid, facts in catalog.objects.items():
        if oid.kind == "range":
            names[_format_type((oid.name[0], facts["multirange"]))] = oid
    return names


def _format_type(name: Iterable[str]) -> str:
    return qualified(name)


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """A query for stored values that the declared type does not have; any row is a loss."""

    table: ObjectId
    column: str
    type: ObjectId
    sql: str


def value_checks(current: Catalog, desired: Catalog) -> Iterator[ValueCheck]:
    """One check per column that stays and whose enum loses labels."""
    lost = {
        oid: [label for label in facts["labels"] if label not in desired.objects[oid]["labels"]]
        for oid, facts in current.objects.items()
        if oid.kind == "enum" and oid in desired.objects
    }
    if not any(lost.values()):
        return
    names = _type_names(current)
    for oid, facts in sorted(current.objects.items()):
        if oid.kind != "column" or oid not in desired.objects:
            continue
        text = str(facts["type"])
        array = text.endswith("[]")
        enum = _enum_under(current, names, text.removesuffix("[]"))
        if enum is None or not lost.get(enum):
            continue
        labels = ", ".join(literal(label) for label in lost[enum])
        name = ident(oid.name[2])
        value, source = (
            ("v", f"{qualified(oid.name[:2])}, unnest({name}) v")
            if array
            else (name, qualified(oid.name[:2]))
        )
        sql = f"SELECT {value}::text FROM {source} WHERE {value}::text IN ({labels}) LIMIT 1"
        yield ValueCheck(ObjectId("table", oid.name[:2]), oid.name[2], enum, sql)


def _enum_under(current: Catalog, names: dict[str, ObjectId], text: str) -> ObjectId | None:
    oid = names.get(text)
    while oid is not None and oid.kind == "domain":
        oid = names.get(str(current.objects[oid]["type"]))
    return oid if oid is not None and oid.kind == "enum" else None


def refuse_lost_values(query: Query, current: Catalog, desired: Catalog) -> PlanRefusal | None:
    """Refuses a plan that would lose stored enum values; names table, column and value."""
    for check in value_checks(current, desired):
        rows = query(check.sql)
        if rows:
            where = ".".join((*check.table.name, check.column))
            message = (
                f"column {where} of {check.table} holds the value {rows[0][0]!r}, which the"
                f" declared {check.type} does not have: change those rows first"
            )
            return PlanRefusal("ValueNotInType", message, check.type)
    return None
