"""Reviews of an operation's Job and Pod without a server: as an API server would send them.

The documents of ``recorded`` were taken from Kubernetes 1.36.3: one operation's resource, Job and
final Pod, with LimitRange, RuntimeClass, PriorityClass and pull secrets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ptahk.backends.kube import pod as pods
from ptahk.engine.admission import review
from ptahk.engine.admission.review import Denied, Reference
from ptahk.engine.model.fields import parse_time

RECORDED = Path(__file__).with_name("recorded")


@dataclass(frozen=True)
class Recorded:
    """One dispatched operation."""

    resource: dict[str, Any]
    job: dict[str, Any]
    pod: dict[str, Any]

    @property
    def now(self) -> datetime:
        """A moment after its dispatch."""
        return soon(self.resource)


def recorded() -> Recorded:
    """The operation that was recorded."""
    found: dict[str, Any] = json.loads((RECORDED / "admission.json").read_text())
    return Recorded(found["resource"], found["job"], found["pod"])


def soon(resource: dict[str, Any]) -> datetime:
    """A second after the dispatch of a resource's active operation."""
    marked: str = resource["status"]["activeOperation"]["dispatchTime"]
    return parse_time(marked) + timedelta(seconds=1)


def judged(
    document: dict[str, Any], job: dict[str, Any], resource: dict[str, Any], *,
    differs: review.Differs = pods.differs,
) -> Denied | None:  # fmt: skip
    """What the guard has against a Pod of this Job; None: nothing.

    :param differs: another one where the Job was looked at already.
    """
    found = review.request(review_of(document))
    asked = review.asked(found)
    if not isinstance(asked, Reference):
        return asked if isinstance(asked, Denied) else None
    verdict = review.verdict(found, job, resource, soon(resource), differs)
    return verdict if isinstance(verdict, Denied) else None


def review_document(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An AdmissionReview of a create, as an API server sends it."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    of_job = document.get("kind") == "Job"
    group, plural = ("batch", "jobs") if of_job else ("", "pods")
    kind = {"group": group, "version": "v1", "kind": "Job" if of_job else "Pod"}
    resource = {"group": group, "version": "v1", "resource": plural}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": metadata.get("name", ""), "namespace": metadata.get("namespace", ""),
        "operation": "CREATE", "userInfo": {"username": "system:kube-controller-manager"},
        "object": document, "oldObject": None, "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }  # fmt: skip
    return {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": request | changes,
    }  # fmt: skip


def review_of(document: dict[str, Any], **changes: Any) -> bytes:
    """The same as bytes."""
    return json.dumps(review_document(document, **changes)).encode()
