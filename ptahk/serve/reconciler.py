"""Workers that make passes, one key in one hand; results are read elsewhere."""

import dataclasses
import logging
import threading
from collections.abc import Mapping

from ptahk.engine import driver
from ptahk.engine.driver import PassResult
from ptahk.engine.family import Family
from ptahk.engine.model.intent import Need
from ptahk.engine.ports import Collected, Jobs, Key, Memory, Ports
from ptahk.serve.logs import fields
from ptahk.serve.metrics import Metrics
from ptahk.serve.reader import Reader
from ptahk.serve.workqueue import WorkQueue

LOG = logging.getLogger(__name__)

RESYNC_S = 600.0
"""A resource that asks for nothing is looked at again after this, whatever a watch missed (F2)."""
BUG_RETRY_S = (1.0, 300.0)
"""After a pass that failed on a fault of our own: first and longest pause, doubled in a row."""
PUBLISHED_MAX = 1000
"""Names of immutable documents remembered of one resource; forgetting costs a write."""


class Reconciler:
    """The queue, the workers' body, and each resource's memory.

    :param ports: of the passes; their memory is replaced by one per resource.
    :param result_jobs: for reading results, over connections that no pass waits for.
    """

    def __init__(
        self, ports: Ports, result_jobs: Jobs, metrics: Metrics, families: Mapping[str, Family],
    ) -> None:  # fmt: skip
        self._ports = ports
        self._metrics = metrics
        self._families = families
        self.queue = WorkQueue(ports.clock.monotonic, metrics.queue_wait.observe)
        self.reader = Reader(result_jobs, ports.clock, metrics, self._deliver)
        self._lock = threading.Lock()
        self._memories: dict[Key, Memory] = {}
        self._bugs: dict[Key, int] = {}
        self._busy: dict[int, float] = {}
        metrics.queue_depth.set_function(self.queue.depth)

    def wake(self, key: Key) -> None:
        """Look at this resource now."""
        self.queue.add(key)

    def work(self) -> None:
        """Thread body: passes until the queue is shut."""
        me = threading.get_ident()
        while (key := self.queue.take()) is not None:
            self._busy[me] = self._ports.clock.monotonic()
            at = None
            try:
                at = self.step(key)
            finally:
                del self._busy[me]
                self.queue.give_back(key, at)

    def longest_pass_s(self) -> float:
        """How long the longest pass of this moment has taken so far."""
        now_s = self._ports.clock.monotonic()
        return max((now_s - since for since in list(self._busy.values())), default=0.0)

    def step(self, key: Key) -> float | None:
        """One pass; when to make the next, None: never, it is gone."""
        clock = self._ports.clock
        begun_s = clock.monotonic()
        try:
            result = driver.run_pass(self._ports_of(key), key, families=self._families, fetch=None)
        except Exception as error:
            return self._bug(key, error)
        finally:
            self._metrics.pass_seconds.observe(clock.monotonic() - begun_s)
        self._bugs.pop(key, None)
        self._count(key, result)
        if result.step == "Gone":
            with self._lock:
                self._memories.pop(key, None)
            return None
        if result.need is not None:
            self.reader.ask(key, result.need)
        elif result.requeue is not None and result.requeue.reason == "ResultPending":
            # C-5.3: it decides nothing, and a person can see that it is tried again.
            text = result.requeue.message
            self._ports.recorder.event(key, "Warning", "ResultPending", text)
        latest = clock.monotonic() + RESYNC_S
        if result.requeue is None:
            return latest
        at = result.requeue.at
        return min(latest, at if result.fault is None else self._spread(at))

    def _spread(self, at: float) -> float:
        """From half the pause on: what failed for all at once does not come again at once."""
        now_s = self._ports.clock.monotonic()
        share = int(self._ports.entropy.nonce()[:8], 16) / 2**32
        return now_s + max(0.0, at - now_s) * (0.5 + share / 2)

    def _ports_of(self, key: Key) -> Ports:
        """The world, with what this process remembers of this one resource."""
        with self._lock:
            memory = self._memories.setdefault(key, Memory())
        if len(memory.published) > PUBLISHED_MAX:
            memory.published.clear()
        return dataclasses.replace(self._ports, memory=memory)

    def _deliver(self, key: Key, need: Need, found: Collected) -> None:
        with self._lock:
            memory = self._memories.get(key)
        if memory is not None:
            memory.results[need.uid] = found
        self.queue.add(key)

    def _bug(self, key: Key, error: Exception) -> float:
        """A fault of our own stops this resource only, is told, and is tried again (F8)."""
        count = self._bugs.get(key, 0)
        self._bugs[key] = count + 1
        LOG.exception("a pass failed on a fault of our own", extra=fields(key=key))
        text = f"a fault of ptahk's own ({type(error).__name__}): see the manager's log"
        self._ports.recorder.event(key, "Warning", "InternalError", text)
        self._metrics.passes.labels(key.kind, "bug").inc()
        first, most = BUG_RETRY_S
        return self._ports.clock.monotonic() + min(most, first * 2.0 ** min(count, 16))

    def _count(self, key: Key, result: PassResult) -> None:
        if result.fault is not None:
            label = "fault"
            self._metrics.faults.labels(type(result.fault).__name__).inc()
        elif result.need is not None:
            label = "need"
        elif result.step == "Wait":
            label = "wait"
        elif result.requeue is None:
            label = "rest"
        elif result.requeue.reason == "StatusUnreadable":
            label = "unreadable"
        else:
            label = "step"
        self._metrics.passes.labels(key.kind, label).inc()
        LOG.debug("pass", extra=fields(key=key, step=result.step, result=label))
