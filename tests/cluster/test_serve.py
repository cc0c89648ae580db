"""``ptahk serve`` on a real API server, with the chart's rights: what it reads, writes and leads.

No Pod runs here: a Job that was created stays as it is. What Pods do is in ``test_installed``.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.watches import Watches
from ptahk.engine.model.resource import CONFIG_MAP, SCHEMA
from ptahk.engine.ports import Key
from tests.kit import clusters, servers, servingbed
from tests.kit.controlplane import ControlPlane
from tests.kit.gate import Gate, guarded
from tests.kit.presence import present
from tests.kit.rawapi import resources
from tests.kit.serving import COORDINATION, GROUPS, IDENTITY, Served, holder
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
def start(plane: ControlPlane, gate: Gate, tmp_path: Path) -> Iterator[Start]:
    made: list[Served] = []

    def starting(**more: Any) -> Served:
        made.append(Served(plane, tmp_path / f"serve-{len(made)}.log", gate, **more))
        return made[-1]

    yield starting
    for replica in made:
        replica.end()


@pytest.fixture
def bed(plane: ControlPlane) -> Bed:
    return servingbed.make(plane)


def test_from_a_resource_to_its_first_job(start: Start, bed: Bed) -> None:
    replica = start().ready()
    bed.make()
    until(lambda: bed.claim().get("jobUid"), "the Job to be confirmed")
    (job,) = bed.jobs()
    claim = bed.claim()
    assert (claim["type"], claim["jobName"]) == ("Plan", job["metadata"]["name"])
    wanted = {"WriteClaim", "AcquireLease", "PersistSnapshot", "DispatchMark", "DispatchJob",
              "ConfirmJob"}  # fmt: skip
    until(lambda: wanted <= set(bed.reasons()), "the Events of the path")
    told = bed.api.cluster.kubectl("describe", "ptahschema", "db", f"--namespace={bed.namespace}")
    assert "ConfirmJob" in told, "kubectl finds the Events by the resource's uid"
    faults = [line for line in replica.lines() if line.get("reason") == "StoreFault"]
    assert faults == [], "the chart's rights are enough"
    until(lambda: replica.metric("ptahk_renewals_kept") == 1.0, "the realm's Lease to be kept")
    assert replica.get("/healthz") == (200, "ok\n")
    assert replica.stop() == 0
    assert holder(bed.api) is None
    bed.stored()  # what was claimed stays


def test_the_rights_of_the_chart_hold_no_secret_and_little_else(plane: ControlPlane) -> None:
    def can(*what: str) -> str:
        return plane.kubectl("auth", "can-i", "--list", f"--as={IDENTITY}", *what)

    everywhere = can("--namespace=default")
    assert "secrets" not in everywhere
    assert "[*]" not in everywhere and "*.*" not in everywhere
    assert "leases" not in everywhere, "only where the realms are"
    assert "leases.coordination.k8s.io" in can(f"--namespace={COORDINATION}")


def test_a_leader_that_stood_still_ends_when_it_wakes(start: Start, bed: Bed) -> None:
    one = start().ready()
    until(one.leads, "the first to lead")
    two = start().ready()
    one.signal(signal.SIGSTOP)
    until(two.leads, "the second to lead")
    one.signal(signal.SIGCONT)
    assert one.wait() == 6
    assert "error: the lead was lost: another replica may lead now" in one.log.read_text()
    bed.make()
    until(lambda: bed.claim().get("jobUid"), "work under the new leader")
    assert len(bed.jobs()) == 1


def test_an_object_that_cannot_be_read_stops_nobody(start: Start, bed: Bed) -> None:
    replica = start().ready()
    bed.make("odd")
    until(lambda: bed.claim("odd").get("jobUid"), "its claim")
    odd = bed.stored("odd")
    odd["status"]["protocolVersion"] = 1
    odd["status"]["resourceUid"] = "another"
    path = resources(SCHEMA, bed.namespace, "odd", "status")
    for _ in range(20):
        answer = bed.manager.call("PUT", path, odd)  # nobody else could
        if answer.status == 200:
            break
        odd["metadata"] = bed.stored("odd")["metadata"]
    assert answer.status == 200, answer.message
    until(lambda: "StatusUnreadable" in bed.reasons(), "the Event")
    bed.make("db")
    until(lambda: bed.claim("db").get("jobUid"), "the other's Job")
    name = 'ptahk_resources{kind="PtahSchema",phase="Unreadable"}'
    until(lambda: replica.metric(name) == 1.0, "the count")


def test_config_maps_are_watched_without_their_data(plane: ControlPlane, bed: Bed) -> None:
    client = Client.load(plane.kubeconfig(IDENTITY, GROUPS))
    told: list[Key] = []
    informer = Watches(client, (SCHEMA,)).make(told.append)[CONFIG_MAP]
    informer.start()
    try:
        assert informer.synced.wait(60)
        key = Key(CONFIG_MAP, bed.namespace, "declared")
        where = f"--namespace={bed.namespace}"
        plane.kubectl("create", "configmap", "declared", "--from-literal=a.sql=x", where)
        until(lambda: told.count(key) == 1, "the new ConfigMap")
        document = informer.get(key)
        assert document is not None and "data" not in document
        patch = json.dumps({"data": {"a.sql": "y"}})
        plane.kubectl("patch", "configmap", "declared", f"--patch={patch}", where)
        until(lambda: told.count(key) == 2, "its change")
        assert informer.poison() == ()
    finally:
        informer.stop()
        client.close()


def test_an_api_server_that_goes_away_and_comes_back(
    plane: ControlPlane, start: Start, bed: Bed
) -> None:
    """Away for less than the renew deadline: nothing is lost. Frozen for longer: it ends."""
    one = start(lease="20s").ready()
    until(one.leads, "the lead")
    server = plane.component("apiserver")
    server.freeze()
    server.thaw()
    bed.make()
    until(lambda: bed.claim().get("jobUid"), "work goes on")
    server.freeze()
    try:
        assert one.wait(60) == 6
    finally:
        server.thaw()
    two = start().ready()
    until(two.leads, "another to lead", 90)
