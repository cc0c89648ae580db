"""Reads everything of one database within a scope: one set of queries for live and scratch.

Every kind reads with a query or two of its own. Dependencies, comments, owners, privileges and
extension membership are read here once for all of them, and joined by address in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds import KINDS
from ptahk.executor.dialects.postgres.kinds.address import (
    PG_ATTRDEF,
    PG_CONSTRAINT,
    PG_POLICY,
    PG_PROC,
    PG_REWRITE,
    PG_TRIGGER,
)
from ptahk.executor.planning.model import Address, Catalog, ObjectId, Query, Scope
from ptahk.wire.digest import state_fingerprint

LEDGER_SCHEMA = "ptahk"
"""The attempt ledger's schema, excluded from everything (C-6.11)."""

# Copies of constraints and triggers on partitions are in scope and have no address.
_STRANGERS = """
select pg_catalog.pg_describe_object(x.c::oid, x.o::oid, 0), x.n::int
from rows from (pg_catalog.unnest(%s::int8[]), pg_catalog.unnest(%s::int8[]))
  with ordinality x(c, o, n)
where coalesce(
    (select k.connamespace from pg_catalog.pg_constraint k where x.c = 2606 and k.oid = x.o),
    (select p.pronamespace from pg_catalog.pg_proc p where x.c = 1255 and p.oid = x.o),
    (select c.relnamespace from pg_catalog.pg_class c where c.oid = coalesce(
      (select r.ev_class from pg_catalog.pg_rewrite r where x.c = 2618 and r.oid = x.o),
      (select d.adrelid from pg_catalog.pg_attrdef d where x.c = 2604 and d.oid = x.o),
      (select t.tgrelid from pg_catalog.pg_trigger t where x.c = 2620 and t.oid = x.o),
      (select p.polrelid from pg_catalog.pg_policy p where x.c = 3256 and p.oid = x.o))))
  not in (select oid from pg_catalog.pg_namespace where nspname = any(%s))
order by x.n
"""

OUTSIDE_MAX = 1000
"""Dependents out of the scope that are looked up; one is enough to refuse."""

_OUTSIDE = frozenset({PG_REWRITE, PG_CONSTRAINT, PG_PROC, PG_ATTRDEF, PG_TRIGGER, PG_POLICY})
"""What depends by being used; relations follow through their rules and constraints."""

_SERVER = """
select current_setting('server_version_num')::int, current_user::text,
       current_setting('max_locks_per_transaction')::int
         * (current_setting('max_connections')::int
            + current_setting('max_prepared_transactions')::int)
"""

_DEPENDS = """
select d.classid::int8, d.objid::int8, d.objsubid, d.refclassid::int8, d.refobjid::int8,
       d.refobjsubid, d.deptype::text
from pg_catalog.pg_depend d
where d.objid >= 16384 and (d.refobjid >= 16384 or d.refclassid = 2615)
  and not (d.classid = 1247 and d.refclassid in (1247, 1259) and d.deptype = 'i')
  and not (d.classid = 2620 and d.deptype in ('i', 'P', 'S'))
"""

_COMMENTS = """
select classoid::int8, objoid::int8, objsubid, description from pg_catalog.pg_description
where objoid >= 16384 or classoid = 2615
"""

_OWNED = """
with owned(class, id, sub, nsp, kind, owner, acl) as (
  select 1259, oid, 0, relnamespace, case relkind when 'S' then 's' else 'r' end, relowner, relacl
    from pg_catalog.pg_class where relkind in ('r', 'p', 'v', 'm', 'S', 'f')
  union all
  select 1259, c.oid, a.attnum, c.relnamespace, 'c', c.relowner, a.attacl
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
    where a.attacl is not null and a.attnum > 0 and not a.attisdropped
  union all
  select 2615, oid, 0, oid, 'n', nspowner, nspacl from pg_catalog.pg_namespace
  union all
  select 1255, oid, 0, pronamespace, 'f', proowner, proacl from pg_catalog.pg_proc
  union all
  select 1247, t.oid, 0, t.typnamespace, 'T', t.typowner, t.typacl from pg_catalog.pg_type t
    where t.typtype in ('b', 'd', 'e', 'r', 'm', 'c') and t.typelem = 0
      and (t.typrelid = 0 or exists (select from pg_catalog.pg_class c
                                     where c.oid = t.typrelid and c.relkind = 'c'))
  union all
  select 2617, oid, 0, oprnamespace, '', oprowner, null from pg_catalog.pg_operator
  union all
  select 3456, oid, 0, collnamespace, '', collowner, null from pg_catalog.pg_collation
  union all
  select 3381, oid, 0, stxnamespace, '', stxowner, null from pg_catalog.pg_statistic_ext
)
select o.class::int8, o.id::int8, o.sub, case when o.kind = 'c' then null
         else pg_catalog.pg_get_userbyid(o.owner)::text end,
       (select pg_catalog.json_agg(pg_catalog.json_build_array(
                 case when x.grantee = 0 then 'public' when x.grantee = o.owner then 'owner'
                      else 'role' end,
                 case when x.grantee in (0, o.owner) then ''
                      else pg_catalog.pg_get_userbyid(x.grantee)::text end,
                 x.privilege_type, x.is_grantable))
          from pg_catalog.aclexplode(o.acl) x where o.acl is not null)
       , o.acl is null,
       (select pg_catalog.json_agg(pg_catalog.json_build_array(
                 case when x.grantee = 0 then 'public' else 'owner' end, '',
                 x.privilege_type, x.is_grantable))
          from pg_catalog.aclexplode(pg_catalog.acldefault(o.kind::"char", o.owner)) x
          where o.acl is not null)
from owned o join pg_catalog.pg_namespace n on n.oid = o.nsp
where n.nspname = any(%s)
"""

_SCHEMAS = """
select n.nspname::text from pg_catalog.pg_namespace n
where n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'ptahk')
  and (n.nspname <> 'public' or exists (
         select from pg_catalog.pg_depend d
         where d.refclassid = 2615 and d.refobjid = n.oid and d.deptype = 'n'))
  and not exists (select from pg_catalog.pg_depend d
                  where d.classid = 2615 and d.objid = n.oid and d.deptype = 'e')
order by 1
"""


# Asked apart: the server opens files to know them, and they matter only where something differs.
_SIZES = """
select n.nspname::text, c.relname::text, pg_catalog.pg_relation_size(c.oid)
       + case when c.reltoastrelid = 0 then 0
              else pg_catalog.pg_relation_size(c.reltoastrelid) end
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relpersistence <> 't' and n.nspname = any(%s)
"""


def read_sizes(query: Query, scope: Scope) -> dict[ObjectId, int]:
    """Bytes of each table with its TOAST table, indexes left out. A table that is dropped
    meanwhile has none."""
    rows = query(_SIZES, (list(scope.schemas),))
    return {ObjectId("table", (row[0], row[1])): row[2] for row in rows if row[2] is not None}


def scope_of(query: Query) -> tuple[str, ...]:
    """The schemas that hold user objects: of a scratch, what the declaration put there (C-10.6)."""
    return tuple(row[0] for row in query(_SCHEMAS))


def read_catalog(query: Query, scope: Scope) -> Catalog:
    """Everything within ``scope``, ledger, extension members and excluded objects left out.

    :param query: runs on one session with ``search_path = ''``, best in one repeatable-read
        snapshot.
    """
    scope = Scope(tuple(s for s in scope.schemas if s != LEDGER_SCHEMA), scope.exclude)
    objects: dict[ObjectId, dict[str, Any]] = {}
    addresses: dict[Address, ObjectId] = {}
    primary: dict[Address, ObjectId] = {}
    attached: dict[ObjectId, dict[str, Any]] = {}
    not_null_names: dict[str, str] = {}
    local: list[str] = []
    version, user, lock_capacity = query(_SERVER)[0]
    for kind in KINDS:
        for oid, read in kind.read(query, scope):
            facts = dict(read)
            where = facts.pop("@", ())
            if facts.pop("@local", False):
                local.append(str(oid))
            if "@not_null_name" in facts:
                not_null_names[str(oid)] = facts.pop("@not_null_name")
            if facts.pop("@attached", False):
                attached[oid] = facts
                continue
            objects[oid] = facts
            for address in where:
                addresses[address] = oid
            if where:
                primary[where[0]] = oid
    depends, members, outside = _depends(query, scope, addresses)
    _attributes(query, scope, objects, primary)
    left_out = _left_out(objects, members, scope)
    for one, other in depends:
        if one in left_out and one not in members and other not in left_out:
            outside.setdefault(str(other), []).append(f"{one} (excluded)")
    if left_out:
        objects = {oid: facts for oid, facts in objects.items() if oid not in left_out}
    depends.update(shape.implied_dependencies(objects))
    depends.update(list(shape.through_parents(depends, objects)))
    return Catalog(
        objects=objects,
        depends=frozenset((a, b) for a, b in depends if a in objects and b in objects),
        context={
            "server_version": version,
            "user": user,
            "lock_capacity": lock_capacity,
            # What a partition has through its parent, and keeps when it is detached.
            "attached": attached,
            "outside": outside,
            "not_null_names": not_null_names,
            # Inherited columns and checks that would stay without their parent's.
            "local": local,
        },
    )


def _depends(
    query: Query, scope: Scope, addresses: Mapping[Address, ObjectId]
) -> tuple[set[tuple[ObjectId, ObjectId]], set[ObjectId], dict[str, list[str]]]:
    """Edges between known objects, extension members, and users that are out of the scope."""
    depends: set[tuple[ObjectId, ObjectId]] = set()
    members: set[ObjectId] = set()
    strangers: list[tuple[int, ...]] = []
    find = addresses.get
    for classid, objid, sub, refclass, refobj, refsub, deptype in query(_DEPENDS):
        one = find((classid, objid, sub)) or (find((classid, objid, 0)) if sub else None)
        if one is None:
            if deptype == "n" and classid in _OUTSIDE:
                strangers.append((classid, objid, refclass, refobj, refsub))
            continue
        if deptype == "e":
            members.add(one)
            continue
        other = find((refclass, refobj, refsub)) or (
            find((refclass, refobj, 0)) if refsub else None
        )
        if other is None or other == one:
            continue
        if deptype in "ai" and one.kind == "sequence" and other.kind == "column":
            continue  # ownership is a node of its own, so that default and sequence make no circle
        depends.add((one, other))
    return depends, members, _outside(query, scope, addresses, strangers)


def _outside(
    query: Query,
    scope: Scope,
    addresses: Mapping[Address, ObjectId],
    strangers: list[tuple[int, ...]],
) -> dict[str, list[str]]:
    """By object, what uses it and is out of the scope, as the server describes it."""
    used: dict[str, list[str]] = {}
    known: list[tuple[int, int, ObjectId]] = []
    for classid, objid, refclass, refobj, refsub in strangers[:OUTSIDE_MAX]:
        oid = addresses.get((refclass, refobj, refsub)) or addresses.get((refclass, refobj, 0))
        if oid is not None and oid.kind not in ("schema", "extension"):
            known.append((classid, objid, oid))
    if not known:
        return used
    classes, ids = [each[0] for each in known], [each[1] for each in known]
    for text, place in query(_STRANGERS, (classes, ids, list(scope.schemas))):
        used.setdefault(str(known[place - 1][2]), []).append(text)
    return used


def _attributes(
    query: Query,
    scope: Scope,
    objects: Mapping[ObjectId, dict[str, Any]],
    primary: Mapping[Address, ObjectId],
) -> None:
    for classid, objid, sub, text in query(_COMMENTS):
        oid = primary.get((classid, objid, sub))
        if oid is not None:
            objects[oid]["comment"] = text
    rows = query(_OWNED, (list(scope.schemas),))
    for classid, objid, sub, owner, acl, is_default, default in rows:
        oid = primary.get((classid, objid, sub))
        if oid is None:
            continue
        if owner is not None:
            objects[oid]["owner"] = owner
        if not is_default:
            entries = _entries(acl)
            if entries != _entries(default):
                objects[oid]["acl"] = entries


def _entries(acl: Iterable[list[Any]] | None) -> list[list[Any]]:
    """Sorted, and one entry a privilege: the same one from two grantors says no more than one."""
    strongest: dict[tuple[str, str, str], bool] = {}
    for who, role, privilege, grantable in acl or ():
        key = (who, role, privilege)
        strongest[key] = strongest.get(key, False) or bool(grantable)
    return [[*key, grantable] for key, grantable in sorted(strongest.items())]


def _left_out(
    objects: Mapping[ObjectId, Mapping[str, Any]], members: set[ObjectId], scope: Scope
) -> set[ObjectId]:
    """Extension members and excluded objects, each with everything that is a part of it."""
    gone = {oid for oid in members if oid in objects}
    matches = _matcher(scope.exclude)
    if not gone and not scope.exclude:
        return gone
    for oid, facts in objects.items():
        whole: ObjectId | None = oid
        while whole is not None and whole not in gone and not matches(whole):
            whole = shape.parent(whole, objects.get(whole, facts), objects)
        if whole is not None:
            gone.add(oid)
    return gone


def _matcher(globs: tuple[str, ...]) -> Callable[[ObjectId], bool]:
    def matches(oid: ObjectId) -> bool:
        if len(oid.name) < 2:
            return False
        name = f"{oid.name[0]}.{oid.name[1]}"
        return any(fnmatchcase(name, glob) for glob in globs)

    return matches


def fingerprint(catalog: Catalog) -> str:
    """Canonical digest of the objects; dependencies, sizes and context have no part in it."""
    known = catalog.digests.get("objects")
    if known is not None:
        return known
    objects = catalog.objects
    rows = [[*oid, objects[oid]] for oid in sorted(objects)]
    # Hashed as one text: checking and writing it value by value costs more than reading it.
    made = state_fingerprint(json.dumps(rows, sort_keys=True, separators=(",", ":")))
    catalog.digests["objects"] = made
    return made
