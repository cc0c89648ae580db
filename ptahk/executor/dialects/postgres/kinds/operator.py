"""Operators. Operator classes and families are not planned; see ``unsupported``."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident
from . import address, common

_LINKS = ("commutator", "negator")

_READ = (
    "SELECT o.oid::int8, n.nspname, o.oprname,"
    " coalesce(format_type(nullif(o.oprleft, 0), NULL), 'NONE'), format_type(o.oprright, NULL),"
    " json_build_object("
    "  'function', o.oprcode::regproc::text,"
    "  'commutator', (SELECT json_build_array(s.nspname, c.oprname) FROM pg_operator c"
    "    JOIN pg_namespace s ON s.oid = c.oprnamespace WHERE c.oid = o.oprcom"
    "     OR (o.oprcom = 0 AND c.oprcom = o.oid) LIMIT 1),"
    "  'negator', (SELECT json_build_array(s.nspname, c.oprname) FROM pg_operator c"
    "    JOIN pg_namespace s ON s.oid = c.oprnamespace WHERE c.oid = o.oprnegate"
    "     OR (o.oprnegate = 0 AND c.oprnegate = o.oid) LIMIT 1),"
    "  'restrict', nullif(o.oprrest::oid, 0)::regproc::text,"
    "  'join', nullif(o.oprjoin::oid, 0)::regproc::text,"
    "  'hashes', nullif(o.oprcanhash, false), 'merges', nullif(o.oprcanmerge, false))"
    " FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace"
    # A shell is only a promise that another operator made.
    " WHERE o.oprcode <> 0 AND n.nspname = ANY(%s)"
)


class OperatorKind:
    """An operator with its function, commutator, negator and planner hints.

    A link counts when either side records it: whether the other side does too depends only on
    the order in which the two were created.
    """

    name = "operator"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for oid, schema, name, left, right, raw in query(_READ, (list(scope.schemas),)):
            facts = {key: value for key, value in raw.items() if value is not None}
            facts["@"] = [(address.PG_OPERATOR, oid, 0)]
            yield ObjectId(self.name, (schema, name, left, right)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        schema, name, left, right = oid.name
        options = [f"FUNCTION = {new['function']}"]
        if left != "NONE":
            options.append(f"LEFTARG = {left}")
        options.append(f"RIGHTARG = {right}")
        for key in _LINKS:
            if key in new:
                other_schema, other = new[key]
                options.append(f"{key.upper()} = OPERATOR({ident(other_schema)}.{other})")
        options += [f"{key.upper()} = {new[key]}" for key in ("restrict", "join") if key in new]
        options += [key.upper() for key in ("hashes", "merges") if key in new]
        sql = f"CREATE OPERATOR {ident(schema)}.{name} ({', '.join(options)})"
        return [Step(sql, "CreateOperator", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "expressions with the operator fail")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        for key in ("function", "hashes", "merges"):
            if old.get(key) != new.get(key):
                return Rebuild(f"{oid} has another {key}")
        for key in _LINKS:
            if old.get(key) != new.get(key) and not _follows(ctx, oid, old.get(key), new.get(key)):
                return Rebuild(f"{oid} has another {key}")
        settings = [
            f"{key.upper()} = {new.get(key, 'NONE')}"
            for key in ("restrict", "join")
            if old.get(key) != new.get(key)
        ]
        if not settings:
            return []
        _, name = common.target(oid, new)
        sql = f"ALTER OPERATOR {name} SET ({', '.join(settings)})"
        reason = "queries with the operator may be planned differently"
        return [Step(sql, "AlterOperator", oid, "warning", "", reason)]


def _follows(ctx: Context, oid: ObjectId, old: list[str] | None, new: list[str] | None) -> bool:
    """Whether the server itself changes the link when the other operator comes or goes."""

    def known(objects: Iterable[ObjectId], link: list[str]) -> bool:
        return any(one.kind == oid.kind and list(one.name[:2]) == link for one in objects)

    gone = old is None or not known(ctx.desired.objects, old)
    comes = new is None or not known(ctx.current.objects, new)
    return gone and comes
