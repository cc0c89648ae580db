"""Reads columns: the facts that ``column.py`` plans with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptahk.executor.dialects.postgres.kinds import identity
from ptahk.executor.dialects.postgres.kinds.address import PG_ATTRDEF, PG_CLASS
from ptahk.executor.dialects.postgres.quote import object_name
from ptahk.executor.planning.model import Facts, ObjectId, Query, Scope

# What few columns have is looked up for those alone; a join would look for all of them.
_READ = """
select c.oid::int8, a.attnum::int, n.nspname::text, c.relname::text, a.attname::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       case when a.attcollation <> t.typcollation and a.attcollation <> 0 then
         (select pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname)
            from pg_catalog.pg_collation co
            join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
            where co.oid = a.attcollation) end,
       a.attnotnull, a.attidentity::text, a.attgenerated::text,
       case when a.attgenerated <> '' then (select d.oid::int8 from pg_catalog.pg_attrdef d
         where d.adrelid = a.attrelid and d.adnum = a.attnum) end,
       case when a.attgenerated <> '' then
         (select pg_catalog.pg_get_expr(d.adbin, d.adrelid) from pg_catalog.pg_attrdef d
            where d.adrelid = a.attrelid and d.adnum = a.attnum) end,
       case when a.attstorage <> t.typstorage then a.attstorage::text end,
       a.attcompression::text, nullif(a.attstattarget, -1)::int, a.attoptions,
       a.attinhcount > 0, a.attislocal and not c.relispartition,
       coalesce(e.typtype, t.typtype)::text, t.typstorage::text
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_type t on t.oid = a.atttypid
left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A'
where c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname = any(%s)
  and a.attnum > 0 and not a.attisdropped
order by c.oid, a.attnum
"""
_NOT_NULL = """
select k.conrelid::int8, k.conkey[1]::int, k.conname::text, k.convalidated, k.connoinherit,
       k.coninhcount > 0
from pg_catalog.pg_constraint k
join pg_catalog.pg_namespace n on n.oid = k.connamespace
where k.contype = 'n' and k.conrelid <> 0 and n.nspname = any(%s)
"""
CATALOGED_NOT_NULL = 180000
"""From here on a not-null constraint has a name, and may be NOT VALID or NO INHERIT."""


def read(query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
    """Every column of the scope's tables, in three queries."""
    version = int(query("select current_setting('server_version_num')")[0][0])
    schemas = (list(scope.schemas),)
    # Joined here: the server would look each one up among all constraints of its table.
    not_nulls = (
        {(row[0], row[1]): row[2:] for row in query(_NOT_NULL, schemas)}
        if version >= CATALOGED_NOT_NULL
        else {}
    )
    sequences = identity.read(query, scope)
    for row in query(_READ, schemas):
        facts = _facts(row, sequences, not_nulls.get((row[0], row[1])))
        yield ObjectId("column", (row[2], row[3], row[4])), facts


def _facts(
    row: tuple[Any, ...],
    sequences: dict[tuple[int, int], dict[str, Any]],
    not_null: tuple[Any, ...] | None,
) -> Facts:
    addresses = [(PG_CLASS, row[0], row[1])]
    facts: dict[str, Any] = {"@": addresses, "type": row[5]}
    if row[6]:
        facts["collation"] = row[6]
    if row[7]:
        facts["not_null"] = True
        facts |= _not_null_facts(row, not_null)
    if not_null and not not_null[1]:
        facts["not_null_not_valid"] = True
    sequence = sequences.get((row[0], row[1])) if row[8] else None
    if sequence is not None:
        sequence = dict(sequence)
        addresses.append((PG_CLASS, sequence.pop("oid"), 0))
        facts["identity"] = {"always": row[8] == "a", **sequence}
    if row[9]:
        addresses.append((PG_ATTRDEF, row[10], 0))
        facts["generated"] = row[11]
        if row[9] == "v":
            facts["virtual"] = True
    if row[12]:
        facts["storage"] = row[12]
        facts["type_storage"] = row[19]
    if row[13]:
        facts["compression"] = row[13]
    if row[14] is not None:
        facts["statistics"] = row[14]
    if row[15]:
        facts["options"] = sorted(row[15])
    if row[16]:
        facts["inherited"] = True
        if row[17]:
            facts["@local"] = True
    if row[18] == "e":
        facts["enum"] = True
    return facts


def _not_null_facts(row: tuple[Any, ...], not_null: tuple[Any, ...] | None) -> dict[str, Any]:
    if not_null is None:
        return {}
    name, _, no_inherit, inherited = not_null
    if inherited:
        return {"not_null_inherited": True, "@not_null_name": name}
    facts: dict[str, Any] = {}
    # A name that the server would choose anyway says nothing.
    if name != object_name(row[3], row[4], "not_null"):
        facts["not_null_name"] = name
    if no_inherit:
        facts["not_null_no_inherit"] = True
    return facts
