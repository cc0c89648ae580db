"""The chart on a cluster, as users get it: what Helm installs there, and its replicas.

``Place`` is the cluster; ``Installed`` is the release seen as a test sees a ``serve`` of its own.
"""

from __future__ import annotations

import functools
import json
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ptahk.backends.kube.admission import REMEMBERED_S
from tests.kit import gate, helm, node, relay
from tests.kit.clusters import PodCluster
from tests.kit.presence import present
from tests.kit.rawapi import Answered, RawApi, install_crds
from tests.kit.serving import COORDINATION, metric_in, total_in
from tests.kit.waiting import until

WAIT = ("--wait", "--timeout=6m")
PROBES = 8080
"""Port of a replica's probes and metrics, as the chart sets it."""
LABEL = "app.kubernetes.io/name=ptahk"
MANAGERS = f"{LABEL},app.kubernetes.io/component=manager"
"""Selects the replicas."""
REFUSED = 'webhook "operations.ptahk.dev" denied the request'
SETTINGS = {"image": "image.executor", "lease": "manager.leaderLease"}
"""A setting as ``serving.Served`` has it → the chart's value."""
KINDS = (
    "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,"
    "poddisruptionbudgets,networkpolicies,secrets,jobs,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "validatingwebhookconfigurations"
)
PLAIN = {
    "containers": [{"name": "c", "image": "x", "securityContext": {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}  # fmt: skip


@dataclass
class Place:
    """A cluster that Helm works on."""

    town: PodCluster
    values: Path
    version: str = "4"
    """Of Helm, where a command does not say."""

    def helm(self, *arguments: str, version: str = "", namespace: str = COORDINATION) -> str:
        where = (f"--kubeconfig={self.town.plane.admin}", f"--namespace={namespace}")
        return helm.run(*arguments, *where, version=version or self.version)

    def install(self, action: str, *more: str, **options: str) -> str:
        given = (f"--values={self.values}", *more)
        return self.helm(action, "ptahk", str(helm.CHART), *given, **options)

    def pods(self) -> list[dict[str, Any]]:
        """The manager's, that are not on their way out."""
        selector = f"--selector={LABEL},app.kubernetes.io/component!=uninstall"
        told = self.town.plane.kubectl(
            "get", "pods", f"--namespace={COORDINATION}", selector, "--output=json"
        )
        return [
            item for item in json.loads(told)["items"]
            if "deletionTimestamp" not in item["metadata"]
        ]  # fmt: skip

    def waits(self) -> bool:
        """Whether an uninstall was told once that something is not accounted for."""
        selector = "--selector=app.kubernetes.io/component=uninstall"
        told = self.town.plane.kubectl(
            "get", "pods", f"--namespace={COORDINATION}", selector, "--output=json"
        )
        return any(item["status"].get("phase") == "Failed" for item in json.loads(told)["items"])

    def asked(self) -> str:
        """What a review says of a Pod that pretends to be an operation's; nothing is stored."""
        return asked(RawApi(self.town.plane))

    def unconfigure(self) -> None:
        """Take the webhook's configuration away; wait until nobody counts on it any more.

        That is: the API server asks nobody, and what a replica proved before that is forgotten.
        """
        gate.unconfigure(RawApi(self.town.plane))
        until(lambda: "webhook" not in self.asked(), "an API server that asks no webhook")
        since = time.monotonic()
        until(lambda: time.monotonic() - since > REMEMBERED_S, "a proof to be forgotten")

    def served(self) -> set[str]:
        """The certificates that the replicas show, PEM."""
        addresses = [item["status"]["podIP"] for item in self.pods()]
        return {ssl.get_server_certificate((address, 9443), timeout=10) for address in addresses}

    def left(self) -> list[str]:
        """What carries the chart's label in the whole cluster."""
        told = self.town.plane.kubectl(
            "get", KINDS, "--all-namespaces", f"--selector={LABEL}", "--output=name"
        )
        return told.split()


def asked(api: RawApi) -> str:
    """What a review says of a Pod that pretends to be an operation's; nothing is stored."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "ptahk-op-none", "namespace": COORDINATION},
        "spec": PLAIN,
    }
    path = f"/api/v1/namespaces/{COORDINATION}/pods"
    return api.call("POST", path, document, dryRun="All").message


@contextmanager
def placed(
    town: PodCluster, folder: Path, lease: str = "6s", way: tuple[str, int] | None = None
) -> Iterator[Place]:
    """A cluster that Helm can install to; nothing is installed yet.

    :param folder: for the values.
    :param lease: of the leader, as the chart's value.
    :param way: address and port of another way to the API server, such as a fault proxy.
    """
    present(functools.partial(helm.program, "4"))
    install_crds(town.plane)
    town.plane.kubectl("create", "namespace", COORDINATION)
    town.plane.kubectl(
        "label", "namespace", COORDINATION, "pod-security.kubernetes.io/enforce=restricted"
    )
    with relay.api_server(town) if way is None else nullcontext(way) as (address, port):
        values = folder / "values.json"
        told = {
            "image": {"manager": town.images["manager"], "executor": town.images["executor"]},
            "manager": {
                "leaderLease": lease,
                "env": [
                    {"name": "KUBERNETES_SERVICE_HOST", "value": address},
                    {"name": "KUBERNETES_SERVICE_PORT", "value": str(port)},
                ],
            },
        }
        values.write_text(json.dumps(told))
        yield Place(town, values)


@dataclass
class Logs:
    """What the replicas have written since some time, or ever."""

    place: Place
    since: datetime | None = None

    def read_text(self) -> str:
        """All of it, one replica after the other."""
        told = ["logs", f"--selector={LABEL}", "--tail=-1", f"--namespace={COORDINATION}"]
        if self.since is not None:
            told.append(f"--since-time={self.since.isoformat()}")
        return self.place.town.plane.kubectl(*told)


@dataclass
class Installed:
    """A release, with the words that tests have for a replica of their own (``serving.Served``).

    Its replicas run on from test to test, but where one stops them or asks for other settings.
    """

    place: Place
    lease: str | None = None
    """Of the leader, where a test does not say; None: as the place has it."""
    values: tuple[str, ...] = ()
    """Given to Helm beside those of the place, for this test."""
    since: datetime | None = None
    """When the test began; what the log said before is not its own."""
    _running: tuple[str, ...] | None = None
    """What the replicas run with; None: nobody knows, or there are none."""

    def begin(self, **settings: str) -> Installed:
        """A test wants it with these settings and no others; ``ready`` makes it so."""
        whole = {"lease": self.lease, **settings}
        given = {name: text for name, text in whole.items() if text is not None}
        self.values = tuple(f"--set={SETTINGS[name]}={text}" for name, text in given.items())
        return self

    @property
    def log(self) -> Logs:
        return Logs(self.place, self.since)

    def lines(self) -> list[dict[str, Any]]:
        """Its log, read."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]

    def ready(self) -> Installed:
        """Install it, upgrade it or bring its replicas back, where need be; both are ready then."""
        if self._running != self.values:
            self._running = None
            self.place.install("upgrade", "--install", *self.values, *WAIT)
            self._running = self.values
        until(lambda: len(self.containers()) == 2, "two replicas that are ready", 120)
        return self

    def containers(self) -> set[str]:
        """Container ids of the replicas that are ready."""
        return {_container(item) for item in self.place.pods() if _is_ready(item)}

    def metric(self, name: str) -> float:
        """One value of the leader's metrics, by name and labels as they are printed."""
        return max((_metric(item, name) for item in self.place.pods()), default=0.0)

    def leader(self) -> str | None:
        """Container id of the replica that leads by its own word."""
        for item in self.place.pods():
            if _metric(item, "ptahk_leader") == 1.0:
                return _container(item)
        return None

    def total(self, name: str) -> float:
        """Sum of one metric over its labels and over the replicas."""
        return sum(total_in(page(item["status"].get("podIP")), name) for item in self.place.pods())

    def evict(self, container: str) -> Answered:
        """Ask for the end of a replica as a drain does: in order, and within its budget."""
        [name] = [
            item["metadata"]["name"] for item in self.place.pods() if _container(item) == container
        ]
        document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{COORDINATION}/pods/{name}/eviction"
        return RawApi(self.place.town.plane).call("POST", path, document)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """While the block runs the API server asks no webhook; then Helm mends the release."""
        self.place.unconfigure()
        try:
            yield
        finally:
            self._running = None
            self.ready()

    def kill(self, container: str) -> None:
        """SIGKILL of a replica's first process."""
        plane = self.place.town.own_plane
        node.ctr(plane, "tasks", "kill", "--signal", signal.SIGKILL.name, container)

    def stop(self) -> int:
        """End every replica in order; the release stays."""
        self._running = None
        where = f"--namespace={COORDINATION}"
        kubectl = self.place.town.plane.kubectl
        kubectl("scale", "deployment/ptahk-manager", "--replicas=0", where)
        until(lambda: self.place.pods() == [], "the replicas' end", 120)
        kubectl("wait", "--for=delete", "pods", f"--selector={MANAGERS}", "--timeout=120s", where)
        return 0


Start = Callable[..., Installed]
"""``Installed.begin``."""


def _metric(pod: dict[str, Any], name: str) -> float:
    """Of one replica; 0 where it does not answer."""
    return metric_in(page(pod["status"].get("podIP")), name)


def page(address: str | None) -> str:
    """The metrics of the replica at this address; empty where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}:{PROBES}/metrics", timeout=10) as got:
            text: str = got.read().decode()
            return text
    except OSError:
        return ""


def _container(pod: dict[str, Any]) -> str:
    """Container id of a replica; empty before its start."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("containerID", "")).rpartition("/")[2]


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
