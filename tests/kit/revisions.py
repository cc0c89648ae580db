"""Every stored version of resources and realm Leases while a block runs, in the store's order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.objects import KubeObjects
from ptahk.engine.model.lease import HOLDER
from ptahk.engine.model.resource import LEASE, SCHEMA
from tests.kit.controlplane import Cluster
from tests.kit.rawapi import ADMINISTRATORS, RawApi
from tests.kit.serving import COORDINATION

_LOOK_S = 1.0
_LISTS = {
    SCHEMA: ("", "/apis/ptahk.dev/v1alpha1/ptahschemas"),
    LEASE: (COORDINATION, f"/apis/coordination.k8s.io/v1/namespaces/{COORDINATION}/leases"),
}


@dataclass
class Revisions:
    """What the store held, version by version."""

    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def leases(self) -> list[dict[str, Any]]:
        return list(self.found.get(LEASE, []))

    def early_releases(self) -> list[str]:
        """Releases of a realm while its resource still owed a proof, or its Apply had no outcome.

        Versions of different kinds compare: they are revisions of one store.
        """
        wrong, held = [], dict[str, dict[str, Any]]()
        for lease in sorted(self.leases(), key=_revision):
            name = lease["metadata"]["name"]
            holder = ((lease["metadata"].get("annotations")) or {}).get(HOLDER)
            if lease["spec"].get("holderIdentity") and holder:
                held[name] = json.loads(holder)
            elif name in held:
                owner = held.pop(name)
                status = self._status(owner["uid"], _revision(lease))
                claim = status.get("activeOperation") or {}
                runs = claim.get("dispatchStarted") and not claim.get("outcome")
                if status.get("pendingObservation") or (runs and claim.get("type") == "Apply"):
                    wrong.append(f"{owner['namespace']} at {_revision(lease)}: {claim}")
        return wrong

    def released(self) -> int:
        """How many releases there were."""
        count, held = 0, dict[str, bool]()
        for lease in sorted(self.leases(), key=_revision):
            name, now = lease["metadata"]["name"], bool(lease["spec"].get("holderIdentity"))
            count += held.get(name, False) and not now
            held[name] = now
        return count

    def _status(self, uid: str, before: int) -> dict[str, Any]:
        versions = [
            item
            for item in self.found.get(SCHEMA, [])
            if item["metadata"]["uid"] == uid and _revision(item) < before
        ]
        latest = max(versions, key=_revision, default={})
        found: dict[str, Any] = latest.get("status") or {}
        return found


def _revision(document: dict[str, Any]) -> int:
    return int(document["metadata"]["resourceVersion"])


@contextmanager
def watched(cluster: Cluster) -> Iterator[Revisions]:
    """Keep them while the block runs."""
    made = Revisions()
    over = threading.Event()
    client = Client.load(cluster.kubeconfig("revisions", ADMINISTRATORS))
    objects = KubeObjects(client)
    api = RawApi(cluster)

    def keep(kind: str, namespace: str | None, since: str) -> None:
        try:
            while not over.is_set():
                for change in objects.watch(kind, namespace, since, _LOOK_S):
                    since = change.document["metadata"]["resourceVersion"]
                    made.found.setdefault(kind, []).append(change.document)
                    if over.is_set():
                        return
        except Exception as error:
            made.failures.append(f"{kind}: {error!r}")

    threads = []
    for kind, (namespace, path) in _LISTS.items():
        since = api.call("GET", path).document["metadata"]["resourceVersion"]
        thread = threading.Thread(target=keep, args=(kind, namespace or None, since), daemon=True)
        thread.start()
        threads.append(thread)
    try:
        yield made
    finally:
        over.set()
        for thread in threads:
            thread.join(30)
        client.close()
    assert made.failures == []
