"""The whole path of a resource, and what stands in its way when nothing guards it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kit import podbed, servers
from tests.kit.chartbed import PLAIN, Start
from tests.kit.clusters import PodCluster
from tests.kit.podbed import DECLARED, Bed
from tests.kit.waiting import until


@pytest.fixture
def bed(town: PodCluster, server_run: servers.Run, postgres_version: int) -> Iterator[Bed]:
    with podbed.bed(town, server_run, postgres_version) as made:
        yield made


PATH = [
    "WriteClaim", "AcquireLease", "PersistSnapshot", "DispatchMark", "DispatchJob", "ConfirmJob",
    "Settle", "ClearClaim", "ReleaseLease",
]  # fmt: skip


def test_a_resource_converges_and_rests(start: Start, bed: Bed) -> None:
    """claim → snapshot → dispatch → Job → frame → proof → release; then one Job an interval."""
    replica = start().ready()
    bed.make(interval="30s")
    bed.ready()
    assert bed.tables() == ["items", "orders"]
    status = bed.status()
    assert status["phase"] == "InSync"
    kinds = [entry["type"] for entry in status["history"]]
    assert kinds[-2:] == ["Apply", "Prove"] and kinds[0] == "Plan"
    apply = status["history"][-2]
    assert apply["settled"]["type"] == "Succeeded" and apply["converged"] is True
    assert [reason for reason in PATH if reason not in bed.events()] == []
    assert [state for _, state in bed.ledger()] == ["finished"]

    before = len(status["history"])

    def observed(times: int) -> list[str] | None:
        seen = [entry["type"] for entry in bed.status()["history"][before:]]
        return seen if len(seen) >= times else None

    for times in (1, 2):
        seen = until(lambda times=times: observed(times), f"interval {times}", 120)
        assert seen == ["Observe"] * times, "exactly one Job an interval (C-13.3)"
        bed.ready()
    events = bed.kubectl("get", "events", "--output=json")
    for text in (replica.log.read_text(), json.dumps(bed.stored()), events):
        assert bed.role.password not in text
    assert [line for line in replica.lines() if line.get("reason") == "StoreFault"] == []


def test_without_the_guard_nothing_is_dispatched(start: Start, bed: Bed) -> None:
    """C-12.4: the API server asks no webhook, and then it does again."""
    release = start().ready()
    with release.unguarded():
        bed.make()
        until(lambda: bed.status().get("phase") == "Blocked", "the refusal", 120)
        assert {"status": "False", "reason": "NoAdmission"}.items() <= bed.condition().items()
        assert release.metric("ptahk_admission_in_force") == 0.0
        assert bed.jobs() == [] and bed.tables() == []
    bed.ready()
    assert release.metric("ptahk_admission_in_force") == 1.0
    assert bed.tables() == ["items", "orders"]


def test_with_every_replica_down_nothing_of_ours_starts(start: Start, bed: Bed) -> None:
    """And whatever else the cluster runs does; once they are back work goes on by itself."""
    release = start().ready()
    release.stop()
    bed.make()
    assert "failed calling webhook" in release.place.asked(), "an operation's Pod"
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": PLAIN}
    path = f"/api/v1/namespaces/{bed.namespace}/pods"
    made = bed.api.call("POST", path, other, dryRun="All")
    assert made.status == 201, made.message
    assert bed.jobs() == [] and not bed.claim()
    start().ready()
    bed.ready()
    assert bed.tables() == ["items", "orders"]


def test_a_changed_config_map_is_applied_without_waiting(start: Start, bed: Bed) -> None:
    start().ready()
    bed.kubectl("create", "configmap", "declared", f"--from-literal=a.sql={DECLARED}")
    bed.make(desired={"configMapRef": {"name": "declared"}}, interval="24h")
    bed.ready()
    text = DECLARED + "CREATE TABLE app.late (id int);\n"
    patch = json.dumps({"data": {"a.sql": text}})
    bed.kubectl("patch", "configmap", "declared", f"--patch={patch}")
    until(lambda: "late" in bed.tables(), "the change", 120)
    bed.ready()
