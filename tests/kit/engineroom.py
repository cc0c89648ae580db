"""A manager without its machinery: the engine over a real API server, with Jobs in memory.

It leads (its Lease is renewed), it takes passes over the resources of one namespace, and its Jobs
run on a ``FakeDatabase``. What a command sees of it is what it sees of ``ptahk serve``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.follow import Follow
from ptahk.backends.kube.objects import KubeObjects
from ptahk.backends.system import SystemClock, SystemEntropy
from ptahk.engine import driver, leader
from ptahk.engine.model.resource import LEASE, SCHEMA
from ptahk.engine.ports import Conflict, Key, NotFound, Ports, Store
from tests.kit.fakedb import FakeDatabase
from tests.kit.memory import MemoryJobs, MemoryRecorder, MemorySurroundings

TIMES = leader.Times(duration_s=6, renew_deadline_s=2.0, retry_s=0.5, call_s=3.0)
IDENTITY = "engine-room"
REST_MAX_S = 5.0


@dataclass
class EngineRoom:
    """One manager of one namespace; ``coordination`` holds its Lease and the realms'."""

    kubeconfig: Path
    namespace: str
    coordination: str
    live: list[str] = field(default_factory=list)
    automatic: bool = True
    working: threading.Event = field(default_factory=threading.Event)
    """Jobs run while it is set; cleared, they hang."""

    def __post_init__(self) -> None:
        self.working.set()
        self.client = Client.load(self.kubeconfig, None)
        self.clock = SystemClock()
        self.database = FakeDatabase(self.clock.now, live=list(self.live), whole=True)
        self.jobs = MemoryJobs(self.database.work, certain=False)
        self.recorder = MemoryRecorder()
        self.ports = Ports(
            store=Store(
                self.client.cluster_uid(), "cluster", self.coordination, automatic=self.automatic
            ),
            objects=KubeObjects(self.client),
            jobs=self.jobs,
            surroundings=MemorySurroundings(),
            clock=self.clock,
            entropy=SystemEntropy(),
            recorder=self.recorder,
        )
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._halted = threading.Event()
        self.fault: BaseException | None = None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[EngineRoom]:
        """Lead and work while the block runs. :raises BaseException: what ended it early."""
        self.renew()
        threads = [
            threading.Thread(target=self._guarded, args=(self._lead,), daemon=True),
            threading.Thread(target=self._guarded, args=(self._work,), daemon=True),
        ]
        follower = Follow(
            Client.load(self.kubeconfig, None), SCHEMA, namespace=self.namespace, name=None,
            tell=lambda what, told: self._wake.set(),
        )  # fmt: skip
        follower.start()
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._wake.set()
            follower.close()
            for thread in threads:
                thread.join(timeout=30)
            self.client.close()
        if self.fault is not None:
            raise self.fault

    def halt(self) -> None:
        """Stop without a word, as a killed process does: the Lease stands as it is."""
        self._halted.set()
        self._wake.set()

    def renew(self) -> None:
        """Take or renew the managers' Lease."""
        key = Key(LEASE, self.coordination, leader.LEASE_NAME)
        objects = self.ports.objects
        try:
            found: Any = objects.get(key)
        except NotFound:
            found = None
        verdict = leader.verdict(found, IDENTITY, 0.0)
        now = self.clock.now()
        if isinstance(verdict, leader.Vacant):
            made = leader.taken(verdict, self.coordination, IDENTITY, TIMES, now)
            objects.create(made) if found is None else objects.replace(made)
        elif isinstance(verdict, leader.Ours):
            objects.replace(leader.renewed(verdict, TIMES, now))

    def _guarded(self, work: Any) -> None:
        try:
            while not self._stop.is_set() and not self._halted.is_set():
                work()
        except BaseException as error:
            self.fault = error

    def _lead(self) -> None:
        with contextlib.suppress(Conflict):
            self.renew()
        self._stop.wait(TIMES.retry_s)

    def _work(self) -> None:
        self._wake.clear()
        rest_s = REST_MAX_S
        for document in self.ports.objects.list(SCHEMA, self.namespace):
            rest_s = min(rest_s, self._settle(document["metadata"]["name"]))
        self._wake.wait(rest_s)

    def _settle(self, name: str) -> float:
        """Passes over one resource until it waits. :returns: seconds until it has to go on."""
        while not self._stop.is_set() and not self._halted.is_set():
            result = driver.run_pass(self.ports, Key(SCHEMA, self.namespace, name))
            if self.working.is_set():
                self.jobs.run_all()
            if result.requeue is None:
                return REST_MAX_S
            wait_s = result.requeue.at - self.clock.monotonic()
            if wait_s > 0 and not (self.working.is_set() and result.step == "DispatchJob"):
                return min(wait_s, 0.2 if self.jobs.running() else wait_s)
        return REST_MAX_S
