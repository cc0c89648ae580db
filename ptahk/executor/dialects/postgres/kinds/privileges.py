"""Default privileges. Grants on objects are facts of the objects; see ``acl`` and ``common``."""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import ident
from . import acl, address

_OBJECTS = {
    "r": "TABLES",
    "S": "SEQUENCES",
    "f": "FUNCTIONS",
    "T": "TYPES",
    "n": "SCHEMAS",
    "L": "LARGE OBJECTS",
}


class DefaultPrivilegesKind:
    """What a role's new objects get: one object per role, schema (or none) and object type.

    Without a schema the entry replaces the built-in default; with one it adds to it.
    """

    name = "default privileges"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT d.oid::int8, pg_get_userbyid(d.defaclrole), coalesce(n.nspname, ''),"
            " d.defaclobjtype::text, coalesce((SELECT json_agg(json_build_array("
            "   CASE x.grantee WHEN 0 THEN 'public' WHEN d.defaclrole THEN 'owner'"
            "    ELSE 'role' END,"
            "   CASE WHEN x.grantee IN (0, d.defaclrole) THEN ''"
            "    ELSE pg_get_userbyid(x.grantee) END, x.privilege_type, x.is_grantable))"
            "  FROM aclexplode(d.defaclacl) x), '[]')"
            " FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace"
            " WHERE n.nspname IS NULL OR n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, role, schema, object_type, grants in rows:
            facts = {"@": [(address.PG_DEFAULT_ACL, oid, 0)], "grants": sorted(grants)}
            yield ObjectId(self.name, (role, schema, object_type)), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        return _change(oid, _built_in(ctx, oid), acl.entries(new["grants"], {}))

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return _change(oid, acl.entries(old["grants"], {}), _built_in(ctx, oid))

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        return _change(oid, acl.entries(old["grants"], {}), acl.entries(new["grants"], {}))


def _built_in(ctx: Context, oid: ObjectId) -> acl.Grants:
    return {} if oid.name[1] else acl.by_type(oid.name[2], ctx.server_version)


def _change(oid: ObjectId, before: acl.Grants, after: acl.Grants) -> list[Step]:
    role, schema, object_type = oid.name
    prefix = f"ALTER DEFAULT PRIVILEGES FOR ROLE {ident(role)} "
    if schema:
        prefix += f"IN SCHEMA {ident(schema)} "
    target = acl.Target(oid, _OBJECTS[object_type], role, "", prefix)
    return acl.change(target, before, after)
