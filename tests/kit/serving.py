"""``ptahk serve`` as real processes on a real cluster, with exactly the rights of the chart."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptahk.engine.leader import LEASE_NAME
from tests.kit import chart
from tests.kit.controlplane import Cluster
from tests.kit.rawapi import RawApi, install_crds
from tests.kit.waiting import until

if TYPE_CHECKING:
    from tests.kit.gate import Gate

COORDINATION = "ptahk-system"
IDENTITY = f"system:serviceaccount:{COORDINATION}:ptahk-manager"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{COORDINATION}")
NO_IMAGE = "ptahk.example/executor@sha256:" + "0" * 64
TOLD_MAX = 60
"""Lines of a replica's log that a failing test shows."""
PROBE_S = 2.0
LEASE = "6s"
"""Of the leader: short, so that a dead one is not waited for long."""


def install(cluster: Cluster) -> None:
    """The CRDs, the coordination namespace and the manager's rights; no guard, no manager."""
    install_crds(cluster)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": COORDINATION}}
    documents = [namespace, *chart.render("rbac.yaml", COORDINATION, chart.values())]
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(listed))


@dataclass
class Served:
    """One replica in a process of its own. Its log is a file."""

    cluster: Cluster
    log: Path
    gate: Gate
    """By which the API server reaches its webhook."""
    image: str = NO_IMAGE
    kubeconfig: Path | None = None
    """Another way to the API server, such as a fault proxy; none: straight to it."""
    lease: str = LEASE
    process: subprocess.Popen[bytes] = field(init=False)
    _ports: dict[str, int] = field(default_factory=dict)
    _answered_s: float = field(default=-math.inf)
    """When it last said that it is ready."""

    def __post_init__(self) -> None:
        kubeconfig = self.kubeconfig or self.cluster.kubeconfig(IDENTITY, GROUPS)
        command = [
            sys.executable, "-m", "ptahk", "serve", "--kubeconfig", str(kubeconfig),
            "--coordination-namespace", COORDINATION, "--image", self.image,
            "--listen", "127.0.0.1:0", "--leader-lease", self.lease, "--verbose",
            "--webhook-listen", "127.0.0.1:0", "--webhook-certificates", str(self.gate.mounted),
        ]  # fmt: skip
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL
            )
        self.gate.replicas.append(self)

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far; a line that is not whole yet is left out."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"message": line})
        return found

    def said(self, text: str) -> list[dict[str, Any]]:
        """Lines of its log whose message holds this."""
        return [line for line in self.lines() if text in str(line.get("message", ""))]

    @property
    def port(self) -> int:
        """Of its probes, once it said so."""
        return until(lambda: self._port("probes and metrics are served"), "the port of the probes")

    @property
    def webhook_port(self) -> int | None:
        """None: it has not said so yet."""
        return self._port("the webhook is served")

    def _port(self, of: str) -> int | None:
        if of not in self._ports and (found := self.said(of)):
            self._ports[of] = int(found[0]["port"])
        return self._ports.get(of)

    def answers(self) -> bool:
        """Whether it lives and was ready a moment ago, as a Service would want to know."""
        if self.process.poll() is not None:
            return False
        if time.monotonic() - self._answered_s > PROBE_S:
            if self.get("/readyz", PROBE_S)[0] != 200:
                return False
            self._answered_s = time.monotonic()
        return True

    def get(self, path: str, timeout_s: float = 10.0) -> tuple[int, str]:
        """Status and body of one of its pages; 0 where it does not answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=timeout_s) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str) -> float:
        """One value of its metrics, by name and labels as they are printed."""
        return metric_in(self.get("/metrics")[1], name)

    def ready(self) -> Served:
        """Wait until it says so."""
        until(lambda: self.get("/readyz")[0] == 200, f"readiness: {self.get('/readyz')}", 120)
        return self

    def leads(self) -> bool:
        """Whether it does, by its own word."""
        return self.metric("ptahk_leader") == 1.0

    def signal(self, number: int) -> None:
        """Send it a signal, by its pid."""
        os.kill(self.process.pid, number)

    def stop(self, limit_s: float = 60.0) -> int:
        """End it in order; its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(limit_s)

    def wait(self, limit_s: float = 60.0) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(limit_s)

    def end(self) -> None:
        """End it, however it stands; in order where it can, so that the lead is free."""
        self.gate.replicas.remove(self)
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        told = [line for line in self.lines() if line.get("level") != "debug"]
        for line in told[-TOLD_MAX:]:
            print(json.dumps(line), file=sys.stderr)


def metric_in(page: str, name: str) -> float:
    """One value of a page of metrics, by name and labels as they are printed; 0: none."""
    for line in page.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def total_in(page: str, name: str) -> float:
    """Sum of one metric over all its labels on a page of metrics."""
    lines = [line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def holder(api: RawApi) -> str | None:
    """Who holds the managers' Lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{COORDINATION}/leases/{LEASE_NAME}"
    spec = api.call("GET", path).document.get("spec") or {}
    found: str | None = spec.get("holderIdentity")
    return found
