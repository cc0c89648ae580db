"""Every first crash × every second crash of a story, each carried to its end.

From each moment of the undisturbed run every durable step is hit in every way; from each moment of
each recovery again. Moments that can only go on alike (``canonical``) are gone on from once: so all
pairs are enumerated, and only what differs is run. A request that is still under way, and the
session of a dead executor, may come at any later moment: each of these moments is gone on from too.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from tests.matrix import canonical
from tests.matrix.bed import Bed, Saved, Story, Stuck
from tests.matrix.strikes import (
    COMMITS,
    DIES,
    ENGINE_KINDS,
    LATE,
    LATE_KILLED,
    LINGERS,
    Strike,
)
from tests.sim import fast

SEPARATOR = "/"


@dataclass
class Account:
    """What a story came to."""

    story: str
    turns: int = 0
    moments: int = 0
    """Distinct moments gone on from."""
    firsts: Counter[str] = field(default_factory=Counter)
    """First crashes by kind."""
    pairs: Counter[str] = field(default_factory=Counter)
    """Pairs by kind of the second crash."""
    found: Counter[str] = field(default_factory=Counter)
    """Every durable step seen, by name, in undisturbed runs and recoveries."""
    landings: int = 0
    """Moments at which something that was under way came, beside its own time."""
    failures: list[str] = field(default_factory=list)


class Enough(Exception):
    """So many failures that more would not tell more."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A world right before a turn, and what that turn would do durably."""

    saved: Saved
    key: bytes
    steps: tuple[str, ...]
    executor: bool
    known: bool

    @property
    def under_way(self) -> tuple[int, bool]:
        """Late requests, and whether a dead executor's session lives."""
        return len(self.saved.own[0]), self.saved.own[1] is not None


class Explorer:
    """One story's.

    :param share: False: nothing is shared, every pair runs to its end.
    """

    def __init__(self, story: Story, *, share: bool = True, failures_max: int = 5) -> None:
        self.bed = Bed(story)
        self.account = Account(story.name)
        self.share = share
        self.failures_max = failures_max
        self.ends_well: set[bytes] = set()
        """Keys of moments from which the undisturbed way leads to a good end."""
        self.pairs: dict[bytes, Counter[str]] = {}
        """Key → the second crashes on the undisturbed way from there."""

    def run(self, first: int | None = None) -> Account:
        """All of it.

        :param first: only the n-th moment's first crashes.
        """
        with contextlib.suppress(Enough):
            self._run(first)
        self.account.moments = len(self.ends_well)
        return self.account

    def _run(self, first: int | None) -> None:
        while not self.bed.story.starts(self.bed):
            if not self.bed.turn():
                raise Stuck("the story is over before it starts")
        for number, moment in enumerate(self._way(self.bed.save())):
            if first is not None and number != first:
                continue
            self.bed.restore(moment.saved)
            if self.bed.story.stops(self.bed):
                break
            for strike, name in strikes(moment, self.bed):
                self.account.firsts[strike.kind] += 1
                if self._struck(moment, strike, name):
                    self.account.pairs += self._second(self.bed.save())

    def _second(self, saved: Saved) -> Counter[str]:
        """Every second crash on every way on from here; how many on the one without arrivals."""
        counts, todo = self._crashed(saved)
        while todo:
            _, more = self._crashed(todo.pop())
            todo += more
        return counts

    def _crashed(self, saved: Saved) -> tuple[Counter[str], list[Saved]]:
        """Crashes on the undisturbed way from here, and other ways on that start on it."""
        way = self._way(saved, until=self.pairs)
        total: Counter[str] = Counter()
        if way and way[-1].known:
            total = Counter(self.pairs[way.pop().key])
        others: list[Saved] = []
        for moment in reversed(way):
            for strike, name in strikes(moment, self.bed):
                total[strike.kind] += 1
                if self._struck(moment, strike, name):
                    self._resolve(self.bed.save())
            others += self._arrivals(moment, self.pairs)
            if self.share:
                self.pairs[moment.key] = Counter(total)
        return total, others

    def _resolve(self, saved: Saved) -> None:
        """Without further crashes: every way on from here ends well."""
        todo = [saved]
        while todo:
            for moment in self._way(todo.pop(), until=self.ends_well):
                todo += self._arrivals(moment, self.ends_well)

    # -- ways and moments ---------------------------------------------------------------------

    def _way(self, saved: Saved, until: Container[bytes] = ()) -> list[Moment]:
        """The undisturbed way from here: to its end, or to a moment that is known."""
        bed, way = self.bed, []
        keys: set[bytes] = set()
        bed.restore(saved)
        while True:
            key = canonical.key(bed)
            saved = bed.save()
            if self.share and key in until:
                way.append(Moment(saved, key, (), executor=False, known=True))
                break
            if key in keys and not (bed.late or bed.lingering):
                self._fail(Stuck(f"it goes round in a circle: {bed.shown()}"))
                break
            keys.add(key)
            more = self._turn(None)
            if more is None:
                break
            executor = bed.event.startswith("executor")
            way.append(Moment(saved, key, tuple(bed.hit), executor=executor, known=False))
            self.account.found.update(bed.hit)
            if not more:
                break
        self.ends_well |= keys
        return way

    def _turn(self, strike: Strike | None) -> bool | None:
        """One turn, checked; None: something is wrong."""
        self.account.turns += 1
        try:
            more = self.bed.turn(strike)
            if not more:
                self.bed.story.check(self.bed)
        except Enough:
            raise
        except Exception as error:
            # A crash of engine or bed is a finding too: the other pairs still run.
            self._fail(error)
            return None
        return more

    def _struck(self, moment: Moment, strike: Strike, name: str) -> bool:
        """The world right after this crash."""
        bed = self.bed
        bed.restore(moment.saved)
        text = SEPARATOR.join((str(bed.turns), str(strike.index), name, strike.kind))
        bed.choices = (*bed.choices, text)
        return self._turn(strike) is not None

    def _arrivals(self, moment: Moment, known: Container[bytes]) -> list[Saved]:
        """What is under way comes right before this moment, each alone."""
        found: list[Saved] = []
        late, lingering = moment.under_way
        for number in (*range(late), *((-1,) if lingering else ())):
            if moment.known:
                break
            bed = self.bed
            bed.restore(moment.saved)
            name = "end" if number < 0 else f"land{number}"
            bed.choices = (*bed.choices, f"{bed.turns}{SEPARATOR}{name}")
            try:
                bed.arrive(number)
            except Exception as error:
                self._fail(error)
                continue
            self.account.landings += 1
            if not (self.share and canonical.key(bed) in known):
                found.append(bed.save())
        return found

    def _fail(self, error: BaseException) -> None:
        bed = self.bed
        text = f"{type(error).__name__}: {error}"
        self.account.failures.append(f"{told(bed.choices)}: {text}\n  replay: {replay(bed)}")
        if len(self.account.failures) >= self.failures_max:
            raise Enough


def strikes(moment: Moment, bed: Bed) -> list[tuple[Strike, str]]:
    """Every way to hit this turn."""
    if moment.executor:
        found = [(Strike(0, DIES), "start:before")]
        for number, name in enumerate(moment.steps, 1):
            found += [(Strike(number, kind), name) for kind in (DIES, LINGERS)]
            if name == "sent":
                found.append((Strike(number, COMMITS), name))
        return found
    return [
        (Strike(number, kind), name)
        for number, name in enumerate(moment.steps)
        for kind in ENGINE_KINDS
        # Locally a create is a fork: it is there or it is not, and comes never late (C-6.9).
        if not (name == "CreateJob" and bed.story.local and kind in (LATE, LATE_KILLED))
    ]


def told(choices: tuple[str, ...]) -> str:
    """The crashes of a run, for a person."""
    found = []
    for choice in choices:
        parts = choice.split(SEPARATOR)
        if len(parts) == 2:
            found.append(f"turn {parts[0]}: what was under way comes")
        else:
            turn, _, name, kind = parts
            found.append(f"turn {turn}: {name} {kind}")
    return "; ".join(found) or "undisturbed"


def replay(bed: Bed) -> str:
    """The one command that repeats this run."""
    given = " ".join(f"'{choice}'" for choice in bed.choices)
    return f".venv/bin/python -m tests.matrix {bed.story.name} {given}".rstrip()


def account(story: Story, *, share: bool = True, first: int | None = None) -> Account:
    """Everything of one story, or the first crashes of its n-th moment."""
    with fast.parsing_once():
        return Explorer(story, share=share).run(first)


STEPS = Path(__file__).with_name("steps.txt")
"""The kept list: a line for each story, ``NAME: step …``."""


def kept() -> dict[str, list[str]]:
    """Story → the durable steps that its undisturbed runs and recoveries have."""
    found = {}
    for line in STEPS.read_text().splitlines():
        story, _, names = line.partition(": ")
        found[story] = names.split()
    return found


def record(accounts: list[Account]) -> None:
    """Write the kept list anew. The difference is reviewed like any other."""
    text = [f"{found.story}: {' '.join(sorted(found.found))}\n" for found in accounts]
    STEPS.write_text("".join(text))


def summary(texts: list[str]) -> list[str]:
    """One line over stories that may have run in several processes (``properties``)."""
    crashes, pairs, stories = Counter[str](), Counter[str](), 0
    for text in texts:
        found = json.loads(text)
        stories += 1
        crashes += Counter(found["firsts"])
        pairs += Counter(found["pairs"])
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(pairs.items()))
    return [
        f"crash matrix: {stories} stories, {crashes.total()} first crashes, "
        f"{pairs.total()} pairs ({kinds})"
    ]


def properties(found: Account) -> str:
    """The account as a test records it."""
    return json.dumps({"story": found.story, "firsts": found.firsts, "pairs": found.pairs})


def lines(found: Account) -> list[str]:
    """The account, for a terminal."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.pairs.items()))
    return [
        f"{found.story}: {sum(found.firsts.values())} first crashes, "
        f"{sum(found.pairs.values())} pairs, {found.landings} arrivals, "
        f"{found.moments} moments, {found.turns} turns",
        f"  second crashes: {kinds}",
        *(f"  FAILED {failure}" for failure in found.failures),
    ]
