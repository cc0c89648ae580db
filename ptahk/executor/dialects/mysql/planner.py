"""The planner for MySQL and MariaDB: two catalogs and a policy to numbered statements. Pure.

DDL commits by itself, so every statement is a group of its own, and the order is fixed: what runs
in the server and is to go, foreign keys that go or stand in the way, tables that go, sequences,
tables, foreign keys, routines, views, triggers, events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from ptahk.executor.dialects.mysql import checks, renames
from ptahk.executor.dialects.mysql.catalog import UNSUPPORTED, fingerprint
from ptahk.executor.dialects.mysql.kinds import foreign, program, table
from ptahk.executor.dialects.mysql.model import World
from ptahk.executor.dialects.mysql.prepare import prepare
from ptahk.executor.dialects.mysql.quote import ident, literal
from ptahk.executor.planning.groups import number
from ptahk.executor.planning.model import (
    Catalog,
    Facts,
    ObjectId,
    PlanRefusal,
    Policy,
    Step,
)
from ptahk.executor.planning.plan import CHECK
from ptahk.executor.planning.result import PlanResult, destructive

LARGE_BYTES_MIN: Final = 1024**3
"""Above this a copy or an index build wants a deadline that a person chose (C-10.8)."""
HINTS_MAX: Final = 20
_LOCKS_MANY: Final = 1_000_000_000
"""Statements commit one by one: no lock table fills up."""
_LONG: Final = frozenset({table.ALTER, "AddForeignKey"})
_PROGRAMS: Final = ("event", "trigger", "view", "procedure", "function")
_ZERO_DATES: Final = ("NO_ZERO_DATE", "NO_ZERO_IN_DATE", "TRADITIONAL")

INSTANT: Final = "ALGORITHM=INSTANT"
INPLACE: Final = "ALGORITHM=INPLACE, LOCK=NONE"
SHARED: Final = "ALGORITHM=INPLACE, LOCK=SHARED"
COPY: Final = "ALGORITHM=COPY"
LOCKS: Final = {
    INSTANT: "a moment's metadata lock",
    INPLACE: "a moment's metadata lock; reads and writes go on",
    SHARED: "writes wait until it has ended; reads go on",
    COPY: "the table is copied; writes wait until it has ended",
}
Ways = Mapping[str, str]
"""How the server carries out an ALTER TABLE, by its text without ``ALGORITHM`` (see ``online``)."""


def plan(
    current: Catalog,
    desired: Catalog,
    policy: Policy,
    sizes_bytes: Mapping[ObjectId, int] | None = None,
    ways: Ways | None = None,
) -> PlanResult:
    """Plan ``current`` → ``desired``; deterministic.

    :param sizes_bytes: table sizes to judge by. Default: those of ``current``.
    :param ways: what ``online.probe`` found for the statements of an earlier plan of the same
        sides. A statement that is not in it may copy its table, for all that is known.
    """
    observed = fingerprint(current)
    if current.objects == desired.objects and not desired.context.get("stated"):
        return PlanResult((), (), (), {}, observed, observed)
    wanted = prepare(current, desired, policy)
    if current.objects == wanted:
        return PlanResult((), (), (), {}, observed, observed)
    expected = fingerprint(Catalog(dict(sorted(wanted.items())), frozenset()))
    differences = tuple(_differences(current.objects, wanted))
    sizes = current.sizes_bytes if sizes_bytes is None else sizes_bytes
    renamed = renames.apply(current.objects, wanted, policy, str(current.context["database"]))
    world = _world(current, desired, renamed.objects, wanted, policy)
    refusals = [*renamed.refusals, *_unsupported(world)]
    planned = _Planner(world)
    made = [] if refusals else list(planned.steps())
    refusals += [each for each in made if isinstance(each, PlanRefusal)]
    if refusals:
        return PlanResult((), tuple(refusals), (), {}, observed, expected, differences)
    plain = [each for each in made if isinstance(each, Step)]
    found = list(checks.data_checks(world, renamed.names)) if not renamed.steps else []
    steps = [*found, *renamed.steps, *_under_modes(world, plain, wanted)]
    steps = [_in_its_way(step, ways) for step in steps]
    statements, _ = number(steps, _LOCKS_MANY)
    by_index = {
        index: sizes[place]
        for index, step in enumerate(steps, start=1)
        if (place := table_of(step.object)) in sizes
    }
    hints = (
        list(islice(renames.hints(world.current, world.desired), HINTS_MAX))
        if not policy.renames
        else []
    )
    verdicts = [
        *_protected(world, steps, str(current.context["database"])),
        *destructive(policy, steps, hints),
        *_too_long(policy, steps, by_index),
    ]
    notes = [*hints]
    if len(plain) > 1:
        notes.append("not atomic: the server commits each statement by itself")
    return PlanResult(
        statements, tuple(verdicts), tuple(notes), by_index, observed, expected, differences,
        tuple(steps),
    )  # fmt: skip


def nothing_to_do(current: Catalog, desired: Catalog, policy: Policy) -> bool:
    """Whether both sides are the same, which the common case is."""
    return current.objects == prepare(current, desired, policy)


def table_of(oid: ObjectId) -> ObjectId:
    """The table that a statement on ``oid`` works on, if it is of one."""
    return ObjectId("table", oid.name[:1])


def _world(
    current: Catalog,
    desired: Catalog,
    live: Mapping[ObjectId, Facts],
    wanted: Mapping[ObjectId, Facts],
    policy: Policy,
) -> World:
    return World(
        current=live,
        desired=wanted,
        policy=policy,
        mariadb=bool(current.context["mariadb"]),
        user=str(current.context["user"]),
        sql_mode=str(current.context["sql_mode"]),
        time_zone=str(current.context["time_zone"]),
        aside=_aside(desired),
    )


def _aside(desired: Catalog) -> dict[str, dict[str, Any]]:
    """What is not compared; the beginning of a schedule only where it is declared."""
    stated = desired.context.get("stated", {})
    return {
        name: {k: v for k, v in found.items() if k != "starts" or stated.get(name, {}).get(k)}
        for name, found in desired.context.get("aside", {}).items()
    }


def _differences(
    live: Mapping[ObjectId, Facts], declared: Mapping[ObjectId, Facts]
) -> Iterator[tuple[str, ObjectId]]:
    for category, mine, others in (("missing", declared, live), ("undeclared", live, declared)):
        for oid in sorted(oid for oid in mine if oid not in others):
            if oid.kind != "foreign key" or table_of(oid) in others:
                yield category, oid
    for oid in sorted(oid for oid in declared if oid in live and live[oid] != declared[oid]):
        yield "changed", oid


def _unsupported(world: World) -> Iterator[PlanRefusal]:
    """What has no builder may stay as it is, and nothing else."""
    for oid in sorted({*world.current, *world.desired}):
        if oid.kind in UNSUPPORTED and world.current.get(oid) != world.desired.get(oid):
            side = world.desired.get(oid) or world.current.get(oid) or {}
            clause = f": {side['clause']}" if "clause" in side else ""
            yield PlanRefusal("UnsupportedObject", f"{oid} cannot be planned{clause}", oid)


@dataclass(slots=True)
class _Planner:
    """One attempt at the statements, in order."""

    world: World
    aside: dict[ObjectId, str] = field(default_factory=dict)
    """Foreign keys that stand aside, and why."""

    def steps(self) -> Iterator[Step | PlanRefusal]:
        """All statements; refusals in their place."""
        current, desired = self.world.current, self.world.desired
        self.aside = dict(foreign.in_the_way(self.world))
        for kind in _PROGRAMS:
            yield from self._dropped(kind)
        yield from self._drop_foreign_keys()
        yield from self._freed_checks()
        for oid in _in_reference_order(current, self._gone("table"), reverse=True):
            yield table.drop(oid)
        yield from self._dropped("sequence")
        for oid in self._changed("sequence"):
            yield from program.sequence(self.world, oid, desired[oid])
        yield from self._tables()
        for kind in program.ROUTINES:
            for oid in self._changed(kind):
                yield from program.routine(self.world, oid, desired[oid])
        for oid in _views_in_order(desired, self._changed("view")):
            yield from program.view(self.world, oid, desired[oid])
        for oid in _triggers_in_order(desired, self._changed("trigger")):
            yield from program.trigger(self.world, oid, desired[oid])
        for oid in self._changed("event"):
            yield from program.event(self.world, oid, desired[oid])

    def _gone(self, kind: str) -> list[ObjectId]:
        return sorted(
            o for o in self.world.current if o.kind == kind and o not in self.world.desired
        )

    def _changed(self, kind: str) -> list[ObjectId]:
        current = self.world.current
        return sorted(
            oid
            for oid, facts in self.world.desired.items()
            if oid.kind == kind and current.get(oid) != facts
        )

    def _dropped(self, kind: str) -> Iterator[Step]:
        for oid in self._gone(kind):
            on = self.world.current[oid].get("table")
            if on is not None and ObjectId("table", (on,)) not in self.world.desired:
                continue  # goes with its table
            yield program.drop(oid)

    def _drop_foreign_keys(self) -> Iterator[Step]:
        current, desired = self.world.current, self.world.desired
        going = self._gone("table")
        circle = _in_a_circle(current, going)
        for oid in sorted(o for o in current if o.kind == "foreign key"):
            whole_goes = table_of(oid) in going
            target = ObjectId("table", (current[oid]["references"],))
            if whole_goes:
                if oid in circle:
                    yield foreign.drop(oid, "its table is dropped in a circle of references")
                continue
            if oid in self.aside:
                yield foreign.drop(oid, f"{self.aside[oid]}; it is added again")
            elif current[oid] != desired.get(oid):
                again = "it is added again as declared" if oid in desired else ""
                yield foreign.drop(oid, again)
            elif target in going:
                yield foreign.drop(oid, f"{target} is dropped")

    def _freed_checks(self) -> Iterator[Step]:
        """On MySQL a check's name is free only once its holder in another table has gone."""
        for oid, names in self._moved_checks().items():
            clauses = ", ".join(table.drop_check(False, name) for name in sorted(names))
            sql = f"ALTER TABLE {ident(oid.name[0])} {clauses}"
            reason = "another table takes the name of the check"
            yield Step(sql, table.ALTER, oid, "warning", reason=reason, transaction=False)

    def _moved_checks(self) -> dict[ObjectId, frozenset[str]]:
        if self.world.mariadb:
            return {}
        wanted: dict[str, ObjectId] = {}
        for oid in self._changed("table"):
            before = self.world.current.get(oid, {}).get("checks", {})
            after = self.world.desired[oid].get("checks", {})
            wanted |= {name.lower(): oid for name in after if name not in before}
        moved: dict[ObjectId, frozenset[str]] = {}
        for oid, facts in self.world.current.items():
            if oid.kind != "table" or oid not in self.world.desired:
                continue
            names = frozenset(
                n for n in facts.get("checks", {}) if wanted.get(n.lower(), oid) != oid
            )
            if names:
                moved[oid] = names
        return moved

    def _tables(self) -> Iterator[Step | PlanRefusal]:
        current, desired = self.world.current, self.world.desired
        freed = self._moved_checks()
        changed = self._changed("table")
        for oid in (oid for oid in changed if oid in current):
            answer = table.alter(
                self.world, oid, current[oid], desired[oid], freed.get(oid, frozenset())
            )
            if isinstance(answer, PlanRefusal):
                yield answer
            else:
                yield from answer
        fresh = [oid for oid in changed if oid not in current]
        carried: set[ObjectId] = set()
        there = {oid for oid in current if oid.kind == "table" and oid in desired}
        for oid in _in_reference_order(desired, fresh):
            there.add(oid)
            inline = {
                key: desired[key]
                for key in _keys_of(desired, oid)
                if ObjectId("table", (desired[key]["references"],)) in there
            }
            carried |= inline.keys()
            yield self._created(oid, {key.name[1]: facts for key, facts in inline.items()})
        for oid in sorted(o for o in desired if o.kind == "foreign key" and o not in carried):
            if current.get(oid) != desired[oid] or oid in self.aside:
                step = foreign.add(self.world, oid, desired[oid])
                new = table_of(oid) not in current
                yield replace(step, severity="safe", reason="") if new else step

    def _created(self, oid: ObjectId, inline: Mapping[str, Facts]) -> Step:
        facts = self.world.desired[oid]
        sql = table.create_text(oid.name[0], facts, inline, self.world.aside.get(str(oid), {}))
        return Step(sql, "CreateTable", oid, transaction=False)


def _keys_of(objects: Mapping[ObjectId, Facts], oid: ObjectId) -> list[ObjectId]:
    return sorted(o for o in objects if o.kind == "foreign key" and o.name[0] == oid.name[0])


def _references(
    objects: Mapping[ObjectId, Facts], among: Iterable[ObjectId]
) -> dict[ObjectId, set[ObjectId]]:
    """Of each table, the others among these that it references."""
    found: dict[ObjectId, set[ObjectId]] = {oid: set() for oid in among}
    for oid, facts in objects.items():
        if oid.kind == "foreign key" and table_of(oid) in found:
            target = ObjectId("table", (facts["references"],))
            if target in found and target != table_of(oid):
                found[table_of(oid)].add(target)
    return found


def _in_reference_order(
    objects: Mapping[ObjectId, Facts], among: Sequence[ObjectId], reverse: bool = False
) -> list[ObjectId]:
    """Referenced tables first; where they reference one another, by name."""
    left = _references(objects, among)
    ordered: list[ObjectId] = []
    while left:
        ready = sorted(oid for oid, needs in left.items() if not needs & left.keys())
        for oid in ready or sorted(left)[:1]:
            ordered.append(oid)
            del left[oid]
    return ordered[::-1] if reverse else ordered


def _in_a_circle(objects: Mapping[ObjectId, Facts], among: Sequence[ObjectId]) -> set[ObjectId]:
    """Foreign keys of tables that no order of dropping suits."""
    order = {oid: at for at, oid in enumerate(_in_reference_order(objects, among))}
    return {
        oid
        for oid, facts in objects.items()
        if oid.kind == "foreign key"
        and table_of(oid) in order
        and order.get(ObjectId("table", (facts["references"],)), -1) > order[table_of(oid)]
    }


def _views_in_order(desired: Mapping[ObjectId, Facts], views: Sequence[ObjectId]) -> list[ObjectId]:
    """What a view selects from is there before it."""
    among = {oid.name[0].lower(): oid for oid in views}
    needs = {
        oid: {
            among[name.lower()]
            for name in table.names_in(desired[oid]["select"])
            if name.lower() in among and among[name.lower()] != oid
        }
        for oid in views
    }
    ordered: list[ObjectId] = []
    while needs:
        ready = sorted(oid for oid, used in needs.items() if not used & needs.keys())
        for oid in ready or sorted(needs, key=lambda o: (len(needs[o]), o))[:1]:
            ordered.append(oid)
            del needs[oid]
    return ordered


def _triggers_in_order(
    desired: Mapping[ObjectId, Facts], triggers: Sequence[ObjectId]
) -> list[ObjectId]:
    def place(oid: ObjectId) -> int:
        depth = 0
        while "follows" in desired[oid]:
            oid = ObjectId("trigger", (desired[oid]["follows"],))
            depth += 1
        return depth

    return sorted(triggers, key=lambda oid: (place(oid), oid))


def _under_modes(
    world: World, steps: Sequence[Step], wanted: Mapping[ObjectId, Facts]
) -> Iterator[Step]:
    """What keeps the session's modes is made under those that are declared."""
    mode, zone = world.sql_mode, world.time_zone
    for step in steps:
        need, when = world.sql_mode, world.time_zone
        facts = wanted.get(step.object, {})
        if step.kind.startswith(("Create", "Alter")) and "sql_mode" in facts:
            need, when = str(facts["sql_mode"]), str(facts.get("time_zone", when))
        elif _has_zero_date(world, step):
            modes = [m for m in world.sql_mode.split(",") if m not in _ZERO_DATES]
            need = ",".join(modes)
        if need != mode:
            yield _set(step.object, "sql_mode", need)
        if when != zone:
            yield _set(step.object, "time_zone", when)
        mode, zone = need, when
        yield step
    if steps and mode != world.sql_mode:
        yield _set(steps[-1].object, "sql_mode", world.sql_mode)
    if steps and zone != world.time_zone:
        yield _set(steps[-1].object, "time_zone", world.time_zone)


def _has_zero_date(world: World, step: Step) -> bool:
    """Whether the table has a default that some modes forbid, even to a statement beside it."""
    if step.kind not in ("CreateTable", table.ALTER):
        return False
    sides = (world.current.get(step.object, {}), world.desired.get(step.object, {}))
    return any(
        re.search(r"DEFAULT '\d{4}-(?:00|\d\d-00)", column["rest"])
        for side in sides
        for column in side.get("columns", ())
    )


def _set(oid: ObjectId, name: str, value: str) -> Step:
    sql = f"SET SESSION {name} = {literal(value)}"
    return Step(sql, "SetSession", oid, transaction=False)


def _in_its_way(step: Step, ways: Ways | None) -> Step:
    """An ALTER TABLE with the algorithm that the server can do it with, and what that locks."""
    head = f"ALTER TABLE {ident(step.object.name[0])} "
    if head not in step.sql or step.kind in ("AlterSequence", "RenameTable", CHECK):
        return step
    way = (ways or {}).get(step.sql)
    if way is None:
        return replace(step, lock="unknown: the server may copy the table")
    sql = step.sql if way == COPY else step.sql.replace(head, f"{head}{way}, ", 1)
    return replace(step, sql=sql, lock=f"{LOCKS[way]}")


def _protected(world: World, steps: Sequence[Step], database: str) -> Iterator[PlanRefusal]:
    seen: set[ObjectId] = set()
    for step in steps:
        on = world.current.get(step.object, {}).get("table", step.object.name[0])
        place = ObjectId("table", (str(on),))
        if place in seen or step.kind in (CHECK, "SetSession") or place not in world.current:
            continue
        names = world.policy.protected_tables
        if any(fnmatchcase(place.name[0], n) or fnmatchcase(f"{database}.{on}", n) for n in names):
            seen.add(place)
            message = f"{place} is protected and the plan changes it: {step.kind} {step.object}"
            yield PlanRefusal("ProtectedTable", message, place)


def _too_long(
    policy: Policy, steps: Sequence[Step], sizes: Mapping[int, int]
) -> Iterator[PlanRefusal]:
    if policy.deadline_explicit:
        return
    for index, step in enumerate(steps, start=1):
        if step.kind not in _LONG or f" {INSTANT}, " in step.sql:
            continue
        if sizes.get(index, 0) > LARGE_BYTES_MIN:
            message = (
                f"{step.kind} {step.object} works on {sizes[index] // 1024**2} MiB"
                f" ({step.lock or 'the whole table is read'}): set activeDeadlineSeconds to how"
                " long it may take"
            )
            yield PlanRefusal("DeadlineTooShort", message, step.object)
