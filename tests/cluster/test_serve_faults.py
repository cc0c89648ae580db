"""``ptahk serve`` behind a proxy that breaks things: a partition, and logs that hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import clusters, servers, servingbed
from tests.kit.apifaults import Hang
from tests.kit.apiproxy import ApiProxy
from tests.kit.controlplane import ControlPlane
from tests.kit.gate import Gate, guarded
from tests.kit.presence import present
from tests.kit.serving import GROUPS, IDENTITY, Served
from tests.kit.servingbed import Bed
from tests.kit.waiting import until

Start = Callable[..., Served]


@pytest.fixture(scope="module")
def plane(server_run: servers.Run) -> Iterator[ControlPlane]:
    """A control plane of this module alone: a manager works on every namespace."""
    made = present(lambda: clusters.own(server_run))
    yield made
    clusters.end(made)


@pytest.fixture(scope="module", autouse=True)
def gate(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Its guard, in force as soon as a replica is ready."""
    with guarded(plane, tmp_path_factory.mktemp("gate")) as made:
        yield made


@pytest.fixture
def proxy(plane: ControlPlane, tmp_path: Path) -> Iterator[ApiProxy]:
    with ApiProxy(plane, tmp_path) as made:
        yield made


@pytest.fixture
def start(plane: ControlPlane, gate: Gate, proxy: ApiProxy, tmp_path: Path) -> Iterator[Start]:
    made: list[Served] = []

    def starting(client: str, **more: Any) -> Served:
        kubeconfig = proxy.kubeconfig(client, IDENTITY, GROUPS)
        log = tmp_path / f"{client}.log"
        made.append(Served(plane, log, gate, kubeconfig=kubeconfig, **more))
        return made[-1]

    yield starting
    for replica in made:
        replica.end()


@pytest.fixture
def bed(plane: ControlPlane) -> Bed:
    return servingbed.make(plane)


def test_a_leader_behind_a_partition_is_followed_and_writes_no_more(
    proxy: ApiProxy, start: Start, bed: Bed
) -> None:
    one = start("one").ready()
    until(one.leads, "the first to lead")
    two = start("two").ready()
    bed.make()
    until(lambda: bed.claim().get("jobUid"), "the Job")
    proxy.partition("one")
    until(two.leads, "the second to lead")
    assert one.wait() == 6
    proxy.heal("one")
    led = one.said("lost the lead")[0]["time"]
    two_led = two.said(" leads")[-1]["time"]
    assert led < two_led, "it stopped before the other could lead"
    bed.make("other")
    until(lambda: bed.claim("other").get("jobUid"), "work under the new leader")
    assert len(bed.jobs()) == 2
    assert two.stop() == 0


def test_twenty_logs_that_hang_delay_nobody_else(proxy: ApiProxy, start: Start, bed: Bed) -> None:
    """C-5.4: no other resource's pass, and no renewal, is late by more than a second."""
    rule = proxy.rule(Hang(), path=r"/pods/[^/]+/log")
    replica = start("one", lease="20s").ready()
    names = [f"stuck{number}" for number in range(20)]
    deadline = {"activeDeadlineSeconds": 30}
    for name in names:
        bed.make(name, execution=deadline)
    until(lambda: all(bed.claim(name).get("jobUid") for name in names), "twenty Jobs", 120)
    for job in bed.jobs():
        bed.finish(job)
    until(lambda: len(rule.hits) >= 20, "twenty logs that hang", 60)
    assert replica.metric("ptahk_result_reads_running") == 20
    slow = slow_waits(replica)
    latest_s, ends = 0.0, time.monotonic() + 35
    bed.make("free", execution=deadline)
    began = time.monotonic()
    until(lambda: bed.claim("free").get("jobUid"), "the free one's Job")
    assert time.monotonic() - began < 10
    while time.monotonic() < ends:
        latest_s = max(latest_s, replica.metric("ptahk_renewals_overdue_seconds"))
        time.sleep(0.2)  # samples of a gauge; the renewals of Leases of 90 s are due at 30 s
    assert latest_s < 1.0, "no renewal was late"
    assert slow_waits(replica) == slow, "no pass waited longer than a second"
    assert replica.metric("ptahk_renewals_kept") >= 21
    renewed = bed.ages_of_leases_s()
    assert max(renewed) < 35, renewed


def slow_waits(replica: Served) -> float:
    """How many passes waited longer than a second for a worker."""
    name = "ptahk_queue_wait_seconds"
    return replica.metric(f"{name}_count") - replica.metric(f'{name}_bucket{{le="1.0"}}')
