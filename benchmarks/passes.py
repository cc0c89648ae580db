"""What the engine itself costs: passes over the memory backend, without any I/O.

One round is what ``apply`` does to one resource: plan, approve, apply, prove, release. The fake
database answers at once, so it is gather, decide and perform; processor time, not wall time.
"""

from __future__ import annotations

import time

from benchmarks._report import Row, median
from ptahk.engine import driver
from ptahk.engine.decide import decide
from ptahk.engine.gather import gather
from ptahk.engine.ports import Key, Ports
from tests.kit.scenario import FAMILIES, Process, applied, planned, scenario


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. ``version`` plays no part."""
    spent, counts = [], []
    for number in range(rounds * 5):
        world = scenario("a", "b", seed=number)
        process = Process(world, world.world.ports())
        began = time.process_time()
        answer = applied(world, process, planned(world, process))
        spent.append((time.process_time() - began) / world.passes)
        counts.append(world.passes)
        assert answer.exit_code == 0, answer
    steady = _steady(world.world.ports(), world.key, rounds * 200)
    note = f"{median(counts):.0f} passes from a plan to a released realm"
    return [
        Row("engine: one pass (gather, decide, perform)", median(spent) * 1e6, "µs", note=note),
        Row("engine: one pass that finds nothing to do", steady[0] * 1e6, "µs"),
        Row("engine: one decision", steady[1] * 1e6, "µs"),
    ]


def _steady(ports: Ports, key: Key, times: int) -> tuple[float, float]:
    """Median seconds of a pass, and of its decision, over a resource at rest."""
    family = FAMILIES[key.kind]
    whole, decisions = [], []
    for _ in range(times):
        began = time.process_time()
        driver.run_pass(ports, key, families=FAMILIES)
        whole.append(time.process_time() - began)
        snapshot = gather(ports, key, FAMILIES)
        began = time.process_time()
        decide(snapshot, family)
        decisions.append(time.process_time() - began)
    return median(whole), median(decisions)
