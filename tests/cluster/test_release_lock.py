"""``release-lock`` on a cluster without a manager: a real API server and a real database."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ptahk.backends.local.jobs import LocalJobs, child_environment
from ptahk.engine import driver
from ptahk.engine.model import plan as plans
from ptahk.engine.model.resource import LEASE, PLAN, REQUEST, SCHEMA, Request, request_text
from ptahk.engine.model.status import Status, parse
from ptahk.engine.ports import Indeterminate, JobOrder, JobView, Key, Ports
from tests.cluster.bed import Bed
from tests.kit.databases import Database

PASSES_MAX = 200
WORD = ("--reason", "the node is gone")


class LostJobs:
    """Jobs of which an Apply's create gets no answer, and makes nothing."""

    creation_certain = False

    def __init__(self, real: LocalJobs) -> None:
        self._real = real

    def create(self, order: JobOrder) -> JobView:
        if order.spec.operation == "Apply":
            raise Indeterminate("the answer was lost")
        return self._real.create(order)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@dataclasses.dataclass
class Driven:
    """The engine, pass by pass."""

    bed: Bed
    ports: Ports
    jobs: LocalJobs

    @property
    def key(self) -> Key:
        return Key(SCHEMA, self.bed.namespace, "orders")

    def status(self) -> Status:
        document = self.ports.objects.get(self.key)
        return parse(document.get("status"), document["metadata"]["uid"])

    def ask(self, type_: Any, plan: str | None = None) -> None:
        document = self.ports.objects.get(self.key)
        request = Request(self.ports.entropy.operation_id(), type_, plan)
        document["metadata"]["annotations"] = {REQUEST: request_text(request)}
        self.ports.objects.replace(document)

    def until(self, reached: Callable[[Status], Any]) -> Status:
        for _ in range(PASSES_MAX):
            status = self.status()
            if reached(status):
                return status
            result = driver.run_pass(self.ports, self.key)
            if result.step == "Wait":
                self.jobs.wait(1.0)
        raise AssertionError(f"never reached: {self.status()}")


@pytest.fixture
def driven(bed: Bed, database: Database) -> Iterator[Driven]:
    """A resource whose database is real, and whose Jobs are children."""
    room = bed.room(automatic=False)
    environment = child_environment(os.environ)
    with LocalJobs.temporary(room.clock, url=database.url(), environment=environment) as jobs:
        ports = dataclasses.replace(room.ports, jobs=LostJobs(jobs))
        yield Driven(bed, ports, jobs)
    room.client.close()


def lost_apply(driven: Driven) -> str:
    """An Apply that was dispatched and of which nobody knows whether it runs; its id."""
    driven.bed.make(desired={"inline": "create table app (id int primary key);"})
    driven.ask("plan")
    answer = driven.until(lambda s: s.request is not None and s.request.state == "Done").request
    assert answer is not None and answer.plan is not None and answer.exit_code == 0, answer
    key = Key(PLAN, driven.bed.namespace, plans.plan_name(answer.plan))
    plan = plans.parse_plan(driven.ports.objects.get(key))
    person = plans.Approver("ann")
    driven.ports.objects.create(plans.approval_document(driven.bed.namespace, "yes", plan, person))
    driven.ask("apply", answer.plan)
    owed = driven.until(lambda s: s.pending_observation is not None).pending_observation
    assert owed is not None and owed.uncertain
    return owed.operation_id


def holder(driven: Driven) -> str | None:
    """Who holds the realm's Lease."""
    (lease,) = [
        item
        for item in driven.ports.objects.list(LEASE, driven.bed.coordination)
        if item["metadata"]["name"] != "ptahk-manager"
    ]
    found: str | None = lease["spec"].get("holderIdentity")
    return found


def test_a_lost_apply_is_fenced_and_its_realm_released(driven: Driven, database: Database) -> None:
    operation = lost_apply(driven)
    run = driven.bed.run
    dry = run("release-lock", "orders", "--dry-run", "-o", "json").document("LockReport")
    assert dry["verdict"] == "WouldRelease" and "fence" in dry["message"]
    assert dry["claim"]["operationId"] == operation and dry["process"] is None
    assert "url-env" in run("release-lock", "orders").refusal(2)
    assert holder(driven) is not None

    url = {"DATABASE_URL": database.url()}
    with_url = ("release-lock", "orders", "--url-env", "DATABASE_URL", "-o", "json")
    answer = run(*with_url, **url)
    assert answer.code == 0, answer
    report = answer.document("LockReport")
    assert report["verdict"] == "Released" and report["ledgerRow"] is None
    assert holder(driven) is None
    rows = database.rows("select state, store_kind from ptahk.attempt where operation_id = %s",
                         operation)  # fmt: skip
    assert rows == [("fenced", "cluster")]
    assert run(*with_url, **url).document("LockReport")["verdict"] == "Free"
    history = run("history", "orders", "--url-env", "DATABASE_URL", "-o", "json", **url)
    assert [row["state"] for row in history.document("History")["ledger"]] == ["fenced"]


def test_a_pod_that_runs_is_in_the_way(driven: Driven) -> None:
    operation = lost_apply(driven)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late", "annotations": {"ptahk.dev/operation-id": operation}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "c",
                    "image": "none",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    path = f"/api/v1/namespaces/{driven.bed.namespace}"
    driven.bed.api.call("POST", f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
    made = driven.bed.api.call("POST", f"{path}/pods", pod)
    assert made.status == 201, made.message
    answer = driven.bed.run("release-lock", "orders", "-o", "json")
    assert answer.code == 3
    report = answer.document("LockReport")
    assert report["verdict"] == "Refused" and report["process"]["running"]
    assert holder(driven) is not None

    force = ("release-lock", "orders", "--force", "-o", "json", *WORD)
    assert "not the holder's" in driven.bed.run(*force, "--operation", "f" * 32).refusal(3)
    answer = driven.bed.run(
        *force,
        "--operation",
        operation,
        "--url-env",
        "NOWHERE",
        NOWHERE="postgresql://127.0.0.1:1/x",
    )
    assert answer.code == 0 and "Not fenced" in answer.err, answer
    assert holder(driven) is None
    events = driven.bed.api.call("GET", f"{path}/events").document["items"]
    forced = [item for item in events if item["reason"] == "ForcedRelease"]
    assert len(forced) == 1 and "the node is gone" in forced[0]["message"]
