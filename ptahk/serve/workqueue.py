"""The manager's work queue: keys with a time, each at most once, and never in two hands (C-13.2).

``Schedule`` is the rule, without threads or clock; ``WorkQueue`` lets threads wait on it.
"""

import heapq
import math
import threading
from collections.abc import Callable
from typing import Protocol

from ptahk.engine.ports import Key


class Schedule:
    """Which key is due when. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._held: set[Key] = set()
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def add(self, key: Key, at: float) -> None:
        """The key is due then, or earlier where it already is."""
        known = self._due.get(key)
        if known is not None and known <= at:
            return
        self._due[key] = at
        if key not in self._held:
            self._push(key, at)

    def take(self, now: float) -> tuple[Key, float] | None:
        """The key that has been due longest, now in hand, with the time it was due."""
        while self._heap:
            at, _, key = self._heap[0]
            if key in self._held or self._due.get(key) != at:
                heapq.heappop(self._heap)
                continue
            if at > now:
                return None
            heapq.heappop(self._heap)
            del self._due[key]
            self._held.add(key)
            return key, at
        return None

    def give_back(self, key: Key, at: float | None) -> None:
        """The key is out of hand, and due again then; None: only when it is added again."""
        self._held.remove(key)
        if at is not None:
            self.add(key, at)
        if key in self._due:
            self._push(key, self._due[key])

    def next_at(self) -> float:
        """When ``take`` has something to give; infinity: nothing waits."""
        while self._heap:
            at, _, key = self._heap[0]
            if key not in self._held and self._due.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return math.inf

    def due(self, now: float) -> int:
        """How many keys are due and not in hand."""
        return sum(at <= now and key not in self._held for key, at in self._due.items())

    @property
    def held(self) -> frozenset[Key]:
        """Keys in hand."""
        return frozenset(self._held)

    def __len__(self) -> int:
        return len(self._due)

    def _push(self, key: Key, at: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            live = [item for item in self._heap if self._due.get(item[2]) == item[0]]
            self._heap = [item for item in live if item[2] not in self._held]
            heapq.heapify(self._heap)


class Waited(Protocol):
    """Told how long a key was due before a worker took it."""

    def __call__(self, seconds: float, /) -> object: ...


class WorkQueue:
    """A ``Schedule`` that threads share.

    :param monotonic: the clock of every time in here.
    """

    def __init__(self, monotonic: Callable[[], float], waited: Waited = lambda seconds: None):
        self._monotonic = monotonic
        self._waited = waited
        self._schedule = Schedule()
        self._changed = threading.Condition()
        self._shut = False

    def add(self, key: Key, at: float | None = None) -> None:
        """Make the key due at a time; None: now."""
        with self._changed:
            self._schedule.add(key, self._monotonic() if at is None else at)
            self._changed.notify()

    def take(self) -> Key | None:
        """Wait for a due key and take it in hand; None: the queue is shut."""
        with self._changed:
            while not self._shut:
                now = self._monotonic()
                found = self._schedule.take(now)
                if found is not None:
                    self._waited(now - found[1])
                    return found[0]
                left = self._schedule.next_at() - now
                self._changed.wait(None if left == math.inf else max(0.0, left))
            return None

    def give_back(self, key: Key, at: float | None) -> None:
        """Out of hand; due again then, or earlier where it was added meanwhile."""
        with self._changed:
            self._schedule.give_back(key, at)
            self._changed.notify()

    def shut(self) -> None:
        """Hand out nothing more; whoever waits is told so."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    def depth(self) -> int:
        """Keys that are due and in no hand."""
        with self._changed:
            return self._schedule.due(self._monotonic())
