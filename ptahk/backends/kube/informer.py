"""List and watch of one kind, kept up whatever the server does.

Our own, for the official client's has no back-off, asks for no bookmarks, stops at one object that
it cannot read, and has no read timeout (invariants, part 3). Decisions that cannot be undone read
live; this tells which keys to look at, and answers cheap questions.
"""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptahk.backends.kube.answers import Expired, Throttled, refusal_of
from ptahk.backends.kube.cache import Cache, Observer, model_fault
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS, Kind, kind_of
from ptahk.backends.kube.reading import Unreadable, events, list_all, watch
from ptahk.backends.kube.transport import Cancel
from ptahk.engine.ports import Document, Key, PortError, Unavailable

_log = logging.getLogger(__name__)
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


@dataclass(frozen=True, slots=True)
class Timing:
    """When an informer does what; seconds. Each is jittered, so that replicas spread."""

    watch_s: float = 150.0
    """One watch; then the next goes on from where it ended."""
    idle_s: float = 100.0
    """A watch that says nothing for so long is taken for dead: bookmarks come every minute."""
    relist_s: float = 600.0
    """Everything is listed again so often, which finds what a watch has lost."""
    backoff_s: float = 0.5
    backoff_max_s: float = 30.0
    calm_s: float = 10.0
    """A watch that lasted so long, or told something, forgets earlier failures."""


class Informer:
    """A kind's objects as a watch tells them.

    :param on_change: given the key of every change, in the informer's thread; must not block.
    :param namespace: None: all.
    :param check: why an object cannot be read into the model (``poison``).
    :param metadata_only: of each object its metadata alone is asked for and kept.
    """

    def __init__(
        self,
        client: Client,
        kind: str,
        *,
        on_change: Callable[[Key], None],
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        kinds: Mapping[str, Kind] = KINDS,
        check: Callable[[Document], str | None] = model_fault,
        timing: Timing | None = None,
        metadata_only: bool = False,
    ) -> None:
        self.synced = threading.Event()
        """Set once the first list was taken over."""
        self._client = client
        self._kind = kind_of(kind, kinds)
        self._namespace = namespace
        self._labels = labels
        self._timing = timing or Timing()
        self._form = "PartialObjectMetadata" if metadata_only else None
        self._cache = Cache(self._kind, on_change, check)
        self._cancel = Cancel()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind}", daemon=True)
        self._fresh_at = -math.inf
        self._failures = 0
        self._last_fault = ""

    def subscribe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change: (before, after). Call it before ``start``."""
        self._cache.subscribe(observer)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End, whatever it waits for; idempotent.

        :param timeout_s: how long to wait for its thread, which is cut off from the server.
        """
        self._stopping.set()
        self._cancel.cut()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def running(self) -> bool:
        """Its thread runs."""
        return self._thread.is_alive()

    def get(self, key: Key) -> Document | None:
        """The object as last told; to be read only."""
        return self._cache.get(key)

    def list(self) -> tuple[Document, ...]:
        """All objects, by (namespace, name); to be read only."""
        return self._cache.list()

    def seen(self, key: Key, resource_version: str) -> bool:
        """Whether this shows the write that was answered ``resource_version``, or what came
        after. Ask right after the write; see ``Cache.seen``."""
        return self._cache.seen(key, resource_version)

    def poison(self) -> tuple[tuple[Key, str], ...]:
        """Objects that cannot be read into the model, and why. They stop no other."""
        return self._cache.poison()

    def age_s(self) -> float:
        """Seconds since the last proof that this is fresh: a list, an event or a bookmark.

        Infinite before the first.
        """
        return time.monotonic() - self._fresh_at

    @property
    def last_fault(self) -> str:
        """What went wrong last, for people; empty where nothing did since it last went well."""
        return self._last_fault

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                version = self._list()
                self._follow(version)
            except PortError as error:
                self._failed(error)
            except Exception as error:
                # Not the server's fault but ours: said loudly, and begun again from a list.
                if not self._stopping.is_set():
                    _log.exception("the watch of %s failed", self._kind.name)
                self._failed(error)

    def _list(self) -> str:
        began = time.monotonic()
        number = self._cache.begin_list()
        items, version = list_all(
            self._client,
            self._kind,
            self._namespace,
            self._labels,
            cancel=self._cancel,
            accept=self._accept("List"),
        )
        self._cache.replace(items, number)
        self._fresh_at = max(self._fresh_at, began)
        self.synced.set()
        return version

    def _follow(self, since: str) -> None:
        """Watch until it is time to list again.

        :raises PortError: or it is time already. A watch that failed is never resumed: the server
            that answers next may be another, or one whose store was put back, and would say
            nothing about what happened before ``since`` comes round again.
        """
        relist_at = time.monotonic() + _jittered(self._timing.relist_s)
        while not self._stopping.is_set():
            left_s = relist_at - time.monotonic()
            if left_s <= 0:
                return
            began = time.monotonic()
            place = _Place(since)
            try:
                self._watch(place, min(_jittered(self._timing.watch_s), left_s))
            finally:
                lasted_s = time.monotonic() - began
                if place.told or lasted_s > self._timing.calm_s:
                    self._failures = 0
            if not place.told and lasted_s < self._timing.backoff_s:
                raise Unavailable(f"watch of {self._kind.name}: it ended at once")
            since = place.since

    def _watch(self, place: "_Place", timeout_s: float) -> None:
        what = f"watch of {self._kind.name}"
        with watch(
            self._client,
            self._kind,
            self._namespace,
            self._labels,
            since=place.since,
            timeout_s=max(1, math.ceil(timeout_s)),
            idle_s=self._timing.idle_s,
            cancel=self._cancel,
            accept=self._accept(),
        ) as stream:
            for event in events(stream, what):
                if event["type"] == "ERROR":
                    raise refusal_of(event["object"], what)
                if event["type"] in _CHANGES:
                    self._cache.apply(event["type"], event["object"])
                elif event["type"] != "BOOKMARK":
                    raise Unreadable(f"{what}: an event of a type that is not known")
                place.move(event["object"])
                self._fresh_at = time.monotonic()
                self._last_fault = ""

    def _accept(self, suffix: str = "") -> str | None:
        """The form of the objects that is asked for; None: whole."""
        if self._form is None:
            return None
        return f"application/json;as={self._form}{suffix};g=meta.k8s.io;v=v1"

    def _failed(self, error: Exception) -> None:
        """Wait before the next try: longer each time, never in step with others."""
        if self._stopping.is_set():
            return
        fault = str(error)[:300] or type(error).__name__
        if fault != self._last_fault and not isinstance(error, Expired):
            # Once: a kind that may not be read, or is not served, keeps a manager from its start.
            _log.warning("watch of %s: %s", self._kind.name, fault)
        self._last_fault = fault
        timing = self._timing
        delay_s = min(timing.backoff_max_s, timing.backoff_s * 2.0 ** min(self._failures, 16))
        if isinstance(error, Throttled):
            delay_s = max(delay_s, error.retry_after_s)
        self._failures += 1
        self._stopping.wait(_jittered(delay_s))


class _Place:
    """How far a watch came."""

    def __init__(self, since: str) -> None:
        self.since = since
        self.told = False

    def move(self, document: Document) -> None:
        metadata: Any = document.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version:
            self.since = version
        self.told = True


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)
