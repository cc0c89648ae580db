"""Row-security policies. Whether a table enforces them is the table's own fact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident, qualified
from . import address

_COMMANDS = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE", "*": "ALL"}


class PolicyKind:
    """A policy: command, roles, USING and WITH CHECK. ``roles`` absent means PUBLIC."""

    name = "policy"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT p.oid::int8, n.nspname, c.relname, p.polname, p.polpermissive,"
            " p.polcmd::text, ARRAY(SELECT pg_get_userbyid(r)::text FROM unnest(p.polroles) r"
            "  WHERE r <> 0 ORDER BY 1),"
            " pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)"
            " FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, schema, table, name, permissive, command, roles, qual, check in rows:
            facts: dict[str, object] = {
                "@": [(address.PG_POLICY, oid, 0)],
                "command": _COMMANDS[command],
            }
            if not permissive:
                facts["restrictive"] = True
            if roles:
                facts["roles"] = list(roles)
            if qual is not None:
                facts["using"] = qual
            if check is not None:
                facts["check"] = check
            yield ObjectId(self.name, (schema, table, name)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        sql = f"CREATE POLICY {ident(oid.name[2])} ON {qualified(oid.name[:2])}"
        if "restrictive" in new:
            sql += " AS RESTRICTIVE"
        if new["command"] != "ALL":
            sql += f" FOR {new['command']}"
        if "roles" in new:
            sql += f" TO {_roles(new['roles'])}"
        sql += "".join(_clauses(new))
        return [_step(oid, sql, "CreatePolicy", "a policy decides who sees which rows")]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        sql = f"DROP POLICY {ident(oid.name[2])} ON {qualified(oid.name[:2])}"
        return [_step(oid, sql, "DropPolicy", "a policy no longer decides who sees which rows")]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        for key in ("command", "restrictive"):
            if old.get(key) != new.get(key):
                return Rebuild(f"{oid} has another form", "privilege")
        if any(key in old and key not in new for key in ("using", "check")):
            return Rebuild(f"{oid} loses a condition", "privilege")
        sql = f"ALTER POLICY {ident(oid.name[2])} ON {qualified(oid.name[:2])}"
        if old.get("roles") != new.get("roles"):
            sql += f" TO {_roles(new.get('roles', []))}"
        changed = {key: new[key] for key in ("using", "check") if old.get(key) != new.get(key)}
        sql += "".join(_clauses(changed))
        return [_step(oid, sql, "AlterPolicy", "a policy decides otherwise who sees which rows")]


def _step(oid: ObjectId, sql: str, kind: str, reason: str) -> Step:
    lock = f"AccessExclusiveLock {qualified(oid.name[:2])}"
    return Step(sql, kind, oid, "privilege", lock, reason)


def _roles(roles: Sequence[str]) -> str:
    return ", ".join(ident(role) for role in roles) or "PUBLIC"


def _clauses(facts: Facts) -> Iterable[str]:
    if "using" in facts:
        yield f" USING ({facts['using']})"
    if "check" in facts:
        yield f" WITH CHECK ({facts['check']})"
