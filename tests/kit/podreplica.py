"""A replica of a release in one of its lives, which a test may strike and whose end it may see."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

from tests.kit import node
from tests.kit.chartbed import MANAGERS, page
from tests.kit.clusters import PodCluster
from tests.kit.rawapi import RawApi
from tests.kit.serving import COORDINATION, TOLD_MAX, metric_in
from tests.kit.waiting import until

PODS = f"/api/v1/namespaces/{COORDINATION}/pods"


@dataclass
class Replica:
    """One container of a Pod. The kubelet follows it with another one, at the same address."""

    town: PodCluster
    api: RawApi
    name: str
    """Of the Pod."""
    address: str
    container: str
    _ended: int | None = field(default=None, init=False)

    def metric(self, name: str) -> float:
        """One value of its metrics, by name and labels as they are printed; 0: no answer."""
        return metric_in(page(self.address), name)

    def leads(self) -> bool:
        """Whether it does, by its own word."""
        return self.metric("ptahk_leader") == 1.0

    def signal(self, number: signal.Signals) -> None:
        """Send it to the first process."""
        told = ("tasks", "kill", "--signal", number.name, self.container)
        node.ctr(self.town.own_plane, *told)

    def wait(self, limit_s: float = 60.0) -> int:
        """Wait until the kubelet tells of its end; its exit code.

        It tells of the last one that ended: ask before the next one has ended too.
        """
        if self._ended is None:
            what = f"the end of {self.name}: {self._status()}"
            (self._ended,) = until(self._codes, what, limit_s)
        return self._ended

    def _status(self) -> dict[str, Any]:
        document = self.api.call("GET", f"{PODS}/{self.name}").document
        found: dict[str, Any] = document["status"]["containerStatuses"][0]
        return found

    def _codes(self) -> list[int]:
        """In a list, for a code may be 0."""
        status = self._status()
        states = [status["state"], status.get("lastState") or {}]
        ends = [state["terminated"] for state in states if "terminated" in state]
        return [end["exitCode"] for end in ends if end["containerID"].endswith(self.container)]


def ready(town: PodCluster, api: RawApi) -> list[Replica]:
    """Those that are, each in the life that it has now."""
    found = []
    for pod in api.call("GET", PODS, labelSelector=MANAGERS).document["items"]:
        for status in pod["status"].get("containerStatuses", []):
            if status["ready"] and "deletionTimestamp" not in pod["metadata"]:
                container = status["containerID"].rpartition("/")[2]
                name, address = pod["metadata"]["name"], pod["status"]["podIP"]
                found.append(Replica(town, api, name, address, container))
    return found


def told(town: PodCluster) -> str:
    """The last that each life of each replica wrote, as far as the node keeps it."""
    files = town.own_plane.path.glob(f"pod-logs/{COORDINATION}_*/manager/*.log")
    lines = [file.read_text(errors="replace").splitlines()[-TOLD_MAX:] for file in sorted(files)]
    return "\n".join(line for some in lines for line in some)
