"""Why an operation's Pod does not begin, or does not end, for people: a reason and what to mend.

Nothing here decides anything, so every read is short, and one that fails says nothing. The words
do not change from one look to the next as long as their cause does not.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS
from ptahk.backends.kube.pod import CONTAINER
from ptahk.engine.ports import Document, PortError, Refusal

TIMEOUT_S: Final = 3.0
AGE_MIN_S: Final = 3.0
"""A Pod that starts as it should needs no explanation."""
AGE_LONG_S: Final = 30.0
"""After this, that it has not started is worth saying even where the cause cannot be read."""
OVERDUE_S: Final = 120.0
"""After the Job's own deadline, the longest grace and what a controller needs are over."""
TEXT_MAX: Final = 400

_IMAGE: Final = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
        "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
    }
)  # fmt: skip
_USUAL: Final = frozenset({"ContainerCreating", "PodInitializing"})
_POD_NAME = re.compile(r'pods "[^"]*"')


def why(client: Client, job: Document, now: datetime) -> Refusal | None:
    """What keeps this Job's Pod from its start, or its end; None: nothing that needs a person, or
    nothing that can be told.

    :param job: not ended.
    :param now: for ages alone.
    """
    try:
        age_s = _age_s(job, now)
        spec = job.get("spec") or {}
        if spec.get("suspend"):
            name = job["metadata"]["name"]
            return Refusal("PodWaiting", f"Job {name} was suspended: set its spec.suspend to false")
        if age_s > (spec.get("activeDeadlineSeconds") or math.inf) + OVERDUE_S:
            return _stuck(_pod(client, job["metadata"]))
        if age_s < AGE_MIN_S or (job.get("status") or {}).get("ready"):
            return None
        pod = _pod(client, job["metadata"])
        if pod is None:
            return _refused(client, job["metadata"], age_s)
        return _unscheduled(pod) or _unstarted(client, pod, age_s)
    except PortError:
        return None


def _age_s(document: Document, now: datetime) -> float:
    try:
        made = datetime.fromisoformat(document["metadata"]["creationTimestamp"])
        return (now - made).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0


def _pod(client: Client, job: Mapping[str, Any]) -> Document | None:
    """The Job's newest Pod. Found by label, for it only explains."""
    query = {"labelSelector": f"batch.kubernetes.io/job-name={job['name']}", "limit": "10"}
    path = KINDS["Pod"].path(job["namespace"])
    found = client.request("GET", path, query=query, timeout_s=TIMEOUT_S).document()
    pods = [
        item
        for item in found.get("items") or []
        if any(owner.get("uid") == job["uid"] for owner in owners(item))
    ]
    return max(pods, key=lambda item: str(item["metadata"]["creationTimestamp"]), default=None)


def owners(document: Any) -> list[Any]:
    """Owner references, however odd the object is."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    found = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return [item for item in found or [] if isinstance(item, dict)]


def _stuck(pod: Document | None) -> Refusal | None:
    """The Job's own deadline has passed and been given time: nobody stops what runs there."""
    if pod is None:
        return None
    node = pod["spec"].get("nodeName") or "none"
    text = f"Pod {pod['metadata']['name']} does not end (node {node})"
    return Refusal("PodStuck", _text(text))


def _unscheduled(pod: Document) -> Refusal | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = str(condition.get("message") or condition.get("reason") or "")
            return Refusal("Unschedulable", _text(f"Pod {pod['metadata']['name']}: {text}"))
    return None


def _unstarted(client: Client, pod: Document, age_s: float) -> Refusal | None:
    name = pod["metadata"]["name"]
    status = container_status(pod)
    if status is not None and "waiting" not in (status.get("state") or {}):
        return None
    waiting = {} if status is None else status["state"]["waiting"]
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in _IMAGE:
        image = pod["spec"]["containers"][0].get("image", "")
        return Refusal("ImageUnavailable", _text(f"Pod {name}: image {image} cannot be pulled"))
    if reason == "CreateContainerConfigError":
        return Refusal("SecretUnavailable", _text(f"Pod {name}: {message}"))
    if reason and reason not in _USUAL:
        return Refusal("PodWaiting", _text(f"Pod {name}: {reason}"))
    mounts = _event(client, pod["metadata"], "FailedMount")
    if mounts is not None:
        return Refusal("SecretUnavailable", _text(f"Pod {name}: {mounts}"))
    if age_s < AGE_LONG_S:
        return None
    return Refusal("PodWaiting", _text(f"Pod {name} waits for its volumes, network or image"))


def container_status(pod: Document) -> Document | None:
    """The status of the operation's container; None: there is none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if isinstance(status, dict) and status.get("name") == CONTAINER:
            return status
    return None


def _refused(client: Client, job: Mapping[str, Any], age_s: float) -> Refusal | None:
    """No Pod was made: only the Job controller's Events say why."""
    said = _event(client, job, "FailedCreate")
    if said is not None:
        return Refusal("PodRefused", _text(f"Job {job['name']}: {said}"))
    if age_s < AGE_LONG_S:
        return None
    text = f"no Pod has been made for Job {job['name']}; see kubectl describe of it"
    return Refusal("PodRefused", _text(text))


def _event(client: Client, involved: Mapping[str, Any], reason: str) -> str | None:
    """The newest Event of that reason; None: there is none, or it may not be read."""
    selector = f"involvedObject.uid={involved['uid']},reason={reason}"
    path = f"/api/v1/namespaces/{involved['namespace']}/events"
    query = {"fieldSelector": selector, "limit": "50"}
    try:
        found = client.request("GET", path, query=query, timeout_s=TIMEOUT_S).document()
    except PortError:
        return None
    said = [
        (str(item.get("lastTimestamp") or item.get("eventTime") or ""), str(item["message"]))
        for item in found.get("items") or []
        if isinstance(item, dict) and item.get("message")
    ]
    return _cause(max(said)[1]) if said else None


def _cause(message: str) -> str:
    """The part of an Event's message that stays the same from one attempt to the next."""
    message = message.rpartition("Error creating: ")[2]
    return _POD_NAME.sub("pods", message)


def _text(message: str) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
