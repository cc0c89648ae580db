"""A namespace for ``ptahk serve`` on a control plane without controllers or nodes.

The test is what the cluster lacks: ``pod_of`` is what the Job controller would send.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ptahk.engine.model.resource import API_VERSION, SCHEMA
from tests.kit.clusterfixtures import create_namespace
from tests.kit.controlplane import Cluster
from tests.kit.rawapi import ADMINISTRATORS, RawApi, resources
from tests.kit.serving import IDENTITY

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
CONTROLLERS = "system:serviceaccounts:kube-system"
_TRACKING = "batch.kubernetes.io/job-tracking"


def make(cluster: Cluster) -> Bed:
    """A fresh namespace with the ServiceAccount that a controller-manager would put there."""
    name = create_namespace(cluster)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.kubectl("create", f"--namespace={name}", "--filename=-", stdin=json.dumps(account))
    return Bed(RawApi(cluster), name)


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    """The Pod that the Job controller sends for a Job."""
    metadata, template = job["metadata"], job["spec"]["template"]
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"],
        "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    kept = {key: template["metadata"][key] for key in ("labels", "annotations")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "finalizers": [_TRACKING],
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def job_controller(cluster: Cluster) -> RawApi:
    """The identity that makes Pods and tells of them; whatever refuses it is admission."""
    return RawApi(cluster, JOB_CONTROLLER, (*ADMINISTRATORS, CONTROLLERS))


@dataclass
class Bed:
    """One namespace, with what a controller-manager would put there."""

    api: RawApi
    namespace: str

    @cached_property
    def manager(self) -> RawApi:
        """The manager's identity with every right: who alone writes status."""
        return RawApi(self.api.cluster, IDENTITY, ADMINISTRATORS)

    def make(self, name: str = "db", **spec: Any) -> None:
        target = {"engine": "postgresql", "coordinationKey": f"{self.namespace}/{name}",
                  "urlFrom": {"name": "db"}}  # fmt: skip
        whole = {"target": target, "desired": {"inline": "create table a (id int);"}} | spec
        document = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": name}}
        answer = self.api.make(document | {"spec": whole}, self.namespace)
        assert answer.status == 201, answer.message

    def stored(self, name: str = "db") -> dict[str, Any]:
        return self.api.call("GET", resources(SCHEMA, self.namespace, name)).document

    def claim(self, name: str = "db") -> dict[str, Any]:
        status = self.stored(name).get("status") or {}
        found: dict[str, Any] = status.get("activeOperation") or {}
        return found

    def jobs(self) -> list[dict[str, Any]]:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        found: list[dict[str, Any]] = self.api.call("GET", path).document["items"]
        return found

    def reasons(self) -> list[str]:
        path = f"/api/v1/namespaces/{self.namespace}/events"
        return [item["reason"] for item in self.api.call("GET", path).document["items"]]
