"""When a worker looks again: what fails for all resources at once is not tried again at once."""

from dataclasses import replace

import pytest

from ptahk.engine.driver import FAMILIES
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Conflict, Key, PortError, Ports, Unavailable
from ptahk.serve.accounts import Accounts
from ptahk.serve.metrics import Metrics
from ptahk.serve.reconciler import Reconciler
from tests.kit.faults import Fate, Faults, FaultyObjects
from tests.kit.memory import memory_world

KEYS = [Key(SCHEMA, "apps", f"db{number}") for number in range(50)]


def pauses(error: PortError, seed: int, passes: int = 1) -> list[float]:
    """Seconds until each of many resources is looked at again, after so many failures."""
    world = memory_world(kind="cluster", automatic=True, certain=False, seed=seed)
    faults = Faults(lambda call: Fate(before=error))
    ports: Ports = replace(world.ports(), objects=FaultyObjects(world.objects, faults))
    metrics = Metrics(Accounts(FAMILIES), world.clock.now)
    reconciler = Reconciler(ports, world.jobs, metrics, FAMILIES)
    found = []
    for key in KEYS:
        for _ in range(passes):
            at = reconciler.step(key)
        assert at is not None
        found.append(at - world.clock.monotonic())
    return found


@pytest.mark.parametrize(("passes", "whole_s"), [(1, 0.5), (4, 4.0), (20, 60.0)])
def test_many_resources_that_fail_together_come_again_apart(passes: int, whole_s: float) -> None:
    """An API server that comes back does not meet all of them in one moment."""
    found = pauses(Unavailable("down"), seed=1, passes=passes)
    assert len({round(pause, 9) for pause in found}) == len(KEYS)
    assert whole_s / 2 <= min(found) < whole_s * 0.6 and whole_s * 0.9 < max(found) <= whole_s
    assert found == pauses(Unavailable("down"), seed=1, passes=passes), "from the port's dice alone"
    assert found != pauses(Unavailable("down"), seed=2, passes=passes)


def test_a_lost_race_is_looked_at_at_once() -> None:
    assert pauses(Conflict("lost"), seed=1) == [0.0] * len(KEYS)
