"""Realm Leases renewed on their own schedule, with their own client and threads (C-6.10).

Neither a pass nor a result that is read stands before a renewal. What is kept follows from the
watched statuses (``engine.renewal.kept``); whether a Lease is still ours is read live each time.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ptahk.engine import renewal
from ptahk.engine.model.resource import LEASE
from ptahk.engine.ports import Clock, Conflict, Key, NotFound, Objects, PortError
from ptahk.engine.renewal import Keep, NotDue, NotOurs, Renew
from ptahk.serve.logs import fields
from ptahk.serve.metrics import Metrics
from ptahk.serve.workqueue import WorkQueue
from ptahk.wire import digest

LOG = logging.getLogger(__name__)

CONFLICT_RETRY_S = 0.1
"""Also the shortest pause at all."""
FAILED_RETRY_S = 2.0


@dataclass(slots=True)
class _Kept:
    keep: Keep
    due_s: float


class Renewer:
    """The schedule. ``note`` is told what each resource keeps; ``run`` is a thread's body.

    :param objects: over a client of its own; its writes ask for the lead themselves.
    :param wake: makes a pass look at a resource whose Lease is not ours any more.
    """

    def __init__(
        self, objects: Objects, clock: Clock, namespace: str, metrics: Metrics,
        wake: Callable[[Key], None],
    ) -> None:  # fmt: skip
        self._objects = objects
        self._clock = clock
        self._namespace = namespace
        self._metrics = metrics
        self._wake = wake
        self._lock = threading.Lock()
        self._kept: dict[Key, _Kept] = {}
        self._queue = WorkQueue(clock.monotonic)
        metrics.renewals_overdue.set_function(self.overdue_s)
        metrics.renewals_kept.set_function(lambda: len(self._kept))

    def note(self, key: Key, keep: Keep | None) -> None:
        """What this resource keeps now; None: nothing."""
        with self._lock:
            known = self._kept.get(key)
            if keep is None:
                self._kept.pop(key, None)
                return
            if known is not None and known.keep == keep:
                return
            self._kept[key] = _Kept(keep, self._clock.monotonic())
        self._queue.add(key)

    def overdue_s(self) -> float:
        """By how much the latest renewal is late at this moment; 0: none is."""
        now_s = self._clock.monotonic()
        with self._lock:
            late = (now_s - item.due_s for item in self._kept.values())
            return max(0.0, max(late, default=0.0))

    def run(self) -> None:
        """Renew what is due until ``stop``."""
        while (key := self._queue.take()) is not None:
            at = None
            try:
                at = self._isolated(key)
            finally:
                self._queue.give_back(key, at)

    def stop(self) -> None:
        """Renew nothing more. The Leases stay as they are (D17)."""
        self._queue.shut()

    def _isolated(self, key: Key) -> float | None:
        """Whatever one Lease does to its reader, the others are renewed in time (F8)."""
        try:
            return self.look(key)
        except Exception:
            self._metrics.renewals.labels("failed").inc()
            LOG.exception("a renewal failed on a fault of our own", extra=fields(key=key))
            return self._clock.monotonic() + FAILED_RETRY_S

    def look(self, key: Key) -> float | None:
        """Read one Lease and renew it where it is due; when to look again."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            return None
        keep, sent_s = kept.keep, self._clock.monotonic()
        name = digest.lease_name(digest.CoordinationDigest(keep.realm))
        try:
            document = self._objects.get(Key(LEASE, self._namespace, name))
            found = renewal.verdict(document, keep, self._clock.now())
            match found:
                case Renew():
                    self._objects.replace(found.document)
                    self._renewed(key, kept, sent_s)
                    return self._again(kept, sent_s + keep.every_s)
                case NotDue():
                    return self._again(kept, sent_s + max(found.in_s, CONFLICT_RETRY_S))
                case NotOurs():
                    self._gone(key, kept, found.message)
                    return None
        except NotFound:
            self._gone(key, kept, "the realm's Lease is gone")
            return None
        except Conflict:
            self._metrics.renewals.labels("conflict").inc()
            return self._clock.monotonic() + CONFLICT_RETRY_S
        except PortError as error:
            self._metrics.renewals.labels("failed").inc()
            LOG.warning("a renewal failed: %s", error, extra=fields(key=key))
            return self._clock.monotonic() + min(FAILED_RETRY_S, keep.every_s / 4)

    def _again(self, kept: _Kept, at_s: float) -> float:
        with self._lock:
            kept.due_s = at_s
        return at_s

    def _renewed(self, key: Key, kept: _Kept, sent_s: float) -> None:
        late_s = max(0.0, self._clock.monotonic() - kept.due_s)
        self._metrics.renewals.labels("renewed").inc()
        self._metrics.renewal_lateness.observe(late_s)
        if renewal.late_s(kept.keep, late_s) is not None:
            self._metrics.renewals_late.inc()
            LOG.error("a renewal was %.1f s late", late_s, extra=fields(key=key))

    def _gone(self, key: Key, kept: _Kept, message: str) -> None:
        """The next pass judges what that means; it keeps nothing here until its status says so."""
        self._metrics.renewals.labels("lost").inc()
        LOG.warning("not renewed: %s", message, extra=fields(key=key))
        with self._lock:
            if self._kept.get(key) is kept:
                del self._kept[key]
        self._wake(key)
