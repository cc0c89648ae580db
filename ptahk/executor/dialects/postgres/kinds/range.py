"""Range types."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import (
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Query,
    Rebuild,
    Scope,
    Step,
)
from ..quote import qualified
from . import address, common, retype

_OPTIONS = (
    ("SUBTYPE", "subtype"),
    ("SUBTYPE_OPCLASS", "opclass"),
    ("COLLATION", "collation"),
    ("SUBTYPE_DIFF", "subtype_diff"),
)


class RangeKind:
    """A range type with its multirange. Nothing of it can be changed in place."""

    name = "range"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT t.oid::int8, n.nspname, t.typname, format_type(r.rngsubtype, NULL),"
            " CASE WHEN NOT o.opcdefault THEN"
            "  (SELECT quote_ident(s.nspname) FROM pg_namespace s WHERE s.oid = o.opcnamespace)"
            "  || '.' || quote_ident(o.opcname) END,"
            " CASE WHEN r.rngcollation <> b.typcollation THEN"
            "  (SELECT quote_ident(s.nspname) || '.' || quote_ident(c.collname)"
            "   FROM pg_collation c JOIN pg_namespace s ON s.oid = c.collnamespace"
            "   WHERE c.oid = r.rngcollation) END,"
            " nullif(r.rngcanonical::oid, 0)::regproc::text,"
            " nullif(r.rngsubdiff::oid, 0)::regproc::text,"
            " m.typname, ARRAY[t.typarray::int8, m.oid::int8, m.typarray::int8],"
            " ARRAY(SELECT d.objid::int8 FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass"
            "  AND d.refobjid IN (t.oid, m.oid) AND d.classid = 'pg_proc'::regclass"
            "  AND d.deptype = 'i')"
            " FROM pg_range r JOIN pg_type t ON t.oid = r.rngtypid"
            " JOIN pg_namespace n ON n.oid = t.typnamespace"
            " JOIN pg_type b ON b.oid = r.rngsubtype JOIN pg_opclass o ON o.oid = r.rngsubopc"
            " JOIN pg_type m ON m.oid = r.rngmultitypid WHERE n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, schema, name, subtype, *optional, multirange, types, functions in rows:
            facts: dict[str, object] = {
                "@": [
                    (address.PG_TYPE, oid, 0),
                    *((address.PG_TYPE, other, 0) for other in types),
                    *((address.PG_PROC, other, 0) for other in functions),
                ],
                "subtype": subtype,
                "multirange": multirange,
            }
            keys = ("opclass", "collation", "canonical", "subtype_diff")
            facts |= {
                key: value for key, value in zip(keys, optional, strict=True) if value is not None
            }
            yield ObjectId(self.name, (schema, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step] | PlanRefusal:
        if "canonical" in new:
            # Its function takes the type that does not exist yet: only a shell type would do.
            message = f"{oid} has a canonical function, which is not planned: create it by hand"
            return PlanRefusal("UnsupportedObject", message, oid)
        options = [f"{option} = {new[key]}" for option, key in _OPTIONS if key in new]
        options.append(f"MULTIRANGE_TYPE_NAME = {qualified((oid.name[0], new['multirange']))}")
        sql = f"CREATE TYPE {qualified(oid.name)} AS RANGE ({', '.join(options)})"
        return [Step(sql, "CreateRangeType", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "a type is dropped")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        reason = f"{oid} is another range: its columns are rewritten"
        return Rebuild(reason, "warning", retype.aside(oid, old, reason))
