"""Everything of an Apply that a cluster can lose, while its statement runs: the ledger decides."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.kit import node
from tests.kit.podbed import Bed, Start
from tests.kit.waiting import until

BEFORE = "CREATE TABLE app.orders (id int);"
AFTER = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int);"


def apply_job(bed: Bed) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        bed.kubectl("get", "job", bed.claim()["jobName"], "--output=json")
    )
    return found


def apply_pod(bed: Bed) -> dict[str, Any]:
    selector = f"--selector=job-name={bed.claim()['jobName']}"
    (found,) = json.loads(bed.kubectl("get", "pods", selector, "--output=json"))["items"]
    assert isinstance(found, dict)
    return found


def kill_container(bed: Bed) -> None:
    """SIGKILL of the container's first process, and with it of all the others."""
    (status,) = apply_pod(bed)["status"]["containerStatuses"]
    container = status["containerID"].rpartition("/")[2]
    node.ctr(bed.town.own_plane, "tasks", "kill", "--signal", signal.SIGKILL.name, container)


def delete_pod(bed: Bed) -> None:
    bed.kubectl("delete", "pod", apply_pod(bed)["metadata"]["name"], "--wait=false")


def delete_job(bed: Bed) -> None:
    bed.kubectl("delete", "job", bed.claim()["jobName"], "--wait=false")


def second_pod(bed: Bed) -> None:
    """A Pod of the same Job, which no label tells, and which does what the first one does."""
    job = apply_job(bed)
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    template = job["spec"]["template"]
    annotations = template["metadata"].get("annotations") or {}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "second", "annotations": annotations, "ownerReferences": [owner]},
        "spec": template["spec"],
    }
    bed.kubectl("create", "--filename=-", stdin=json.dumps(document))


def nothing(bed: Bed) -> None:
    """It lost its kubelet, and has it back."""


LOSSES: dict[str, Callable[[Bed], None]] = {
    "kubelet": nothing,
    "container": kill_container,
    "pod": delete_pod,
    "job": delete_job,
    "second": second_pod,
}


@pytest.fixture
def held(beds: Callable[[], Bed]) -> Iterator[dict[str, tuple[Bed, ExitStack]]]:
    """A database for each loss, with a lock that keeps its Apply waiting."""
    with ExitStack() as every:
        made = {}
        for loss in LOSSES:
            bed, locks = beds(), every.enter_context(ExitStack())
            bed.database.run(BEFORE, bed.role)
            holding = locks.enter_context(bed.database.connect())
            locks.enter_context(holding.transaction())
            holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
            made[loss] = (bed, locks)
        yield made


def test_nothing_runs_twice_and_nothing_stays_unknown(
    start: Start, held: dict[str, tuple[Bed, ExitStack]]
) -> None:
    start().ready()
    for bed, _ in held.values():
        bed.make(
            text=AFTER,
            policy={"lockTimeout": "10m"},
            execution={"failureRetryInterval": "5s"},
        )
    claims = {}
    for loss, (bed, _) in held.items():
        until(
            lambda bed=bed: bed.claim().get("type") == "Apply" and bed.claim().get("jobUid"),
            "the Apply",
            180,
        )
        until(bed.waits, "its statement to wait", 60)
        claims[loss] = bed.claim()["operationId"]

    kubelet = held["kubelet"][0].town.own_plane.component("kubelet")
    kubelet.kill()
    bed, locks = held["kubelet"]
    locks.close()
    until(lambda: bed.ledger() == [(claims["kubelet"], "finished")], "what the kubelet misses")
    kubelet.start()
    node.wait_ready(bed.town.own_plane)
    bed.ready()

    for loss, (bed, _) in held.items():
        LOSSES[loss](bed)
    second = held["second"][0]
    until(lambda: "second" in second.kubectl("get", "pods"), "the second Pod")
    for loss in ("container", "pod", "job"):
        bed, _ = held[loss]
        until(
            lambda bed=bed, loss=loss: (
                bed.claim().get("operationId") != claims[loss] or bed.claim().get("outcome")
            ),
            f"the end of the Apply whose {loss} is lost",
            180,
        )
    for _, locks in held.values():
        locks.close()
    for loss, (bed, _) in held.items():
        bed.ready()
        ledger = bed.ledger()
        applies = [entry for entry in bed.history() if entry["type"] == "Apply"]
        assert applies[0]["operationId"] == claims[loss]
        # One attempt took effect; of every other the ledger tells that nothing did.
        settled = [entry["settled"]["type"] for entry in applies]
        assert settled.count("Succeeded") == 1, (loss, applies)
        assert {"Succeeded", "NotStarted", "Failed"}.issuperset(settled), (loss, applies)
        assert bed.jobs().count("apply") <= len(applies), "one Job a claim"
        assert {"finished", "fenced"}.issuperset(state for _, state in ledger), (loss, ledger)
        assert len(ledger) == len(set(ledger)) == len(applies), (loss, ledger)
        if loss in ("kubelet", "second"):
            assert len(applies) == 1 and applies[0]["settled"]["type"] == "Succeeded", loss
        assert "pendingObservation" not in bed.status() and bed.lease() is None
