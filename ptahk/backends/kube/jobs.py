"""The Jobs port over a cluster: created once, judged by what is there, read within bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ptahk.backends.kube import logs, pod, waiting
from ptahk.backends.kube.answers import unreadable
from ptahk.backends.kube.client import TIMEOUT_S, Client
from ptahk.backends.kube.kinds import KINDS
from ptahk.backends.kube.pod import RUNNER_ARGV, PodSettings
from ptahk.backends.kube.reading import fault_of, list_all
from ptahk.engine.model.job import OPERATION_ID
from ptahk.engine.ports import (
    Clock,
    Collected,
    Document,
    JobOrder,
    JobView,
    Lost,
    NotFound,
    NotYet,
    PodView,
    PortError,
    Result,
    Unavailable,
)

READ_S: Final = 60.0
"""One reading of a result, everything in it (C-5.3)."""
EVIDENCE_S: Final = 8.0
"""Of that, kept for the question whether a log that cannot be read is gone."""

METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""A scan of a namespace reads no Pod's spec or status."""
SCAN_PAGE: Final = 500
SCAN_S: Final = 20.0

_JOB, _POD, _NODE = KINDS["Job"], KINDS["Pod"], KINDS["Node"]
_OURS: Final = (pod.OPERATION, pod.SHAPE)
_WRITER: Final = {"fieldManager": "ptahk", "fieldValidation": "Strict"}


class KubeJobs:
    """Jobs of one cluster.

    :param image: of every operation's Pod, by digest.
    :param argv: the container's command before ``--job DIRECTORY`` (tests).
    :param read_s: how long ``collect`` may take.
    :param timeout_s: outer deadline of one write: a manager that lost its lead has none under way
        when another may lead (C-13.1).
    :param room: for the logs that are read at once.
    """

    def __init__(
        self,
        client: Client,
        *,
        image: str,
        image_pull_policy: str = "IfNotPresent",
        clock: Clock,
        argv: tuple[str, ...] = RUNNER_ARGV,
        read_s: float = READ_S,
        timeout_s: float = TIMEOUT_S,
        room: logs.Room | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._room = logs.Room() if room is None else room
        self._settings = PodSettings(image, image_pull_policy, argv=argv)
        self._read_s = read_s
        self._timeout_s = timeout_s

    @property
    def creation_certain(self) -> bool:
        """A create whose answer is lost may still land (C-6.9)."""
        return False

    def create(self, order: JobOrder) -> JobView:
        """Exactly one POST."""
        document = pod.job(order, self._settings)
        path = _JOB.path(order.namespace)
        answer = self._client.request(
            "POST", path, query=_WRITER, body=document, timeout_s=self._timeout_s
        )
        made = answer.document()
        fault = _fault(made, order.namespace, order.name)
        if fault is not None:
            unreadable(True, f"{answer.what}: the answer is no such Job: {fault}")
        return _view(made)

    def observe(self, namespace: str, name: str) -> JobView | None:
        job = self._job(namespace, name)
        if job is None:
            return None
        if ended(job):
            return _view(job)
        return _view(job, waiting.why(self._client, job, self._clock.now()))

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        job = self._job(namespace, name)
        if job is None or job["metadata"]["uid"] != uid:
            raise NotFound(f"Job {name}")
        if (job.get("spec") or {}).get("ttlSecondsAfterFinished") == ttl_s:
            return
        seen = {"uid": uid, "resourceVersion": job["metadata"]["resourceVersion"]}
        self._client.request(
            "PATCH",
            _JOB.path(namespace, name),
            query=_WRITER,
            body={"metadata": seen, "spec": {"ttlSecondsAfterFinished": ttl_s}},
            timeout_s=self._timeout_s,
            content_type="application/merge-patch+json",
        )

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        return tuple(PodView(item.uid) for item in self._owned(namespace, name, uid))

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        """Read the log of the Job's first Pod. Only positive evidence makes it ``Lost`` (C-5.5)."""
        until_s = self._clock.monotonic() + self._read_s
        reading = _Reading(self._client, self._clock, until_s, self._room)
        try:
            job = self._job(namespace, name)
            if job is not None and job["metadata"]["uid"] == uid and not ended(job):
                return NotYet("the Job has not ended")
            owned = self._owned(namespace, name, uid)
            if not owned:
                return Lost("its Pod is gone")
            return reading.result(namespace, owned[0])
        except PortError as error:
            return NotYet(f"{type(error).__name__}: {error}")

    def _job(self, namespace: str, name: str) -> Document | None:
        """The Job now; None: there is none of that name."""
        return _get(self._client, _JOB.path(namespace, name), namespace, name)

    def _owned(self, namespace: str, name: str, uid: str | None) -> list["_Owned"]:
        """Pods whose controller is this Job, oldest first: labels may be changed by anybody."""
        items, _ = list_all(
            self._client, _POD, namespace, page=SCAN_PAGE, accept=METADATA, within_s=SCAN_S
        )
        found = [
            _Owned(str(metadata.get("creationTimestamp")), metadata["uid"], metadata["name"])
            for item in items
            if _controlled(item, name, uid)
            for metadata in [item["metadata"]]
        ]
        return sorted(found, key=lambda item: (item.created, item.uid))


@dataclass(frozen=True, slots=True)
class _Owned:
    created: str
    uid: str
    name: str


def _controlled(item: Any, name: str, uid: str | None) -> bool:
    return any(
        owner.get("controller") is True
        and owner.get("kind") == "Job"
        and str(owner.get("apiVersion", "")).startswith("batch/")
        and owner.get("name") == name
        and uid in (None, owner.get("uid"))
        for owner in waiting.owners(item)
    )


def ended(job: Document) -> bool:
    """It carries its terminal condition and no Pod of it runs or is being stopped (B15)."""
    status = job.get("status") or {}
    over = any(
        item.get("type") in ("Complete", "Failed") and item.get("status") == "True"
        for item in status.get("conditions") or []
    )
    return over and not any(status.get(name) for name in ("active", "ready", "terminating"))


def _view(job: Document, blocked: Any = None) -> JobView:
    metadata = job["metadata"]
    given: Mapping[str, str] = metadata.get("annotations") or {}
    return JobView(
        name=metadata["name"],
        uid=metadata["uid"],
        annotations={
            key: value
            for key, value in given.items()
            if key.startswith("ptahk.dev/") and key not in _OURS
        },
        terminal=ended(job),
        ttl_s=(job.get("spec") or {}).get("ttlSecondsAfterFinished"),
        differs=pod.differs(job),
        waiting=blocked,
    )


def _get(
    client: Client, path: str, namespace: str | None, name: str, timeout_s: float = TIMEOUT_S
) -> Document | None:
    """An object now; None: there is none. :raises Unavailable: the answer is another object."""
    try:
        answer = client.request("GET", path, timeout_s=timeout_s)
    except NotFound:
        return None
    found = answer.document()
    fault = _fault(found, namespace, name)
    if fault is not None:
        raise Unavailable(f"{answer.what}: the answer is no such object: {fault}")
    return found


def _fault(document: Document, namespace: str | None, name: str) -> str | None:
    fault = fault_of(document, _NODE if namespace is None else _POD)
    if fault is not None:
        return fault
    metadata = document["metadata"]
    same = metadata["name"] == name and (namespace is None or metadata["namespace"] == namespace)
    return None if same else "it is another one"


def _recorded_before(status: Mapping[str, Any]) -> bool:
    """The instance before the present one can still be named."""
    last = (status.get("lastState") or {}).get("terminated")
    return isinstance(last, dict) and bool(last.get("containerID"))


class _Reading:
    """One reading of one Pod's result, with one deadline.

    :param until_s: on the clock's monotonic time.
    """

    def __init__(self, client: Client, clock: Clock, until_s: float, room: logs.Room) -> None:
        self._client = client
        self._clock = clock
        self._until_s = until_s
        self._room = room

    def _left_s(self, kept_s: float = 0.0) -> float:
        left_s = self._until_s - kept_s - self._clock.monotonic()
        if left_s <= 0:
            raise Unavailable("the time for this reading is over")
        return left_s

    def result(self, namespace: str, owned: _Owned) -> Collected:
        """What the Pod's container said, or why that is not known or gone."""
        seen = self._pod(namespace, owned)
        if seen is None:
            return Lost("its Pod is gone")
        status = waiting.container_status(seen) or {}
        state = status.get("state") or {}
        terminated = state.get("terminated")
        if not isinstance(terminated, dict):
            return self._not_ended(seen, state)
        if not status.get("containerID") or terminated.get("reason") == "ContainerStatusUnknown":
            return Lost("the container's record is gone")
        said = str(terminated.get("message") or "").encode() or None
        if status.get("restartCount") and not _recorded_before(status):
            # Its kubelet refuses to read it then, for good: there may have been another frame.
            return Lost("the record of its container's earlier start is gone", said)
        try:
            log = self._log(namespace, owned.name, status)
        except PortError as error:
            gone = self._evidence(namespace, owned, said)
            return gone or NotYet(f"{type(error).__name__}: {error}")
        doubt = self._doubt(namespace, owned, seen, log, said)
        if doubt is not None:
            return doubt
        return Result(log.data, said, owned.uid, log.truncated)

    def _not_ended(self, seen: Document, state: Mapping[str, Any]) -> Collected:
        phase = (seen.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed") and "running" not in state:
            return Lost("its container never ran, or its record is gone")
        return NotYet("the container has not ended")

    def _log(self, namespace: str, name: str, status: Mapping[str, Any]) -> logs.Log:
        """The container's log, and before it that of an instance that ran earlier (C15): two
        frames then are refused as two."""
        log = self._read(namespace, name)
        if not status.get("restartCount"):
            if logs.broken_off(log.data) and self._read(namespace, name) != log:
                raise Unavailable("two readings of the log differ")
            return log
        earlier = self._read(namespace, name, previous=True)
        return logs.Log(earlier.data + log.data, earlier.truncated or log.truncated)

    def _read(self, namespace: str, name: str, *, previous: bool = False) -> logs.Log:
        left_s = self._left_s(EVIDENCE_S)
        return logs.read(
            self._client, namespace, name, self._room, deadline_s=left_s, previous=previous
        )

    def _doubt(
        self, namespace: str, owned: _Owned, seen: Document, log: logs.Log, said: bytes | None
    ) -> Collected | None:
        """Why what was read does not count; None: it does."""
        words = logs.sentence(log.data)
        if words is not None:
            # Also of a Pod that is being deleted: until it is gone, its log may be read again.
            return self._evidence(namespace, owned, said) or NotYet(words)
        status = waiting.container_status(seen) or {}
        operation = (seen["metadata"].get("annotations") or {}).get(OPERATION_ID, "")
        if not status.get("restartCount"):
            lacking = logs.missing(log.data, said, operation)
            if lacking is not None:
                return self._evidence(namespace, owned, said) or NotYet(lacking)
        again = self._pod(namespace, owned)
        now = {} if again is None else waiting.container_status(again) or {}
        for name in ("containerID", "restartCount"):
            if again is not None and now.get(name) != status.get(name):
                return NotYet("the container changed while its log was read")
        return None

    def _evidence(self, namespace: str, owned: _Owned, said: bytes | None) -> Lost | None:
        """Positive evidence that the log is gone: its Pod is, or its Node is (C-5.5)."""
        try:
            seen = self._pod(namespace, owned)
            if seen is None:
                return Lost("its Pod is gone", said)
            node = (seen.get("spec") or {}).get("nodeName")
            if not node:
                return None
            path, left_s = _NODE.path(None, str(node)), self._left_s()
            if _get(self._client, path, None, str(node), min(left_s, TIMEOUT_S / 2)) is None:
                return Lost(f"its Node {node} is gone", said)
        except PortError:
            return None
        return None

    def _pod(self, namespace: str, owned: _Owned) -> Document | None:
        path, left_s = _POD.path(namespace, owned.name), self._left_s()
        found = _get(self._client, path, namespace, owned.name, min(left_s, TIMEOUT_S / 2))
        if found is None or found["metadata"]["uid"] != owned.uid:
            return None
        return found
