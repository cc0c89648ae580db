"""Types whose stored values survive a change that has no in-place form.

The old type is renamed out of the way, the new one created, every column converted, the old one
dropped.
"""

from __future__ import annotations

from ....planning.model import Catalog, Context, Facts, ObjectId, Step
from ..quote import clip, ident, literal, qualified
from . import common

TYPE_KINDS = frozenset({"enum", "domain", "composite", "range"})

_SUFFIX = "__ptahk_old"


def aside(oid: ObjectId, old: Facts, reason: str) -> tuple[Step, Step] | None:
    """The statement that renames the old type away, and the one that drops it at the end.

    None for what is not a type.
    """
    if oid.kind not in TYPE_KINDS:
        return None
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

    Through text, which a rebuilt type shares with its successor. A composite whose attributes
    changed is put together again, attribute by attribute; a domain over another base type is
    cast, since the text of the one need not be one of the other.
    """
    oid = find(ctx.desired, new_type)
    if oid is not None and old_type == new_type:
        if oid.kind == "composite" and not new_type.endswith("]"):
            row = _row(ctx, oid, column, new_type)
            if row:
                return row
        if oid.kind == "domain" and not _through(ctx, oid):
            return f"{column}::{new_type}"
    return f"{column}::text::{new_type}"


def _row(ctx: Context, oid: ObjectId, column: str, new_type: str) -> str:
    before = ctx.current.objects.get(oid)
    after = ctx.desired.objects[oid]
    if before is None or before["attributes"] == after["attributes"]:
        return ""
    known = {name for name, _, _ in before["attributes"]}
    values = ", ".join(
        f"({column}).{ident(name)}::text::{kind}" if name in known else f"NULL::{kind}"
        for name, kind, _ in after["attributes"]
    )
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE ROW({values})::{new_type} END"


def _through(ctx: Context, oid: ObjectId) -> bool:
    """True where a type of the database, no domain, lies under the domain on either side."""
    for catalog in (ctx.current, ctx.desired):
        under: ObjectId | None = oid
        while under is not None and under.kind == "domain" and under in catalog.objects:
            under = find(catalog, str(catalog.objects[under]["type"]))
        if under is not None:
            return True
    return False


def find(catalog: Catalog, text: str) -> ObjectId | None:
    """The type object that ``format_type``'s text names; of an array, its element's."""
    name = text.removesuffix("[]")
    for oid, facts in catalog.objects.items():
        if oid.kind not in TYPE_KINDS:
            continue
        if qualified(oid.name) == name:
            return oid
        if oid.kind == "range" and qualified((oid.name[0], facts["multirange"])) == name:
            return oid
    return None


def enum_under(catalog: Catalog, text: str) -> ObjectId | None:
    """The enum that a type is, or that its domains end in; arrays by their elements."""
    oid = find(catalog, text)
    while oid is not None and oid.kind == "domain":
        oid = find(catalog, str(catalog.objects[oid]["type"]))
    return oid if oid is not None and oid.kind == "enum" else None
