"""Waits for what the server itself shows, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
LIMIT_S = 60.0


def until(look: Callable[[], _T | None], what: str, limit_s: float = LIMIT_S) -> _T:
    """The first answer that says yes: not None, False, zero or empty.

    :raises AssertionError: none came in time; names what was waited for.
    """
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {limit_s} s for {what}")
