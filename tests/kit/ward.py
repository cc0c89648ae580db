"""A control plane that a real webhook guards, and a manager's engine that works on it.

The webhook is the product's, in this process; the API server calls it by URL on loopback. There
are no controllers: ``servingbed.pod_of`` is what the Job controller sends, and the API server does
the rest.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.backends.kube import admission, pod
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.jobs import KubeJobs
from ptahk.backends.kube.objects import KubeObjects
from ptahk.backends.kube.pod import PodSettings
from ptahk.backends.kube.surroundings import Declared, KubeSurroundings
from ptahk.backends.system import SystemClock, SystemEntropy
from ptahk.engine import driver
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Key, NothingMissing, Ports, Store
from ptahk.serve import webhook
from tests.kit import gate, servingbed
from tests.kit.controlplane import ControlPlane
from tests.kit.gate import Issued
from tests.kit.memory import MemoryRecorder
from tests.kit.rawapi import ADMINISTRATORS, Answered, RawApi, resources
from tests.kit.serving import COORDINATION, GROUPS, IDENTITY, NO_IMAGE

PASSES_MAX = 40


@dataclass
class Counted:
    """What a webhook was asked, by kind and verdict."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, kind: str, verdict: str, seconds: float) -> None:
        with self.lock:
            self.verdicts[kind, verdict] += 1


@dataclass
class Ward:
    """The control plane, its webhook, and what works on it."""

    plane: ControlPlane
    folder: Path
    declared: Declared = field(default_factory=Declared)
    told: Counted = field(default_factory=Counted)

    def __post_init__(self) -> None:
        gate.install(self.plane)
        self.api = RawApi(self.plane)
        self.manager = RawApi(self.plane, IDENTITY, ADMINISTRATORS)
        self.certificates = Issued(self.folder / "pki")
        self.clients: list[Client] = []
        self.guard = webhook.Guard(
            KubeObjects(self.client(), timeout_s=webhook.READ_S), pod.differs, SystemClock()
        )
        self.server: webhook.Webhook | None = None
        self.port = 0

    def client(self) -> Client:
        """A client with exactly the manager's rights."""
        self.clients.append(Client.load(self.plane.kubeconfig(IDENTITY, GROUPS), None))
        return self.clients[-1]

    # -- the webhook --------------------------------------------------------------------------

    def serve(self) -> None:
        """Start the webhook, at the port that it had before, if any."""
        self.server = webhook.Webhook(
            ("127.0.0.1", self.port), self.certificates, self.guard, self.told
        )
        self.port = self.server.port
        self.server.start()

    def silence(self) -> None:
        """Stop it, as a replica that ends."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def configure(self, client: dict[str, Any] | None = None) -> None:
        """Tell the API server of the webhook, or of another in its place."""
        gate.configure(self.api, client or self.certificates.client_config(self.port))

    def unconfigure(self) -> None:
        """Take the webhook's configuration away."""
        gate.unconfigure(self.api)

    def proof(self) -> admission.KubeAdmission:
        """The proof that it is in force, as a manager asks for it."""
        client = self.client()
        surroundings = KubeSurroundings(client, declared=self.declared)
        return admission.KubeAdmission(
            client, COORDINATION, PodSettings(NO_IMAGE), surroundings, SystemClock()
        )

    # -- the engine ---------------------------------------------------------------------------

    def bed(self) -> servingbed.Bed:
        """A namespace for resources."""
        return servingbed.make(self.plane)

    def ports(self, *, guarded: bool = False) -> Ports:
        """Of one manager."""
        client = self.client()
        return Ports(
            store=Store(client.cluster_uid(), "cluster", COORDINATION, automatic=True),
            objects=KubeObjects(client),
            jobs=KubeJobs(client, image=NO_IMAGE, clock=SystemClock()),
            surroundings=KubeSurroundings(client, declared=self.declared),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            recorder=MemoryRecorder(),
            admission=self.proof() if guarded else NothingMissing(),
        )

    def steps(self, ports: Ports, namespace: str, name: str, until: str) -> list[str]:
        """Take passes until a step is done, or the engine waits. :returns: the steps."""
        taken: list[str] = []
        for _ in range(PASSES_MAX):
            result = driver.run_pass(ports, Key(SCHEMA, namespace, name))
            taken.append(result.step or "")
            if result.step == until or result.requeue is None:
                break
            if result.requeue.at > ports.clock.monotonic() + 1:
                break
        return taken

    def dispatched(self, bed: servingbed.Bed, **execution: Any) -> dict[str, Any]:
        """A resource whose first operation was just dispatched; its Job as stored."""
        name = f"db{len(bed.jobs())}"
        bed.make(name, execution=execution)
        taken = self.steps(self.ports(), bed.namespace, name, "DispatchJob")
        assert taken[-1] == "DispatchJob", taken
        (job,) = [
            item for item in bed.jobs() if item["metadata"]["ownerReferences"][0]["name"] == name
        ]
        return job

    # -- what others send ---------------------------------------------------------------------

    def send(self, document: dict[str, Any], **query: str) -> Answered:
        """Create it: a Job as the manager's identity, which no policy stops; else as anybody."""
        group = "/api/v1" if document["kind"] == "Pod" else "/apis/batch/v1"
        plural = document["kind"].lower() + "s"
        namespace = document["metadata"]["namespace"]
        by = self.manager if document["kind"] == "Job" else self.api
        return by.call("POST", f"{group}/namespaces/{namespace}/{plural}", document, **query)

    def try_(self, document: dict[str, Any]) -> Answered:
        """The same, with nothing stored."""
        return self.send(document, dryRun="All")

    def status(self, bed: servingbed.Bed, name: str, change: dict[str, Any] | None) -> None:
        """Merge into the active operation of a resource, or take it away."""
        body = {"status": {"activeOperation": change}}
        path = resources(SCHEMA, bed.namespace, name, "status")
        done = self.manager.call("PATCH", path, body, kind="application/merge-patch+json")
        assert done.status == 200, done.message

    def make(self, group: str, kind: str, namespace: str, name: str, **more: Any) -> None:
        """Create an object as the administrator."""
        version = group.removeprefix("/apis/").removeprefix("/api/")
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
        path = f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
        done = self.api.call("POST", path, body)
        assert done.status == 201, done.message

    def end(self) -> None:
        """Stop the webhook and close the clients."""
        self.silence()
        for client in self.clients:
            client.close()


@contextmanager
def ward(plane: ControlPlane, folder: Path) -> Iterator[Ward]:
    """A ward with its webhook in force."""
    made = Ward(plane, folder)
    try:
        made.serve()
        made.configure()
        yield made
    finally:
        made.end()


def again(job: dict[str, Any]) -> dict[str, Any]:
    """A stored Job as somebody sends it once more."""
    document: dict[str, Any] = json.loads(json.dumps(job))
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    document["metadata"] = {key: job["metadata"][key] for key in kept}
    del document["spec"]["selector"], document["status"]
    labels = document["spec"]["template"]["metadata"]["labels"]
    for key in pod.GENERATED_LABELS:
        labels.pop(key, None)
    return document | {"apiVersion": "batch/v1", "kind": "Job"}
