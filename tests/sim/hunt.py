"""Plant sabotages in the engine and hunt them with seeds of the simulator.

``make mutants`` hunts each alone and all in pairs, within ``SEEDS_MAX`` seeds, and prints a table.
``python -m tests.sim.hunt NAME …`` hunts these together; ``--refresh`` writes anew which seed
catches which (``killers.json``): that seed is tried first, the others follow, so a stale file costs
time and nothing else.

A process is planted before it imports the engine, by a finder that compiles the changed source in
place of the file. The product has no hook, and nothing is written to disk.
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import CodeType, ModuleType

from tests.sim.mutants import MUTANTS, Mutant, named

ENGINE = Path(__file__).resolve().parents[2] / "ptahk" / "engine"
KILLERS = Path(__file__).parent / "killers.json"
SEEDS_MAX = 1000
SECONDS_MAX = 1200


def planted(file: str, mutants: Iterable[Mutant]) -> str:
    """The text of an engine's file with these sabotages in it.

    :raises ValueError: one of them does not fit exactly once.
    """
    text = (ENGINE / file).read_text()
    for mutant in mutants:
        if mutant.file == file:
            if text.count(mutant.old) != 1:
                raise ValueError(f"{mutant.name}: fits {text.count(mutant.old)} times in {file}")
            text = text.replace(mutant.old, mutant.new)
    return text


def fit(mutants: Sequence[Mutant]) -> bool:
    """They can be planted together, in any order, each as it is written."""
    try:
        for file in {mutant.file for mutant in mutants}:
            if planted(file, mutants) != planted(file, reversed(mutants)):
                return False
    except ValueError:
        return False
    return True


def pairs() -> list[tuple[Mutant, Mutant]]:
    """Every two sabotages that fit beside each other and are hunted by the same seeds."""
    return [pair for pair in combinations(MUTANTS, 2) if pair[0].kind == pair[1].kind and fit(pair)]


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self._texts = {}
        for file in {mutant.file for mutant in mutants}:
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self._texts[f"ptahk.engine.{name}"] = (ENGINE / file, planted(file, mutants))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._texts:
            return None
        where, text = self._texts[fullname]
        loader = _Loader(fullname, str(where), text)
        return importlib.util.spec_from_file_location(fullname, where, loader=loader)


def plant(mutants: Sequence[Mutant]) -> None:
    """Sabotage the engine of this process, which has not imported it yet."""
    assert "ptahk.engine" not in sys.modules, "the engine is here already"
    sys.meta_path.insert(0, _Finder(mutants))


@dataclass(frozen=True)
class Catch:
    """How a hunt ended."""

    names: tuple[str, ...]
    tried: int
    """Seeds until it was caught."""
    seed: int | None
    """None: it survived."""
    by: str
    """The invariant that caught it, with its words."""

    def line(self) -> str:
        what = " + ".join(self.names)
        if self.seed is None:
            return f"{what}: SURVIVED {self.tried} seeds"
        return f"{what}: caught by seed {self.seed}, after {self.tried}: {self.by}"


def killers() -> dict[str, int]:
    """Which seed caught which sabotage the last time."""
    found: dict[str, int] = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    return found


def order(names: Sequence[str], known: dict[str, int], count: int) -> Iterator[int]:
    """Seeds to try: what has caught one of these first, then the others from 0 on."""
    first = list(dict.fromkeys(known[name] for name in names if name in known))
    yield from first
    yield from [seed for seed in range(count) if seed not in first][: count - len(first)]


def hunt(names: Sequence[str], known: dict[str, int], count: int = SEEDS_MAX) -> Catch:
    """Plant these in this process, and run seeds until something is caught."""
    mutants = [named(name) for name in names]
    plant(mutants)
    from tests.kit.auditor import Violation
    from tests.sim.machine import Machine

    tried = 0
    for seed in order(names, known, count):
        tried += 1
        try:
            Machine(seed, mutants[0].kind).run()
        except Violation as violation:
            return Catch(tuple(names), tried, seed, str(violation))
        except Exception as error:
            # A pass that breaks off is noticed too: the campaign counts it as a failure.
            return Catch(tuple(names), tried, seed, f"crash: {type(error).__name__}: {error}")
    return Catch(tuple(names), tried, None, "")


def _job(names: tuple[str, ...]) -> Catch:
    signal.alarm(SECONDS_MAX)
    return hunt(names, killers())


def hunt_all(jobs: Sequence[tuple[str, ...]], processes: int) -> Iterator[Catch]:
    """Each in a fresh process."""
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_job, jobs, chunksize=1)


def _singles(processes: int) -> list[Catch]:
    """Each alone; a row of the table as soon as it is known."""
    found = []
    for catch in hunt_all([(mutant.name,) for mutant in MUTANTS], processes):
        seeds = "-" if catch.seed is None else str(catch.tried)
        print(f"{catch.names[0]:44} {seeds:>5}  {catch.by[:100] or 'SURVIVED'}", flush=True)
        found.append(catch)
    return found


def campaign(processes: int, *, refresh: bool) -> int:
    """All alone, then (unless only the file is refreshed) all in pairs; the exit code."""
    begun = time.perf_counter()
    if refresh:
        KILLERS.write_text("{}\n")
    singles = _singles(processes)
    survivors = [catch for catch in singles if catch.seed is None]
    print(f"{len(singles)} alone, {len(survivors)} survived; {time.perf_counter() - begun:.0f} s")
    if refresh:
        found = {catch.names[0]: catch.seed for catch in singles if catch.seed is not None}
        KILLERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 1 if survivors else 0
    todo = [(one.name, other.name) for one, other in pairs()]
    caught, tried, longest = 0, 0, 0
    for catch in hunt_all(todo, processes):
        tried += catch.tried
        longest = max(longest, catch.tried)
        if catch.seed is None:
            survivors.append(catch)
            print(catch.line(), flush=True)
            continue
        caught += 1
        if caught % 200 == 0:
            print(f"{caught} pairs caught", flush=True)
    print(f"{len(todo)} pairs, {len(todo) - caught} survived; {tried} seeds, at most {longest} "
          f"for one; {time.perf_counter() - begun:.0f} s in all")  # fmt: skip
    for catch in survivors:
        print(f"SURVIVED: {' + '.join(catch.names)}")
    return 1 if survivors else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.hunt", description=__doc__)
    parser.add_argument("names", nargs="*", help="hunt these together; none: the campaign")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most so many")
    parser.add_argument("--refresh", action="store_true", help="write killers.json anew")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args()
    if not given.names:
        return campaign(given.jobs, refresh=given.refresh)
    catch = hunt(given.names, killers(), given.seeds)
    print(catch.line())
    return 1 if catch.seed is None else 0


if __name__ == "__main__":
    sys.exit(main())
