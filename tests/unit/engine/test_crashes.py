"""Every durable write of a whole run × every way to lose it; then the same command again.

The auditor checks the invariants after each write that lands. Here it is checked that each world
comes to rest, that no statement took effect twice, and that the same command ends converged.
"""

import functools
from collections.abc import Callable

import pytest

from ptahk.engine import driver
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Indeterminate
from tests.kit import toy
from tests.kit.faults import Call, Fate, Faults, Killed
from tests.kit.scenario import Scenario, command, scenario

KINDS: dict[str, Callable[[], Fate]] = {
    "killed before": lambda: Fate(before=Killed()),
    "killed after": lambda: Fate(after=Killed()),
    "done, answer lost": lambda: Fate(after=Indeterminate("lost")),
    "not done, answer lost": lambda: Fate(before=Indeterminate("lost")),
    "done late": lambda: Fate(late=True),
}
LINES = ("a", "!b", "c")


def world(kind: str, certain: bool) -> Scenario:
    lines = ("a",) if kind == toy.KIND else LINES
    return scenario(*lines, kind=kind, certain=certain)


@functools.cache
def writes(kind: str, certain: bool) -> int:
    """How many durable writes a run has."""
    s, faults = world(kind, certain), Faults()
    answer = command(s, s.process(faults))
    assert answer.exit_code == 0 and driver.at_rest(s.status())
    return sum(call.writes for call in faults.calls)


def nth(number: int, fate: Fate) -> Callable[[Call], Fate | None]:
    seen = 0

    def choose(call: Call) -> Fate | None:
        nonlocal seen
        seen += call.writes
        return fate if call.writes and seen == number else None

    return choose


def run_again(s: Scenario, times: int = 3) -> None:
    """The same command, by a fresh process, until it ends well."""
    for _ in range(times):
        if command(s, s.process()).exit_code == 0:
            return


def check_end(s: Scenario) -> None:
    """Converged, at rest, nothing held, nothing done twice."""
    status = s.status()
    assert s.answer().exit_code == 0, s.answer()
    assert driver.at_rest(status) and status.pending_observation is None
    assert s.holder() is None
    effects = s.database.effects
    assert len(effects) == len(set(effects)), effects
    if s.key.kind != toy.KIND:
        # Nothing is dropped in these runs, so a statement that two plans hold ran twice.
        assert len({statement for _, statement in effects}) == len(effects), effects
        assert sorted(s.database.live) == sorted(LINES)
    else:
        assert "a" in s.database.live


@pytest.mark.parametrize("certain", [True, False], ids=["local", "cluster"])
@pytest.mark.parametrize("kind", [SCHEMA, MIGRATION, toy.KIND])
@pytest.mark.parametrize("how", KINDS)
def test_every_write_lost_in_every_way(how: str, kind: str, certain: bool) -> None:
    for number in range(1, writes(kind, certain) + 1):
        s = world(kind, certain)
        faults = Faults(nth(number, KINDS[how]()))
        try:
            command(s, s.process(faults))
        except Killed:
            assert how.startswith("killed")
        faults.settle()
        run_again(s)
        check_end(s)
