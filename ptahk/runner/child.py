"""Runs the executor child: its input, its bounded output, its deadline and the signals.

The child stays in the runner's process group and inherits the ``alive`` descriptor, so that a
local Job counts as alive until both are gone. Its input is kept open as long as we live: its end
tells the child that the runner has died (I4).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.runner.signals import Stop

STDERR_BYTES_MAX: Final = 64 * 1024
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """How the child ended."""

    stdout: bytes
    too_large: bool
    stderr: bytes
    """The last bytes of it; never relayed raw."""
    exit_code: int
    """Negative: the signal that ended it."""
    overran: bool
    """The deadline struck before it ended."""


def reap_others(own: int) -> None:
    """As a container's first process: collect orphans that ended, and leave one's own child be,
    whose exit code its owner waits for."""
    while True:
        try:
            # Looked at and left (WNOWAIT): only then is it known whose it is.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == own:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(ended.si_pid, os.WNOHANG)


class Child:
    """One executor process."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], alive_fd: int | None
    ) -> None:
        """Start it. :raises OSError: it cannot be started; then nothing runs."""
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            pass_fds=() if alive_fd is None else (alive_fd,),
        )
        self._first_process = os.getpid() == 1
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._too_large = False

    def run(
        self, command: bytes, *, budget_s: float, grace_s: float, stop: Stop, size_max: int
    ) -> Ended:
        """Feed the command, collect the result, impose the deadline.

        :param budget_s: until SIGTERM; the child knows a slightly shorter one itself.
        :param grace_s: between SIGTERM, ours or one passed on, and SIGKILL (C-9.4).
        :param size_max: more output than this is dropped and reported as too large.
        """
        limit = time.monotonic() + budget_s
        overran = termed = killed = False
        with selectors.DefaultSelector() as selector:
            pending = self._register(selector, command, stop)
            while self._open(selector):
                now = time.monotonic()
                if (stop.requested or now >= limit) and not termed:
                    overran, termed = overran or not stop.requested, True
                    limit = now + grace_s
                    self._process.terminate()
                elif killed and now >= limit:
                    break  # somebody else keeps its pipes open: a child of the child
                elif termed and now >= limit:
                    self._process.kill()
                    killed, limit = True, now + grace_s
                for key, _ in selector.select(max(0.0, min(limit - now, 1.0))):
                    pending = self._handle(selector, key, pending, size_max, stop)
                if self._first_process:
                    reap_others(self._process.pid)
        exit_code = self._reap(max(0.0, limit - time.monotonic()))
        stdin = self._process.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()
        return Ended(bytes(self._stdout), self._too_large, bytes(self._stderr), exit_code, overran)

    def _reap(self, patience_s: float) -> int:
        try:
            return self._process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _register(self, selector: selectors.BaseSelector, command: bytes, stop: Stop) -> memoryview:
        process = self._process
        assert process.stdin and process.stdout and process.stderr, "all three are pipes"
        for stream in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        selector.register(stop.fd, selectors.EVENT_READ, "stop")
        return memoryview(command)

    @staticmethod
    def _open(selector: selectors.BaseSelector) -> bool:
        names = {key.data for key in selector.get_map().values()}
        return "stdout" in names or "stderr" in names

    def _handle(
        self,
        selector: selectors.BaseSelector,
        key: selectors.SelectorKey,
        pending: memoryview,
        size_max: int,
        stop: Stop,
    ) -> memoryview:
        if key.data == "stop":
            stop.drain()
        elif key.data == "stdin":
            try:
                pending = pending[os.write(key.fd, pending[:_CHUNK]) :]
            except BlockingIOError:
                return pending
            except BrokenPipeError:
                pending = pending[:0]
            if not pending:
                selector.unregister(key.fileobj)  # kept open: see above
        else:
            self._read(selector, key, size_max)
        return pending

    def _read(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey, size_max: int
    ) -> None:
        data = os.read(key.fd, _CHUNK)
        if not data:
            selector.unregister(key.fileobj)
        elif key.data == "stderr":
            self._stderr += data
            del self._stderr[:-STDERR_BYTES_MAX]
        elif self._too_large or len(self._stdout) + len(data) > size_max:
            # Drained all the same: a child that blocks on a full pipe would hold its lock.
            self._too_large = True
            self._stdout.clear()
        else:
            self._stdout += data
