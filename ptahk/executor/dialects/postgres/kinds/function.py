"""Functions, window functions and procedures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from . import address, common

_BODY_REASON = (
    "callers get the new behaviour at once; indexes and checks computed with the old one stay"
)

_READ = (
    "SELECT p.oid::int8, n.nspname, p.proname, oidvectortypes(p.proargtypes), p.prokind::text,"
    " pg_get_functiondef(p.oid), coalesce(pg_get_function_result(p.oid), ''),"
    " ARRAY(SELECT coalesce(p.proargmodes[i]::text, 'i') FROM generate_series(1, a.n) i),"
    " ARRAY(SELECT coalesce(p.proargnames[i], '') FROM generate_series(1, a.n) i),"
    " ARRAY(SELECT format_type(coalesce(p.proallargtypes[i], p.proargtypes[i - 1]), NULL)"
    "  FROM generate_series(1, a.n) i), p.pronargdefaults"
    " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
    " CROSS JOIN LATERAL"
    "  (SELECT coalesce(array_length(p.proallargtypes, 1), p.pronargs) AS n) a"
    " WHERE p.prokind = ANY(%s) AND n.nspname = ANY(%s)"
    # Constructors of range types belong to their type.
    " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass"
    "  AND d.objid = p.oid AND d.deptype = 'i')"
)


class FunctionKind:
    """A function or procedure: the server's own full definition and what OR REPLACE depends on.

    A changed body is ``warning``: no row is lost, but the planner cannot judge what callers,
    indexes and constraints make of another result.
    """

    def __init__(self, name: str, prokinds: Sequence[str]) -> None:
        self.name = name
        self._prokinds = list(prokinds)

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (self._prokinds, list(scope.schemas))):
            oid, schema, name, types, prokind, definition, result = row[:7]
            modes, names, all_types, defaults = row[7:]
            facts: dict[str, object] = {
                "@": [(address.PG_PROC, oid, 0)],
                "definition": definition.rstrip("\n"),
                "result": result,
                "arguments": [list(one) for one in zip(modes, names, all_types, strict=True)],
                "defaults": defaults,
            }
            if prokind == "w":
                facts["window"] = True
            yield ObjectId(self.name, (schema, name, types)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        sql = new["definition"].replace("CREATE OR REPLACE ", "CREATE ", 1)
        return [Step(sql, f"Create{self.name.capitalize()}", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, f"callers of the {self.name} fail")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        reason = _why_not_replaceable(old, new)
        if reason:
            return Rebuild(f"{oid} {reason}, which CREATE OR REPLACE cannot do")
        kind = f"Replace{self.name.capitalize()}"
        return [Step(new["definition"], kind, oid, "warning", "", _BODY_REASON)]


def _why_not_replaceable(old: Facts, new: Facts) -> str:
    """What the server's ``ProcedureCreate`` refuses to change; empty where it accepts."""
    if old["result"] != new["result"] or old.get("window") != new.get("window"):
        return "returns another type"
    before, after = old["arguments"], new["arguments"]
    if [(mode, kind) for mode, _, kind in before] != [(mode, kind) for mode, _, kind in after]:
        return "takes other arguments"
    for (mode, was, _), (_, name, _) in zip(before, after, strict=True):
        if was != name and (was or mode not in ("i", "v")):
            return "renames an argument"
    if new["defaults"] < old["defaults"]:
        return "loses a default"
    return ""


FUNCTION = FunctionKind("function", ("f", "w"))
PROCEDURE = FunctionKind("procedure", ("p",))
