"""``ptahk serve`` behind a proxy that cuts it off, on a bare API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import clusters, servers, servingbed
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
