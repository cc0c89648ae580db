"""Long-running programs of a test run that any of its processes may stop, freeze and start again.

A component is known by its record, a file below a folder of the run: what to run, and the pid it
has now. ``guard.py`` ends by those records whatever a run leaves behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit import guard
from tests.kit.waiting import until

_TAIL = 3000
_GRACE_S = 20.0
_children: list[subprocess.Popen[bytes]] = []
"""What this process started: kept, so that the interpreter does not complain of them."""


class ComponentDied(Exception):
    """A component ended by itself; carries its last words."""


@dataclass(frozen=True)
class Component:
    """One program below ``folder``: its record, its log, its process."""

    folder: Path
    name: str

    @property
    def record(self) -> Path:
        """The file that tells what runs."""
        return self.folder / guard.COMPONENTS / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """Its standard output and error."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Its process id, or the one that it had last."""
        pid: int = json.loads(self.record.read_text())["pid"]
        return pid

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.record.exists() and not guard.wait_gone(self.pid, 0)

    def tail(self) -> str:
        """The last of its log."""
        return self.log.read_text(errors="replace")[-_TAIL:] if self.log.exists() else ""

    def create(
        self, argv: Sequence[str], env: dict[str, str] | None = None, *, inside: int | None = None
    ) -> None:
        """Start it for the first time.

        :param env: added to this process's environment.
        :param inside: a process whose mount and pid namespaces it enters.
        """
        self.record.parent.mkdir(exist_ok=True)
        self._write({"argv": list(argv), "env": env or {}, "inside": inside, "pid": 0})
        self.start()

    def start(self) -> None:
        """Start it as it was started before. Does not wait until it is ready."""
        told = json.loads(self.record.read_text())
        argv = told["argv"]
        if told["inside"] is not None:
            argv = [
                "nsenter", f"--target={told['inside']}", "--mount", "--pid",
                f"--wd={self.folder}", "--", *argv,
            ]  # fmt: skip
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                argv, cwd=self.folder, env={**os.environ, **told["env"]}, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        _children[:] = [process, *(child for child in _children if child.poll() is None)]
        pid = process.pid
        if told["inside"] is not None:
            pid = until(lambda: only_child(process.pid), f"{self.name} to be started")
        self._write({**told, "pid": pid, "outer": process.pid})

    def _write(self, told: dict[str, object]) -> None:
        partial = self.record.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(told))
        partial.rename(self.record)

    def send(self, sign: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, sign)

    def freeze(self) -> None:
        """SIGSTOP: it lives, and does nothing."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            # nsenter stops itself with its child, and has to go on to be able to end with it.
            os.kill(int(json.loads(self.record.read_text())["outer"]), signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.stop(signal.SIGKILL)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and wait until it is gone."""
        if not self.running:
            return
        pid = self.pid
        os.kill(pid, sign)
        with contextlib.suppress(ProcessLookupError):
            self.thaw()
        if not guard.wait_gone(pid, _GRACE_S):
            raise ComponentDied(f"{self.name} does not end on {sign.name}: {self.tail()}")

    def check(self) -> None:
        """Fail when it has ended.

        :raises ComponentDied: with the last of its log.
        """
        if not self.running:
            raise ComponentDied(f"{self.name} has ended: {self.tail()}")


def only_child(pid: int) -> int | None:
    """The one child of a process, once it has one."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None
