"""The durable steps by name, as recorded, and the points that each suite takes from them.

``steps/CHANGE.txt`` holds every step of an undisturbed apply, one a line, by process. After a
change of the product ``PTAHK_KILL_RECORD=1 pytest tests/kill/test_steps.py`` writes them anew;
the difference is then reviewed like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.kill.points import SCRATCH, Point
from tests.kit import budget

FOLDER = Path(__file__).with_name("steps")
PROCESSES = ("cli", "runner", "executor")
OPERATIONS = ("Observe", "History", "Plan", "Apply", "Prove")


THOROUGH = budget.scaled(1) > 1
"""With a budget of 2 and more every point is struck; else what differs from its neighbours."""


def thorough(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Steps that the default run leaves out: a kill before a read is one after the write before."""
    return () if THOROUGH else steps


def thorough_only(*steps: str) -> tuple[str, ...]:
    """Steps that only a larger budget adds."""
    return steps if THOROUGH else ()


def recorded(name: str) -> tuple[str, ...]:
    """The lines of one record: ``PROCESS OPERATION STEP``."""
    return tuple((FOLDER / f"{name}.txt").read_text().splitlines())


def by_process(lines: Iterable[str]) -> tuple[str, ...]:
    """What processes and sessions wrote down side by side, one after the other."""
    kept = [line.rpartition(" ")[0] for line in lines]

    def order(line: str) -> tuple[int, int, bool]:
        process, operation, step = line.split()
        if process != "executor":
            return PROCESSES.index(process), 0, False
        return PROCESSES.index(process), OPERATIONS.index(operation), step.startswith(SCRATCH)

    return tuple(sorted(kept, key=order))


def points(
    record: str,
    process: str,
    operations: Iterable[str] = OPERATIONS,
    when: tuple[str, ...] = ("before",),
    without: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    victims: tuple[str, ...] = (),
    most: int = 1000,
) -> list[Point]:
    """A point at each recorded step of a process.

    :param without: steps to leave out; ``only``: all others are.
    :param most: how many of one name the default run strikes, the first ones.
    """
    seen: Counter[tuple[str, str]] = Counter()
    made: list[Point] = []
    for line in recorded(record):
        of, operation, step = line.split()
        if of != process:
            continue
        operation = "" if operation == "-" else operation
        seen[operation, step] += 1
        if operation and operation not in operations:
            continue
        if step in without or (only and step not in only):
            continue
        number = seen[operation, step]
        if number > most and not THOROUGH:
            continue
        made += [
            Point(process, operation, step, number, moment, victims=victims) for moment in when
        ]
    return made


def names(point: Point) -> str:
    """A point as a part of a test's id."""
    return point.name
