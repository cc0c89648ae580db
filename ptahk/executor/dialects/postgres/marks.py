"""Whether a database is still what it was when its facts were read, without reading them again.

Two questions, the cheap one first. Both are asked inside a snapshot, so a mark belongs to exactly
what that snapshot shows. Where neither can say "the same", everything is read once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ptahk.executor.planning.model import Query

_SNAPSHOT: Final = "select pg_catalog.pg_current_snapshot()::text"
"""Equal texts: no transaction of the whole cluster ended in between that had changed anything."""

# Statistics and large objects are no facts of a schema. Of what all databases share, only what
# facts name counts; roles are compared as text, since their catalog is not for everyone to read.
_CATALOGS: Final = """
select relname::text from pg_catalog.pg_class
where relnamespace = 'pg_catalog'::pg_catalog.regnamespace and relkind = 'r'
  and (not relisshared or relname in ('pg_auth_members', 'pg_tablespace'))
  and relname not in ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject',
                      'pg_largeobject_metadata')
  and pg_catalog.has_table_privilege(oid, 'select')
order by 1
"""
_VERSIONS: Final = (
    "select '{name}', pg_catalog.count(*), pg_catalog.sum("
    "pg_catalog.hashtidextended(ctid, xmin::text::int8))::text from pg_catalog.{name}"
)
_ROLES: Final = (
    "select 'roles', pg_catalog.count(*), pg_catalog.md5(pg_catalog.string_agg("
    "pg_catalog.concat_ws(' ', oid, rolname, rolsuper), ',' order by oid)) from pg_catalog.pg_roles"
)

Versions = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a snapshot showed."""

    snapshot: str
    versions: Versions | None = None
    """By system catalog: count and hash of the row versions in it. A row version never changes
    its content (what the server updates in place is statistics), so equal versions are equal
    catalogs, and the texts that the server makes of them are equal."""


def mark(query: Query, *, versions: bool) -> Mark:
    """Mark what the session's snapshot shows.

    :param versions: also the row versions: some 50 ms for 1,000 tables.
    """
    return Mark(query(_SNAPSHOT)[0][0], _versions(query) if versions else None)


def unchanged(query: Query, before: Mark) -> bool:
    """Whether the session's snapshot, a later one, shows the same catalogs. False: unknown."""
    if query(_SNAPSHOT)[0][0] == before.snapshot:
        return True
    return before.versions is not None and _versions(query) == before.versions


def _versions(query: Query) -> Versions:
    names = [row[0] for row in query(_CATALOGS)]
    asked = " union all ".join([*(_VERSIONS.format(name=name) for name in names), _ROLES])
    return tuple(sorted(tuple(row) for row in query(asked)))
