"""A world in memory: documents, Jobs, clock, dice and surroundings, typed and deterministic.

Semantics are an API server's (the rules are the local store's own, and ``tests/ports`` runs one
suite over both). Nothing here waits, sleeps or reads a clock, so a simulator can drive it.
Faults are put around it: ``tests/kit/faults.py``.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from ptahk.backends.local import documents
from ptahk.engine.ports import (
    AlreadyExists,
    Change,
    Collected,
    Conflict,
    Document,
    Invalid,
    JobOrder,
    JobView,
    Key,
    Lost,
    NotFound,
    NotYet,
    PodView,
    Ports,
    Refusal,
    Result,
    Store,
    key_of,
)


class MemoryClock:
    """A clock that moves only when told to. Wall and monotonic time can be stepped apart."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back; monotonic time does not see it."""
        self._now += timedelta(seconds=seconds)


class SeededEntropy:
    """Dice that a seed repeats."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def _hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(digits * 4):0{digits}x}"

    def operation_id(self) -> str:
        return self._hex(32)

    def nonce(self) -> str:
        return self._hex(32)

    def epoch_bits(self) -> str:
        return self._hex(16)


@dataclass
class MemoryRecorder:
    """Keeps every event, in order."""

    events: list[tuple[Key, str, str, str]] = field(default_factory=list)

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        self.events.append((key, type, reason, text))

    def reasons(self) -> list[str]:
        return [reason for _, _, reason, _ in self.events]


@dataclass
class MemorySurroundings:
    """Surroundings that a test may change."""

    document: dict[str, Any] = field(default_factory=lambda: {"interpreter": "/python"})
    refusal: Refusal | None = None

    def snapshot(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any] | Refusal:
        if self.refusal is not None:
            return self.refusal
        copied: dict[str, Any] = documents.copy(self.document)
        return copied


@dataclass(frozen=True, slots=True)
class _Event:
    rv: int
    change: Change


class MemoryObjects:
    """The Objects port over a dictionary. Stored documents are never shared with a caller."""

    def __init__(self, clock: MemoryClock) -> None:
        self._clock = clock
        self._stored: dict[Key, Document] = {}
        self._events: list[_Event] = []
        self._rv = 0
        self._uids = 0

    @property
    def resource_version(self) -> str:
        """The newest one; ``watch`` from here sees only what comes after."""
        return str(self._rv)

    def get(self, key: Key) -> Document:
        copied: Document = documents.copy(self._find(key))
        return copied

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        keys = sorted(
            key for key in self._stored if key.kind == kind and namespace in (None, key.namespace)
        )
        found = (self._stored[key] for key in keys)
        return tuple(
            documents.copy(item) for item in found if documents.matches(item, labels or {})
        )

    def create(self, document: Document) -> Document:
        uid = f"00000000-0000-4000-8000-{self._uids + 1:012d}"
        stored = documents.created(document, uid=uid, rv=self._rv + 1, now=self._time())
        key = key_of(stored)
        if key in self._stored:
            raise AlreadyExists(documents.describe(stored))
        taken = {item["metadata"]["uid"] for item in self._stored.values()}
        if stored["metadata"]["uid"] in taken:
            raise AlreadyExists(f"{documents.describe(stored)}: its uid is taken")
        self._uids += 1
        self._put("Added", stored)
        return self.get(key)

    def replace(self, document: Document) -> Document:
        key = documents.key(document)
        old = self._find(key)
        new = documents.replaced(old, document, rv=self._rv + 1)
        if new is None:
            self._remove(key)
            gone: Document = documents.copy(document)
            return gone
        if new is not old:
            self._put("Modified", new)
        return self.get(key)

    def replace_status(self, document: Document) -> Document:
        key = documents.key(document)
        old = self._find(key)
        new = documents.with_status(old, document, rv=self._rv + 1)
        if new is not old:
            self._put("Modified", new)
        return self.get(key)

    def delete(self, document: Document) -> None:
        key = documents.key(document)
        old = self._find(key)
        documents.check_expected(old, document["metadata"], needed=True)
        self._delete(key, old)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        """What has happened since; ends at once, for nothing happens while a caller waits."""
        if not since.isdecimal():
            raise Invalid("since is not a resourceVersion")
        for event in tuple(self._events):
            key = key_of(event.change.document)
            if event.rv <= int(since) or key.kind != kind or namespace not in (None, key.namespace):
                continue
            yield replace(event.change, document=documents.copy(event.change.document))

    def _find(self, key: Key) -> Document:
        try:
            return self._stored[key]
        except KeyError:
            raise NotFound(str(key)) from None

    def _time(self) -> str:
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"

    def _put(self, type: Literal["Added", "Modified"], document: Document) -> None:
        self._rv += 1
        self._stored[key_of(document)] = document
        self._events.append(_Event(self._rv, Change(type, document)))

    def _delete(self, key: Key, old: Document) -> None:
        marked = documents.marked_deleted(old, rv=self._rv + 1, now=self._time())
        if marked is None:
            self._remove(key)
        elif marked is not old:
            self._put("Modified", marked)

    def _remove(self, key: Key) -> None:
        self._rv += 1
        gone: Document = documents.copy(self._stored.pop(key))
        gone["metadata"]["resourceVersion"] = str(self._rv)
        self._events.append(_Event(self._rv, Change("Deleted", gone)))
        self._collect_garbage(gone["metadata"]["uid"])

    def _collect_garbage(self, owner: str) -> None:
        """Delete what the vanished object alone owned."""
        dependents = [key for key, item in self._stored.items() if owner in documents.owners(item)]
        dependents.sort(key=lambda key: int(self._stored[key]["metadata"]["resourceVersion"]))
        for key in dependents:
            living = {item["metadata"]["uid"] for item in self._stored.values()}
            # What one of them owned in turn may be gone by now.
            if key in self._stored and not documents.owners(self._stored[key]) & living:
                self._delete(key, self._stored[key])


@dataclass
class MemoryJob:
    """One Job as the world has it."""

    order: JobOrder
    uid: str
    pods: list[str]
    output: bytes | None = None
    """None while it runs."""
    termination: bytes | None = None
    lost: bool = False
    unreadable: int = 0
    """Collects that answer NotYet before one succeeds."""
    ttl_s: int | None = None
    present: bool = True
    """False: the Job is gone; its Pods may still be there."""
    waiting: Refusal | None = None
    differs: str | None = None


Work = Callable[[JobOrder, str], tuple[bytes, bytes | None]]
"""What a Job does: (order, pod uid) → (log, termination message)."""


class MemoryJobs:
    """The Jobs port. A Job runs until ``finish`` or ``run_all`` says what it printed.

    :param work: what ``run_all`` (and, with ``at_once``, the create itself) lets a Job do.
    :param certain: ``creation_certain``; False imitates a cluster.
    """

    def __init__(
        self, work: Work | None = None, *, at_once: bool = False, certain: bool = True
    ) -> None:
        self.jobs: dict[tuple[str, str], MemoryJob] = {}
        self.created: list[JobOrder] = []
        """Every create that landed, in order: invariant 1 is checked against it."""
        self._work = work
        self._at_once = at_once
        self._certain = certain
        self._count = 0

    @property
    def creation_certain(self) -> bool:
        return self._certain

    def create(self, order: JobOrder) -> JobView:
        key = (order.namespace, order.name)
        if key in self.jobs and self.jobs[key].present:
            raise AlreadyExists(f"Job {order.namespace}/{order.name}")
        self._count += 1
        uid = f"00000000-0000-4000-9000-{self._count:012d}"
        pod = f"00000000-0000-4000-a000-{self._count:012d}"
        self.jobs[key] = MemoryJob(order, uid, [pod])
        self.created.append(order)
        if self._at_once:
            self.run_all()
        return self._view(self.jobs[key])

    def observe(self, namespace: str, name: str) -> JobView | None:
        job = self.jobs.get((namespace, name))
        return self._view(job) if job is not None and job.present else None

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        job = self.jobs.get((namespace, name))
        if job is None or job.uid != uid or not job.pods:
            return Lost("the Pod is gone")
        if job.lost:
            return Lost("the log is gone", job.termination)
        if job.output is None:
            return NotYet("the Job is running")
        if job.unreadable:
            job.unreadable -= 1
            return NotYet("the log cannot be read now")
        return Result(job.output, job.termination, job.pods[0])

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        job = self.jobs.get((namespace, name))
        if job is None or not job.present or job.uid != uid:
            raise NotFound(f"Job {namespace}/{name}")
        job.ttl_s = ttl_s

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        job = self.jobs.get((namespace, name))
        if job is None or uid not in (None, job.uid):
            return ()
        return tuple(PodView(pod) for pod in job.pods)

    def running(self) -> list[MemoryJob]:
        """Jobs that have not printed anything yet, oldest first."""
        return [
            job for job in self.jobs.values() if job.output is None and not job.lost and job.pods
        ]

    def run_all(self) -> int:
        """Let every running Job do its work; how many there were."""
        if self._work is None:
            raise Conflict("these Jobs have no work: finish them by hand")
        todo = self.running()
        for job in todo:
            job.output, job.termination = self._work(job.order, job.pods[0])
        return len(todo)

    def finish(
        self, name: str, output: bytes, termination: bytes | None = None, namespace: str = "local"
    ) -> None:
        """The Job ends, having printed this."""
        job = self.jobs[(namespace, name)]
        job.output, job.termination = output, termination

    def remove(self, name: str, namespace: str = "local", *, pods: bool = True) -> None:
        """Somebody deletes the Job (and its Pods)."""
        job = self.jobs[(namespace, name)]
        job.present = False
        if pods:
            job.pods.clear()

    def _view(self, job: MemoryJob) -> JobView:
        return JobView(
            name=job.order.name,
            uid=job.uid,
            annotations=dict(job.order.annotations),
            terminal=job.output is not None or job.lost,
            ttl_s=job.ttl_s,
            waiting=job.waiting,
            differs=job.differs,
        )


@dataclass
class MemoryWorld:
    """Everything a pass needs, and the handles a test moves it by."""

    clock: MemoryClock
    objects: MemoryObjects
    jobs: MemoryJobs
    surroundings: MemorySurroundings
    entropy: SeededEntropy
    recorder: MemoryRecorder
    store: Store

    def ports(self) -> Ports:
        """The ports of one process: the world is shared, what it remembers is its own."""
        return Ports(
            store=self.store,
            objects=self.objects,
            jobs=self.jobs,
            surroundings=self.surroundings,
            clock=self.clock,
            entropy=self.entropy,
            recorder=self.recorder,
        )


def memory_world(
    work: Work | None = None,
    *,
    seed: int = 0,
    at_once: bool = False,
    certain: bool = True,
    kind: Literal["local", "cluster"] = "local",
    automatic: bool = False,
) -> MemoryWorld:
    """A fresh, empty world."""
    clock = MemoryClock()
    return MemoryWorld(
        clock=clock,
        objects=MemoryObjects(clock),
        jobs=MemoryJobs(work, at_once=at_once, certain=certain),
        surroundings=MemorySurroundings(),
        entropy=SeededEntropy(seed),
        recorder=MemoryRecorder(),
        store=Store(
            uid="00000000-0000-4000-b000-000000000001",
            kind=kind,
            coordination_namespace="local" if kind == "local" else "ptahk-system",
            automatic=automatic,
        ),
    )
