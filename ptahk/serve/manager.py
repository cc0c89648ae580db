"""``ptahk serve`` from start to end: what starts when, what stops when, and when to give up.

In order: probes and metrics, the webhook, caches, the election; once elected the renewals, the
result reader and the workers. It stops in reverse, and gives the lead up only after the workers
have stopped (D17). A lead that was lost ends the process at once: nothing is waited for, no write
is sent (C-13.1). Nothing that is in a thread here is needed for safety.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from ptahk.engine import renewal
from ptahk.engine.driver import FAMILIES
from ptahk.engine.family import Family
from ptahk.engine.leader import Times
from ptahk.engine.ports import Document, Jobs, Key, Objects, Ports
from ptahk.serve import reader
from ptahk.serve.accounts import Accounts
from ptahk.serve.election import Election
from ptahk.serve.fenced import FencedJobs, FencedObjects
from ptahk.serve.guarding import ShownAdmission
from ptahk.serve.logs import fields
from ptahk.serve.metrics import Metrics
from ptahk.serve.probes import Probes
from ptahk.serve.reconciler import RESYNC_S, Reconciler
from ptahk.serve.renewer import Renewer
from ptahk.serve.wakes import Wakes
from ptahk.serve.webhook import Certificates, Guard, Webhook

LOG = logging.getLogger(__name__)

End = Literal["stopped", "lost", "failed"]
"""Asked to stop and did so in order; lost the lead; a thread failed on a fault of our own."""

ROUND_S = 0.5
"""How often the main thread looks whether the lead was lost behind a call that hangs."""


class Watch(Protocol):
    """One kind, as last seen; calls back with every key that changed."""

    @property
    def synced(self) -> threading.Event: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def get(self, key: Key) -> Document | None: ...

    def list(self) -> tuple[Document, ...]: ...

    def age_s(self) -> float:
        """Seconds since the last proof that it is fresh."""

    def poison(self) -> tuple[tuple[Key, str], ...]:
        """Objects that cannot be read, and why."""


Watches = Callable[[Callable[[Key], None]], Mapping[str, Watch]]
"""Makes the watches, by kind, around a callback."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the process. Each of the first four has connections of its own."""

    ports: Ports
    """Of the passes."""
    result_jobs: Jobs
    """Reads results."""
    renewals: Objects
    """Renews realm Leases."""
    elections: Objects
    """Keeps the lead; its calls end within ``Times.retry_s``."""
    watches: Watches
    identity: str
    """Of this process, among the replicas; never used twice."""
    events_dropped: Callable[[], int] = lambda: 0
    """How many Events could not be sent so far."""
    guard: Guard | None = None
    """What the webhook judges by, over connections of its own; None: no webhook is served."""
    certificates: Certificates | None = None
    """The webhook's; None: no webhook is served."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose, and what tests shorten. Times in seconds."""

    address: tuple[str, int] = ("0.0.0.0", 8080)
    """Of probes and metrics."""
    webhook: tuple[str, int] = ("0.0.0.0", 9443)
    """Where the admission webhook answers."""
    workers: int = 8
    renewers: int = 4
    times: Times = field(default_factory=Times)
    drain_s: float = 20.0
    """How long passes and renewals in hand may take to end once a stop was asked for. With the
    time that giving up the lead takes it is inside the Pod's grace period."""
    resync_s: float = 60.0
    """How often every known resource is put on the schedule, whatever the watches missed."""
    fresh_s: float = 180.0
    """Age of a cache beyond which this replica is not ready."""
    stuck_s: float = 120.0
    """A pass that takes longer makes the process unhealthy."""


class Manager:
    """One replica.

    :raises OSError: the address of the probes or of the webhook cannot be had.
    """

    def __init__(
        self, world: World, settings: Settings, families: Mapping[str, Family] = FAMILIES
    ) -> None:
        self._settings = settings
        self._clock = world.ports.clock
        self._families = families
        self.accounts = Accounts(families)
        self.metrics = Metrics(self.accounts, self._clock.now)
        namespace = world.ports.store.coordination_namespace
        self.election = Election(
            world.elections, self._clock, namespace, world.identity, settings.times,
            self.metrics.stall.set,
        )  # fmt: skip
        leading = self.election.leading
        ports = replace(
            world.ports,
            objects=FencedObjects(world.ports.objects, leading),
            jobs=FencedJobs(world.ports.jobs, leading),
            admission=ShownAdmission(world.ports.admission, self.metrics.guarded),
        )
        self.reconciler = Reconciler(ports, world.result_jobs, self.metrics, families)
        self.renewer = Renewer(
            FencedObjects(world.renewals, leading), self._clock, namespace, self.metrics,
            self.reconciler.wake,
        )  # fmt: skip
        self._wakes = Wakes(families)
        self._watches = world.watches(self._changed)
        self.metrics.caches.read = self._cache_states
        self.metrics.caches.events_dropped = world.events_dropped
        self.probes = Probes(settings.address, self.metrics.registry, self.unhealthy, self.unready)
        self.webhook: Webhook | None = None
        if world.guard is not None and world.certificates is not None:
            self.webhook = Webhook(
                settings.webhook, world.certificates, world.guard, self.metrics.reviewed
            )
        self._noting = threading.Lock()
        self._failed = False
        self._elected = False
        self._stopping = False
        self._starting = threading.Lock()
        self._threads: dict[str, list[threading.Thread]] = {}
        """By name; each was started. None is once the end began."""

    # -- the life of the process --------------------------------------------------------------

    def run(self, stop: threading.Event) -> End:
        """Serve until ``stop`` is set, the lead is lost, or a thread fails."""
        self.probes.start()
        LOG.info("probes and metrics are served", extra=fields(port=self.probes.port))
        if self.webhook is not None:
            self.webhook.start()
            LOG.info("the webhook is served", extra=fields(port=self.webhook.port))
        for watch in self._watches.values():
            watch.start()
        self._start("sync", 1, self._sync)
        end: End = "failed"
        try:
            end = self._until_over(stop)
        finally:
            self._shut(end)
        return end

    def _until_over(self, stop: threading.Event) -> End:
        resynced_s = self._clock.monotonic()
        while not stop.wait(ROUND_S):
            if self.election.lost:
                return "lost"
            if self._failed:
                return "failed"
            if self._clock.monotonic() - resynced_s >= self._settings.resync_s:
                resynced_s = self._clock.monotonic()
                self._resync()
        return "stopped"

    def _sync(self) -> None:
        """No work before the caches are whole: the census index would be blind."""
        for kind, watch in self._watches.items():
            while not watch.synced.wait(ROUND_S):
                if self._stopping:
                    return
            LOG.info("cache synced", extra=fields(kind=kind))
        if not self._stopping:
            self._start("election", 1, lambda: self.election.run(self._elect, self._lose))

    def _elect(self) -> None:
        """Elected. The election's own thread goes on with its rounds."""
        self.metrics.leader.set(1)
        self._start("lead", 1, self._lead)

    def _lead(self) -> None:
        """Renewals first, then the reader, then the workers."""
        self._elected = True
        for key in self._known():
            try:
                self._note(key)
            except Exception:
                # F8, and the next leader would meet it too: one object stops no other.
                LOG.exception("a resource could not be understood", extra=fields(key=key))
        self._start("renewer", self._settings.renewers, self.renewer.run)
        self._start("reader", 1, self.reconciler.reader.watch)
        self._start("worker", self._settings.workers, self.reconciler.work)
        for key in self._known():
            self.reconciler.wake(key)

    def _lose(self) -> None:
        self.metrics.leader.set(0)

    def _shut(self, end: End) -> None:
        """In reverse. Where the lead was lost nobody is waited for."""
        with self._starting:
            self._stopping = True
        self.reconciler.queue.shut()
        if end != "lost":
            self._drain()
        self.reconciler.reader.stop()
        self.renewer.stop()
        self.election.stop()
        self.metrics.leader.set(0)
        for watch in self._watches.values():
            watch.stop()
        if self.webhook is not None:
            self.webhook.stop()
        self.probes.stop()

    def _drain(self) -> None:
        """Workers, then renewals, then the lead: nothing of ours writes once it is given up."""
        until_s = self._clock.monotonic() + self._settings.drain_s
        drained = self._join("worker", self._settings.drain_s)
        self.renewer.stop()
        drained = self._join("renewer", until_s - self._clock.monotonic()) and drained
        self.election.stop()
        if drained and self._join("election", self._settings.times.retry_s + 1.0):
            released = self.election.release()
            LOG.info("the lead was given up" if released else "this replica did not lead")
        elif not drained:
            LOG.warning("a pass did not end in time: the lead ends by itself")

    def _start(self, name: str, count: int, body: Callable[[], None]) -> None:
        def supervised() -> None:
            # I8: a thread that dies unseen is work that stops unseen. The process ends instead.
            try:
                body()
            except Exception:
                LOG.exception("thread %s failed", name)
                self._failed = True

        made = [
            threading.Thread(target=supervised, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        with self._starting:
            # A replica may be elected while it ends: who is waited for then is known already.
            if self._stopping:
                return
            for thread in made:
                thread.start()
            self._threads[name] = made

    def _join(self, name: str, timeout_s: float) -> bool:
        """Whether every thread of this name ended in time."""
        until_s = self._clock.monotonic() + timeout_s
        threads = self._threads.get(name, [])
        for thread in threads:
            thread.join(max(0.0, until_s - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    # -- what changes -------------------------------------------------------------------------

    def _changed(self, key: Key) -> None:
        """A watch saw a change. Called from the watches' threads."""
        try:
            if key.kind in self._families:
                self._note(key)
            watch = self._watches.get(key.kind)
            woken = self._wakes.of(key, None if watch is None else watch.get(key))
        except Exception:
            # F8: one object that we cannot make sense of stops no other.
            LOG.exception("a change could not be understood", extra=fields(key=key))
            woken = (key,) if key.kind in self._families else ()
        if self._elected:
            for wanted in woken:
                self.reconciler.wake(wanted)

    def _note(self, key: Key) -> None:
        """Keep accounts, renewals and wakes in step with a resource, as last seen."""
        with self._noting:  # reading and noting are one, or an older reading could come last
            document = self._watches[key.kind].get(key)
            self._wakes.resource(key, document)
            noted = self.accounts.note(key, document)
            if not self._elected:
                return
            self.renewer.note(key, None if noted.status is None else renewal.kept(noted.status))
        for item in noted.ended:
            self.metrics.operations.labels(key.kind, item.operation, item.outcome).inc()
        for other in noted.neighbours:
            self.reconciler.wake(other)

    def _known(self) -> list[Key]:
        return [
            Key(kind, item["metadata"]["namespace"], item["metadata"]["name"])
            for kind in self._families
            if kind in self._watches
            for item in self._watches[kind].list()
        ]

    def _resync(self) -> None:
        """Whatever was missed: every known resource is on the schedule."""
        if not self._elected:
            return
        for key in self._known():
            self.reconciler.queue.add(key, self._clock.monotonic() + RESYNC_S)

    # -- what probes ask ----------------------------------------------------------------------

    def unhealthy(self) -> list[str]:
        """Why this process should be restarted; empty: it should not."""
        wrong = []
        if self._failed:
            wrong.append("a thread failed")
        if self.election.lost:
            wrong.append("the lead was lost")
        longest_s = self.reconciler.longest_pass_s()
        if longest_s > self._settings.stuck_s:
            wrong.append(f"a pass takes {longest_s:.0f} s")
        if self.reconciler.reader.abandoned >= reader.ABANDONED_MAX:
            wrong.append("too many reads hang")
        return wrong

    def unready(self) -> list[str]:
        """Why nobody should count on this replica now."""
        wrong = self.unhealthy()
        for kind, watch in self._watches.items():
            if not watch.synced.is_set():
                wrong.append(f"the cache of {kind} is not synced")
            elif watch.age_s() > self._settings.fresh_s:
                wrong.append(f"the cache of {kind} is {watch.age_s():.0f} s old")
        if self.webhook is not None:
            wrong += self.webhook.unready()
        return wrong

    def _cache_states(self) -> list[tuple[str, float, int]]:
        return [(kind, watch.age_s(), len(watch.poison())) for kind, watch in self._watches.items()]
