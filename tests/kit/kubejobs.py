"""Operation Jobs on the test cluster: made by the port, under exactly the rights that it needs."""

from __future__ import annotations

import base64
import json
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.jobs import KubeJobs
from ptahk.backends.kube.pod import RUNNER_ARGV
from ptahk.backends.kube.surroundings import KubeSurroundings
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import JobInput, JobOrder, JobView
from ptahk.wire import jobspec
from tests.kit.clusters import PodCluster
from tests.kit.operations import at
from tests.kit.orders import job_spec
from tests.kit.waiting import until

RULES: list[dict[str, Any]] = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "create", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/log", "nodes"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events", "limitranges"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"]},
    {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["get"]},
    {
        "apiGroups": ["scheduling.k8s.io"],
        "resources": ["priorityclasses"],
        "verbs": ["get", "list"],
    },
]
"""What Jobs and surroundings ask of a cluster, and no more."""
STARTED_S = 60.0


@dataclass
class Place:
    """One namespace of the cluster, and the ports over it.

    :ivar way: URL and CA of another way to the API server, such as a fault proxy.
    """

    cluster: PodCluster
    namespace: str
    owner: dict[str, Any] = field(default_factory=dict)
    way: dict[str, Any] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)

    def client(self, **way: Any) -> Client:
        """A client of its own, as the next process has."""
        path: Path = self.cluster.plane.kubeconfig(f"jobs-{self.namespace}", **way)
        self.clients.append(Client.load(path, None))
        return self.clients[-1]

    def jobs(self, *, argv: Sequence[str] = RUNNER_ARGV, **options: Any) -> KubeJobs:
        """The Jobs port as the next process finds it."""
        way = options.pop("way", {})
        image = options.pop("image", self.cluster.images["executor"])
        return KubeJobs(
            self.client(**way), image=image, clock=SystemClock(), argv=tuple(argv), **options
        )

    def surroundings(self) -> KubeSurroundings:
        """The Surroundings port."""
        return KubeSurroundings(self.client())

    def make(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create an object here, as the administrator; the stored document."""
        told = self.cluster.plane.kubectl(
            "create", "--namespace", self.namespace, "--filename=-", "--output=json",
            stdin=json.dumps(document),
        )  # fmt: skip
        found: dict[str, Any] = json.loads(told)
        return found

    def secret(self, name: str, **values: str) -> None:
        """A Secret here."""
        self.make({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                   "stringData": values})  # fmt: skip

    def bundle(self, name: str, file: str, data: bytes) -> JobInput:
        """An immutable ConfigMap that holds one input."""
        self.make({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "immutable": True, "binaryData": {file: base64.b64encode(data).decode("ascii")},
        })  # fmt: skip
        return JobInput(file, name, data)

    def get(self, kind: str, *arguments: str) -> Any:
        """What ``kubectl get -o json`` says."""
        told = self.cluster.plane.kubectl(
            "get", kind, *arguments, "--namespace", self.namespace, "--output=json"
        )
        return json.loads(told)

    def kubectl(self, *arguments: str) -> str:
        """An administrator's command here."""
        return self.cluster.plane.kubectl(*arguments, "--namespace", self.namespace)

    def order(
        self, name: str | None = None, *, inputs: tuple[JobInput, ...] = (),
        execution: dict[str, Any] | None = None, tls_from: dict[str, str] | None = None,
        **changes: Any,
    ) -> JobOrder:  # fmt: skip
        """An order of an Observe; ``changes`` are fields of its specification."""
        name = name or f"ptahk-op-observe-{secrets.token_hex(16)}"
        given: dict[str, Any] = {
            "operation_id": secrets.token_hex(16),
            "store_kind": "cluster",
            "dispatch_not_after": at(120),
            "execution_not_after": at(240),
            "active_deadline_seconds": 240,
            "termination_grace_period_seconds": 10,
            "inputs": {item.name: jobspec.input_digest(item.data) for item in inputs},
        }
        spec = job_spec(name, **(given | changes))
        return JobOrder(
            namespace=self.namespace,
            name=name,
            owner=self.owner,
            annotations={
                "ptahk.dev/operation-id": spec.operation_id,
                "ptahk.dev/epoch": spec.epoch or "",
                "ptahk.dev/dispatch-nonce": secrets.token_hex(16),
                "ptahk.dev/intent": jobspec.input_digest(jobspec.encode(spec)),
                "ptahk.dev/snapshot-digest": "sha256:" + "0" * 64,
            },
            spec=spec,
            inputs=inputs,
            surroundings={},
            url_from={"name": "db", "key": "url"},
            execution=execution or {},
            tls_from=tls_from or {},
        )

    def ended(self, jobs: KubeJobs, name: str) -> JobView:
        """The Job, once it has ended."""
        return until(lambda: _terminal(jobs, self.namespace, name), f"the end of {name}", 120.0)

    def pod(self, name: str) -> Any:
        """The Job's one Pod, as soon as there is one."""

        def look() -> Any:
            return self.get("pods", f"--selector=job-name={name}")["items"]

        (pod,) = until(look, f"a Pod of {name}")
        return pod

    def running(self, name: str) -> Any:
        """The Job's one Pod, once its container runs."""

        def look() -> Any:
            found = self.pod(name)
            states = [item["state"] for item in found["status"].get("containerStatuses", [])]
            return found if any("running" in state for state in states) else None

        return until(look, f"the container of {name}", STARTED_S)


def _terminal(jobs: KubeJobs, namespace: str, name: str) -> JobView | None:
    seen = jobs.observe(namespace, name)
    return seen if seen is not None and seen.terminal else None


@contextmanager
def place(cluster: PodCluster, namespace: str) -> Iterator[Place]:
    """The ports over a namespace of the test's own, with an owner for its Jobs and rights."""
    role, user = f"jobs-{namespace}", f"jobs-{namespace}"
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }  # fmt: skip
    rights = {
        "apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": role},
        "rules": RULES,
    }  # fmt: skip
    made = Place(cluster, namespace)
    for document in (rights, binding):
        made.make(document)
    try:
        owner = made.make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
        made.owner = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner["metadata"]["uid"],
        }  # fmt: skip
        until(lambda: _has_account(made), "the default ServiceAccount")
        yield made
    finally:
        for client in made.clients:
            client.close()
        names = (f"clusterrole/{role}", f"clusterrolebinding/{role}")
        cluster.plane.kubectl("delete", *names, "--ignore-not-found", "--wait=false")
        # Killed at once: what a test left running holds the node no longer.
        cluster.plane.kubectl(
            "delete", "pods", "--all", "--namespace", namespace, "--force", "--grace-period=0",
            "--wait=false",
        )  # fmt: skip


def _has_account(made: Place) -> bool:
    return any(item["metadata"]["name"] == "default" for item in made.get("sa")["items"])


class Gate:
    """A port of this machine that holds Pods until they are let through, in order of arrival."""

    def __init__(self, address: str) -> None:
        self._listener = socket.create_server((address, 0))
        self._listener.settimeout(STARTED_S)
        self.address, self.port = self._listener.getsockname()

    def argv(self, then: str) -> list[str]:
        """A container's command: wait at the gate, then run this Python text."""
        script = (
            "import os, socket, sys\n"
            f"socket.create_connection(({self.address!r}, {self.port})).recv(1)\n" + then
        )
        return ["python", "-c", script]

    def accept(self) -> socket.socket:
        """The next one's connection, waiting for it to come."""
        connection, _ = self._listener.accept()
        return connection

    def open(self) -> None:
        """Let the next one through, waiting for it to come."""
        self.accept().close()

    def close(self) -> None:
        self._listener.close()
