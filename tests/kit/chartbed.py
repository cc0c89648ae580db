"""The chart on a cluster, as users get it: what Helm installs there, and its replicas.

``Place`` is the cluster; ``Installed`` is the release seen as a test sees a ``serve`` of its own.
"""

from __future__ import annotations

import functools
import json
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit import helm, node, relay
from tests.kit.clusters import PodCluster
from tests.kit.presence import present
from tests.kit.rawapi import RawApi, install_crds
from tests.kit.serving import COORDINATION, metric_in
from tests.kit.waiting import until

WAIT = ("--wait", "--timeout=6m")
PROBES = 8080
"""Port of a replica's probes and metrics, as the chart sets it."""
LABEL = "app.kubernetes.io/name=ptahk"
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

    def helm(self, *arguments: str, version: str = "4", namespace: str = COORDINATION) -> str:
        where = (f"--kubeconfig={self.town.plane.admin}", f"--namespace={namespace}")
        return helm.run(*arguments, *where, version=version)

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
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "ptahk-op-none", "namespace": COORDINATION},
            "spec": PLAIN,
        }
        path = f"/api/v1/namespaces/{COORDINATION}/pods"
        return RawApi(self.town.plane).call("POST", path, document, dryRun="All").message

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
    """What the replicas have written so far."""

    place: Place

    def read_text(self) -> str:
        """All of it, one replica after the other."""
        told = ("logs", f"--selector={LABEL}", "--tail=-1", f"--namespace={COORDINATION}")
        return self.place.town.plane.kubectl(*told)


@dataclass
class Installed:
    """A release, with the words that tests have for a replica of their own (``serving.Served``)."""

    place: Place

    @property
    def log(self) -> Logs:
        return Logs(self.place)

    def lines(self) -> list[dict[str, Any]]:
        """Its log, read."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]

    def ready(self) -> Installed:
        """Install it, or bring its replicas back; both are ready then."""
        self.place.install("upgrade", "--install", *WAIT)
        until(lambda: len(self.place.pods()) == 2, "two replicas", 120)
        return self

    def metric(self, name: str) -> float:
        """One value of the leader's metrics, by name and labels as they are printed."""
        return max((_metric(item, name) for item in self.place.pods()), default=0.0)

    def leader(self) -> str | None:
        """Container id of the replica that leads by its own word."""
        for item in self.place.pods():
            if _metric(item, "ptahk_leader") == 1.0:
                found: str = item["status"]["containerStatuses"][0]["containerID"]
                return found.rpartition("/")[2]
        return None

    def kill(self, container: str) -> None:
        """SIGKILL of a replica's first process."""
        plane = self.place.town.own_plane
        node.ctr(plane, "tasks", "kill", "--signal", signal.SIGKILL.name, container)

    def stop(self) -> int:
        """End every replica in order; the release stays."""
        where = f"--namespace={COORDINATION}"
        self.place.town.plane.kubectl("scale", "deployment/ptahk-manager", "--replicas=0", where)
        until(lambda: self.place.pods() == [], "the replicas' end", 120)
        return 0


def _metric(pod: dict[str, Any], name: str) -> float:
    """Of one replica; 0 where it does not answer."""
    address = pod["status"].get("podIP")
    try:
        with urllib.request.urlopen(f"http://{address}:{PROBES}/metrics", timeout=10) as got:
            return metric_in(got.read().decode(), name)
    except OSError:
        return 0.0
