"""Aggregates, ordered-set and hypothetical-set ones among them."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import literal, qualified
from . import address, common

_MODIFY = {"r": "READ_ONLY", "s": "SHAREABLE", "w": "READ_WRITE"}
_PARALLEL = {"s": "SAFE", "r": "RESTRICTED", "u": "UNSAFE"}

_READ = (
    "SELECT p.oid::int8, n.nspname, p.proname, oidvectortypes(p.proargtypes),"
    " pg_get_function_identity_arguments(p.oid), pg_get_function_arguments(p.oid),"
    " pg_get_function_result(p.oid), a.aggkind::text, a.aggnumdirectargs::int,"
    " json_build_object("
    "  'SFUNC', a.aggtransfn::regproc::text, 'STYPE', format_type(a.aggtranstype, NULL),"
    "  'SSPACE', nullif(a.aggtransspace, 0)::text,"
    "  'FINALFUNC', nullif(a.aggfinalfn::oid, 0)::regproc::text,"
    "  'COMBINEFUNC', nullif(a.aggcombinefn::oid, 0)::regproc::text,"
    "  'SERIALFUNC', nullif(a.aggserialfn::oid, 0)::regproc::text,"
    "  'DESERIALFUNC', nullif(a.aggdeserialfn::oid, 0)::regproc::text,"
    "  'MSFUNC', nullif(a.aggmtransfn::oid, 0)::regproc::text,"
    "  'MINVFUNC', nullif(a.aggminvtransfn::oid, 0)::regproc::text,"
    "  'MSTYPE', format_type(nullif(a.aggmtranstype, 0), NULL),"
    "  'MSSPACE', nullif(a.aggmtransspace, 0)::text,"
    "  'MFINALFUNC', nullif(a.aggmfinalfn::oid, 0)::regproc::text,"
    "  'SORTOP', (SELECT 'OPERATOR(' || quote_ident(s.nspname) || '.' || o.oprname || ')'"
    "    FROM pg_operator o JOIN pg_namespace s ON s.oid = o.oprnamespace"
    "    WHERE o.oid = a.aggsortop)),"
    " a.agginitval, a.aggminitval, a.aggfinalextra, a.aggmfinalextra,"
    " a.aggfinalmodify::text, a.aggmfinalmodify::text, p.proparallel::text"
    " FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid"
    " JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = ANY(%s)"
)


class AggregateKind:
    """An aggregate with every option of CREATE AGGREGATE that differs from the default."""

    name = "aggregate"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (list(scope.schemas),)):
            oid, schema, name, types, identity, arguments, result, kind, direct, options = row[:10]
            facts = {
                "@": [(address.PG_PROC, oid, 0)],
                "identity": identity or "*",
                "arguments": arguments or "*",
                "result": result,
                "form": [kind, direct],
                "options": _options(options, kind, *row[10:]),
            }
            yield ObjectId(self.name, (schema, name, types)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        return [Step(_definition("CREATE", oid, new), "CreateAggregate", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "callers of the aggregate fail")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        for key in ("identity", "arguments", "result", "form"):
            if old[key] != new[key]:
                return Rebuild(f"{oid} takes or returns something else")
        sql = _definition("CREATE OR REPLACE", oid, new)
        reason = "callers get the new behaviour at once"
        return [Step(sql, "ReplaceAggregate", oid, "warning", "", reason)]


def _options(
    raw: dict[str, str | None],
    kind: str,
    initial: str | None,
    moving_initial: str | None,
    extra: bool,
    moving_extra: bool,
    modify: str,
    moving_modify: str,
    parallel: str,
) -> dict[str, str]:
    """Option → SQL text, in the order in which they are printed."""
    options = {key: value for key, value in raw.items() if value is not None}
    if initial is not None:
        options["INITCOND"] = literal(initial)
    if moving_initial is not None:
        options["MINITCOND"] = literal(moving_initial)
    if extra:
        options["FINALFUNC_EXTRA"] = ""
    if moving_extra:
        options["MFINALFUNC_EXTRA"] = ""
    usual = "r" if kind == "n" else "w"
    if modify != usual:
        options["FINALFUNC_MODIFY"] = _MODIFY[modify]
    if moving_modify != usual and "MSFUNC" in options:
        options["MFINALFUNC_MODIFY"] = _MODIFY[moving_modify]
    if parallel != "u":
        options["PARALLEL"] = _PARALLEL[parallel]
    if kind == "h":
        options["HYPOTHETICAL"] = ""
    return options


def _definition(verb: str, oid: ObjectId, new: Facts) -> str:
    options = ", ".join(
        f"{key} = {value}" if value else key for key, value in new["options"].items()
    )
    return f"{verb} AGGREGATE {qualified(oid.name[:2])}({new['arguments']}) ({options})"
