"""What the relation kinds share: locks, storage options, the choice of the online form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ptahk.executor.dialects.postgres.quote import clip, ident, qualified
from ptahk.executor.planning.model import Catalog, Context, Facts, ObjectId, Step

TINY_BYTES_MAX = 64 * 1024
"""Up to here a table is checked or indexed faster than an online form can be set up."""


def lock(mode: str, name: Sequence[str]) -> str:
    """``Step.lock`` of a statement: the mode and the relation it is taken on."""
    return f"{mode} {qualified(name)}"


def table_of(oid: ObjectId) -> ObjectId:
    """The table of a column, default or constraint."""
    return ObjectId("table", oid.name[:2])


def is_new(ctx: Context, table: ObjectId) -> bool:
    """True where the plan itself creates the relation: nobody can be waiting for it."""
    return table not in ctx.current.objects


def is_partitioned(ctx: Context, table: ObjectId) -> bool:
    facts = ctx.current.objects.get(table) or ctx.desired.objects.get(table) or {}
    return "partition_key" in facts


def online(ctx: Context, table: ObjectId) -> bool:
    """True where the long form that does not block writers is worth its extra statements.

    Sizes are read once for both inspections of one plan, so the answer does not flicker.
    """
    if is_new(ctx, table) or is_partitioned(ctx, table):
        return False
    return ctx.current.sizes_bytes.get(table, 0) > TINY_BYTES_MAX


def uses(catalog: Catalog, oid: ObjectId) -> Sequence[ObjectId]:
    """What ``oid`` depends on directly."""
    return _uses(catalog.depends).get(oid, ())


@lru_cache(maxsize=4)
def _uses(depends: frozenset[tuple[ObjectId, ObjectId]]) -> dict[ObjectId, list[ObjectId]]:
    found: dict[ObjectId, list[ObjectId]] = {}
    for user, used in depends:
        found.setdefault(user, []).append(used)
    for each in found.values():
        each.sort()
    return found


def all_live(ctx: Context, oid: ObjectId) -> bool:
    """True where everything that ``oid`` is to use is there already and means the same, so that
    its expressions can be tried before the first statement."""
    for other in uses(ctx.desired, oid):
        if other.kind in ("schema", "table", "constraint"):
            continue
        was, now = ctx.current.objects.get(other), ctx.desired.objects.get(other)
        if was is None or now is None or was.get("type") != now.get("type"):
            return False
        if other in ctx.rebuilt or (other.kind != "column" and was != now):
            return False
    return True


def unused_constraint(ctx: Context, table: Sequence[str], stem: str) -> str:
    """A constraint name that neither side uses on the table."""
    number = 0
    while True:
        name = clip(f"{stem}{number or ''}")
        oid = ObjectId("constraint", (*table, name))
        if oid not in ctx.current.objects and oid not in ctx.desired.objects:
            return name
        number += 1


def option(text: str) -> str:
    """One storage option, ``name=value`` as the catalog stores it, as SQL."""
    name, _, value = text.partition("=")
    quoted = value.replace("'", "''")
    return f"{name}='{quoted}'"


def options(
    head: str, kind: str, oid: ObjectId, was: Mapping[str, str], now: Mapping[str, str]
) -> list[Step]:
    """``SET (…)`` and ``RESET (…)`` between two sets of storage options."""
    steps: list[Step] = []
    held = lock("ShareUpdateExclusiveLock", oid.name[:2])
    changed = [option(f"{k}={v}") for k, v in sorted(now.items()) if was.get(k) != v]
    gone = sorted(k for k in was if k not in now)
    if gone:
        steps.append(Step(f"{head} RESET ({', '.join(gone)})", kind, oid, lock=held))
    if changed:
        steps.append(Step(f"{head} SET ({', '.join(changed)})", kind, oid, lock=held))
    return steps


def named_options(facts: Facts, key: str = "options") -> dict[str, str]:
    """A catalog's ``name=value`` list as a mapping."""
    return {o.partition("=")[0]: o.partition("=")[2] for o in facts.get(key, ())}


def constraint_clause(oid: ObjectId, facts: Facts) -> str:
    """``CONSTRAINT name DEFINITION`` with the index's storage options in their place."""
    definition: str = facts["definition"]
    if facts.get("options"):
        settings = " WITH (" + ", ".join(option(o) for o in facts["options"]) + ")"
        definition = _with_options(definition, settings)
    return f"CONSTRAINT {ident(oid.name[2])} {definition}"


def _with_options(definition: str, settings: str) -> str:
    """Index options stand after the columns and before WHERE and DEFERRABLE."""
    depth = 0
    quoted = ""
    closed = -1
    for place, char in enumerate(definition):
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in "'\"":
            quoted = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0 and not definition[:place].rstrip().endswith("WHERE"):
                closed = place
                rest = definition[place + 1 :]
                if not rest.startswith(" INCLUDE"):
                    break
    return definition[: closed + 1] + settings + definition[closed + 1 :]


def index_flags(oid: ObjectId, table: str, index: str, old: Facts, new: Facts) -> list[Step]:
    """The flags that an index carries for its table: order of CLUSTER, and replica identity.

    Taking the identity away is the table's statement, not the index's.
    """
    steps: list[Step] = []
    if bool(old.get("clustered")) != bool(new.get("clustered")):
        action = f"CLUSTER ON {ident(index)}" if new.get("clustered") else "SET WITHOUT CLUSTER"
        sql = f"ALTER TABLE {table} {action}"
        steps.append(Step(sql, "Cluster", oid, lock=f"ShareUpdateExclusiveLock {table}"))
    if new.get("replica_identity") and not old.get("replica_identity"):
        sql = f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {ident(index)}"
        steps.append(Step(sql, "ReplicaIdentity", oid, lock=f"AccessExclusiveLock {table}"))
    return steps
