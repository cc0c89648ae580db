"""The exhaustive model of the engine: whole worlds with few kinds of faults in each default run.

``make model`` explores them with every kind. ``docs/verification.md`` says what a world is.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model import parts
from tests.model.explore import Bounds, Explorer, explore
from tests.model.parts import key
from tests.model.passes import FATES
from tests.model.planted import PLANTED
from tests.sim import fast

ROOT = Path(__file__).resolve().parents[2]
FEW = ("lost", "late", "held", "dies", "twin")


def test_what_is_remembered_of_a_pass_changes_nothing() -> None:
    """The same states, moves and ends with every pass run for real."""
    told = []
    for memo in (True, False):
        found = explore(Bounds("cluster", 1, 1_010, FEW, memo))
        assert not found.failure, found.failure
        told.append((found.names, found.transitions, found.resolved, found.kinds))
        assert (found.passes_run < found.passes) is memo
    assert told[0] == told[1]


WHOLE = {
    "cluster": (Bounds("cluster", 1, None, (*FATES, "dies", "twin")), 140_000),
    "local": (Bounds("local", 1, None, (*FATES, "dies", "job-deleted")), 20_000),
    "crashes-twice": (
        Bounds("cluster", 2, None, ("kill-before", "kill-after", "lost", "void", "down")), 30_000,
    ),
}  # fmt: skip
"""Bounds, and how many states are fewer than there are."""


@pytest.mark.parametrize("name", WHOLE)
def test_every_state_is_allowed_and_leads_to_a_resolved_one(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    bounds, least = WHOLE[name]
    report = explore(bounds)
    for line in report.lines():
        record_property("modelled", line)
    assert not report.failure, report.failure
    assert report.complete
    assert report.states >= least
    assert set(report.kinds) == set(bounds.kinds or ())


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_its_path_leads_to_it_again(name: str) -> None:
    sabotage, faults, kinds = PLANTED[name]
    bounds = Bounds("cluster", faults, None, kinds)
    report = explore(bounds, sabotage)
    assert report.failure, f"{report.states} states, and nobody noticed"
    moves = [int(word) for word in report.failure.rpartition(" ")[2].split(",")]
    with fast.parsing_once(), sabotage():
        explorer = Explorer(bounds)
        steps = list(explorer.follow(moves))
    last = steps[-1][1]
    if report.invariant == "31-35":
        assert isinstance(last, parts.State) and not explorer.world.resolved(last)
    else:
        assert str(last) == report.invariant


def test_a_path_is_replayed_by_the_command_that_a_failure_prints() -> None:
    command = [sys.executable, "-m", "tests.model", "--world", "cluster", "--replay", "0,0,1000"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    with fast.parsing_once():
        explorer = Explorer(Bounds("cluster"))
        steps = list(explorer.follow([0, 0, 1000]))
    for line, _ in steps:
        assert line in done.stdout
    last = steps[-1][1]
    assert isinstance(last, parts.State)
    assert f"state {key(last):016x}" in done.stdout


def test_worlds_that_differ_in_names_alone_are_one() -> None:
    """Which process acts, and which names its dice draw, makes no other world."""
    with fast.parsing_once():
        world = Explorer(Bounds("cluster")).world
        start = world.initial()
        one, other = world._pass(start, 0, "a", None), world._pass(start, 1, "a", None)
        assert key(one) == key(other) != key(start)
        held = world._hold(start, 1, "b")  # it has drawn the first free names
        later = world._pass(held, 0, "a", None)
        assert later.documents != one.documents
        assert key(later._replace(held=(None, None))) == key(one)
        swapped = later._replace(held=later.held[::-1], managers=later.managers[::-1])
        assert key(swapped) == key(later)


def test_a_copy_that_is_not_the_stored_one_makes_another_world() -> None:
    """A pass that was held up before a write of somebody else differs from one held after it."""
    with fast.parsing_once():
        world = Explorer(Bounds("cluster")).world
        start = world.initial()
        stale = world._pass(world._hold(start, 1, "b"), 0, "a", None)
        fresh = world._hold(world._pass(start, 0, "a", None), 1, "b")
        assert key(stale) != key(fresh)
