"""A stop request as a flag and a descriptor that a selector can wait for."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop:
    """Set by SIGTERM, SIGINT or SIGHUP. The handler sets a flag and writes a byte: no more."""

    def __init__(self) -> None:
        self.requested = False
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)

    def install(self) -> None:
        """Take the signals over. As a container's first process the kernel ignores any signal
        without a handler (I1)."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        with contextlib.suppress(OSError):
            os.write(self._write, b".")

    def drain(self) -> None:
        """Empty the descriptor after a selector reported it."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 64):
                continue
