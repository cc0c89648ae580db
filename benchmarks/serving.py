"""``ptahk serve`` as a real process on a real API server: 1,000 resources against 100, and 20 cold.

The many are at rest (suspended), so that every figure is the manager's own and no Pod's: how long a
replica takes from its start until it leads and has looked at each, what it keeps in memory, and
what one change of one resource costs it in processor time, census included. The 20 are real: each
has a database, and Pods that plan, apply and prove. They need a node, so root.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks._report import Row
from ptahk.engine.model.resource import SCHEMA
from tests.kit import clusters, podbed, servers, servingbed
from tests.kit.gate import Gate, guarded
from tests.kit.rawapi import resources
from tests.kit.serving import NO_IMAGE, Served
from tests.kit.waiting import until

SIZES = (100, 1000)
EVENTS = 300
IDLE_S = 20.0
EVENT_BOUND = 1.5
"""A change among 1,000 resources costs at most so many times one among 100 (C-6.4)."""
COLD = 20
LIMIT_S = 900.0
LEASE = "30s"
"""As ``serve`` has it by default."""


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. One round: each takes a control plane of its own, and minutes."""
    run, keeper = servers.begin()
    try:
        found = {size: _many(run, size) for size in SIZES}
        small, large = (found[size] for size in SIZES)
        made = [
            Row(f"serve: {SIZES[1]} resources, start until all were looked at", large.start_s, "s"),
            Row(f"… {SIZES[0]} resources", small.start_s, "s"),
            Row(f"… memory with {SIZES[1]}", large.memory / 2**20, "MiB"),
            Row(f"… memory with {SIZES[0]}", small.memory / 2**20, "MiB"),
            Row(f"… one change among {SIZES[1]}", large.event_s * 1e3, "ms"),
            Row(f"… against {SIZES[0]}", large.event_s / small.event_s, "x", EVENT_BOUND),
        ]
        if os.geteuid() == 0:
            made.append(Row(f"{COLD} resources, cold to converged", _cold(run, version), "s"))
        return made
    finally:
        servers.finish(keeper)


@dataclass(frozen=True)
class Many:
    """Of one size: wall seconds of a start, bytes in memory, processor seconds of one change."""

    start_s: float
    memory: float
    event_s: float


@contextmanager
def _served(gate: Gate, folder: Path, image: str = NO_IMAGE) -> Iterator[Served]:
    served = Served(gate.api.cluster, folder / "serve.log", gate, image=image, lease=LEASE)
    try:
        yield served
    finally:
        served.process.terminate()
        served.process.wait(60)


def _many(run: servers.Run, size: int) -> Many:
    plane = clusters.own(run)
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-bench-") as name, ExitStack() as stack:
            folder = Path(name)
            gate = stack.enter_context(guarded(plane, folder))
            bed = servingbed.make(plane)
            for number in range(size):
                bed.make(f"db{number}", suspend=True, interval="0")
            with _served(gate, folder) as served:  # the first look writes each status
                until(lambda: _seen(served) >= size, "every resource", LIMIT_S)
            began = time.perf_counter()
            with _served(gate, folder) as served:
                until(lambda: _seen(served) >= size, "every resource", LIMIT_S)
                start_s = time.perf_counter() - began
                return Many(start_s, _memory(served), _events(served, bed, size))
    finally:
        clusters.end(plane)


def _seen(served: Served) -> float:
    """How many resources it leads over and has at rest: each was looked at then."""
    if not served.leads():
        return 0.0
    passes = served.metric('ptahk_passes_total{kind="PtahSchema",result="wait"}')
    return passes + served.metric('ptahk_passes_total{kind="PtahSchema",result="rest"}')


def _events(served: Served, bed: servingbed.Bed, size: int) -> float:
    """Processor seconds of one change of one resource, from its event to the end of its pass.

    What the process does anyhow (each resource is looked at again within a minute) is measured
    first and taken off.
    """
    began, spent = time.perf_counter(), _processor_s(served)
    time.sleep(IDLE_S)
    idle = (_processor_s(served) - spent) / (time.perf_counter() - began)
    before, spent, began = _seen(served), _processor_s(served), time.perf_counter()
    for number in range(EVENTS):
        path = resources(SCHEMA, bed.namespace, f"db{number * 7 % size}")
        change = {"metadata": {"annotations": {"bench/changed": str(number)}}}
        answer = bed.api.call("PATCH", path, change, kind="application/merge-patch+json")
        assert answer.status == 200, answer.message
    until(lambda: _seen(served) >= before + EVENTS, "a pass for each change", LIMIT_S)
    lasted = time.perf_counter() - began
    return (_processor_s(served) - spent - idle * lasted) / EVENTS


def _processor_s(served: Served) -> float:
    fields = Path(f"/proc/{served.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(served: Served) -> float:
    pages = int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def _cold(run: servers.Run, version: int) -> float:
    """Seconds from the start of a manager and the creation of 20 resources until all are Ready."""
    town = clusters.own_with_node(run)
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-bench-") as name, ExitStack() as stack:
            gate = stack.enter_context(guarded(town.plane, Path(name)))
            beds = [stack.enter_context(podbed.bed(town, run, version)) for _ in range(COLD)]
            began = time.perf_counter()
            stack.enter_context(_served(gate, Path(name), town.images["executor"]))
            for bed in beds:
                bed.make()
            for bed in beds:
                bed.ready(limit_s=int(LIMIT_S))
            return time.perf_counter() - began
    finally:
        clusters.end(town.own_plane)
