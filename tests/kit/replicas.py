"""Managers in threads over one world in memory: real clock, fake databases, Jobs that run.

``Town`` is everything outside the replicas: documents, Jobs, a kubelet, one database for each
coordination key. ``Replica`` is one manager in it, which a test can cut off from everything.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ptahk.backends.system import SystemClock, SystemEntropy
from ptahk.engine.driver import FAMILIES
from ptahk.engine.family import Family
from ptahk.engine.leader import LEASE_NAME, Times
from ptahk.engine.model import status as statuses
from ptahk.engine.model.resource import API_VERSION, LEASE, SCHEMA
from ptahk.engine.model.status import Status
from ptahk.engine.ports import (
    Collected,
    Document,
    JobOrder,
    JobView,
    Key,
    NotFound,
    Ports,
    Store,
    Unavailable,
    key_of,
)
from ptahk.serve.manager import End, Manager, Settings, World
from ptahk.wire import digest
from tests.kit.fakedb import FakeDatabase
from tests.kit.faults import Call, Fate, Faults, FaultyJobs, FaultyObjects
from tests.kit.memory import MemoryJobs, MemoryObjects, MemorySurroundings
from tests.kit.waiting import until

QUICK = Times(duration_s=3, renew_deadline_s=1.5, retry_s=0.2, call_s=0.5)
STORE = Store("00000000-0000-4000-b000-000000000001", "cluster", "ptahk-system", automatic=True)


class Locked(MemoryObjects):
    """Documents that threads share, with a notice of each change."""

    def __init__(self, clock: SystemClock, lock: "threading.RLock") -> None:
        super().__init__(clock)  # type: ignore[arg-type]
        self._lock = lock
        self.listeners: list[Callable[[Key], None]] = []

    def get(self, key: Key) -> Document:
        with self._lock:
            return super().get(key)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        with self._lock:
            return super().list(kind, namespace, labels)

    def create(self, document: Document) -> Document:
        with self._lock:
            return super().create(document)

    def replace(self, document: Document) -> Document:
        with self._lock:
            return super().replace(document)

    def replace_status(self, document: Document) -> Document:
        with self._lock:
            return super().replace_status(document)

    def delete(self, document: Document) -> None:
        with self._lock:
            super().delete(document)

    def _put(self, type: Literal["Added", "Modified"], document: Document) -> None:
        super()._put(type, document)
        self._events.clear()
        self._tell(key_of(document))

    def _remove(self, key: Key) -> None:
        super()._remove(key)
        self._tell(key)

    def _tell(self, key: Key) -> None:
        for listener in self.listeners:
            listener(key)


class Kubelet(MemoryJobs):
    """Jobs that a thread runs as they come, each on the database of its realm."""

    def __init__(self, town: "Town") -> None:
        super().__init__(certain=False)
        self._town = town
        self._lock = town.lock
        self._orders: queue.Queue[JobOrder | None] = queue.Queue()
        self.hung: Callable[[str], bool] = lambda namespace: False
        """Whose results hang when they are read, until ``mended``."""
        self.mended = threading.Event()
        self.paused = threading.Event()
        self.paused.set()
        """Clear: created Jobs stay pending."""
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()

    def create(self, order: JobOrder) -> JobView:
        with self._lock:
            view = super().create(order)
        self._orders.put(order)
        return view

    def observe(self, namespace: str, name: str) -> JobView | None:
        with self._lock:
            return super().observe(namespace, name)

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        if self.hung(namespace):
            self.mended.wait()
        with self._lock:
            return super().collect(namespace, name, uid)

    def document(self, key: Key) -> Document | None:
        """The Job as a watch shows it: who owns it."""
        with self._lock:
            job = self.jobs.get((key.namespace, key.name))
        if job is None:
            return None
        metadata = {
            "namespace": key.namespace, "name": key.name, "ownerReferences": [dict(job.order.owner)]
        }  # fmt: skip
        return {"kind": "Job", "metadata": metadata}

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            self.paused.wait()
            with self._lock:
                job = self.jobs[order.namespace, order.name]
                database = self._town.database_of(order)
                job.output, job.termination = database.work(order, job.pods[0])
            self._town.objects._tell(Key("Job", order.namespace, order.name))

    def stop(self) -> None:
        """End the thread."""
        self._orders.put(None)
        self.paused.set()
        self.mended.set()
        self._thread.join()


class ThreadWatch:
    """A watch of one kind whose events come from a thread of its own, as an informer's do."""

    def __init__(self, town: "Town", kind: str, changed: Callable[[Key], None]) -> None:
        self._town, self._kind, self._changed = town, kind, changed
        self.synced = threading.Event()
        self._keys: queue.Queue[Key | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind}", daemon=True)

    def start(self) -> None:
        self._town.objects.listeners.append(self._told)
        self._thread.start()
        for document in self.list():
            self._keys.put(key_of(document))
        self.synced.set()

    def stop(self) -> None:
        self._town.objects.listeners.remove(self._told)
        self._keys.put(None)
        self._thread.join()

    def _told(self, key: Key) -> None:
        if key.kind == self._kind:
            self._keys.put(key)

    def _run(self) -> None:
        while (key := self._keys.get()) is not None:
            self._changed(key)

    def get(self, key: Key) -> Document | None:
        if key.kind == "Job":
            return self._town.jobs.document(key)
        try:
            return self._town.objects.get(key)
        except NotFound:
            return None

    def list(self) -> tuple[Document, ...]:
        return self._town.objects.list(self._kind)

    def age_s(self) -> float:
        return 0.0

    def poison(self) -> tuple[tuple[Key, str], ...]:
        return ()


class Town:
    """The world of several replicas."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clock = SystemClock()
        self.objects = Locked(self.clock, self.lock)
        self.databases: dict[str, FakeDatabase] = {}
        self.jobs = Kubelet(self)
        self.events: list[tuple[str, Key, str]] = []
        """(replica, resource, reason), in order."""
        self.told: Callable[[str, Key, str], None] = lambda replica, key, reason: None

    def schema(self, name: str, *lines: str, namespace: str = "apps", key: str | None = None,
               **spec: Any) -> Key:  # fmt: skip
        """A person creates a PtahSchema that applies by itself, and its database."""
        realm = digest.coordination_digest("postgresql", key or f"{namespace}/{name}")
        self.databases.setdefault(realm, FakeDatabase(self.clock.now))
        target = {
            "engine": "postgresql", "coordinationKey": key or f"{namespace}/{name}",
            "urlFrom": {"name": "db", "key": "url"},
        }  # fmt: skip
        whole = {
            "target": target | spec.pop("target", {}),
            "desired": {"inline": "\n".join(lines)},
            "policy": {"apply": "Always"},
            "interval": "10m",
        }
        metadata = {"namespace": namespace, "name": name}
        document = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": metadata}
        self.objects.create(document | {"spec": whole | spec})
        return Key(SCHEMA, namespace, name)

    def database(self, key: Key) -> FakeDatabase:
        """The database of a resource."""
        target = self.objects.get(key)["spec"]["target"]
        return self.databases[
            digest.coordination_digest(target["engine"], target["coordinationKey"])
        ]

    def database_of(self, order: JobOrder) -> FakeDatabase:
        return self.databases[order.spec.coordination_digest]

    def status(self, key: Key) -> Status:
        document = self.objects.get(key)
        return statuses.parse(document.get("status"), document["metadata"]["uid"])

    def leader(self) -> str | None:
        """Who holds the managers' Lease."""
        try:
            lease = self.objects.get(Key(LEASE, STORE.coordination_namespace, LEASE_NAME))
        except NotFound:
            return None
        holder: str | None = lease["spec"].get("holderIdentity")
        return holder

    def phase(self, key: Key, wanted: str, limit_s: float = 60.0) -> Status:
        """Wait until the resource is in this phase, with nothing under way."""

        def look() -> Status | None:
            status = self.status(key)
            return status if status.phase == wanted and status.active_operation is None else None

        return until(look, f"{key} to be {wanted}", limit_s)

    def operations(self, namespace: str = "apps") -> list[str]:
        """What was created, in order."""
        return [o.spec.operation for o in self.jobs.created if o.namespace == namespace]

    def steps(self, key: Key) -> list[str]:
        """Reasons of a resource's events, in order."""
        return [reason for _, named, reason in list(self.events) if named == key]


class _Recorder:
    def __init__(self, town: Town, name: str) -> None:
        self._town, self._name = town, name

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        self._town.events.append((self._name, key, reason))
        self._town.told(self._name, key, reason)


@dataclass
class Replica:
    """One manager, running in threads."""

    town: Town
    name: str
    times: Times = QUICK
    families: Mapping[str, Family] = field(default_factory=lambda: FAMILIES)
    cut: threading.Event = field(default_factory=threading.Event)
    """Set: nothing that it sends arrives any more, as behind a partition."""
    bug: threading.Event = field(default_factory=threading.Event)
    """Set: its election meets a fault of our own."""
    end: End | None = None

    def __post_init__(self) -> None:
        self.manager = Manager(self._world(), self._settings(), self.families)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.end = self.manager.run(self._stop)

    def _settings(self) -> Settings:
        return Settings(address=("127.0.0.1", 0), times=self.times, drain_s=10.0)

    def _world(self) -> World:
        town, faults = self.town, Faults(self._fate)
        objects = FaultyObjects(town.objects, faults)
        jobs = FaultyJobs(town.jobs, faults)
        ports = Ports(
            store=STORE, objects=objects, jobs=jobs, surroundings=MemorySurroundings(),
            clock=town.clock, entropy=SystemEntropy(), recorder=_Recorder(town, self.name),
        )  # fmt: skip
        kinds = (*self.families, "PtahApproval", "PtahPlan", "ConfigMap", "Job")
        return World(
            ports=ports,
            result_jobs=jobs,
            renewals=objects,
            elections=objects,
            watches=lambda changed: {kind: ThreadWatch(town, kind, changed) for kind in kinds},
            identity=self.name,
        )

    def _fate(self, call: Call) -> Fate | None:
        if self.bug.is_set() and call.key.name == LEASE_NAME:
            raise RuntimeError("a bug")
        return Fate(before=Unavailable("partitioned")) if self.cut.is_set() else None

    def stop(self) -> End | None:
        """Ask it to stop, and wait until it has."""
        self._stop.set()
        return self.wait()

    def wait(self, limit_s: float = 30.0) -> End | None:
        """Wait until it has ended."""
        self._thread.join(limit_s)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        return self.end
