"""What the API server itself refuses of operation Jobs and Pods, each with its reason (C-12.2)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ptahk.backends.kube import pod
from tests.kit import clusters, policybed, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.controlplane import ControlPlane, KubectlFailed
from tests.kit.policybed import MERGE, NAME, Realm, job, job_pod, jobs, pods
from tests.kit.presence import present
from tests.kit.rawapi import Answered, RawApi
from tests.kit.serving import install

Document = dict[str, Any]


@pytest.fixture(scope="module")
def guarded(server_run: servers.Run) -> Iterator[ControlPlane]:
    """An API server with the policies, for this module alone: they are of the whole cluster."""
    plane = present(lambda: clusters.own(server_run))
    install(plane)
    policybed.install_policies(plane)
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somewhere"},
            "status": {"capacity": room, "allocatable": room}}  # fmt: skip
    plane.kubectl("create", "--filename=-", stdin=json.dumps(node))
    yield plane
    clusters.end(plane)


@pytest.fixture
def realm(guarded: ControlPlane) -> Realm:
    return Realm(guarded, create_namespace(guarded))


def create(by: RawApi, document: Document, namespace: str, **query: str) -> Answered:
    query = {"fieldValidation": "Strict", **query}
    return by.call("POST", jobs(namespace), document, **query)


def refused(answer: Answered, *words: str) -> None:
    assert answer.status in (403, 422), (answer.status, answer.message)
    for word in words:
        assert word in answer.message, answer.message


def put(path: str, value: Any) -> Callable[[Document], None]:
    """Sets one field of a Job."""

    def change(document: Document) -> None:
        *names, last = path.split("/")
        inner: Any = document
        for name in names:
            inner = inner[int(name)] if isinstance(inner, list) else inner[name]
        if value is None:
            del inner[last]
        elif isinstance(inner, list):
            inner.append(value)
        else:
            inner[last] = value

    return change


POD = "spec/template/spec"
CONTAINER = f"{POD}/containers/0"
SHAPES: dict[str, tuple[str, Any, str]] = {
    "another name": ("metadata/name", "ptahk-manager", "ptahk's manager makes Jobs named"),
    "a long name": ("metadata/name", "ptahk-op-" + "a" * 49, "at most 57"),
    "no owner": ("metadata/ownerReferences", [], "one owner"),
    "no claim": ("metadata/annotations/ptahk.dev~operation-id", None, "claim's annotations"),
    "another claim": ("metadata/annotations/ptahk.dev~operation-id", "x", "claim's annotations"),
    "two at once": ("spec/parallelism", 2, "spec.parallelism"),
    "two in all": ("spec/completions", 2, "spec.completions"),
    "tried again": ("spec/backoffLimit", 1, "spec.backoffLimit"),
    "replaced early": ("spec/podReplacementPolicy", "TerminatingOrFailed", "podReplacementPolicy"),
    "suspended": ("spec/suspend", True, "spec.suspend"),
    "indexed": ("spec/completionMode", "Indexed", "spec.completionMode"),
    "a TTL": ("spec/ttlSecondsAfterFinished", 300, "no operation has ttlSecondsAfterFinished"),
    "another's": ("spec/managedBy", "example.com/other", "no operation has managedBy"),
    "no failure rules": ("spec/podFailurePolicy", None, "spec.podFailurePolicy"),
    "an early end": ("spec/activeDeadlineSeconds", 10, "spec.activeDeadlineSeconds"),
    "a token": (f"{POD}/automountServiceAccountToken", True, "automountServiceAccountToken"),
    "the host's network": (f"{POD}/hostNetwork", True, "no operation has hostNetwork"),
    "the host's processes": (f"{POD}/hostPID", True, "no operation has hostPID"),
    "a first container": (
        f"{POD}/initContainers", [{"name": "x", "image": "x"}], "no operation has initContainers",
    ),
    "a second container": (f"{POD}/containers/-", {"name": "x", "image": "x"}, "the one"),
    "another user": (f"{POD}/securityContext/runAsUser", 0, "securityContext"),
    "a short life": (f"{POD}/activeDeadlineSeconds", 10, "must be 30 to 86400"),
    "no deadline": (f"{POD}/activeDeadlineSeconds", None, "must be 30 to 86400"),
    "a long grace": (f"{POD}/terminationGracePeriodSeconds", 60, "at most 45"),
    "the host's files": (
        f"{POD}/volumes/-", {"name": "x", "hostPath": {"path": "/"}}, "must be of emptyDir",
    ),
    "a tag": (f"{CONTAINER}/image", "registry.example/executor:1", "by digest"),
    "another program": (f"{CONTAINER}/command", ["sh"], "command must be"),
    "arguments": (f"{CONTAINER}/args", ["x"], "args must not"),
    "code by environment": (f"{CONTAINER}/env/-", {"name": "LD_PRELOAD", "value": "x"}, "env"),
    "another reference": (
        f"{CONTAINER}/env/-",
        {"name": "HOME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        "or be the Pod's uid",
    ),
    "privileges": (
        f"{CONTAINER}/securityContext/readOnlyRootFilesystem", False, "securityContext must be",
    ),
    "a hook": (
        f"{CONTAINER}/lifecycle", {"preStop": {"sleep": {"seconds": 1}}},
        "no operation has lifecycle",
    ),
}  # fmt: skip


def test_the_manager_makes_the_job_and_nobody_else_does(realm: Realm) -> None:
    made = job(realm.namespace)
    for person in (realm.ann, realm.system):
        refused(create(person, made, realm.namespace), "only ptahk's manager makes Jobs named")
    answer = create(realm.manager, made, realm.namespace)
    assert answer.status == 201, answer.message
    assert pod.differs(answer.document) is None


@pytest.mark.parametrize("case", SHAPES)
def test_a_job_of_another_shape_is_refused(realm: Realm, case: str) -> None:
    path, value, words = SHAPES[case]
    made = copy.deepcopy(job(realm.namespace))
    if "~" in path:
        annotations = made["metadata"]["annotations"]
        key = path.rpartition("/")[2].replace("~", "/")
        annotations.pop(key) if value is None else annotations.update({key: value})
    else:
        put(path, value)(made)
    refused(create(realm.manager, made, realm.namespace, dryRun="All"), words)


def _properties(api: RawApi, definition: str) -> set[str]:
    schemas = api.call("GET", "/openapi/v3/apis/batch/v1").document["components"]["schemas"]
    return set(schemas[definition]["properties"])


def test_every_other_field_that_this_kubernetes_knows_is_refused(realm: Realm) -> None:
    """Whatever a later version adds is in its schema, and so is tried here."""
    levels = {
        "io.k8s.api.batch.v1.JobSpec": ("spec", pod.JOB_FIELDS, "JobSpec"),
        "io.k8s.api.core.v1.PodSpec": (POD, pod.POD_FIELDS, "PodSpec"),
        "io.k8s.api.core.v1.Container": (CONTAINER, pod.CONTAINER_FIELDS, "Container"),
    }
    tried = 0
    for definition, (where, known, _) in levels.items():
        for name in sorted(_properties(realm.ann, definition) - set(known)):
            kept = []
            for value in (True, 1, "x", [{"name": "x", "image": "x"}], {}, ["x"]):
                made = copy.deepcopy(job(realm.namespace))
                put(f"{where}/{name}", value)(made)
                answer = create(realm.manager, made, realm.namespace, dryRun="All")
                if answer.status == 201 and f'"{name}"' in json.dumps(answer.document["spec"]):
                    kept.append(value)
            tried += 1
            assert not kept, f"{definition}.{name} is kept: {kept}"
    assert tried > 40


@pytest.fixture
def running(realm: Realm) -> Document:
    """An operation's Job, not ended."""
    return realm.made(create(realm.manager, job(realm.namespace), realm.namespace))


def patch_job(by: RawApi, realm: Realm, name: str = NAME, **change: Any) -> Answered:
    return by.call("PATCH", jobs(realm.namespace, name), change, kind=MERGE)


CHANGES: dict[str, Document] = {
    "suspend": {"spec": {"suspend": True}},
    "parallelism": {"spec": {"parallelism": 2}},
    "deadline": {"spec": {"activeDeadlineSeconds": 5}},
    "backoffLimit": {"spec": {"backoffLimit": 5}},
    "labels": {"metadata": {"labels": {"x": "y"}}},
    "annotations": {"metadata": {"annotations": {"ptahk.dev/epoch": "8.0123456789abcdef"}}},
    "owners": {"metadata": {"ownerReferences": None}},
    "finalizers": {"metadata": {"finalizers": ["example.com/x"]}},
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_job_is_not_patched(realm: Realm, running: Document, case: str) -> None:
    refused(patch_job(realm.ann, realm, **CHANGES[case]), "only ptahk's manager changes")
    words = "spec.ttlSecondsAfterFinished" if "spec" in CHANGES[case] else "keeps its metadata"
    if case in ("labels", "annotations", "owners", "finalizers"):
        # A metadata change alone is refused for its missing TTL or for itself: both are said.
        words = "an operation's Job keeps its metadata"
        end(realm)
        given = {**CHANGES[case], "spec": {"ttlSecondsAfterFinished": pod.TTL_S}}
        refused(patch_job(realm.manager, realm, **given), words)
    refused(patch_job(realm.manager, realm, **CHANGES[case]))


def end(realm: Realm, name: str = NAME) -> None:
    """The Job controller says that the Job has ended."""
    path = jobs(realm.namespace, name, "status")
    status = {
        "startTime": "2026-01-01T00:00:00Z",
        "uncountedTerminatedPods": {},
        "failed": 1,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
             "lastProbeTime": "2026-01-01T00:00:00Z", "reason": "x", "message": "x"}
            for kind in ("FailureTarget", "Failed")
        ],
    }  # fmt: skip
    answer = realm.system.call("PATCH", path, {"status": status}, kind=MERGE)
    assert answer.status == 200, answer.message


def test_the_ttl_is_set_once_when_the_job_has_ended(realm: Realm) -> None:
    name = "ptahk-op-observe-1"
    realm.made(create(realm.manager, job(realm.namespace, name, "schema/Observe"), realm.namespace))
    ttl = {"spec": {"ttlSecondsAfterFinished": pod.TTL_S}}
    refused(patch_job(realm.manager, realm, name, **ttl), "once the Job has ended")
    end(realm, name)
    refused(patch_job(realm.ann, realm, name, **ttl), "only ptahk's manager changes")
    early = {"spec": {"ttlSecondsAfterFinished": 1}}
    refused(patch_job(realm.manager, realm, name, **early), "must be 300")
    assert patch_job(realm.manager, realm, name, **ttl).status == 200
    assert patch_job(realm.manager, realm, name, **ttl).status == 200, "nothing changes"
    for again in (1, 600, None):
        twice = {"spec": {"ttlSecondsAfterFinished": again}}
        refused(patch_job(realm.manager, realm, name, **twice))


def test_the_ttl_of_a_schema_apply_may_come_while_it_runs(realm: Realm, running: Document) -> None:
    """C-3.4: its Lease changed hands."""
    ttl = {"spec": {"ttlSecondsAfterFinished": pod.TTL_S}}
    assert patch_job(realm.manager, realm, **ttl).status == 200


def test_the_manager_changes_no_other_job(realm: Realm) -> None:
    other = job(realm.namespace)
    other["metadata"]["name"] = "nightly"
    realm.made(create(realm.ann, other, realm.namespace))
    answer = patch_job(realm.manager, realm, "nightly", spec={"suspend": True})
    refused(answer, "changes Jobs named ptahk-op-*")
    assert patch_job(realm.ann, realm, "nightly", spec={"suspend": True}).status == 200


def test_a_job_is_not_deleted_without_its_pod(realm: Realm, running: Document) -> None:
    path = jobs(realm.namespace, NAME)
    refused(realm.ann.call("DELETE", path, {}), "not deleted without its Pod")
    orphan = {"propagationPolicy": "Orphan"}
    refused(realm.ann.call("DELETE", path, orphan), "not deleted without its Pod")
    refused(realm.ann.call("DELETE", jobs(realm.namespace), orphan), "not deleted without its Pod")
    assert realm.ann.call("DELETE", path, {"propagationPolicy": "Background"}).status == 200


@pytest.fixture
def pod_of(realm: Realm) -> Document:
    """An operation's Pod, bound to a node that no kubelet has."""
    made = job_pod()
    made["spec"]["nodeName"] = "somewhere"
    return realm.made(realm.system.call("POST", pods(realm.namespace), made))


def test_nobody_debugs_resizes_or_changes_a_pod(
    realm: Realm, guarded: ControlPlane, pod_of: Document
) -> None:
    name = pod_of["metadata"]["name"]
    where = ("--namespace", realm.namespace)
    with pytest.raises(KubectlFailed, match="no debug container"):
        guarded.kubectl(
            "debug", name, "--image=busybox", "--profile=restricted", "--attach=false", *where
        )
    with pytest.raises(KubectlFailed, match="is not resized"):
        change = {"spec": {"containers": [{"name": pod.CONTAINER, "resources": {
            "requests": {"cpu": "200m"}}}]}}  # fmt: skip
        guarded.kubectl(
            "patch", "pod", name, "--subresource=resize", f"--patch={json.dumps(change)}", *where
        )
    with pytest.raises(KubectlFailed, match="never changes"):
        guarded.kubectl("set", "image", f"pod/{name}", f"{pod.CONTAINER}=busybox", *where)
    with pytest.raises(KubectlFailed, match="no exec"):
        guarded.kubectl("exec", name, *where, "--", "env")
    # kubectl itself asks no more than whether the Pod runs before these.
    for way in ("attach", "portforward", "proxy"):
        path = pods(realm.namespace, name, way)
        refused(realm.ann.call("GET", path), "no exec, attach, port-forward or proxy")


POD_CHANGES: dict[str, tuple[Document, str]] = {
    "labels": ({"metadata": {"labels": {"batch.kubernetes.io/job-name": "x"}}}, "never changes"),
    "annotations": ({"metadata": {"annotations": {"ptahk.dev/epoch": "x"}}}, "never changes"),
    "owners": ({"metadata": {"ownerReferences": None}}, "never changes"),
    "finalizers": ({"metadata": {"finalizers": None}}, "Job controller's"),
    "deadline": ({"spec": {"activeDeadlineSeconds": 1}}, "never changes"),
}


@pytest.mark.parametrize("case", POD_CHANGES)
def test_a_pod_is_not_patched(realm: Realm, pod_of: Document, case: str) -> None:
    change, words = POD_CHANGES[case]
    path = pods(realm.namespace, pod_of["metadata"]["name"])
    for by in (realm.ann, realm.manager):
        refused(by.call("PATCH", path, change, kind=MERGE), words)


def test_the_clusters_own_parts_do_their_work(realm: Realm, pod_of: Document) -> None:
    path = pods(realm.namespace, pod_of["metadata"]["name"])
    status = {"status": {"phase": "Failed"}}
    refused(realm.ann.call("PATCH", f"{path}/status", status, kind=MERGE), "cluster's own parts")
    refused(
        realm.manager.call("PATCH", f"{path}/status", status, kind=MERGE), "cluster's own parts"
    )
    assert realm.system.call("PATCH", f"{path}/status", status, kind=MERGE).status == 200
    free = {"metadata": {"finalizers": None}}
    assert realm.system.call("PATCH", path, free, kind=MERGE).status == 200


def test_a_binding_adds_nothing(realm: Realm) -> None:
    made = realm.made(realm.system.call("POST", pods(realm.namespace), job_pod()))
    name = made["metadata"]["name"]
    binding = {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "annotations": {"x": "y"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"},
    }  # fmt: skip
    path = pods(realm.namespace, name, "binding")
    refused(realm.ann.call("POST", path, binding), "a binding adds nothing")
    refused(
        realm.ann.call("POST", f"/api/v1/namespaces/{realm.namespace}/bindings", binding),
        "a binding adds nothing",
    )
    del binding["metadata"]["annotations"]
    assert realm.ann.call("POST", path, binding).status == 201


def test_other_jobs_and_pods_are_nobodys_business(realm: Realm) -> None:
    other = job(realm.namespace)
    other["metadata"]["name"] = "nightly"
    realm.made(create(realm.ann, other, realm.namespace))
    assert patch_job(realm.ann, realm, "nightly", metadata={"labels": {"a": "b"}}).status == 200
    assert realm.ann.call("DELETE", jobs(realm.namespace, "nightly"), {}).status == 200
    mine = job_pod("mine", "nightly")
    realm.made(realm.ann.call("POST", pods(realm.namespace), mine))
    change = {"metadata": {"labels": {"a": "b"}, "finalizers": None}}
    assert realm.ann.call("PATCH", pods(realm.namespace, "mine"), change, kind=MERGE).status == 200
