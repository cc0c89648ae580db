"""Many seeds, on all cores, and what they covered.

``python -m tests.sim --seeds 20000`` is the campaign of ``make sim``; ``python -m tests.sim --seed
N`` replays one seed and prints everything that happened in it.
"""

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from tests.kit.auditor import Violation
from tests.sim import points
from tests.sim.machine import CLASSES, Machine

CHUNK = 50
SHARES = {
    "success": 0.30, "unknown, then resolved": 0.20, "failed": 0.10, "refused": 0.10,
    "frozen": 0.10,
}  # fmt: skip
PROPERTY = "simulated"
"""Under this name a test's report carries what its seeds covered."""
HITS = 1000
"""Of every named crash point, in a campaign of at least 20,000 seeds."""


@dataclass
class Coverage:
    """What a number of seeds came to."""

    seeds: int = 0
    passes: int = 0
    turns: int = 0
    healed_most: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Coverage") -> None:
        self.seeds += other.seeds
        self.passes += other.passes
        self.turns += other.turns
        self.healed_most = max(self.healed_most, other.healed_most)
        self.outcomes += other.outcomes
        self.hits += other.hits
        self.acts += other.acts
        self.failures += other.failures

    def text(self) -> str:
        """JSON, for another process."""
        # Not asdict: it makes a Counter count its own items.
        return json.dumps(vars(self))

    @classmethod
    def of(cls, text: str) -> "Coverage":
        """The inverse of ``text``."""
        found = cls(**json.loads(text))
        for name in ("outcomes", "hits", "acts"):
            setattr(found, name, Counter(getattr(found, name)))
        return found


def replay(seed: int, kind: str | None = None) -> str:
    """The one command that repeats a seed."""
    family = f" --kind {kind}" if kind else ""
    return f".venv/bin/python -m tests.sim --seed {seed}{family}"


def run_one(seed: int, coverage: Coverage, kind: str | None = None) -> None:
    """One seed; a failure is kept with the command that replays it."""
    machine = Machine(seed, kind)
    coverage.seeds += 1
    try:
        report = machine.run()
    except Violation as violation:
        coverage.failures.append(f"seed {seed}: {violation}\n  replay: {replay(seed, kind)}")
    except Exception as error:
        # A crash of engine or world is a finding too: the other seeds still run.
        text = f"{type(error).__name__}: {error}"
        coverage.failures.append(f"seed {seed}: {text}\n  replay: {replay(seed, kind)}")
    else:
        coverage.outcomes[report.outcome] += 1
        coverage.healed_most = max(coverage.healed_most, report.healed_turns)
    coverage.passes += machine.world.passes
    coverage.turns += machine.world.turns
    coverage.hits += machine.world.hits
    coverage.acts += machine.world.acts


def run_many(seeds: Iterable[int], kind: str | None = None) -> Coverage:
    """These seeds, here.

    :param kind: the family; None: each draws schema or toy.
    """
    coverage = Coverage()
    for seed in seeds:
        run_one(seed, coverage, kind)
    return coverage


def campaign(
    first: int, count: int, jobs: int, say: object = None, kind: str | None = None
) -> Coverage:
    """``count`` seeds from ``first`` on ``jobs`` processes."""
    whole = Coverage()
    chunks = [
        range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, part in enumerate(pool.imap_unordered(partial(run_many, kind=kind), chunks), 1):
            whole.add(part)
            if callable(say) and number % 40 == 0:
                say("\n".join([*lines(whole)[:-1], *whole.failures[-5:]]))
    return whole


def shortfalls(whole: Coverage) -> list[str]:
    """What a campaign should have covered and did not."""
    found = []
    for name, share in SHARES.items():
        got = whole.outcomes[name] / max(1, whole.seeds)
        if got < share:
            found.append(f"{name}: {got:.1%}, and {share:.0%} was wanted")
    if whole.seeds >= 20_000:
        found += [
            f"{point}: {whole.hits[point]} hits, and {HITS} were wanted"
            for point in points.POINTS if whole.hits[point] < HITS
        ]  # fmt: skip
    return found


def lines(whole: Coverage) -> list[str]:
    """The account, for a terminal."""
    out = [f"{whole.seeds} seeds, {whole.passes} passes, {whole.turns} turns; "
           f"longest healed phase {whole.healed_most} turns"]  # fmt: skip
    for name in CLASSES:
        out.append(f"  {whole.outcomes[name] / max(1, whole.seeds):6.1%}  {name}")
    least = sorted((whole.hits[point], point) for point in points.POINTS)
    out.append(f"  {len(points.POINTS)} crash points, {sum(whole.hits.values())} hits; least: "
               + ", ".join(f"{point} {hits}" for hits, point in least[:5]))  # fmt: skip
    acts = ", ".join(f"{name} {count}" for name, count in sorted(whole.acts.items()))
    return [*out, f"  acts: {acts}"]


def timed(first: int, count: int, jobs: int, kind: str | None = None) -> int:
    """A whole campaign with its account on the terminal; the exit code."""
    begun = time.perf_counter()
    whole = campaign(first, count, jobs, say=lambda text: print(text, flush=True),
                     kind=kind)  # fmt: skip
    print("\n".join(lines(whole)))
    for point in points.POINTS:
        print(f"  {whole.hits[point]:8}  {point}")
    print(f"{time.perf_counter() - begun:.0f} s on {jobs} processes")
    problems = [*whole.failures, *([] if kind else shortfalls(whole))]
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


def summary(texts: Iterable[str]) -> list[str]:
    """What the seeds of a test run covered together; nothing where there were none."""
    whole = Coverage()
    for text in texts:
        whole.add(Coverage.of(text))
    return lines(whole)[:-1] if whole.seeds else []
