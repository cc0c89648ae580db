"""The cluster side of ``release-lock``: no manager is needed, and nobody is in the way (C-14.1)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ptahk.commands import _local, _wiring
from ptahk.commands._options import Cluster, Place
from ptahk.commands._release import Attempt, Side
from ptahk.commands._render import Messages
from ptahk.commands._wiring import Reader, World
from ptahk.engine.model.job import OPERATION_ID
from ptahk.engine.ports import Document

ENDED = frozenset({"Succeeded", "Failed"})


def side(reader: Reader, cluster: Cluster, place: Place, messages: Messages) -> Side:
    """The cluster, with a child of this command for the fence."""

    @contextlib.contextmanager
    def fencing() -> Iterator[World]:
        url, _ = _local.target(place, None)
        progress = _local.Progress(messages)
        namespace = cluster.coordination_namespace
        with _wiring.fencing_world(reader, namespace, url, progress) as world:
            yield world

    return Side(
        objects=reader.objects,
        clock=reader.clock,
        entropy=reader.entropy,
        coordination_namespace=cluster.coordination_namespace,
        running=lambda namespace, operation, attempt: running(
            reader, namespace, operation, attempt
        ),
        busy=lambda uid: False,
        event=reader.event,
        fencing=fencing,
    )


def running(
    reader: Reader, namespace: str, operation_id: str, attempt: Attempt | None
) -> bool | None:
    """Whether a Job or Pod of the operation may still write; None: there is none.

    Found by the Job's name, which no other claim can have, and by annotation, so that those of a
    resource that is gone are found too. A Job that has ended may still have a Pod that has not.
    """
    names = set() if attempt is None else {attempt.job_name}
    jobs = [
        item
        for item in reader.objects.list("Job", namespace)
        if item["metadata"]["name"] in names or _of(item, operation_id)
    ]
    names |= {item["metadata"]["name"] for item in jobs}
    pods = [
        item
        for item in reader.objects.list("Pod", namespace)
        if _of(item, operation_id) or names & set(_owners(item))
    ]
    if not jobs and not pods:
        return None
    return not (all(_terminal(job) for job in jobs) and all(_ended(pod) for pod in pods))


def _of(item: Document, operation_id: str) -> bool:
    annotations = item["metadata"].get("annotations") or {}
    return bool(annotations.get(OPERATION_ID) == operation_id)


def _owners(item: Document) -> list[str]:
    owners: list[dict[str, Any]] = item["metadata"].get("ownerReferences") or []
    return [str(owner.get("name")) for owner in owners if owner.get("kind") == "Job"]


def _terminal(job: Document) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        item.get("type") in ("Complete", "Failed") and item.get("status") == "True"
        for item in conditions
    )


def _ended(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
