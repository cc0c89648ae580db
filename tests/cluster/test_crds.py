"""The CRDs on a real API server: what the codec refuses it refuses, what is good it keeps."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptahk.api import crd
from ptahk.api.documents import read_documents
from ptahk.engine.model.resource import APPROVAL as APPROVAL_KIND
from ptahk.engine.model.resource import PLAN
from ptahk.engine.model.status import render
from tests.kit.controlplane import Cluster, KubectlFailed, run_kubectl
from tests.kit.manifests import APPROVAL, BAD, BARE, GOOD, SCHEMA, Bad
from tests.kit.rawapi import Answered, RawApi, resources
from tests.kit.scenario import PASSES_MAX, Scenario, scenario
from tests.kit.waiting import until


@pytest.fixture(scope="session")
def api(served: Cluster) -> RawApi:
    """The API server, with the CRDs installed."""
    return RawApi(served)


def documents(text: str, namespace: str) -> Iterator[dict[str, Any]]:
    """The objects of a manifest, as a client sends them."""
    for item in read_documents(text.encode(), "f.yaml"):
        value = copy.deepcopy(item.value)
        if isinstance(value, dict) and "metadata" in value:
            if value["metadata"].get("namespace") == "shop":
                value["metadata"]["namespace"] = namespace
            yield value


@pytest.mark.parametrize("bad", [item for item in BAD if item.server], ids=lambda bad: bad.name)
def test_what_the_codec_refuses_the_cluster_refuses(api: RawApi, namespace: str, bad: Bad) -> None:
    for document in documents(bad.text, namespace):
        answer = api.make(document, namespace)
        assert answer.status in (400, 422), answer
        assert bad.server in answer.fields or f'"{bad.server}"' in answer.message, answer


CODEC_ONLY = {
    "a null": "a cluster drops a field that is null",
    "a node label's key": "a structural schema has no rule for the names of a map's entries",
    "a placeholder's number": "a map or a word has no structural type, so the map is open",
}
"""What a cluster keeps and the codec refuses: it ends ``Blocked`` with ``InvalidSpec``."""


def test_what_only_the_codec_refuses_is_exactly_this(api: RawApi, namespace: str) -> None:
    kept = set()
    for bad in BAD:
        for document in documents(bad.text, namespace):
            if bad.server is None and api.make(document, namespace).status < 400:
                kept.add(bad.name)
    assert kept == set(CODEC_ONLY)


@pytest.mark.parametrize("text", GOOD)
def test_what_is_good_is_kept_as_it_is(api: RawApi, namespace: str, text: str) -> None:
    for document in documents(text, namespace):
        assert api.make(document, namespace).status == 201
        path = resources(document["kind"], namespace, document["metadata"]["name"])
        stored = api.call("GET", path).document
        assert stored["spec"] == document["spec"]
        assert "status" not in stored


@dataclass
class Mirror:
    """A resource in a cluster that is given every status of one in memory."""

    api: RawApi
    scenario: Scenario
    namespace: str

    def __post_init__(self) -> None:
        document = self.scenario.world.objects.get(self.scenario.key)
        self.kind = document["kind"]
        self.name = document["metadata"]["name"]
        made = self.send(document)
        assert made.status == 201, made.message

    def send(self, document: dict[str, Any]) -> Answered:
        """Create the like of a document of the memory."""
        metadata = {"name": document["metadata"]["name"], "namespace": self.namespace}
        body = {key: value for key, value in document.items() if key != "status"}
        return self.api.make(body | {"metadata": metadata}, self.namespace)

    def put(self, status: Any) -> Answered:
        """Write a status."""
        path = resources(self.kind, self.namespace, self.name)
        stored = self.api.call("GET", path).document
        return self.api.call(
            "PUT", f"{path}/status", stored | {"status": status}, fieldValidation="Strict"
        )

    def stored(self) -> Any:
        """The status as it is stored."""
        path = resources(self.kind, self.namespace, self.name)
        return self.api.call("GET", path).document["status"]


def test_every_status_of_an_apply_is_kept_as_it_is(api: RawApi, namespace: str) -> None:
    """Each durable step of a plan and an apply, as the engine wrote it in memory."""
    world = scenario("a", "b")
    mirror = Mirror(api, world, namespace)
    process = world.process()
    last: Any = None
    for asked in ("plan", "apply"):
        plan = None if asked == "plan" else world.answer().plan
        if plan is not None:
            world.approve(plan)
        world.ask(asked, plan)
        for _ in range(PASSES_MAX):
            result = process.step()
            status = render(world.status())
            if status != last:
                last = status
                answer = mirror.put(status)
                assert answer.status == 200, (result.step, answer.message)
                assert mirror.stored() == status, result.step
            if result.requeue is None:
                break
            world.world.jobs.run_all()
            wait_s = result.requeue.at - world.world.clock.monotonic()
            world.world.clock.advance(max(0.0, wait_s))
    assert world.answer().type == "apply" and world.answer().exit_code == 0
    for kind in (PLAN, APPROVAL_KIND):
        for document in world.world.objects.list(kind):
            answer = mirror.send(document)
            assert answer.status == 201, answer.message
            assert answer.document["spec"] == document["spec"]


def test_a_dispatch_mark_stays(api: RawApi, namespace: str) -> None:
    world = scenario("a")
    mirror = Mirror(api, world, namespace)
    process = world.process()
    world.ask("plan")
    process.until("ConfirmJob")
    status = render(world.status())
    claim = status["activeOperation"]
    assert mirror.put(status).status == 200
    for change in (
        {"dispatchStarted": False},
        {"dispatchNonce": "0" * 32},
        {"jobName": "ptahk-op-other"},
        {"snapshotDigest": "sha256:" + "0" * 64},
        {"jobUid": "another"},
    ):
        answer = mirror.put(status | {"activeOperation": claim | change})
        assert answer.status == 422, change
        assert "status.activeOperation" in answer.fields
    nothing = {key: value for key, value in claim.items() if key != "jobUid"}
    assert mirror.put(status | {"activeOperation": nothing}).status == 422
    following = {"operationId": "f" * 32, "dispatchStarted": False, "jobName": "ptahk-op-next"}
    fresh = {key: value for key, value in claim.items() if not key.startswith("dispatch")}
    assert mirror.put(status | {"activeOperation": fresh | following}).status == 200
    assert mirror.put({k: v for k, v in status.items() if k != "activeOperation"}).status == 200


def test_plans_and_approvals_are_immutable(api: RawApi, namespace: str) -> None:
    (approval,) = documents(APPROVAL, namespace)
    assert api.make(approval, namespace).status == 201
    path = resources("PtahApproval", namespace, "yes-1")
    for change in ({"approver": {"username": "bob"}}, {"fingerprint": "sha256:" + "1" * 64}):
        answer = api.call("PATCH", path, {"spec": change}, kind="application/merge-patch+json")
        assert answer.status == 422 and "is immutable" in answer.message
    labels = {"metadata": {"labels": {"kept": "yes"}}}
    assert api.call("PATCH", path, labels, kind="application/merge-patch+json").status == 200
    gone = api.call("PATCH", path, {"spec": None}, kind="application/merge-patch+json")
    assert gone.status == 422 and "spec" in gone.fields


def test_phases_select(api: RawApi, namespace: str) -> None:
    (bare,) = documents(BARE, namespace)
    assert api.make(bare, namespace).status == 201
    path = resources("PtahSchema", namespace)
    phase = {"resourceUid": "u", "phase": "Blocked"}
    done = api.call(
        "PATCH", f"{path}/bare/status", {"status": phase}, kind="application/merge-patch+json"
    )
    assert done.status == 200, done.message
    for phase_asked, count in (("Blocked", 1), ("InSync", 0)):
        found = api.call("GET", path, fieldSelector=f"status.phase={phase_asked}")
        assert len(found.document["items"]) == count


def explained_by(cluster: Cluster, cache: Path) -> str | None:
    """None: discovery does not know the new kinds yet."""
    shutil.rmtree(cache, ignore_errors=True)  # nothing from before the kinds were there
    try:
        return run_kubectl(cluster.admin, "explain", "psch.spec.policy.apply", cache=cache)
    except KubectlFailed:
        return None


def test_kubectl_explains_and_shows(
    control_plane: Cluster, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    explained = until(lambda: explained_by(control_plane, cache), "new kinds", 30)
    assert "a person approves each plan" in explained and "OnApproval" in explained
    (schema,) = documents(SCHEMA, namespace)
    assert api.make(schema, namespace).status == 201
    shown = run_kubectl(
        control_plane.admin, "get", "ptahk", "-n", namespace, "-o", "wide", cache=cache
    )
    head, row = shown.splitlines()[:2]
    assert head.split()[:5] == ["NAME", "PHASE", "READY", "PLAN", "AGE"]
    assert "postgresql" in row


def test_the_printed_crds_are_what_kubectl_applies(control_plane: Cluster, api: RawApi) -> None:
    printed = "---\n".join(crd.to_yaml(item) for item in crd.documents())
    said = control_plane.kubectl(
        "apply", "--server-side", "--field-manager=tests", "--force-conflicts", "-f", "-",
        stdin=printed,
    )  # fmt: skip
    assert said.count("serverside-applied") == len(crd.RESOURCES)
