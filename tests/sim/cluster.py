"""API server, Job controller and kubelet, on the memory backend.

What differs from the memory backend: documents are shared with readers instead of copied (the
engine never writes into what it read; ``test_seeds`` holds it to that), a backup can be restored,
and a Job's Pods are executors that move step by step, twice, late, or not at all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ptahk.backends.local import documents
from ptahk.engine.model.fields import parse_time
from ptahk.engine.ports import (
    Collected,
    Document,
    JobOrder,
    JobView,
    Key,
    Lost,
    NotFound,
    NotYet,
    PodView,
    Result,
    key_of,
)
from tests.kit.fakedb import Execution, FakeDatabase, Refused
from tests.kit.memory import MemoryClock, MemoryJob, MemoryJobs, MemoryObjects

Changed = Callable[[Document | None, Document | None], None]


class ApiServer(MemoryObjects):
    """Shared documents, a notice of each change, backup and restore."""

    def __init__(self, clock: MemoryClock, first_uid: int = 0) -> None:
        super().__init__(clock)
        self._uids = first_uid
        self.changed: Changed = lambda old, new: None
        self.removed: Callable[[Document], None] = lambda old: None
        self.shared = True

    def get(self, key: Key) -> Document:
        found = self._find(key)
        return found if self.shared else documents.copy(found)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        keys = sorted(
            key for key in self._stored if key.kind == kind and namespace in (None, key.namespace)
        )
        found = [self._stored[key] for key in keys]
        kept = [item for item in found if not labels or documents.matches(item, labels)]
        return tuple(kept if self.shared else documents.copy(kept))

    def replace_status(self, document: Document) -> Document:
        """As the memory backend's, without its copies."""
        key = documents.key(document)
        old = self._find(key)
        if not self.shared or old["kind"] in documents.WITHOUT_STATUS:
            return super().replace_status(document)
        documents.check_expected(old, document["metadata"], needed=True)
        if document["status"] == old.get("status"):
            return old
        metadata = {**old["metadata"], "resourceVersion": str(self._rv + 1)}
        self._put("Modified", {**old, "metadata": metadata, "status": document["status"]})
        return self._find(key)

    def find(self, key: Key) -> Document | None:
        """As stored, or None."""
        return self._stored.get(key)

    def all(self) -> tuple[Document, ...]:
        """Everything stored."""
        return tuple(self._stored.values())

    def backup(self) -> dict[Key, Document]:
        """The whole store; stored documents are never changed in place."""
        return dict(self._stored)

    def restore(self, saved: dict[Key, Document]) -> None:
        """Yesterday's store. Revisions go on from the newest, as ``--bump-revision`` does."""
        self._stored = dict(saved)
        self._rv += 1_000_000

    def _put(self, type: Any, document: Document) -> None:
        old = self._stored.get(key_of(document))
        super()._put(type, document)
        self._events.clear()
        self.changed(old, document)

    def _remove(self, key: Key) -> None:
        old = self._stored[key]
        self.removed(old)
        super()._remove(key)
        self.changed(old, None)


@dataclass(eq=False)
class Pod:
    """One run of an executor: a Pod's first, or a container that the kubelet ran again."""

    uid: str
    job: "SimJob"
    run: Execution
    steps: Iterator[str] | None = None
    started: bool = False
    ended: bool = False
    last: str = ""


@dataclass
class SimJob(MemoryJob):
    """A Job and its Pods' runs."""

    runs: list[Pod] = field(default_factory=list)
    failed: bool = False
    """Its terminal condition came without a Pod's end: a lost node, a deadline."""
    ended_at: datetime | None = None
    forged: bool = False
    """Its output is not what its executor printed."""


class Cluster(MemoryJobs):
    """Job controller and kubelet of one store."""

    def __init__(self, database: FakeDatabase, clock: MemoryClock, name: str, local: bool) -> None:
        super().__init__(certain=local)
        self.database, self.clock, self.name, self.local = database, clock, name, local
        self.node_skew_s = 0.0
        self._runs = 0

    def create(self, order: JobOrder) -> JobView:
        super().create(order)
        plain = self.jobs[order.namespace, order.name]
        uid = f"{self.name}-job-{self._count}"
        job = SimJob(order, uid, [])
        assert isinstance(plain, MemoryJob)
        self.jobs[order.namespace, order.name] = job
        self.add_pod(job)
        return self._view(job)

    def add_pod(self, job: SimJob, uid: str | None = None) -> Pod:
        """A Pod of this Job; with ``uid``, its container once more."""
        self._runs += 1
        name = uid or f"{self.name}-pod-{self._runs}"
        pod = Pod(name, job, self.database.start(job.order, name))
        job.runs.append(pod)
        if uid is None:
            job.pods.append(pod.uid)
        return pod

    def sim_jobs(self) -> list[SimJob]:
        return [job for job in self.jobs.values() if isinstance(job, SimJob)]

    def active(self) -> list[Pod]:
        """Runs that have not ended."""
        return [pod for job in self.sim_jobs() for pod in job.runs if not pod.ended]

    def step(self, pod: Pod) -> str:
        """One durable step of a run; its name, or ``end``."""
        if pod.steps is None:
            pod.started = True
            pod.steps = pod.run.steps(self._guard(pod.job.order))
        name = next(pod.steps, None)
        if name is None:
            self.end(pod)
            return "end"
        pod.last = name
        return name

    def fail(self, pod: Pod, reason: str) -> None:
        """The server ends the session; the executor says so in its frame."""
        assert pod.steps is not None
        pod.run.in_flight = None
        try:
            pod.steps.throw(Refused(reason, "the connection was lost", 6))  # type: ignore[attr-defined]
        except StopIteration:
            self.end(pod)
            return
        raise AssertionError("an executor goes on without its connection")

    def end(self, pod: Pod) -> None:
        """The run is over: its session with it, and its Job where nothing else counts."""
        pod.ended = True
        pod.run.end_session()
        self._finish(pod.job)

    def kill(self, pod: Pod) -> bool:
        """The process dies without a frame. True: the lock stays with its session."""
        pod.ended = True
        held = self.database.session is pod.run
        if pod.steps is not None:
            pod.steps.close()  # type: ignore[attr-defined]
        if not pod.run.log:
            pod.run.log = b"noise of a process that ended\n"
        self._finish(pod.job)
        return held

    def _finish(self, job: SimJob) -> None:
        """A local Job ends with the last process of it, a cluster's with its first Pod."""
        if job.output is not None or (self.local and any(not pod.ended for pod in job.runs)):
            return
        done = next(pod for pod in job.runs if pod.ended)
        job.output = done.run.log
        job.ended_at = self.clock.now()

    def _guard(self, order: JobOrder) -> Refused | None:
        """The runner's own check, on its node's clock (C-9.2)."""
        if order.spec.operation != "Apply":
            return None
        now = self.clock.now().timestamp() + self.node_skew_s
        if now < parse_time(order.spec.dispatch_not_after).timestamp():
            return None
        return Refused("DispatchExpired", "the dispatch deadline has passed")

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        job = self.jobs.get((namespace, name))
        if not isinstance(job, SimJob) or job.uid != uid or not job.pods or job.lost:
            return Lost("the log is gone")
        if job.unreadable:
            job.unreadable -= 1
            return NotYet("the log cannot be read now")
        if job.output is None:
            return Lost("no container record") if job.failed else NotYet("it is running")
        done = next(pod for pod in job.runs if pod.ended)
        return Result(job.output, None, done.uid)

    def observe(self, namespace: str, name: str) -> JobView | None:
        job = self.jobs.get((namespace, name))
        return self._view(job) if job is not None and job.present else None

    def _view(self, job: MemoryJob) -> JobView:
        view = super()._view(job)
        if isinstance(job, SimJob) and job.failed and not view.terminal:
            return JobView(view.name, view.uid, view.annotations, True, view.ttl_s)
        return view

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        job = self.jobs.get((namespace, name))
        if job is None or uid not in (None, job.uid):
            return ()
        return tuple(PodView(pod) for pod in job.pods)

    def expired(self) -> list[SimJob]:
        """Jobs whose TTL, counted from their end, has passed."""
        now = self.clock.now()
        return [
            job for job in self.sim_jobs()
            if job.present and job.ttl_s is not None and job.ended_at is not None
            and (now - job.ended_at).total_seconds() >= job.ttl_s
        ]  # fmt: skip

    def gone(self, namespace: str, name: str) -> SimJob:
        found = self.jobs.get((namespace, name))
        if not isinstance(found, SimJob):
            raise NotFound(name)
        return found
