"""PostgreSQL's planner: two catalogs and a policy to numbered statements, or refusals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice

from ptahk.executor.dialects.postgres import renames, shape
from ptahk.executor.dialects.postgres.catalog import fingerprint
from ptahk.executor.dialects.postgres.grammar import GRAMMAR
from ptahk.executor.dialects.postgres.kinds.enum import wait_for_values
from ptahk.executor.dialects.postgres.prepare import Sides, prepare
from ptahk.executor.dialects.postgres.quote import qualified
from ptahk.executor.planning.groups import number
from ptahk.executor.planning.model import (
    Catalog,
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Policy,
    Step,
)
from ptahk.executor.planning.plan import CHECK, make_steps
from ptahk.executor.planning.result import PlanResult, destructive

LOCK_CAPACITY_DEFAULT = 6400
"""Slots of the lock table of a server with default settings (64 × 100)."""

LARGE_BYTES_MIN = 1024**3
"""Above this a rewrite or an index build wants a deadline that a person chose (C-10.8)."""

HINTS_MAX = 20
"""Mentions of a possible rename; more would bury the plan."""

RETYPE = "AlterColumnType"

_BUILDS = frozenset({"CreateIndex", "BuildIndex", "AddPrimaryKey", "AddUnique", "AddExclusion"})


def plan(
    current: Catalog,
    desired: Catalog,
    policy: Policy,
    sizes_bytes: Mapping[ObjectId, int] | None = None,
) -> PlanResult:
    """Plan ``current`` → ``desired``; deterministic.

    :param sizes_bytes: table sizes to judge by. Give the first inspection's to the second, so that
        a growing table cannot make the two differ. Default: those of ``current``.
    """
    if nothing_to_do(current, desired):
        known = fingerprint(desired)  # equal facts have one digest; kept facts come with theirs
        return PlanResult((), (), (), {}, known, known)
    observed = fingerprint(current)
    if sizes_bytes is not None:
        current = Catalog(current.objects, current.depends, sizes_bytes, current.context)
    sides = prepare(current, desired, policy)
    unchanged = sides.expected.objects == current.objects
    expected = observed if unchanged else fingerprint(sides.expected)
    if sides.current.objects == sides.desired.objects:
        return PlanResult((), (), (), {}, observed, expected)
    differences = tuple(_differences(sides))
    hints = list(islice(_rename_hints(sides), HINTS_MAX)) if not policy.renames else []
    renamed = renames.apply(sides.current, sides.desired, policy)
    sides = replace(sides, current=renamed.current)
    ctx = context_of(sides.current, sides.desired, policy)
    made = make_steps(ctx, GRAMMAR)
    refusals = [each for each in made if isinstance(each, PlanRefusal)]
    if refusals:
        return PlanResult((), tuple(refusals), (), {}, observed, expected, differences)
    planned = [each for each in made if isinstance(each, Step)]
    steps = wait_for_values(_after_renames(planned, renamed))
    capacity = current.context.get("lock_capacity", LOCK_CAPACITY_DEFAULT)
    statements, forced = number(steps, capacity, alone=policy.each_alone)
    notes = list(renamed.notes)
    if forced:
        notes.append("not atomic: it would need more locks than the server may hold at once")
    sizes = _sizes(ctx, steps)
    outside = list(_used_outside(sides, steps))
    if outside:
        return PlanResult((), tuple(outside), (), {}, observed, expected, differences)
    verdicts = [
        *_protected(ctx, steps, renamed.tables),
        *destructive(policy, steps, hints),
        *_too_long(policy, steps, sizes),
    ]
    return PlanResult(
        statements,
        tuple(verdicts),
        (*notes, *hints),
        sizes,
        observed,
        expected,
        differences,
        tuple(steps),
    )


def nothing_to_do(current: Catalog, desired: Catalog) -> bool:
    """Whether both sides are the same whatever the policy, which the common case is.

    An owner that nobody states is whoever loads: one and the same here, or `prepare` must look.
    """
    same_role = current.context.get("user") == desired.context.get("user")
    return same_role and current.objects == desired.objects


def _differences(sides: Sides) -> Iterable[tuple[str, ObjectId]]:
    live, declared = sides.current.objects, sides.desired.objects
    for category, mine, others in (("missing", declared, live), ("undeclared", live, declared)):
        for oid in sorted(oid for oid in mine if oid not in others):
            whole = shape.parent(oid, mine[oid], mine)
            if whole is None or whole in others:
                yield category, oid
    for oid in sorted(oid for oid in declared if oid in live and live[oid] != declared[oid]):
        yield "changed", oid


def context_of(current: Catalog, desired: Catalog, policy: Policy) -> Context:
    """What the kinds may look at."""
    parents: set[ObjectId] = set()
    for catalog in (current, desired):
        for oid, facts in catalog.objects.items():
            if oid.kind == "table":
                parents.update(ObjectId("table", name) for name in shape.lineage(facts))
    return Context(
        current=current,
        desired=desired,
        policy=policy,
        server_version=current.context.get("server_version", 0),
        parents=frozenset(parents),
    )


def table_of(ctx: Context, oid: ObjectId) -> ObjectId | None:
    """The live table that a statement on ``oid`` works on, if any."""
    for catalog in (ctx.current, ctx.desired):
        whole: ObjectId | None = oid
        while whole is not None:
            if whole.kind == "table":
                return whole if whole in ctx.current.objects else None
            facts = catalog.objects.get(whole)
            if facts is None:
                break
            whole = shape.parent(whole, facts, catalog.objects)
    return None


def _sizes(ctx: Context, steps: Sequence[Step]) -> dict[int, int]:
    totals = dict(ctx.current.sizes_bytes)
    for oid, size in ctx.current.sizes_bytes.items():
        above = ctx.current.objects.get(oid, {})
        while "partition_of" in above:
            parent = ObjectId("table", tuple(above["partition_of"]))
            totals[parent] = totals.get(parent, 0) + size
            above = ctx.current.objects.get(parent, {})
    sizes: dict[int, int] = {}
    for index, step in enumerate(steps, start=1):
        table = table_of(ctx, step.object)
        if table is not None and table in totals:
            sizes[index] = totals[table]
    return sizes


def _used_outside(sides: Sides, steps: Sequence[Step]) -> Iterable[PlanRefusal]:
    """Nothing is dropped from under what is not planned; CASCADE is never said."""
    outside: Mapping[str, Sequence[str]] = sides.current.context.get("outside", {})
    if not outside:
        return
    moved = {
        step.object for step in steps if step.kind.startswith("Drop") or step.kind == RETYPE
    } | {oid for oid in sides.current.objects if oid not in sides.desired.objects}
    for oid in sorted(moved):
        for user in outside.get(str(oid), ()):
            message = f"{user} uses {oid}, which is to be dropped or rebuilt, and is out of scope"
            yield PlanRefusal("UsedOutOfScope", message, oid)


def _after_renames(steps: Sequence[Step], renamed: renames.Renamed) -> list[Step]:
    """Checks run on the live state, under the old names: those of a renamed table cannot."""
    if not renamed.steps:
        return list(steps)
    names = "|".join(re.escape(qualified(name)) for name in sorted(renamed.tables))
    # A whole name: public.a must not take the checks of public.ab with it.
    mentions = re.compile(rf'(?<![\w"$.])(?:{names})(?![\w"$])')
    checks = [s for s in steps if s.kind == CHECK and not mentions.search(s.sql)]
    return [*checks, *renamed.steps, *(s for s in steps if s.kind != CHECK)]


def _protected(
    ctx: Context, steps: Sequence[Step], renamed: Collection[tuple[str, ...]]
) -> Iterable[PlanRefusal]:
    named = ctx.policy.protected_tables
    if not named:
        return
    seen: set[ObjectId] = set()
    for name in sorted(renamed):
        whole = ObjectId("table", name)
        if any(fnmatchcase(".".join(name), n if "." in n else f"*.{n}") for n in named):
            seen.add(whole)
            yield PlanRefusal("ProtectedTable", f"{whole} is protected and is renamed", whole)
    for step in steps:
        table = table_of(ctx, step.object)
        if table is None or table in seen or step.kind == CHECK:
            continue
        full = ".".join(table.name)
        if any(fnmatchcase(full, n if "." in n else f"*.{n}") for n in named):
            seen.add(table)
            message = f"{table} is protected and the plan changes it: {step.kind} {step.object}"
            yield PlanRefusal("ProtectedTable", message, table)


def _too_long(
    policy: Policy, steps: Sequence[Step], sizes: Mapping[int, int]
) -> Iterable[PlanRefusal]:
    if policy.deadline_explicit:
        return
    for index, step in enumerate(steps, start=1):
        long = step.kind in _BUILDS or "rewritten" in step.reason
        if long and sizes.get(index, 0) > LARGE_BYTES_MIN:
            message = (
                f"{step.kind} {step.object} works on {sizes[index] // 1024**2} MiB: set"
                " activeDeadlineSeconds to how long it may take"
            )
            yield PlanRefusal("DeadlineTooShort", message, step.object)


def _rename_hints(sides: Sides) -> Iterable[str]:
    """A drop beside a like-shaped create may have been meant as a rename; never guessed."""
    live, declared = sides.current.objects, sides.desired.objects
    gone, fresh = _by_shape(live, declared), _by_shape(declared, live)
    for key in sorted(gone.keys() & fresh.keys(), key=str):
        for old in gone[key]:
            for new in fresh[key]:
                yield (
                    f"if {old} was meant to become {new}, say so in policy.renames:"
                    f" {'.'.join(old.name)} to {'.'.join(new.name)}"
                )


def _by_shape(
    objects: Mapping[ObjectId, Facts], others: Mapping[ObjectId, Facts]
) -> dict[tuple[object, ...], list[ObjectId]]:
    """Tables by the names of their columns, columns by table and type, that ``others`` lacks."""
    columns: dict[tuple[str, ...], list[str]] = {}
    found: dict[tuple[object, ...], list[ObjectId]] = {}
    for oid, facts in objects.items():
        if oid.kind == "column":
            table = ObjectId("table", oid.name[:2])
            if table not in others:
                columns.setdefault(table.name, []).append(oid.name[2])
            elif oid not in others and table in objects:
                found.setdefault(("column", *table.name, facts["type"]), []).append(oid)
    for name, names in columns.items():
        found.setdefault(("table", *sorted(names)), []).append(ObjectId("table", name))
    return found
