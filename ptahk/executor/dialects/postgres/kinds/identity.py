"""Identity columns and the options of the sequence behind them."""

from __future__ import annotations

from typing import Any

from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.kinds.default import advance
from ptahk.executor.dialects.postgres.kinds.sequence import option_clauses, option_facts
from ptahk.executor.dialects.postgres.quote import ident, object_name, qualified
from ptahk.executor.planning.model import Context, Facts, ObjectId, Query, Scope, Step

_READ = """
select d.refobjid::int8, d.refobjsubid, s.oid::int8, n.nspname::text, s.relname::text,
       c.relname::text, a.attname::text, s.relpersistence::text, q.seqtypid::int, q.seqstart::text,
       q.seqincrement::text, q.seqmin::text, q.seqmax::text, q.seqcache::text, q.seqcycle
from pg_catalog.pg_sequence q
join pg_catalog.pg_class s on s.oid = q.seqrelid
join pg_catalog.pg_namespace n on n.oid = s.relnamespace
join pg_catalog.pg_depend d on d.classid = 1259 and d.objid = s.oid and d.deptype = 'i'
  and d.refclassid = 1259
join pg_catalog.pg_class c on c.oid = d.refobjid
join pg_catalog.pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
where n.nspname = any(%s)
"""


def read(query: Query, scope: Scope) -> dict[tuple[int, int], dict[str, Any]]:
    """Options that are not the server's choice, by table and column number; with the oid."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in query(_READ, (list(scope.schemas),)):
        facts = option_facts(row[8:], with_type=False)
        facts["oid"] = row[2]
        if row[4] != object_name(row[5], row[6], "seq"):
            facts["name"] = row[4]
        found[(row[0], row[1])] = facts
    return found


def sequence_name(oid: ObjectId, facts: Facts) -> tuple[str, str]:
    """The sequence of an identity column; it lives in the table's schema."""
    name = facts.get("name") or object_name(oid.name[1], oid.name[2], "seq")
    return oid.name[0], name


def clause(oid: ObjectId, facts: Facts) -> str:
    """``GENERATED … AS IDENTITY (…)``."""
    how = "ALWAYS" if facts["always"] else "BY DEFAULT"
    inner = option_clauses({}, facts)
    if "name" in facts:
        inner.insert(0, f"SEQUENCE NAME {qualified(sequence_name(oid, facts))}")
    return f"GENERATED {how} AS IDENTITY" + (f" ({' '.join(inner)})" if inner else "")


def alter(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    """Add, drop or change; a new identity starts after the values that are there."""
    was, now = old.get("identity"), new.get("identity")
    if was == now:
        return []
    table = relation.table_of(oid)
    head = f"ALTER TABLE {qualified(table.name)} ALTER COLUMN {ident(oid.name[2])}"
    lock = relation.lock("AccessExclusiveLock", table.name)
    if now is None:
        return [Step(f"{head} DROP IDENTITY", "DropIdentity", oid, lock=lock)]
    if was is None:
        steps = [Step(f"{head} ADD {clause(oid, now)}", "AddIdentity", oid, lock=lock)]
        if not str(now.get("increment", "")).startswith("-"):
            steps.append(advance(oid, sequence_name(oid, now), now))
        return steps
    steps = []
    if was["always"] != now["always"]:
        how = "ALWAYS" if now["always"] else "BY DEFAULT"
        steps.append(Step(f"{head} SET GENERATED {how}", "AlterIdentity", oid, lock=lock))
    changed = option_clauses(was, now)
    if changed:
        sets = " ".join(f"SET {each}" for each in changed)
        steps.append(Step(f"{head} {sets}", "AlterIdentity", oid, lock=lock))
    one, two = sequence_name(oid, was), sequence_name(oid, now)
    if one != two:
        sql = f"ALTER SEQUENCE {qualified(one)} RENAME TO {ident(two[1])}"
        steps.append(
            Step(sql, "RenameSequence", oid, lock=relation.lock("AccessExclusiveLock", one))
        )
    return steps
