"""One request on the wire: how far it came, and when it must end.

urllib3's own timeout is per socket read, so an answer that drips outlives it. Here every request
has one deadline that is enforced from outside: a watchdog shuts the socket down. Name lookup, TLS
and a proxy's tunnel cannot be interrupted so; they run in a thread that is left behind.

A ``Wire`` also tells whether a byte of the request may have left this process: what failed before
has done nothing, what failed after may have (hazard A4).
"""

import heapq
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

IDLE_MAX_S = 60.0
"""A connection that lay idle for longer is not used again: an API server closes it after 90 s,
and a request that meets the close could have been done."""

_T = TypeVar("_T")
_lock = threading.Lock()
"""Guards every wire's state and which connection it owns. Held for moments only."""


class Cut(OSError):
    """The request ended because its deadline passed or its owner closed it."""


class _Connection(Protocol):
    sock: Any
    wire: "Wire | None"


class Wire:
    """One request.

    :param deadline: on ``time.monotonic()``.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.sent = False
        """A byte of the request itself may have left this process."""
        self.ended: str | None = None
        """Why nothing more may happen: ``done``, ``deadline`` or ``closed``."""
        self._connection: _Connection | None = None
        self._sock: Any = None
        self._stirred = threading.Event()
        _watchdog.watch(self)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, never below a millisecond."""
        return max(0.001, self.deadline - time.monotonic())

    def abort(self, why: str) -> None:
        """End the request from any thread, now; idempotent."""
        with _lock:
            if self.ended is not None:
                return
            self.ended = why
            if self._connection is not None and self._connection.wire is self:
                _shut_down(self._sock)
        self._stirred.set()

    def finish(self) -> None:
        """The answer is whole: let go of the connection, which another request may use now."""
        with _lock:
            if self.ended is None:
                self.ended = "done"
            self._let_go()

    def own(self, connection: _Connection) -> None:
        """This connection now carries the request.

        :raises Cut: the request has ended already.
        """
        with _lock:
            if self.ended is None and time.monotonic() >= self.deadline:
                # Where the whole process stood still, the watchdog did too (D3).
                self.ended = "deadline"
            if self.ended is not None:
                raise Cut(self.ended)
            connection.wire = self
            # The socket itself: a connection forgets it where the answer ends with a close.
            self._connection, self._sock = connection, connection.sock

    def bounded(self, work: Callable[[], _T], undo: Callable[[], None] = lambda: None) -> _T:
        """Do ``work`` in a thread, and leave it behind where the request ends first.

        :param undo: called in that thread when the abandoned work is over.
        :raises Cut: the request ended first.
        """
        outcome: list[tuple[_T | None, BaseException | None]] = []

        def run() -> None:
            found: tuple[_T | None, BaseException | None]
            try:
                found = (work(), None)
            except BaseException as error:
                found = (None, error)
            with _lock:
                abandoned = self.ended is not None
                outcome.append(found)
            self._stirred.set()
            if abandoned:
                undo()

        self._stirred.clear()
        threading.Thread(target=run, name="ptahk-connect", daemon=True).start()
        self._stirred.wait(self.left_s + 0.05)
        with _lock:
            if self.ended is None and not outcome:
                self.ended = "deadline"
            if self.ended is not None:
                raise Cut(self.ended)
        result, error = outcome[0]
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def _let_go(self) -> None:
        if self._connection is not None and self._connection.wire is self:
            self._connection.wire = None
        self._connection = self._sock = None


class Cancel:
    """Ends requests that it was given to, now and later, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut = False
        self._wires: set[Wire] = set()

    def add(self, wire: Wire) -> None:
        """Bind a request that is about to begin."""
        with self._lock:
            self._wires.add(wire)
            cut = self._cut
        if cut:
            wire.abort("closed")

    def drop(self, wire: Wire) -> None:
        """The request is over."""
        with self._lock:
            self._wires.discard(wire)

    def cut(self) -> None:
        """End them all; who waits for an answer gets ``Unavailable`` or ``Indeterminate``."""
        with self._lock:
            self._cut = True
            wires = tuple(self._wires)
        for wire in wires:
            wire.abort("closed")


def _shut_down(sock: Any) -> None:
    if isinstance(sock, socket.socket):
        try:
            # Not sock.shutdown: an SSLSocket would drop its session under the reader's feet.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already, or was never connected


class _Watchdog:
    """One thread for the deadlines of all requests. It ends when there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Wire]] = []
        self._count = 0
        self._running = False

    def watch(self, wire: Wire) -> None:
        with self._changed:
            self._count += 1
            heapq.heappush(self._heap, (wire.deadline, self._count, wire))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="ptahk-watchdog", daemon=True).start()
            elif self._heap[0][2] is wire:
                self._changed.notify()

    def _run(self) -> None:
        while (wire := self._next()) is not None:
            wire.abort("deadline")

    def _next(self) -> Wire | None:
        with self._changed:
            while True:
                while self._heap and self._heap[0][2].ended is not None:
                    heapq.heappop(self._heap)
                if not self._heap:
                    self._running = False
                    return None
                left_s = self._heap[0][0] - time.monotonic()
                if left_s <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(left_s)


_watchdog = _Watchdog()
_current = threading.local()


class _Watched:
    """What is added to a connection class of urllib3."""

    wire: Wire | None = None
    used_at = 0.0
    _connecting = False
    sock: Any

    @property
    def is_connected(self) -> bool:
        """False makes the pool close it and connect anew."""
        fresh = time.monotonic() - self.used_at < IDLE_MAX_S
        return fresh and super().is_connected  # type: ignore[misc]

    def connect(self) -> None:
        wire: Wire = _current.wire
        connect = super().connect  # type: ignore[misc]
        self._connecting = True
        wire.bounded(connect, undo=self.close)  # type: ignore[attr-defined]
        self._connecting = False
        # Set at once: a cut between here and the first byte must reach this socket.
        wire.own(self)

    def request(self, *args: Any, **kwargs: Any) -> None:
        self.used_at = time.monotonic()
        if self.sock is not None:
            _current.wire.own(self)
        super().request(*args, **kwargs)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        if not self._connecting:
            if self.sock is None:
                self.connect()
            # A proxy's CONNECT is no part of the request: it passes here while connecting.
            _current.wire.sent = True
        super().send(data)  # type: ignore[misc]

    def getresponse(self) -> Any:
        self.used_at = time.monotonic()
        return super().getresponse()  # type: ignore[misc]


def watch_connections(manager: Any) -> Any:
    """Make a pool manager of urllib3 use watched connections; returns it."""
    classes = {}
    for scheme, pool in manager.pool_classes_by_scheme.items():
        connection = type("WatchedConnection", (_Watched, pool.ConnectionCls), {})
        classes[scheme] = type("WatchedPool", (pool,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = classes
    return manager


def send(
    manager: Any, wire: Wire, method: str, url: str, *, headers: dict[str, str],
    body: bytes | None, idle_s: float | None = None,
) -> Any:  # fmt: skip
    """Put one request on the wire and read the head of its answer: no retry, no redirect.

    :param idle_s: longest silence between two reads; the deadline stands beside it.
    :returns: urllib3's response, its body unread.
    :raises Exception: any; ``wire.sent`` and ``wire.ended`` say what it means.
    """
    import urllib3

    if wire.ended is not None:
        raise Cut(wire.ended)
    left_s = wire.left_s + 0.5  # the watchdog comes first; this is the second net
    silence_s = left_s if idle_s is None else min(idle_s, left_s)
    _current.wire = wire
    try:
        return manager.urlopen(
            method,
            url,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
            timeout=urllib3.Timeout(connect=left_s, read=silence_s),
        )
    finally:
        _current.wire = None
