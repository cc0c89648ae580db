"""Who has every right in the cluster, and an Apply that runs: what the release refuses (C-12.2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ptahk.backends.kube.pod import CONTAINER, TTL_S
from ptahk.engine.model.plan import plan_name
from ptahk.engine.model.resource import PLAN
from tests.kit.chartbed import Start
from tests.kit.controlplane import KubectlFailed
from tests.kit.podbed import Bed
from tests.kit.rawapi import Answered, RawApi, resources
from tests.kit.serving import GROUPS, IDENTITY
from tests.kit.theatre import AFTER, BEFORE, accounted, jobs_of
from tests.kit.waiting import until

MERGE = "application/merge-patch+json"
JOB_CHANGES: dict[str, dict[str, Any]] = {
    "suspend": {"spec": {"suspend": True}},
    "parallelism": {"spec": {"parallelism": 2}},
    "deadline": {"spec": {"activeDeadlineSeconds": 31}},
    "early": {"spec": {"ttlSecondsAfterFinished": 0}},
    "labels": {"metadata": {"labels": {"a": "b"}}},
    "owners": {"metadata": {"ownerReferences": None}},
}


def refused(answer: Answered, words: str) -> None:
    assert answer.status in (403, 422) and words in answer.message, (answer.status, answer.message)


def pod_of(bed: Bed, job: dict[str, Any]) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{bed.namespace}/pods"
    selector = f"job-name={job['metadata']['name']}"
    (found,) = bed.api.call("GET", path, labelSelector=selector).document["items"]
    assert isinstance(found, dict)
    return found


def into_the_pod(bed: Bed, name: str) -> None:
    """As an administrator debugs, resizes or mends any other Pod."""
    with pytest.raises(KubectlFailed, match="no debug container"):
        bed.kubectl("debug", name, "--image=busybox", "--profile=restricted", "--attach=false")
    resized = {"spec": {"containers": [{"name": CONTAINER, "resources": {
        "requests": {"cpu": "60m"}}}]}}  # fmt: skip
    with pytest.raises(KubectlFailed, match="is not resized"):
        bed.kubectl("patch", "pod", name, "--subresource=resize", f"--patch={json.dumps(resized)}")
    with pytest.raises(KubectlFailed, match="never changes"):
        bed.kubectl("set", "image", f"pod/{name}", f"{CONTAINER}=busybox")
    with pytest.raises(KubectlFailed, match="no exec"):
        bed.town.plane.kubectl("exec", name, f"--namespace={bed.namespace}", "--", "env")
    with pytest.raises(KubectlFailed, match="never changes"):
        bed.kubectl("label", "pod", name, "job-name-")


def into_the_job(bed: Bed, name: str, manager: RawApi) -> None:
    """By an administrator, and by whoever has the manager's own token."""
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs/{name}"
    for case, change in JOB_CHANGES.items():
        answer = bed.api.call("PATCH", path, change, kind=MERGE)
        refused(answer, "only ptahk's manager changes")
        answer = manager.call("PATCH", path, change, kind=MERGE)
        assert answer.status in (403, 422), (case, answer.status, answer.message)


def around_it(bed: Bed) -> None:
    """The status that says what is accounted for, and the plan that runs."""
    path = resources(bed.kind, bed.namespace, "db", "status")
    forgotten = {"status": {"activeOperation": None}}
    refused(bed.api.call("PATCH", path, forgotten, kind=MERGE), "only ptahk's manager writes")
    path = resources(PLAN, bed.namespace, plan_name(bed.status()["lastPlan"]["fingerprint"]))
    answer = bed.api.call("PATCH", path, {"spec": {"statements": 0}}, kind=MERGE)
    assert answer.status in (403, 422), answer.message


def test_nobody_reaches_into_an_apply_that_runs(start: Start, beds: Callable[[], Bed]) -> None:
    bed = beds()
    manager = RawApi(bed.town.plane, IDENTITY, GROUPS)
    start().ready()
    bed.database.run(BEFORE, bed.role)
    with bed.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
        # A Pod of no requests may not be resized anyhow.
        execution = {"resources": {"requests": {"cpu": "50m"}}}
        bed.make(text=AFTER, policy={"lockTimeout": "10m"}, execution=execution)
        until(lambda: bed.claim().get("type") == "Apply" and bed.waits(), "the Apply", 240)
        (job,) = jobs_of(bed, "apply")
        pod = pod_of(bed, job)
        into_the_pod(bed, pod["metadata"]["name"])
        into_the_job(bed, job["metadata"]["name"], manager)
        around_it(bed)
        assert pod_of(bed, job)["spec"] == pod["spec"]
        assert jobs_of(bed, "apply")[0]["spec"] == job["spec"]
    (apply,) = accounted(bed, "somebody tried")
    assert apply["settled"]["type"] == "Succeeded"
    (job,) = jobs_of(bed, "apply")
    assert job["spec"]["ttlSecondsAfterFinished"] == TTL_S
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs/{job['metadata']['name']}"
    for again in (0, 2 * TTL_S, None):
        twice = {"spec": {"ttlSecondsAfterFinished": again}}
        answer = manager.call("PATCH", path, twice, kind=MERGE)
        assert answer.status in (403, 422), (again, answer.status, answer.message)
