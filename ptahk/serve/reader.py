"""Results are read here, off the reconcile path, and wake their resource (C-5.4).

One thread a read, up to a bound: a log that hangs costs a slot, never a worker. The Jobs port
ends a read at its deadline (C-5.3); one that overruns even that loses its slot and is counted.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ptahk.engine.model.intent import Need
from ptahk.engine.ports import Clock, Collected, Jobs, Key, Lost, NotYet, PortError, Result
from ptahk.serve.logs import fields
from ptahk.serve.metrics import Metrics

LOG = logging.getLogger(__name__)

READS_MAX = 64
"""Reads at once; more wait their turn."""
OVERRUN_S = 75.0
"""C-5.3's 60 s and room for what the adapter does around the read."""
ABANDONED_MAX = 64
"""Reads that overran and still hang, before the process is called unhealthy."""

Deliver = Callable[[Key, Need, Collected], None]


@dataclass(eq=False)
class _Read:
    key: Key
    need: Need
    until_s: float = 0.0
    over: bool = False
    """Delivered, or given up."""


class Reader:
    """Reads results; ``deliver`` gets each, from any thread.

    :param jobs: over clients whose pool is not the passes'.
    """

    def __init__(
        self, jobs: Jobs, clock: Clock, metrics: Metrics, deliver: Deliver, *,
        limit: int = READS_MAX, overrun_s: float = OVERRUN_S,
    ) -> None:  # fmt: skip
        self._jobs = jobs
        self._clock = clock
        self._metrics = metrics
        self._deliver = deliver
        self._limit = limit
        self._overrun_s = overrun_s
        self._changed = threading.Condition()
        self._waiting: deque[_Read] = deque()
        self._asked: dict[tuple[Key, str], _Read] = {}
        self._running: list[_Read] = []
        self._stopped = False
        self.abandoned = 0

    def ask(self, key: Key, need: Need) -> None:
        """Read this result, unless it is being read already."""
        with self._changed:
            if self._stopped or (key, need.uid) in self._asked:
                return
            read = _Read(key, need)
            self._asked[key, need.uid] = read
            self._waiting.append(read)
            self._start_some()
            self._changed.notify()

    def stop(self) -> None:
        """Start no more reads; what still hangs is left to end with the process: it only reads."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()

    def watch(self) -> None:
        """Thread body: give up reads that overran, until ``stop``."""
        while True:
            with self._changed:
                if self._stopped:
                    return
                now_s = self._clock.monotonic()
                late = [read for read in self._running if read.until_s <= now_s]
                for read in late:
                    self._end(read)
                    self.abandoned += 1
                if not late:
                    nearest = min((read.until_s for read in self._running), default=None)
                    self._changed.wait(None if nearest is None else nearest - now_s)
            for read in late:
                LOG.error("a read did not end at its deadline", extra=fields(key=read.key))
                self._tell(read, NotYet("the read did not end at its deadline"), "overrun")

    def _start_some(self) -> None:
        while self._waiting and len(self._running) < self._limit:
            read = self._waiting.popleft()
            read.until_s = self._clock.monotonic() + self._overrun_s
            self._running.append(read)
            self._metrics.reads_running.set(len(self._running))
            threading.Thread(target=self._read, args=(read,), name="read", daemon=True).start()

    def _end(self, read: _Read) -> None:
        read.over = True
        self._running.remove(read)
        self._metrics.reads_running.set(len(self._running))
        del self._asked[read.key, read.need.uid]
        if not self._stopped:
            self._start_some()

    def _read(self, read: _Read) -> None:
        found, label = self._collect(read)
        with self._changed:
            if read.over:
                self.abandoned -= 1
                return
            self._end(read)
            self._changed.notify()
        self._tell(read, found, label)

    def _collect(self, read: _Read) -> tuple[Collected, str]:
        need = read.need
        try:
            found = self._jobs.collect(need.namespace, need.name, need.uid)
        except PortError as error:
            return NotYet(f"{type(error).__name__}: {error}"), "failed"
        except Exception as error:
            LOG.exception("a read failed", extra=fields(key=read.key))
            return NotYet(f"internal error ({type(error).__name__})"), "failed"
        match found:
            case Result():
                return found, "result"
            case Lost():
                return found, "lost"
            case NotYet():
                return found, "not_yet"

    def _tell(self, read: _Read, found: Collected, label: str) -> None:
        self._metrics.reads.labels(label).inc()
        self._deliver(read.key, read.need, found)
