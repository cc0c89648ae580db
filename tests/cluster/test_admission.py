"""What the guard admits and refuses on a real API server, which calls the real webhook."""

from __future__ import annotations

import base64
import datetime
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ptahk.backends.kube import policy
from ptahk.backends.kube.surroundings import Declared
from tests.kit import clusters, servers
from tests.kit.loopback import Loopback, Reply, Request, loopback
from tests.kit.podschema import changed_pods, schemas
from tests.kit.policybed import MERGE, install_policies
from tests.kit.presence import present
from tests.kit.reviews import judged
from tests.kit.servingbed import Bed, pod_of
from tests.kit.waiting import until
from tests.kit.ward import Ward, again, ward

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "other"},
    "spec": {
        "containers": [{"name": "c", "image": "x", "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def place(server_run: servers.Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """A control plane of this module: the webhook's configuration is the whole cluster's."""
    plane = present(lambda: clusters.own(server_run))
    with ward(plane, tmp_path_factory.mktemp("ward")) as made:
        yield made
    clusters.end(plane)


# -- admitted ---------------------------------------------------------------------------------


def limit_range(place: Ward, bed: Bed) -> dict[str, Any]:
    limits = [
        {"type": "Container", "max": {"memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "max": {"memory": "8Gi"}},
    ]
    place.make("/api/v1", "LimitRange", bed.namespace, "small", spec={"limits": limits})
    return {"resources": {"requests": {"memory": "65536Ki"}}}


def two_limit_ranges(place: Ward, bed: Bed) -> dict[str, Any]:
    for name, amounts in (("one", {"cpu": "500m"}), ("two", {"memory": "256Mi"})):
        limits = [{"type": "Container", "default": amounts}]
        place.make("/api/v1", "LimitRange", bed.namespace, name, spec={"limits": limits})
    return {}


def limits_alone(place: Ward, bed: Bed) -> dict[str, Any]:
    return {"resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}}}


def runtime_class(place: Ward, bed: Bed) -> dict[str, Any]:
    scheduling = {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [
            {"key": "sandbox", "operator": "Exists"},
            {"key": "batch", "operator": "Exists", "effect": "NoSchedule"},
        ],
    }
    place.make(
        "/apis/node.k8s.io/v1", "RuntimeClass", "", f"box-{bed.namespace[-10:]}", handler="runsc",
        overhead={"podFixed": {"cpu": "0.25", "memory": "120Mi"}}, scheduling=scheduling,
    )  # fmt: skip
    return {
        "runtimeClassName": f"box-{bed.namespace[-10:]}",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
    }


def priority_class(place: Ward, bed: Bed) -> dict[str, Any]:
    name = f"high-{bed.namespace[-10:]}"
    place.make(
        "/apis/scheduling.k8s.io/v1", "PriorityClass", "", name, value=1000,
        preemptionPolicy="Never",
    )  # fmt: skip
    return {"priorityClassName": name}


def pull_secrets(place: Ward, bed: Bed) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{bed.namespace}/serviceaccounts/default"
    patch = {"imagePullSecrets": [{"name": "one"}, {"name": "two"}]}
    place.api.call("PATCH", path, patch, kind="application/merge-patch+json")
    return {}


def own_tolerations(place: Ward, bed: Bed) -> dict[str, Any]:
    taint = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    return {"tolerations": [{"key": "node.kubernetes.io/not-ready", **taint}]}


def every_taint(place: Ward, bed: Bed) -> dict[str, Any]:
    return {"tolerations": [{"operator": "Exists"}]}


def much(place: Ward, bed: Bed) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "podMetadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "affinity": {"nodeAffinity": node},
        "imagePullSecrets": [{"name": "own"}],
        "activeDeadlineSeconds": 60,
    }


SHAPES: tuple[Callable[[Ward, Bed], dict[str, Any]], ...] = (
    limit_range, two_limit_ranges, limits_alone, runtime_class, priority_class, pull_secrets,
    own_tolerations, every_taint, much,
)  # fmt: skip
TOGETHER = (limit_range, runtime_class, priority_class, pull_secrets)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_what_a_claim_asked_for_is_admitted(
    place: Ward, shape: Callable[[Ward, Bed], dict[str, Any]]
) -> None:
    bed = place.bed()
    job = place.dispatched(bed, **shape(place, bed))
    made = place.send(pod_of(job))
    assert made.status == 201, made.message
    assert place.told.verdicts["Pod", "Allowed"] > 0


def test_what_a_claim_asked_for_is_admitted_with_all_of_it_at_once(place: Ward) -> None:
    bed = place.bed()
    execution: dict[str, Any] = {}
    for shape in TOGETHER:
        execution |= shape(place, bed)
    job = place.dispatched(bed, **execution)
    made = place.send(pod_of(job))
    assert made.status == 201, made.message
    spec = made.document["spec"]
    assert spec["overhead"] and spec["priority"] == 1000 and len(spec["tolerations"]) == 4
    assert "kubernetes.io/limit-ranger" in made.document["metadata"]["annotations"]


# -- refused ----------------------------------------------------------------------------------


def refused(place: Ward, document: dict[str, Any], *words: str) -> None:
    """The API server refuses it with our own words."""
    answer = place.try_(document)
    assert answer.status == 403, answer.message
    assert 'webhook "operations.ptahk.dev" denied the request' in answer.message
    for word in words:
        assert word in answer.message, answer.message


def test_pods_that_no_job_owns_are_refused(place: Ward) -> None:
    bed = place.bed()
    job = place.dispatched(bed)
    owned = pod_of(job)
    stranger = json.loads(json.dumps(owned))
    del stranger["metadata"]["ownerReferences"]
    refused(place, stranger, "NotAsked", "no Job owns it")
    labels = {"labels": owned["metadata"]["labels"], "name": "x", "namespace": bed.namespace}
    refused(place, {**owned, "metadata": labels}, "NotAsked", "no Job owns it")
    renamed = {**POD, "metadata": {"name": "ptahk-op-x", "namespace": bed.namespace}}
    refused(place, renamed, "NotAsked", "no Job owns it")
    for field, value, word in (
        ("name", "ptahk-op-plan-" + "0" * 32, "does not exist"),
        ("uid", "00000000-0000-0000-0000-000000000001", "another"),
        ("controller", False, "no Job owns it"),
    ):
        other = json.loads(json.dumps(owned))
        other["metadata"]["ownerReferences"][0][field] = value
        refused(place, other, "NotAsked", word)


def test_jobs_that_no_claim_asked_for_are_refused(place: Ward) -> None:
    bed = place.bed()
    job = place.dispatched(bed)
    name = job["metadata"]["ownerReferences"][0]["name"]
    forged = again(job)
    forged["metadata"]["name"] = "ptahk-op-apply-" + "1" * 32
    refused(place, forged, "NotAsked", "no active operation")
    orphan = again(job)
    del orphan["metadata"]["ownerReferences"]
    assert "the one owner must be the resource" in place.try_(orphan).message, "by a policy"
    pod = pod_of(job)
    place.status(bed, name, None)
    refused(place, again(job), "NotAsked", "no active operation")
    refused(place, pod, "NotAsked", "no active operation")


def test_a_job_is_made_once(place: Ward) -> None:
    """Somebody deletes it and sends it again while its claim lives."""
    bed = place.bed()
    job = place.dispatched(bed)
    owner, name = job["metadata"]["ownerReferences"][0]["name"], job["metadata"]["name"]
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs/{name}"
    assert place.api.call("DELETE", path, propagationPolicy="Background").status == 200
    place.status(bed, owner, {"jobUid": job["metadata"]["uid"]})
    refused(place, again(job), "NotAsked", "has its Job already")


def test_a_pod_under_other_limits_than_the_snapshots_is_refused(place: Ward) -> None:
    bed = place.bed()
    job = place.dispatched(bed)
    limit_range(place, bed)

    def answer() -> bool:
        return "Changed" in place.try_(pod_of(job)).message

    until(answer, "the API server to see the LimitRange")
    refused(place, pod_of(job), "Changed", "resources")


def test_every_field_of_the_pod_schema_is_refused_when_it_changes(place: Ward) -> None:
    """By the API server's own schema, one field at a time; the review itself, in this process."""
    bed = place.bed()
    job = place.dispatched(bed, **limit_range(place, bed))
    name = job["metadata"]["ownerReferences"][0]["name"]
    pod, resource = place.try_(pod_of(job)).document, bed.stored(name)
    assert judged(pod, job, resource) is None
    known = schemas(place.api.call("GET", "/openapi/v3/api/v1").document)
    count = 0
    for path, changed in changed_pods(known, pod):
        count += 1
        denied = judged(changed, job, resource, differs=lambda job: None)
        assert denied is not None, f"{path} was changed and allowed"
        assert denied.code in ("Changed", "NotAsked", "Malformed"), path
    assert count > 700, count


PATCHES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "sidecar": ([{"op": "add", "path": "/spec/containers/-",
                  "value": POD["spec"]["containers"][0]}], "spec.containers[1] was added"),
    "init container": ([{"op": "add", "path": "/spec/initContainers",
                         "value": [POD["spec"]["containers"][0]]}], "spec.initContainers"),
    "env": ([{"op": "add", "path": "/spec/containers/0/env/-",
              "value": {"name": "LD_PRELOAD", "value": "s3cr3t"}}], "env[6] was added"),
    "image": ([{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}], "image"),
    "toleration": ([{"op": "add", "path": "/spec/tolerations",
                     "value": [{"operator": "Exists"}]}], "spec.tolerations"),
    "token": ([{"op": "replace", "path": "/spec/automountServiceAccountToken", "value": True}],
              "automountServiceAccountToken"),
    "annotation": ([{"op": "add", "path": "/metadata/annotations/x", "value": "y"}],
                   "metadata.annotations.x was added"),
    "label": ([{"op": "add", "path": "/metadata/labels/x", "value": "y"}], "metadata.labels.x"),
    "pull policy": ([{"op": "replace", "path": "/spec/containers/0/imagePullPolicy",
                      "value": "Always"}], "imagePullPolicy"),
    "command": ([{"op": "add", "path": "/spec/containers/0/args", "value": ["x"]}], "args"),
    "deadline": ([{"op": "remove", "path": "/spec/activeDeadlineSeconds"}],
                 "spec.activeDeadlineSeconds was taken out"),
    "node": ([{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}],
             "spec.nodeSelector"),
    "gate": ([{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "x.y/z"}]}],
             "spec.schedulingGates"),
    "finalizer": ([{"op": "add", "path": "/metadata/finalizers/-", "value": "x.y/z"}],
                  "metadata.finalizers[1] was added"),
    "owner": ([{"op": "remove", "path": "/metadata/ownerReferences"}], "no Job owns it"),
}  # fmt: skip


@contextmanager
def mutating(place: Ward, bed: Bed, plural: str, group: str) -> Iterator[list[dict[str, Any]]]:
    """A mutating webhook of the namespace; its patch is the list that is yielded."""
    patch: list[dict[str, Any]] = []

    def answer(request: Request, reply: Reply) -> None:
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        told = {"uid": request.document["request"]["uid"], "allowed": True}
        if patch:
            told |= {"patchType": "JSONPatch", "patch": encoded}
        reply.json(200, {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": told,
        })  # fmt: skip

    name = f"mutating-{bed.namespace}"
    with loopback(answer, tls=place.certificates.context()) as server:
        hook = {
            "name": "mutating.example.com",
            "clientConfig": place.certificates.client_config(server.port, "/"),
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"],
                       "resources": [plural]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bed.namespace}},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 20,
        }  # fmt: skip
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
        assert place.api.call("POST", MUTATING, body).status == 201
        try:
            yield patch
        finally:
            place.api.call("DELETE", f"{MUTATING}/{name}")


def test_pods_that_a_mutating_webhook_changed_are_refused(place: Ward) -> None:
    bed = place.bed()
    pod = pod_of(place.dispatched(bed))
    with mutating(place, bed, "pods", "") as patch:
        until(lambda: place.try_(pod).status == 201, "the webhook without a patch")
        patch[:] = PATCHES["annotation"][0]
        until(lambda: place.try_(pod).status == 403, "the mutating webhook to be seen")
        for name, (operations, words) in PATCHES.items():
            patch[:] = operations
            answer = place.try_(pod)
            assert answer.status == 403 and words in answer.message, f"{name}: {answer.message}"
            assert "s3cr3t" not in answer.message
        patch.clear()
        assert place.send(pod).status == 201


def test_a_job_that_a_mutating_webhook_changed_is_refused(place: Ward) -> None:
    bed = place.bed()
    with mutating(place, bed, "jobs", "batch") as patch:
        # What a policy refuses too would never come to the webhook.
        value = {"disk": "slow"}
        patch[:] = [{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": value}]
        other = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "other", "namespace": bed.namespace},
            "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}},
        }
        path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs"

        def changed() -> Any:
            made = place.api.call("POST", path, other, dryRun="All").document
            return made["spec"]["template"]["spec"].get("nodeSelector")

        until(changed, "the webhook to be seen")
        bed.make("db")
        before = place.told.verdicts["Job", "Changed"]
        place.steps(place.ports(), bed.namespace, "db", "ConfirmJob")
        assert place.told.verdicts["Job", "Changed"] > before
        assert bed.jobs() == []


# -- out of order -----------------------------------------------------------------------------


def rubbish(request: Request, reply: Reply) -> None:
    reply.body(200, b"<html>welcome</html>", Content_Type="text/html")


def empty(request: Request, reply: Reply) -> None:
    reply.json(200, {})


def slow(request: Request, reply: Reply) -> None:
    reply.hang()


def friendly(request: Request, reply: Reply) -> None:
    told = {"uid": request.document["request"]["uid"], "allowed": True}
    reply.json(200, {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": told,
    })  # fmt: skip


@contextmanager
def absent(place: Ward) -> Iterator[None]:
    place.unconfigure()
    yield
    place.configure()


@contextmanager
def silent(place: Ward) -> Iterator[None]:
    place.silence()
    yield
    place.serve()


@contextmanager
def expired(place: Ward) -> Iterator[None]:
    place.certificates.renew(datetime.timedelta(minutes=-5))
    place.silence()
    place.serve()
    assert place.server is not None and "ended" in place.server.unready()[0]
    yield
    place.certificates.renew()
    assert place.server.unready() == []


def replaced(answer: Callable[[Request, Reply], None]) -> Any:
    @contextmanager
    def standing(place: Ward) -> Iterator[None]:
        context: ssl.SSLContext = place.certificates.context()
        server: Loopback
        with loopback(answer, tls=context) as server:
            place.configure(place.certificates.client_config(server.port, "/"))
            yield
        place.configure()

    return standing


OUTAGES = {
    "absent": absent, "silent": silent, "expired": expired, "rubbish": replaced(rubbish),
    "empty": replaced(empty), "slow": replaced(slow), "friendly": replaced(friendly),
}  # fmt: skip


def altered(plural: str, name: str, spec: dict[str, Any] | None) -> Any:
    """A policy or a binding with these fields of its spec changed; None: without it."""

    @contextmanager
    def standing(place: Ward) -> Iterator[None]:
        path = f"/apis/{policy.API}/{plural}/{name}"
        if spec is None:
            done = place.api.call("DELETE", path)
        else:
            done = place.api.call("PATCH", path, {"spec": spec}, kind=MERGE)
        assert done.status == 200, done.message
        try:
            yield
        finally:
            place.api.call("DELETE", path)  # with whatever was put into it
            install_policies(place.plane)

    return standing


POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
NEVER = {"name": "ours", "expression": "false"}
HOLES: dict[str, tuple[Any, str]] = {
    "unruled": (altered(POLICIES, "ptahk-job-create", None), "not in force"),
    "repealed": (altered(POLICIES, "ptahk-status", None), "Policy ptahk-status is not in"),
    "unbound": (altered(BINDINGS, "ptahk-pod", None), "Binding ptahk-pod is not in"),
    "audited": (
        altered(BINDINGS, "ptahk-plan", {"validationActions": ["Audit"]}),
        "Binding ptahk-plan is not as",
    ),
    "elsewhere": (
        altered(BINDINGS, "ptahk-bundle", {"matchResources": {"namespaceSelector": {
            "matchLabels": {"guarded": "yes"}}}}),
        "Binding ptahk-bundle is not as",
    ),
    "hollow": (
        altered(POLICIES, "ptahk-pod-connect", {"matchConditions": [NEVER]}),
        "Policy ptahk-pod-connect is not as",
    ),
    "lenient": (
        altered(POLICIES, "ptahk-approval", {"failurePolicy": "Ignore"}),
        "Policy ptahk-approval is not as",
    ),
}  # fmt: skip


def held(place: Ward, bed: Bed) -> None:
    """A resource whose operation would be dispatched now is Blocked, and nothing of it is made."""
    taken = place.steps(place.ports(guarded=True), bed.namespace, "held", "DispatchJob")
    assert "DispatchJob" not in taken and "WriteClaim" not in taken, taken
    status = bed.stored("held")["status"]
    assert status["phase"] == "Blocked" and status["nextStep"]
    reasons = {item["reason"] for item in status["conditions"]}
    assert "NoAdmission" in reasons
    assert [job for job in bed.jobs() if "held" in json.dumps(job["metadata"])] == []


def goes_on(place: Ward, bed: Bed) -> None:
    ports = place.ports(guarded=True)
    until(lambda: place.proof().missing() is None, "the guard in force again")
    until(
        lambda: "DispatchJob" in place.steps(ports, bed.namespace, "held", "DispatchJob"),
        "the dispatch",
    )


@pytest.mark.parametrize("outage", OUTAGES)
def test_nothing_is_dispatched_while_the_guard_is_not_in_force(place: Ward, outage: str) -> None:
    """And other workloads run; and work goes on by itself once it is back."""
    bed = place.bed()
    pod = pod_of(place.dispatched(bed))
    until(lambda: place.proof().missing() is None, "the guard in force")
    bed.make("held")
    with OUTAGES[outage](place):
        until(lambda: place.proof().missing() is not None, "the outage to be seen")
        if outage not in ("absent", "friendly"):
            assert place.try_(pod).status in (403, 500)
        other = {**POD, "metadata": {"name": "other", "namespace": bed.namespace}}
        assert place.try_(other).status == 201
        held(place, bed)
    goes_on(place, bed)


@pytest.mark.parametrize("hole", HOLES)
def test_nothing_is_dispatched_while_a_policy_is_not_in_force(place: Ward, hole: str) -> None:
    """C-12.4: the second layer counts as much as the first, which stands meanwhile."""
    bed = place.bed()
    until(lambda: place.proof().missing() is None, "the guard in force")
    bed.make("held")
    standing, words = HOLES[hole]
    known = place.proof()
    assert known.missing() is None
    with standing(place):
        # An API server goes by a policy for up to a second after it is gone.
        until(lambda: words in (place.proof().missing() or ""), "the hole to be seen")
        until(lambda: words in (known.missing() or ""), "who knew it good to see it")
        held(place, bed)
    goes_on(place, bed)


UNDECLARED: dict[str, tuple[Declared, str]] = {
    "other seconds": (Declared(not_ready_s=5), "spec.tolerations"),
    "no tolerations": (Declared(None, None), "spec.tolerations"),
    "a plugin that is off": (Declared(plugins=frozenset({"AlwaysPullImages"})), "imagePullPolicy"),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_nothing_is_dispatched_where_the_api_server_adds_other_than_was_declared(
    place: Ward, case: str
) -> None:
    """What built-in admission adds is declared to the manager, and tried on a Pod of nobody."""
    bed = place.bed()
    until(lambda: place.proof().missing() is None, "the guard in force")
    bed.make("held")
    right = place.declared
    place.declared, words = UNDECLARED[case]
    try:
        told = place.proof().missing() or ""
        assert "otherwise than was declared" in told and words in told, told
        held(place, bed)
    finally:
        place.declared = right
    goes_on(place, bed)


def test_the_pod_of_a_dispatched_claim_waits_out_an_outage(place: Ward) -> None:
    bed = place.bed()
    job = place.dispatched(bed)
    name = job["metadata"]["ownerReferences"][0]["name"]
    with silent(place):
        assert place.try_(pod_of(job)).status == 500
        claim = bed.claim(name)
        assert claim["dispatchStarted"] is True
    until(lambda: place.try_(pod_of(job)).status == 201, "its Pod")
