"""What the fault proxy can do to a request, and the rules that say to which (``apiproxy.py``)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Hang:
    """No answer until the rule is released, and then the right one.

    ``done=True``: the request is carried out first, and only its answer is kept back.
    ``done=False``: it does not reach the server before the release: a write that lands late,
    with ``outlives=True`` even when its client has given up meanwhile.
    """

    done: bool = False
    outlives: bool = False


@dataclass(frozen=True)
class LoseAnswer:
    """The request is carried out; the connection is reset before a byte of the answer."""


@dataclass(frozen=True)
class Refuse:
    """The connection is reset before the request reaches the server."""


@dataclass(frozen=True)
class Cut:
    """The answer ends after this many bytes of its body; ``clean``: as if that were all of it."""

    after: int
    clean: bool = False


@dataclass(frozen=True)
class Drip:
    """The answer's body comes in pieces of ``size`` bytes, with a pause before each."""

    size: int = 1
    every_s: float = 0.1


@dataclass(frozen=True)
class Reply:
    """An answer of the test's own; the request does not reach the server unless ``done``."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = False


Action = Hang | LoseAnswer | Refuse | Cut | Drip | Reply

LOG_GONE: Final = Reply(
    200,
    b"unable to retrieve container logs for containerd://" + b"0" * 64,
    {"Content-Type": "text/plain"},
)
"""How a kubelet says that the log is gone: as if the sentence were the log."""


@dataclass(frozen=True)
class Seen:
    """One request on the wire."""

    client: str
    method: str
    path: str
    """With its query."""
    connection: int
    """Counts connections: the same number means the same connection."""
    body: bytes = field(repr=False)


class Rule:
    """A fault, for the requests that fit. All of its conditions have to hold."""

    def __init__(
        self, action: Action, method: str, path: str, client: str | None, times: int | None,
        when: Callable[[Seen], bool] = lambda seen: True,
    ) -> None:  # fmt: skip
        self.action = action
        self._method = re.compile(method)
        self._path = re.compile(path)
        self._client = client
        self._left = times
        self._when = when
        self._changed = threading.Condition()
        self._released = False
        self._hits: list[Seen] = []
        self._done: list[int] = []

    def takes(self, seen: Seen) -> bool:
        """Whether the request falls under it; if so it is counted. For the proxy alone."""
        if self._left == 0 or self._client not in (None, seen.client):
            return False
        if not (self._method.fullmatch(seen.method) and self._path.search(seen.path)):
            return False
        if not self._when(seen):
            return False
        with self._changed:
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            self._hits.append(seen)
            self._changed.notify_all()
            return True

    def note(self, status: int) -> None:
        """The server carried a request out. For the proxy alone."""
        with self._changed:
            self._done.append(status)
            self._changed.notify_all()

    @property
    def hits(self) -> list[Seen]:
        """The requests that it met so far."""
        with self._changed:
            return list(self._hits)

    @property
    def done(self) -> list[int]:
        """The server's status for each of them that was carried out, in order."""
        with self._changed:
            return list(self._done)

    def wait_hit(self, number: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until it has met so many requests.

        :raises AssertionError: it has not in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._hits) >= number, timeout_s):
                raise AssertionError(f"met {len(self._hits)} requests, not {number}")

    def wait_done(self, number: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until so many of its requests were carried out by the server.

        :raises AssertionError: they were not in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._done) >= number, timeout_s):
                raise AssertionError(f"{len(self._done)} requests were carried out, not {number}")

    def release(self) -> None:
        """Let go what hangs, and meet nothing more."""
        with self._changed:
            self._released, self._left = True, 0
            self._changed.notify_all()

    def wait_released(self, timeout_s: float) -> None:
        """Return when it is released, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._released, timeout_s)

    @property
    def released(self) -> bool:
        """Whether it was let go."""
        with self._changed:
            return self._released
