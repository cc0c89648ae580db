"""The admission policies on an API server, and everybody who may meet them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ptahk.backends.kube import pod, policies, policy, stamps
from ptahk.engine.model.plan import plan_name
from ptahk.engine.model.resource import API_VERSION, APPROVAL, PLAN, RESOURCE_UID, SCHEMA
from ptahk.engine.ports import Document
from ptahk.wire import jobspec
from tests.kit import servingbed
from tests.kit.controlplane import Cluster
from tests.kit.orders import job_order
from tests.kit.rawapi import ADMINISTRATORS, Answered, RawApi, resources
from tests.kit.serving import COORDINATION, IDENTITY
from tests.kit.waiting import until

IMAGE = "registry.example/executor@sha256:" + "e" * 64
NAME = "ptahk-op-apply-" + "0123456789abcdef" * 2
DIGEST = "sha256:" + "0" * 64
MERGE = "application/merge-patch+json"
ACTIVE_S = 30.0


def install_policies(cluster: Cluster, *, other_person: bool = False) -> None:
    """Policies and bindings, as the chart has them; waits until they act on this API server."""
    made = [*policies.documents(policies.manager(COORDINATION)),
            *stamps.documents(policies.manager(COORDINATION)), *stamps.stamping()]  # fmt: skip
    if other_person:
        made += stamps.other_person()
    api = RawApi(cluster)
    for document in made:
        kind = document["kind"].lower()
        plural = f"{kind}s" if kind.endswith("binding") else kind.removesuffix("y") + "ies"
        path = f"/apis/{policy.API}/{plural}/{document['metadata']['name']}"
        done = api.call(
            "PATCH", path, document, kind="application/apply-patch+yaml", fieldManager="tests",
            force="true", fieldValidation="Strict",
        )  # fmt: skip
        assert done.status in (200, 201), done.message
    wait_for_policies(cluster)


def wait_for_policies(cluster: Cluster) -> None:
    """A policy takes up to a second to act; the last that is named is asked for by its effect."""
    api = RawApi(cluster)
    asked = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": "canary"},
             "spec": {"target": {"engine": "postgresql", "coordinationKey": "canary"}}}  # fmt: skip

    def act() -> bool:
        refused = api.call(
            "POST", jobs("default"), job("default"), dryRun="All", fieldValidation="Strict"
        )
        stamped = api.make(asked, "default", dryRun="All")
        names = (stamped.document.get("metadata") or {}).get("annotations") or {}
        return "only ptahk's manager" in refused.message and "ptahk.dev/changed-by" in names

    until(act, "the policies", ACTIVE_S)


def jobs(namespace: str, name: str = "", *rest: str) -> str:
    """The path of Jobs, or of one."""
    parts = ["/apis/batch/v1/namespaces", namespace, "jobs", *([name] if name else []), *rest]
    return "/".join(parts)


def pods(namespace: str, name: str = "", *rest: str) -> str:
    """The path of Pods, or of one."""
    return "/".join(["/api/v1/namespaces", namespace, "pods", *([name] if name else []), *rest])


def job(namespace: str, name: str = NAME, operation: str = "schema/Apply") -> Document:
    """The Job of an operation as the manager makes it; of another one, by its annotation."""
    order = job_order(name, termination_grace_period_seconds=30)
    order = dataclasses.replace(
        order,
        namespace=namespace,
        annotations={
            "ptahk.dev/operation-id": "0" * 32,
            "ptahk.dev/epoch": "7.0123456789abcdef",
            "ptahk.dev/dispatch-nonce": "1" * 32,
            "ptahk.dev/intent": jobspec.input_digest(jobspec.encode(order.spec)),
            "ptahk.dev/snapshot-digest": DIGEST,
        },
        url_from={"name": "db", "key": "url"},
    )
    made = pod.job(order, pod.PodSettings(IMAGE))
    template = made["spec"]["template"]["metadata"]
    for metadata in (made["metadata"], template):
        metadata["annotations"] = {**metadata["annotations"], pod.OPERATION: operation}
    made["metadata"]["annotations"][pod.SHAPE] = pod.shape_digest(made)
    return made


def job_pod(name: str = f"{NAME}-abcde", owner: str = NAME) -> Document:
    """A Pod as the Job controller makes it."""
    made = job("default")
    template = made["spec"]["template"]
    amounts = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    template["spec"]["containers"][0]["resources"] = amounts
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **template["metadata"],
            "name": name,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u",
                 "controller": True, "blockOwnerDeletion": True}
            ],
        },
        "spec": template["spec"],
    }  # fmt: skip


@dataclass
class Realm:
    """A namespace of such an API server, with one resource and one plan of it.

    Everybody here has every right: what is refused, a policy refuses.
    """

    cluster: Cluster
    namespace: str
    resource: Document = field(default_factory=dict)
    plan: Document = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Nothing but an API server runs: nobody else makes it.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.made(self.ann.call("POST", path, account))
        self.resource = self.made(self.ann.make(self.schema("orders"), self.namespace))
        self.plan = self.made(self.manager.make(self.planned("a"), self.namespace))

    @staticmethod
    def made(answer: Answered) -> Document:
        """What an answer stored. :raises AssertionError: it was refused."""
        assert answer.status in (200, 201), answer.message
        return answer.document

    @cached_property
    def manager(self) -> RawApi:
        return RawApi(self.cluster, IDENTITY, ADMINISTRATORS)

    @cached_property
    def ann(self) -> RawApi:
        return RawApi(self.cluster, "ann", (*ADMINISTRATORS, "team-a"))

    @cached_property
    def bob(self) -> RawApi:
        return RawApi(self.cluster, "bob", ADMINISTRATORS)

    @cached_property
    def system(self) -> RawApi:
        return servingbed.job_controller(self.cluster)

    def schema(self, name: str) -> Document:
        target = {"engine": "postgresql", "coordinationKey": f"{self.namespace}/{name}"}
        return {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": name},
                "spec": {"target": target}}  # fmt: skip

    def owner(self) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": SCHEMA, "name": "orders",
                "uid": self.resource["metadata"]["uid"], "controller": True}  # fmt: skip

    def planned(self, letter: str) -> Document:
        """A plan of the resource whose fingerprint is this letter, many times."""
        fingerprint = "sha256:" + letter * 64
        owner = self.owner()
        return {
            "apiVersion": API_VERSION,
            "kind": PLAN,
            "metadata": {
                "name": plan_name(fingerprint),
                "labels": {RESOURCE_UID: owner["uid"]},
                "ownerReferences": [owner],
            },
            "spec": {
                "resource": {"kind": SCHEMA, "name": "orders", "uid": owner["uid"]},
                "fingerprint": fingerprint, "digest": DIGEST, "binding": {"planDigest": DIGEST},
                "summary": {}, "engine": "postgresql", "serverIdentity": "s",
                "source": {"configMap": "c", "digest": DIGEST}, "statements": 1,
                "destructive": False, "privileges": False, "operationId": "0" * 32,
                "time": "2026-01-01T00:00:00Z",
            },
        }  # fmt: skip

    def approval(self, name: str, **changes: Any) -> Document:
        """An approval of the plan as kubectl makes it: without approver and label."""
        spec = {
            "resource": dict(self.plan["spec"]["resource"]),
            "plan": {key: self.plan["metadata"][key] for key in ("name", "uid")},
            "fingerprint": self.plan["spec"]["fingerprint"],
        }
        return {"apiVersion": API_VERSION, "kind": APPROVAL, "metadata": {"name": name},
                "spec": spec | changes}  # fmt: skip

    def at(self, kind: str, name: str, *rest: str) -> str:
        return resources(kind, self.namespace, name, *rest)
