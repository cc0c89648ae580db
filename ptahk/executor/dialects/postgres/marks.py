"""Whether a database is still what it was when its facts were read, without reading them again.

Two questions, the cheap one first. Both are asked inside a snapshot, so a mark belongs to exactly
what that snapshot shows. Where neither can say "the same", everything is read once more.
"""

from __future__ import annotations

import re
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

# A new server process, another timeline, or statistics thrown away after a crash: from there on
# transaction numbers may mean other transactions (a restored copy, a commit that no disk had).
_LIFE: Final = """
select (select timeline_id from pg_catalog.pg_control_checkpoint())::text || ' '
  || extract(epoch from pg_catalog.pg_postmaster_start_time())::text || ' '
  || coalesce(extract(epoch from (select stats_reset from pg_catalog.pg_stat_bgwriter))::text, '-')
"""
_NAMES: Final = re.compile(r"\bpg_[a-z_]+\b(?!\s*\()")
_NO_RELATIONS: Final = frozenset({"pg_catalog"})
_XIDS_MAX: Final = 2**31
"""So many transactions later a row version's number could be another's."""

Versions = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a snapshot showed."""

    snapshot: str
    versions: Versions | None = None
    """By system catalog: count and hash of the row versions in it. A row version never changes
    its content (what the server updates in place is statistics), so equal versions are equal
    catalogs, and the texts that the server makes of them are equal."""

    @property
    def xmax(self) -> int:
        """The first transaction number that was not given out."""
        return int(self.snapshot.split(":")[1])


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


@dataclass(frozen=True, slots=True)
class LongMark:
    """What a snapshot showed, for another executor at any later time.

    Transaction numbers are a server's own count, so it holds within one life of one server only.
    """

    life: str
    xmax: int
    versions: Versions

    def same(self, later: LongMark) -> bool:
        """Whether a later snapshot of the same database shows the same catalogs."""
        return (
            later.life == self.life
            and 0 <= later.xmax - self.xmax < _XIDS_MAX
            and later.versions == self.versions
        )

    def covers(self, sql: str) -> bool:
        """Whether a query reads nothing but what the row versions are of. False: unknown."""
        names = set(_NAMES.findall(sql.lower())) - _NO_RELATIONS
        return bool(names) and names <= {row[0] for row in self.versions}

    def plain(self) -> list[object]:
        """As JSON keeps it; see ``of_plain``."""
        return [self.life, self.xmax, [list(row) for row in self.versions]]


def of_plain(kept: object) -> LongMark | None:
    """What ``plain`` made; None where nothing was kept."""
    match kept:
        case [str(life), int(xmax), list(versions)]:
            return LongMark(life, xmax, tuple(tuple(row) for row in versions))
    return None


def long_mark(query: Query, seen: Mark) -> LongMark:
    """For later executors: a mark of the session's snapshot, made with its row versions."""
    assert seen.versions is not None, "what is kept is the row versions"
    return LongMark(query(_LIFE)[0][0], seen.xmax, seen.versions)


def _versions(query: Query) -> Versions:
    names = [row[0] for row in query(_CATALOGS)]
    asked = " union all ".join([*(_VERSIONS.format(name=name) for name in names), _ROLES])
    return tuple(sorted(tuple(row) for row in query(asked)))
