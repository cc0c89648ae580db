"""Whose the attempt ledger is, and whether it is one (C-6.11, C-6.16).

Whoever owns a table may put code on it that runs as whoever writes it. So a ledger is looked at
through the system catalogs alone before any row of it is read or written, and one that belongs
to a stranger, or that is more or less than plain tables, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres.session import Session
from ptahk.wire import ledgersql

_COLUMNS: Final[dict[str, list[str]]] = {
    "attempt": [
        "operation_id", "store_uid", "store_kind", "server_identity", "coordination_digest",
        "shared_realm", "number", "epoch", "start_nonce", "plan_digest", "not_after", "state",
        "statements_total", "statements_done", "statement_running", "outcome", "result_digest",
        "timeline", "role_name", "started_at", "finished_at", "fenced_at", "note",
    ],
    "binding": [
        "one", "server_identity", "coordination_digest", "operation_id", "bound_at",
    ],
}  # fmt: skip

_PLAIN: Final = """c.relkind = 'r' and c.relpersistence = 'p' and not c.relrowsecurity
      and not exists (select from pg_catalog.pg_trigger t where t.tgrelid = c.oid)
      and not exists (select from pg_catalog.pg_rewrite r where r.ev_class = c.oid)
      and not exists (select from pg_catalog.pg_inherits i
                      where c.oid in (i.inhrelid, i.inhparent))
      and exists (select from pg_catalog.pg_index i
                  where i.indrelid = c.oid and i.indisprimary and i.indisvalid)
      and (select array_agg(a.attname::text) from pg_catalog.pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)"""
"""A table without code on it, with a key; what follows says which columns it has at least."""

# Trusted are: this role itself, superusers, the database's owner, and for an ordinary role those
# whose rights it has. A superuser has everybody's, so for one the last says nothing.
_LOOK: Final = f"""
with me as (select oid, rolsuper from pg_catalog.pg_roles where rolname = current_user),
here as (select oid, datdba from pg_catalog.pg_database where datname = current_database()),
things as (
  select '' as what, n.nspowner as owner, n.oid as schema,
    has_schema_privilege(n.oid, 'USAGE') as readable,
    has_schema_privilege(n.oid, 'CREATE') and pg_has_role(n.nspowner, 'USAGE') as writable,
    true as plain
  from pg_catalog.pg_namespace n where n.nspname = 'ptahk'
  union all
  select c.relname::text, c.relowner, n.oid, has_table_privilege(c.oid, 'SELECT'),
    has_table_privilege(c.oid, 'INSERT') and has_table_privilege(c.oid, 'UPDATE'),
    {_PLAIN} @> case c.relname when 'attempt' then %s::text[] else %s::text[] end
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'ptahk' and c.relname in ('attempt', 'binding'))
select has_database_privilege(here.oid, 'CREATE'), t.what, pg_get_userbyid(t.owner)::text,
  t.readable, t.writable, t.plain, obj_description(t.schema, 'pg_namespace'),
  t.owner in (me.oid, here.datdba) or o.rolsuper
    or (not me.rolsuper and pg_has_role(t.owner, 'USAGE'))
from me cross join here left join things t on true
left join pg_catalog.pg_roles o on o.oid = t.owner
order by t.what
"""

_LOOK_AT: Final = f"""
with me as (select oid, rolsuper from pg_catalog.pg_roles where rolname = current_user),
here as (select datdba from pg_catalog.pg_database where datname = current_database()),
things as (
  select c.relowner as owner, {_PLAIN} @> %s::text[] as plain
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'ptahk' and c.relname = %s
  union all
  select n.nspowner, true from pg_catalog.pg_namespace n where n.nspname = 'ptahk')
select pg_get_userbyid(t.owner)::text, t.plain,
  t.owner in (me.oid, here.datdba) or o.rolsuper
    or (not me.rolsuper and pg_has_role(t.owner, 'USAGE'))
from me cross join here cross join things t
left join pg_catalog.pg_roles o on o.oid = t.owner
"""


@dataclass(frozen=True, slots=True)
class Presence:
    """What this role can do with the ledger."""

    present: bool
    readable: bool
    writable: bool
    creatable: bool


def presence(session: Session) -> Presence:
    """Look for the ledger without touching it.

    :raises Refused: ``LedgerUntrusted``: a stranger's, or not of the ledger's shape;
        ``LedgerVersion``: of another version.
    """
    rows = session.query(_LOOK, (_COLUMNS["attempt"], _COLUMNS["binding"]))
    found = {row[1]: row for row in rows if row[1] is not None}
    creatable = bool(rows[0][0])
    if not found:
        return Presence(False, False, False, creatable)
    for row in found.values():
        if not row[7]:
            raise _untrusted(f"{_name(row)} belongs to {row[2]}, who is a stranger here")
    version = rows[0][6]
    if version != ledgersql.VERSION and (version is not None or len(found) > 1):
        raise Refused(
            f"schema ptahk holds another ledger (comment={version!r}): "
            f"this ptahk knows {ledgersql.VERSION!r}",
            reason="LedgerVersion",
        )
    for row in found.values():
        if not row[5]:
            raise _untrusted(f"{_name(row)} is not the plain table that ptahk makes")
    schema, tables = found[""], [row for what, row in found.items() if what]
    if len(tables) < len(_COLUMNS):
        return Presence(False, False, False, creatable and bool(schema[4]))
    readable = bool(schema[3]) and all(row[3] for row in tables)
    return Presence(True, readable, readable and all(row[4] for row in tables), creatable)


def has(session: Session, table: str, columns: Sequence[str]) -> bool:
    """Whether a further table of ptahk's is there, looked for as the ledger is.

    :raises Refused: ``LedgerUntrusted``: a stranger's, or not of that shape.
    """
    rows = session.query(_LOOK_AT, (list(columns), table))
    for owner, plain, trusted in rows:
        if not trusted:
            raise _untrusted(f"ptahk.{table} or its schema belongs to {owner}, a stranger here")
        if not plain:
            raise _untrusted(f"ptahk.{table} is not the plain table that ptahk makes")
    return len(rows) > 1


def _name(row: tuple[Any, ...]) -> str:
    return f"table ptahk.{row[1]}" if row[1] else "schema ptahk"


def _untrusted(why: str) -> Refused:
    return Refused(
        f"the attempt ledger cannot be trusted: {why}",
        reason="LedgerUntrusted",
        hint="find out who made it; drop or rename schema ptahk, or give it to this role",
    )
