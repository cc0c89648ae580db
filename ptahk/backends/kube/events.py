"""Events that people read with kubectl: off the reconcile path, bounded, aggregated, never raising.

A step that repeats becomes a count on the Event before it. An object that tells too much is cut
short, and what is dropped is counted. Nothing depends on an Event having been stored.
"""

import collections
import logging
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS
from ptahk.engine.ports import Clock, Document, Key, PortError

LOG = logging.getLogger(__name__)

COMPONENT: Final = "ptahk"
QUEUE_MAX: Final = 1000
KNOWN_MAX: Final = 2000
"""Events remembered for counting their repeats."""
REPEAT_S: Final = 600.0
"""A repeat after this is a new Event."""
COUNT_EVERY_S: Final = 10.0
"""A repeat is written at most this often."""
BURST_MAX: Final = 100
"""New Events of one object in a row; one more every ``REFILL_S``."""
REFILL_S: Final = 10.0
MESSAGE_MAX: Final = 1024
NAME_MAX: Final = 230
SEND_S: Final = 5.0
"""Longest request for one Event."""
SILENT: Final = frozenset({"Report"})
"""Steps that say nothing to a person: conditions alone changed."""


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened."""

    key: Key
    uid: str | None
    type: Literal["Normal", "Warning"]
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Write:
    """One request: a new Event, or a merge patch that counts a repeat."""

    namespace: str
    name: str
    body: Document
    patch: bool


@dataclass(slots=True)
class _Known:
    name: str
    count: int
    last_s: float
    written_s: float


@dataclass(slots=True)
class _Budget:
    left: float
    at_s: float


@dataclass
class Book:
    """What was told, and so what to write. Pure but for the random part of a name.

    :param instance: which replica tells.
    """

    instance: str
    known: "collections.OrderedDict[Told, _Known]" = field(default_factory=collections.OrderedDict)
    budgets: "collections.OrderedDict[Key, _Budget]" = field(
        default_factory=collections.OrderedDict
    )

    def write(self, told: Told, now: datetime, now_s: float) -> Write | None:
        """The request for it; None: it says nothing new, or its object told too much."""
        known = self.known.get(told)
        if known is not None and now_s - known.last_s < REPEAT_S:
            self.known.move_to_end(told)
            known.count += 1
            known.last_s = now_s
            if now_s - known.written_s < COUNT_EVERY_S:
                return None
            known.written_s = now_s
            body: Document = {"count": known.count, "lastTimestamp": _time(now)}
            return Write(told.key.namespace, known.name, body, patch=True)
        if not self._may(told.key, now_s):
            return None
        name = f"{told.key.name[:NAME_MAX]}.{secrets.token_hex(8)}"
        self.known[told] = _Known(name, 1, now_s, now_s)
        self.known.move_to_end(told)
        while len(self.known) > KNOWN_MAX:
            self.known.popitem(last=False)
        return Write(told.key.namespace, name, self._document(told, name, now), patch=False)

    def forget(self, told: Told) -> None:
        """Nobody knows whether its Event stands: the next repeat is a new one."""
        self.known.pop(told, None)

    def _may(self, key: Key, now_s: float) -> bool:
        budget = self.budgets.setdefault(key, _Budget(BURST_MAX, now_s))
        self.budgets.move_to_end(key)
        while len(self.budgets) > KNOWN_MAX:
            self.budgets.popitem(last=False)
        budget.left = min(BURST_MAX, budget.left + (now_s - budget.at_s) / REFILL_S)
        budget.at_s = now_s
        if budget.left < 1:
            return False
        budget.left -= 1
        return True

    def _document(self, told: Told, name: str, now: datetime) -> Document:
        kind = KINDS.get(told.key.kind)
        involved: dict[str, Any] = {
            "kind": told.key.kind, "namespace": told.key.namespace, "name": told.key.name,
        }  # fmt: skip
        if kind is not None:
            involved["apiVersion"] = kind.api_version
        if told.uid is not None:
            involved["uid"] = told.uid
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": told.key.namespace, "name": name},
            "involvedObject": involved,
            "type": told.type,
            "reason": told.reason,
            "message": told.text[:MESSAGE_MAX] or told.reason,
            "count": 1,
            "firstTimestamp": _time(now),
            "lastTimestamp": _time(now),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance[:128],
        }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class KubeRecorder:
    """The Recorder port over Events.

    :param client: of its own, so that slow writes delay nobody.
    :param uid_of: a resource's uid as last seen; kubectl finds its Events by it.
    """

    def __init__(
        self, client: Client, clock: Clock, instance: str, *, uid_of: Callable[[Key], str | None]
    ) -> None:
        self.dropped = 0
        """Events that could not be sent."""
        self._client = client
        self._clock = clock
        self._book = Book(instance)
        self._uid_of = uid_of
        self._counting = threading.Lock()
        self._queue: queue.Queue[Told | None] = queue.Queue(QUEUE_MAX)
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Send from now on; what was told before waits in the queue."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Send what is queued, for a moment; the rest is lost."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        """Queue one Event; where the queue is full it is dropped and counted."""
        if reason in SILENT:
            return
        try:
            self._queue.put_nowait(Told(key, self._uid_of(key), type, reason, text))
        except queue.Full:
            self._drop()

    def _drop(self) -> None:
        with self._counting:
            self.dropped += 1

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            try:
                self._send(told)
            except PortError as error:
                # It may not stand there, or not any more: what repeats is told anew.
                self._book.forget(told)
                self._drop()
                LOG.debug("an Event was not stored: %s", error)
            except Exception:
                self._drop()
                LOG.exception("an Event could not be made")

    def _send(self, told: Told) -> None:
        write = self._book.write(told, self._clock.now(), self._clock.monotonic())
        if write is None:
            return
        path = f"/api/v1/namespaces/{write.namespace}/events"
        if write.patch:
            self._client.request(
                "PATCH", f"{path}/{write.name}", body=write.body, timeout_s=SEND_S,
                content_type="application/merge-patch+json",
            )  # fmt: skip
        else:
            self._client.request("POST", path, body=write.body, timeout_s=SEND_S)
