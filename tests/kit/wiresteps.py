"""Which durable step of an operation a manager's request on the wire is.

A step is told by what the write would change of what is stored, so its name does not depend on how
often something was tried, and a faulty proxy can break exactly one step of one resource.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from ptahk.engine.leader import LEASE_NAME
from ptahk.engine.model.lease import HOLDER
from ptahk.engine.model.resource import SCHEMA
from tests.kit.apifaults import Seen
from tests.kit.rawapi import RawApi, resources

WRITES = ("POST", "PUT", "PATCH", "DELETE")
_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/v[^/]+/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/?]+)"
    r"(?:/(?P<name>[^/?]+))?(?:/(?P<part>[^/?]+))?"
)
_CLAIM: tuple[tuple[str, str], ...] = (
    ("epoch", "CopyEpoch"),
    ("snapshotDigest", "PersistSnapshot"),
    ("approval", "ConsumeApproval"),
    ("dispatchStarted", "DispatchMark"),
    ("pods", "RecordPods"),
    ("jobUid", "ConfirmJob"),
)
"""Field of a claim → the step that writes it."""


class WireSteps:
    """Names the writes of managers; reads what is stored beside the proxy.

    A name is ``OPERATION STEP``, such as ``Apply ConfirmJob``; every one is kept for ``seen_of``.
    """

    def __init__(self, api: RawApi) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Seen, tuple[str, str] | None]] = {}
        self._names: dict[str, list[str]] = {}

    def of(self, seen: Seen) -> tuple[str, str] | None:
        """Namespace of the resource, and the step; None where the request is none.

        The first question about a request decides; the same request gets the same answer.
        """
        if seen.method not in WRITES:
            return None
        with self._lock:
            if id(seen) not in self._known:
                found = self._name(seen)
                self._known[id(seen)] = (seen, found)  # kept with it: an id is of a living object
                if found is not None:
                    self._names.setdefault(found[0], []).append(found[1])
            return self._known[id(seen)][1]

    def seen_of(self, namespace: str) -> list[str]:
        """Every step of one namespace's resource so far, in order."""
        with self._lock:
            return list(self._names.get(namespace, []))

    def _name(self, seen: Seen) -> tuple[str, str] | None:
        match = _PATH.match(seen.path)
        if match is None or "dryRun=" in seen.path:  # the proof of admission stores nothing
            return None
        plural, name = match["plural"], match["name"]
        if plural == "leases":
            return None if LEASE_NAME in (name, _named(seen)) else self._lease(seen, match[0])
        made: dict[str, Callable[[], str]] = {
            "jobs": lambda: "CreateJob" if seen.method == "POST" else "SetJobTtl",
            "configmaps": lambda: "Publish-bytes" if seen.method == "POST" else "Prune",
            "ptahplans": lambda: "Publish-plan" if seen.method == "POST" else "Prune",
        }
        namespace = match["namespace"]
        if plural in made:
            return namespace, f"{self._operation(namespace)} {made[plural]()}"
        if plural != "ptahschemas":
            return None
        if match["part"] != "status":
            return namespace, f"{self._operation(namespace)} EditFinalizers"
        return namespace, self._status(namespace, json.loads(seen.body)["status"])

    def _stored(self, namespace: str) -> dict[str, Any]:
        items = self._api.call("GET", resources(SCHEMA, namespace)).document["items"]
        found: dict[str, Any] = (items[0].get("status") if items else None) or {}
        return found

    def _operation(self, namespace: str) -> str:
        return str((self._stored(namespace).get("activeOperation") or {}).get("type", "-"))

    def _lease(self, seen: Seen, path: str) -> tuple[str, str] | None:
        stored = {} if seen.method == "POST" else self._api.call("GET", path).document
        told = json.loads(seen.body)
        holder = _holder(told) or _holder(stored)
        if holder is None:
            return None
        step = "RenewLease"
        if _holder(told) is None:
            step = "ReleaseLease"
        elif _holder(stored) is None:
            step = "AcquireLease"
        return holder["namespace"], f"{self._operation(holder['namespace'])} {step}"

    def _status(self, namespace: str, told: dict[str, Any]) -> str:
        stored = self._stored(namespace)
        before, after = stored.get("activeOperation") or {}, told.get("activeOperation") or {}
        kind = after.get("type") or before.get("type") or "-"
        if not before and after:
            return f"{kind} WriteClaim"
        if before and not after:
            return f"{kind} {'ClearClaim' if before.get('outcome') else 'DiscardClaim'}"
        if after.get("outcome") and not before.get("outcome"):
            unknown = (after["outcome"] or {}).get("type") == "Unknown"
            return f"{kind} {'LatchUnknown' if unknown else 'Settle'}"
        if stored.get("pendingLockRelease") and not told.get("pendingLockRelease"):
            return f"{kind} ClearRelease"
        for name, step in _CLAIM:
            if after.get(name) != before.get(name):
                return f"{kind} {step}"
        return f"{kind} Report"


def _named(seen: Seen) -> str | None:
    return (json.loads(seen.body or b"{}").get("metadata") or {}).get("name")


def _holder(document: dict[str, Any]) -> dict[str, Any] | None:
    text = ((document.get("metadata") or {}).get("annotations") or {}).get(HOLDER)
    held = (document.get("spec") or {}).get("holderIdentity")
    return json.loads(text) if text and held else None
