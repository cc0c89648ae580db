"""Sequences, and who owns them as a node of its own (default and sequence make no circle)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.kinds.address import PG_CLASS
from ptahk.executor.dialects.postgres.quote import qualified
from ptahk.executor.planning.model import Context, Facts, ObjectId, Query, Scope, Step

_READ = """
select s.oid::int8, n.nspname::text, s.relname::text, s.relpersistence::text,
       cn.nspname::text, c.relname::text, a.attname::text,
       q.seqtypid::int, q.seqstart::text, q.seqincrement::text, q.seqmin::text, q.seqmax::text,
       q.seqcache::text, q.seqcycle
from pg_catalog.pg_sequence q
join pg_catalog.pg_class s on s.oid = q.seqrelid
join pg_catalog.pg_namespace n on n.oid = s.relnamespace
left join pg_catalog.pg_depend d on d.classid = 1259 and d.objid = s.oid and d.deptype in ('a', 'i')
  and d.refclassid = 1259 and d.refobjsubid > 0
left join pg_catalog.pg_class c on c.oid = d.refobjid
left join pg_catalog.pg_namespace cn on cn.oid = c.relnamespace
left join pg_catalog.pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
where n.nspname = any(%s) and s.relpersistence <> 't' and d.deptype is distinct from 'i'
order by 2, 3
"""

_TYPES = {21: ("smallint", 2**15), 23: ("integer", 2**31), 20: ("bigint", 2**63)}


def option_facts(row: Sequence[Any], *, with_type: bool) -> dict[str, Any]:
    """Options that differ from what the server would choose, as decimal text."""
    typid, start, increment, low, high, cache, cycle = row
    type_name, limit = _TYPES[typid]
    facts: dict[str, Any] = {}
    if with_type and type_name != "bigint":
        facts["type"] = type_name
    down = increment.startswith("-")
    low_default, high_default = (-limit, -1) if down else (1, limit - 1)
    if increment != "1":
        facts["increment"] = increment
    if low != str(low_default):
        facts["min"] = low
    if high != str(high_default):
        facts["max"] = high
    if start != (high if down else low):
        facts["start"] = start
    if cache != "1":
        facts["cache"] = cache
    if cycle:
        facts["cycle"] = True
    return facts


def option_clauses(old: Facts, new: Facts) -> list[str]:
    """The clauses that lead from ``old`` (empty: a new sequence) to ``new``."""
    clauses: list[str] = []
    fresh = not old
    if old.get("type") != new.get("type"):
        clauses.append(f"AS {new.get('type', 'bigint')}")
    moved = [f for f in ("type", "increment", "min", "max", "start") if old.get(f) != new.get(f)]
    if "increment" in moved:
        clauses.append(f"INCREMENT BY {new.get('increment', '1')}")
    # Defaults of the bounds follow type and direction, so they are said again when those move.
    down = str(new.get("increment", "1")).startswith("-")
    for fact, word in (("min", "MINVALUE"), ("max", "MAXVALUE")):
        if fact in new and (fresh or moved):
            clauses.append(f"{word} {new[fact]}")
        elif not fresh and moved:
            clauses.append(f"NO {word}")
    if "start" in new and (fresh or moved):
        clauses.append(f"START WITH {new['start']}")
    elif not fresh and moved:
        first = new.get("max", "-1") if down else new.get("min", "1")
        clauses.append(f"START WITH {first}")
    if old.get("cache") != new.get("cache"):
        clauses.append(f"CACHE {new.get('cache', '1')}")
    if old.get("cycle") != new.get("cycle"):
        clauses.append("CYCLE" if new.get("cycle") else "NO CYCLE")
    return clauses


class SequenceKind:
    """All options; the position is data and never planned."""

    name = "sequence"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        for row in query(_READ, (list(scope.schemas),)):
            facts = option_facts(row[7:], with_type=True)
            facts["@"] = ((PG_CLASS, row[0], 0),)
            if row[3] == "u":
                facts["unlogged"] = True
            if row[6] is not None:
                facts["owned_by"] = [row[4], row[5], row[6]]
                yield ObjectId("sequence owner", (row[1], row[2])), {"owned_by": facts["owned_by"]}
            yield ObjectId("sequence", (row[1], row[2])), facts

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        head = "CREATE UNLOGGED SEQUENCE" if new.get("unlogged") else "CREATE SEQUENCE"
        sql = " ".join([f"{head} {qualified(oid.name)}", *option_clauses({}, new)])
        return [Step(sql, "CreateSequence", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        lock = relation.lock("AccessExclusiveLock", oid.name)
        reason = "drops the sequence with its position"
        sql = f"DROP SEQUENCE {qualified(oid.name)}"
        return [Step(sql, "DropSequence", oid, "destructive", lock, reason)]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
        head = f"ALTER SEQUENCE {qualified(oid.name)}"
        lock = relation.lock("ShareRowExclusiveLock", oid.name)
        steps: list[Step] = []
        # A marker keeps ``old`` non-empty: an existing sequence, not a new one.
        clauses = option_clauses({**old, "@existing": True}, new)
        if clauses:
            steps.append(Step(" ".join([head, *clauses]), "AlterSequence", oid, lock=lock))
        if old.get("unlogged") != new.get("unlogged"):
            to = "UNLOGGED" if new.get("unlogged") else "LOGGED"
            steps.append(Step(f"{head} SET {to}", "AlterSequence", oid, lock=lock))
        return steps


class SequenceOwnerKind:
    """``OWNED BY``: the column with which the sequence goes."""

    name = "sequence owner"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        return ()  # read with the sequences

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        return [self._owned(oid, qualified(new["owned_by"]))]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return [self._owned(oid, "NONE")]

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
        return self.create(ctx, oid, new)

    def _owned(self, oid: ObjectId, by: str) -> Step:
        return Step(f"ALTER SEQUENCE {qualified(oid.name)} OWNED BY {by}", "SequenceOwner", oid)
