"""What happens to each object: created, dropped, altered in place or rebuilt. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ptahk.executor.planning.grammar import RESERVED, Grammar
from ptahk.executor.planning.model import (
    Alter,
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Rebuild,
)

ROUNDS_MAX = 200
"""A rebuild makes another round; chains of dependents are never this deep."""


@dataclass(slots=True)
class Decisions:
    """The fate of every object that does not stay as it is."""

    created: set[ObjectId]
    dropped: set[ObjectId]
    alters: dict[ObjectId, Alter] = field(default_factory=dict)
    rebuilt: dict[ObjectId, Rebuild] = field(default_factory=dict)
    refusals: list[PlanRefusal] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True where nothing changes at all."""
        return not (self.created or self.dropped or self.alters or self.rebuilt or self.refusals)

    @property
    def creates(self) -> set[ObjectId]:
        return self.created | self.rebuilt.keys()

    @property
    def drops(self) -> set[ObjectId]:
        return self.dropped | self.rebuilt.keys()


def decide(ctx: Context, grammar: Grammar, forced: Iterable[ObjectId] = ()) -> Decisions:
    """Ask every changed object how it changes, and carry rebuilds on to what depends on them.

    :param forced: objects that must be rebuilt because no order exists for altering them.
    """
    current, desired = ctx.current.objects, ctx.desired.objects
    made = Decisions(
        created={oid for oid in desired if oid not in current},
        dropped={oid for oid in current if oid not in desired},
    )
    changed = [oid for oid, facts in desired.items() if oid in current and current[oid] != facts]
    if not (changed or made.created or made.dropped):
        return made
    users = dependents(ctx)
    asked = set(changed)
    for oid in forced:
        made.rebuilt[oid] = _rebuild(grammar, oid, current[oid], "no other order exists")
    for _ in range(ROUNDS_MAX):
        before = len(made.rebuilt), len(asked)
        round_ctx = replace(ctx, rebuilt=frozenset(made.rebuilt))
        made.refusals.clear()
        made.alters.clear()
        near = {user for used in made.rebuilt for user in users.get(used, ())}
        for oid in sorted(asked):
            if oid not in made.rebuilt:
                _ask(round_ctx, grammar, made, oid, users, oid in near)
        _carry_on(round_ctx, grammar, made, asked, users)
        if (len(made.rebuilt), len(asked)) == before:
            _drop_needless_asides(made, grammar, users)
            return made
    raise AssertionError("rebuilds do not settle")


def _drop_needless_asides(
    made: Decisions, grammar: Grammar, users: Mapping[ObjectId, list[ObjectId]]
) -> None:
    """A type that nothing keeps using need not be set aside: it is simply dropped.

    What an altered object uses is kept, and what is under it: types of types.
    """
    kept: set[ObjectId] = set()
    grown = True
    while grown:
        grown = False
        for oid in made.drops - kept:
            if oid.kind in grammar.types and any(
                user in made.alters or user in kept for user in users.get(oid, ())
            ):
                kept.add(oid)
                grown = True
    for oid, answer in made.rebuilt.items():
        if answer.aside and oid not in kept:
            made.rebuilt[oid] = replace(answer, aside=None)


def dependents(ctx: Context) -> Mapping[ObjectId, list[ObjectId]]:
    """Live dependents by what they use."""
    users: defaultdict[ObjectId, list[ObjectId]] = defaultdict(list)
    for user, used in ctx.current.depends:
        users[used].append(user)
    return users


def _ask(
    ctx: Context,
    grammar: Grammar,
    made: Decisions,
    oid: ObjectId,
    users: Mapping[ObjectId, list[ObjectId]],
    uses_rebuilt: bool,
) -> None:
    old, new = ctx.current.objects[oid], ctx.desired.objects[oid]
    if not uses_rebuilt and _own(old) == _own(new):
        if old != new:
            made.alters[oid] = Alter([])
        return
    answer = grammar.kinds[oid.kind].alter(ctx, oid, old, new)
    if isinstance(answer, PlanRefusal):
        made.refusals.append(answer)
    elif isinstance(answer, Rebuild):
        if answer.aside is None:
            answer = replace(answer, aside=grammar.aside(oid, old, answer.reason))
        made.rebuilt[oid] = answer
    else:
        alter = answer if isinstance(answer, Alter) else Alter(answer)
        if old == new and not (alter.steps or alter.displaces or alter.displaces_changed):
            return  # asked for the sake of what it uses, and needs nothing
        made.alters[oid] = alter
        _displace(ctx, grammar, made, oid, users)


def _own(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if key not in RESERVED}


def _displace(
    ctx: Context,
    grammar: Grammar,
    made: Decisions,
    oid: ObjectId,
    users: Mapping[ObjectId, list[ObjectId]],
) -> None:
    """Direct dependents stand aside; those of a rebuilt one follow by themselves."""
    alter = made.alters[oid]
    if not (alter.displaces or alter.displaces_changed):
        return
    current, desired = ctx.current.objects, ctx.desired.objects
    for user in users.get(oid, ()):
        if user not in desired or user in made.rebuilt:
            continue
        label = grammar.label(user, current[user])
        changed = _own(current[user]) != _own(desired[user])
        if label in alter.displaces or (label in alter.displaces_changed and changed):
            reason = alter.reason or f"{oid} changes"
            made.rebuilt[user] = _rebuild(grammar, user, current[user], reason)


def _carry_on(
    ctx: Context,
    grammar: Grammar,
    made: Decisions,
    asked: set[ObjectId],
    users: Mapping[ObjectId, list[ObjectId]],
) -> None:
    """Whatever uses something that is dropped or rebuilt is rebuilt, or asked about it."""
    current, desired = ctx.current.objects, ctx.desired.objects
    pending = [*made.rebuilt, *made.dropped]
    seen = set(pending)
    while pending:
        used = pending.pop()
        for user in users.get(used, ()):
            if user in seen or user not in desired:
                continue
            if used in made.dropped and used not in made.rebuilt and user in asked:
                continue  # its own change is what lets go of it
            if user.kind in grammar.never_rebuilt:
                asked.add(user)
                continue
            seen.add(user)
            pending.append(user)
            reason = f"it uses {used}, which is dropped or created anew"
            made.rebuilt[user] = _rebuild(grammar, user, current[user], reason)


def _rebuild(grammar: Grammar, oid: ObjectId, facts: Facts, reason: str) -> Rebuild:
    return Rebuild(reason, "warning", grammar.aside(oid, facts, reason))
