"""``python launch_cli.py POINT ARGUMENT…``: the ptahk command, struck at one of its writes.

A write is one request to the store or to the Jobs. It is named by what the engine was doing, and
so is each step inside the making of a Job.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ptahk.backends.local import jobdir
from ptahk.backends.local import jobs as local_jobs
from ptahk.backends.local.jobs import LocalJobs
from ptahk.commands import _wiring
from ptahk.engine import driver, perform
from ptahk.engine.model.intent import WriteStatus
from ptahk.engine.ports import Ports
from tests.kill.points import Point, Steps, replace
from tests.kit.faults import WRITES, Faults, FaultyJobs, FaultyObjects

T = TypeVar("T")
RUNNER = Path(__file__).with_name("launch_runner.py")


class Struck(Faults):
    """A port's writes as steps of the command."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps
        self.intent = ""

    def run(self, verb: str, key: Any, action: Callable[[], T], document: Any = None) -> T:
        if verb not in WRITES:
            return action()
        with self._steps.step(f"{self.intent or key.kind}-{verb.replace('_', '-')}"):
            return action()


def main() -> int:
    point = Point.decode(sys.argv[1]).of(os.getpid())
    steps = Steps(point, "cli")
    struck = Struck(steps)

    def struck_ports(**given: Any) -> Any:
        given["objects"] = FaultyObjects(given["objects"], struck)
        given["jobs"] = FaultyJobs(given["jobs"], struck)
        return Ports(**given)

    def jobs(*args: Any, **options: Any) -> LocalJobs:
        argv = (sys.executable, "-P", str(RUNNER), point.encode())
        return LocalJobs(*args, **options, runner_argv=argv)

    def performing(ports: Any, document: Any, intent: Any) -> str:
        claim = (document.get("status") or {}).get("activeOperation") or {}
        if isinstance(intent, WriteStatus) and intent.status.active_operation is not None:
            claim = {"type": intent.status.active_operation.type}
        steps.operation = str(claim.get("type") or steps.operation)
        struck.intent = intent.step if isinstance(intent, WriteStatus) else type(intent).__name__
        try:
            return perform.perform(ports, document, intent)
        finally:
            struck.intent = ""

    replace(_wiring, Ports=struck_ports)
    replace(local_jobs, LocalJobs=jobs)  # imported only by commands that need it
    replace(driver, perform=performing)
    for name, function in (("fill", "_fill"), ("name", "_name"), ("start", "_start")):
        _around(steps, name, function)
    from ptahk.cli import main as run

    return run(sys.argv[2:])


def _around(steps: Steps, name: str, function: str) -> None:
    inner = getattr(jobdir, function)

    def outer(*args: Any) -> Any:
        with steps.step(f"job-{name}"):
            return inner(*args)

    replace(jobdir, **{function: outer})


if __name__ == "__main__":
    sys.exit(main())
