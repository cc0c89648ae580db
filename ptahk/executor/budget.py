"""How long an operation may still take, and whether somebody asked it to stop."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from ptahk.errors import OperationFailed, PtahkError, Refused


class Stopped(Refused):
    """SIGTERM, or the parent is gone: nothing more may be sent."""

    default_reason = "Stopped"


class DeadlineExceeded(OperationFailed):
    """The execution deadline has passed; nothing more may be sent (invariant 7)."""

    default_reason = "DeadlineExceeded"


class ConnectionLost(PtahkError):
    """The one session is gone: what it had sent may or may not have happened (C-9.6)."""

    exit_code = 4
    default_reason = "ConnectionLost"


class Budget:
    """One execution deadline on the monotonic clock (P11), and the stop flag.

    :param seconds: what is left of the deadline now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._stop = threading.Event()
        self.cancels: list[Callable[[], None]] = []
        """What cancels the statements that may be running now, one per session."""

    def remaining(self) -> float:
        """Seconds left; at most 0 when over."""
        return self._end - time.monotonic()

    def shorten(self, seconds: float) -> None:
        """Take over an earlier end, by another clock: ``seconds`` from now. Never a later one."""
        self._end = min(self._end, time.monotonic() + seconds)

    def check(self) -> float:
        """Seconds left, more than 0.

        :raises Stopped: a stop was requested.
        :raises DeadlineExceeded: nothing is left.
        """
        if self._stop.is_set():
            raise Stopped("stopped on request (signal): no further statement was sent")
        left = self.remaining()
        if left <= 0:
            raise DeadlineExceeded("the execution deadline has passed (executionNotAfter)")
        return left

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Called by the signal handler: sets a flag and cancels from a thread of its own.

        Never raises and never blocks: an exception out of a handler would leave psycopg's
        connection active and the statement would still commit (I2).
        """
        self._stop.set()
        for cancel in tuple(self.cancels):
            threading.Thread(target=_quietly, args=(cancel,), daemon=True).start()

    def pause(self, seconds: float) -> None:
        """Wait, jittered by a fifth, but no longer than the deadline or a stop; then check."""
        jittered = seconds * random.uniform(0.8, 1.2)
        self._stop.wait(max(0.0, min(jittered, self.remaining())))
        self.check()


def _quietly(cancel: Callable[[], None]) -> None:
    try:
        cancel()
    except Exception as error:
        # The statement's own answer decides what happened; a failed cancel changes nothing.
        del error
