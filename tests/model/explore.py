"""Every state of a world, by faults used and then by steps, and whether each can be resolved.

Layer 0 is what a world without faults comes to; each further layer starts where one fault more
happened in the one before. So a state is met first with the fewest faults and, among those, with
the fewest steps, and its path is the shortest. Kept of a state are 8 bytes of name, its parent and
the number of its move; worlds are kept only while they wait.
"""

import contextlib
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tests.kit.auditor import Violation
from tests.model.faults import Faults
from tests.model.parts import State, key
from tests.model.world import CONFIGS, TICK_S, Config, Move, World
from tests.sim import fast

Seeds = dict[int, tuple[State, int, int, int]]
"""Name → state, its parent, the number of its move, its depth."""
FIRST_FAULT = 1000
"""Numbers of moves that are faults start here."""
Sabotage = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Bounds:
    """How far to go.

    :param world: name of a configuration.
    :param faults: how many may happen on one path.
    :param states: no more faults once so many states are known or wait, taken from a sample of
        all depths; what follows from them without faults is still explored. None: all there are.
    :param kinds: which faults may happen; None: all.
    :param memo: False: every pass is run for real.
    :param most: nothing is looked at once so many states are known: what would follow from the rest
        is not known, and none of them is called stuck for it. None: all there are.
    """

    world: str = "cluster"
    faults: int = 1
    states: int | None = None
    kinds: tuple[str, ...] | None = None
    memo: bool = True
    most: int | None = None


@dataclass
class Report:
    """What was found."""

    bounds: Bounds
    states: int = 0
    transitions: int = 0
    passes: int = 0
    passes_run: int = 0
    seconds: float = 0.0
    depth: int = 0
    resolved: int = 0
    passed_over: int = 0
    """States that are known and were not looked at."""
    complete: bool = True
    """Nothing within the faults that the bounds allow was left out."""
    layers: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    """Transitions by kind of fault."""
    names: frozenset[int] = frozenset()
    """Of every state."""
    named: Sequence[int] = ()
    """The same, on the way to another process."""
    failure: str = ""
    """What went wrong, its path and how to replay it."""
    invariant: str = ""

    def lines(self) -> list[str]:
        """For people."""
        whole = "all of them" if self.complete else "stopped by the bound"
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.kinds.items()))
        rate = self.passes / self.seconds if self.seconds else 0.0
        of = "every kind" if self.bounds.kinds is None else ", ".join(self.bounds.kinds)
        return [
            f"{self.bounds.world}, up to {self.bounds.faults} faults a path, of {of}: "
            f"{self.states:,} states ({whole}), {self.transitions:,} transitions, "
            f"depth {self.depth}, {self.resolved:,} resolved"
            + (f", {self.passed_over:,} not looked at" if self.passed_over else ""),
            f"  by faults used: {', '.join(f'{number:,}' for number in self.layers)}",
            f"  {self.passes:,} passes in {self.seconds:.0f} s ({rate:,.0f} a second), "
            f"{self.passes_run:,} of them not seen before",
            f"  transitions by fault: {kinds}",
        ]


class Explorer:
    """One exploration."""

    def __init__(self, bounds: Bounds, say: Callable[[str], None] = lambda text: None) -> None:
        config = CONFIGS[bounds.world]
        config = config._replace(kinds=bounds.kinds)
        self.bounds, self.say = bounds, say
        self.world = World(config, bounds.memo)
        self.faults = Faults(self.world)
        self.index: dict[int, int] = {}
        self.parent = array("q")
        self.move = array("H")
        self.done = array("I")
        """Indices of resolved states."""
        self.beyond = array("I")
        """Indices of states that the bound leaves alone."""
        self.edges = (array("I"), array("I"))
        self.report = Report(bounds)

    # -- moves --------------------------------------------------------------------------------

    def free(self, state: State) -> Iterator[tuple[int, Move, int]]:
        """Free moves with their numbers and the names of what they lead to.

        Last comes the passing of time, where nothing else is left.
        """
        moved, number, name = False, 0, key(state)
        for move in self.world.free(state):
            after = self._name(move.state, state, name)
            moved = moved or after != name
            yield number, move, after
            number += 1
        if not moved and not self.world.resolved(state):
            move = self.world._try("time passes", "", self.world.later, state, TICK_S)
            yield number, move, self._name(move.state, state, name)

    def _name(self, after: State | Violation, before: State, name: int) -> int:
        if after is before:
            return name
        return 0 if isinstance(after, Violation) else key(after)

    def moves(self, state: State) -> Iterator[tuple[int, Move]]:
        """Everything that may happen, by number."""
        for number, move, _ in self.free(state):
            yield number, move
        for number, move in enumerate(self.faults.of(state), FIRST_FAULT):
            yield number, move

    # -- the search ---------------------------------------------------------------------------

    def run(self) -> Report:
        """Explore, then look for states from which nothing leads to a resolved one."""
        begun = time.perf_counter()
        try:
            start = self.world.initial()
        except Violation as violation:
            self.report.failure = self.report.invariant = str(violation)
            return self.report
        seeds: Seeds = {key(start): (start, -1, 0, 0)}
        for layer in range(self.bounds.faults + 1):
            before = len(self.index)
            known: list[tuple[State, int, int]] = []
            whole = self._layer(seeds, known if layer < self.bounds.faults else None)
            self.report.layers.append(len(self.index) - before)
            seeds = self._further(known) if whole and not self._full() else {}
            if not whole or self.report.failure:
                break
            if layer < self.bounds.faults and not seeds:
                self.report.complete = not self._full()
                break
        self.report.states = len(self.index)
        self.report.passes = self.world.passes.asked
        self.report.passes_run = self.world.passes.ran
        self.report.names = frozenset(self.index)
        if not self.report.failure:
            self._stuck()
        self.report.seconds = time.perf_counter() - begun
        return self.report

    def _full(self) -> bool:
        most = self.bounds.states
        return most is not None and len(self.index) >= most

    def _over(self) -> bool:
        most = self.bounds.most
        return most is not None and len(self.index) >= most

    def _layer(self, seeds: Seeds, known: list[tuple[State, int, int]] | None) -> bool:
        """Everything that no further fault leads to, by steps; False: something is wrong.

        :param known: where states are kept whose faults come next.
        """
        buckets: dict[int, list[tuple[State, int]]] = {}
        waiting: dict[int, list[tuple[int, State, int, int]]] = {}
        for name, (state, parent, move, depth) in seeds.items():
            if name not in self.index:
                waiting.setdefault(depth, []).append((name, state, parent, move))
        seeds.clear()
        depth = min(waiting, default=0)
        while buckets or waiting:
            for name, state, parent, move in waiting.pop(depth, ()):
                if name in self.index:
                    continue
                if self._full() or self._over():
                    self.report.complete = False
                    continue
                at = self._add(name, parent, move)
                buckets.setdefault(depth, []).append((state, at))
            for state, at in buckets.pop(depth, ()):
                if self._over():
                    self.report.complete = False
                    self.beyond.append(at)
                    continue
                if known is not None:
                    known.append((state, at, depth))
                if not self._expand(state, at, depth, buckets):
                    return False
            self.report.depth = max(self.report.depth, depth)
            depth += 1
        return True

    def _further(self, known: list[tuple[State, int, int]]) -> Seeds:
        """What one fault more leads to."""
        report, seeds = self.report, Seeds()
        most = self.bounds.states
        if most is not None:
            # Not all of them will be looked at: a sample of every depth is.
            known.sort(key=lambda item: item[1] * 2_654_435_761 % 2**32)
        for state, at, depth in known:
            if most is not None and len(self.index) + len(seeds) >= most:
                report.complete = False
                break
            for number, move in enumerate(self.faults.of(state), FIRST_FAULT):
                report.transitions += 1
                report.kinds[move.kind] += 1
                if isinstance(move.state, Violation):
                    report.invariant = str(move.state)
                    report.failure = self._told(str(move.state), at, number)
                    return seeds
                name = key(move.state)
                if name not in self.index and name not in seeds:
                    seeds[name] = (move.state, at, number, depth + 1)
        return seeds

    def _add(self, name: int, parent: int, move: int) -> int:
        at = len(self.index)
        self.index[name] = at
        self.parent.append(parent)
        self.move.append(move)
        if at and at % 50_000 == 0:
            self.say(f"{self.bounds.world}: {at:,} states, {len(self.edges[0]):,} free edges")
        return at

    def _expand(
        self, state: State, at: int, depth: int, buckets: dict[int, list[tuple[State, int]]]
    ) -> bool:
        report = self.report
        if self.world.resolved(state):
            self.done.append(at)
        for number, move, name in self.free(state):
            report.transitions += 1
            if isinstance(move.state, Violation):
                report.invariant = str(move.state)
                report.failure = self._told(str(move.state), at, number)
                return False
            found = self.index.get(name)
            if found is None:
                found = self._add(name, at, number)
                buckets.setdefault(depth + 1, []).append((move.state, found))
            if found != at:
                self.edges[0].append(at)
                self.edges[1].append(found)
        return True

    # -- what cannot be resolved --------------------------------------------------------------

    def _stuck(self) -> None:
        """Free moves alone must lead from every state to a resolved one."""
        count = len(self.index)
        into: list[list[int] | None] = [None] * count
        for source, target in zip(*self.edges, strict=True):
            held = into[target]
            if held is None:
                into[target] = [source]
            else:
                held.append(source)
        reached = bytearray(count)
        todo = [*self.done, *self.beyond]
        for at in todo:
            reached[at] = 1
        while todo:
            for source in into[todo.pop()] or ():
                if not reached[source]:
                    reached[source] = 1
                    todo.append(source)
        self.report.resolved, self.report.passed_over = len(self.done), len(self.beyond)
        lost = [at for at in range(count) if not reached[at]]
        if lost:
            moving = set(self.edges[0])
            # One where nothing happens any more tells most.
            shown = next((at for at in lost if at not in moving), lost[0])
            self.report.invariant = "31-35"
            text = f"{len(lost)} states from which nothing is ever resolved; one of them"
            self.report.failure = self._told(text, shown, None)

    # -- telling ------------------------------------------------------------------------------

    def path(self, at: int) -> list[int]:
        """Numbers of the moves from the beginning to this state."""
        found = []
        while self.parent[at] >= 0:
            found.append(self.move[at])
            at = self.parent[at]
        return found[::-1]

    def _told(self, what: str, at: int, last: int | None) -> str:
        moves = self.path(at) + ([] if last is None else [last])
        steps = [line for line, _ in self.follow(moves)]
        given = ",".join(map(str, moves))
        kinds = f" --kinds {','.join(self.bounds.kinds)}" if self.bounds.kinds else ""
        command = f".venv/bin/python -m tests.model --world {self.bounds.world}{kinds}"
        return "\n".join([what, *steps, f"replay: {command} --replay {given}"])

    def follow(self, moves: Sequence[int]) -> Iterator[tuple[str, State | Violation]]:
        """What each of these moves does, from the beginning."""
        state = self.world.initial()
        for position, number in enumerate(moves):
            move = next(move for at, move in self.moves(state) if at == number)
            mark = f"  [{move.kind}]" if move.kind else ""
            yield f"{position + 1:4} {move.label}{mark}", move.state
            if isinstance(move.state, Violation):
                return
            state = move.state


def explore(
    bounds: Bounds, sabotage: Sabotage | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:  # fmt: skip
    """Every state within the bounds, until one breaks an invariant.

    :param sabotage: makes a context in which the engine is broken; for planted bugs.
    """
    with fast.parsing_once(), sabotage() if sabotage else contextlib.nullcontext():
        return Explorer(bounds, say).run()


__all__ = ["CONFIGS", "Bounds", "Config", "Explorer", "Report", "explore"]
