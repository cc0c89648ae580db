"""A plan that finds nothing to do, of 1,000 tables: against the client, and with kept facts.

In every round the client of the server (psql, mysql, mariadb) loads the file into an empty
database. Then, on a database that has it: ``ptahk plan`` with an empty state directory (cold: it
loads the declaration into a scratch database), ``ptahk plan`` with the facts kept, and the same
operation as a runner alone, since only its own result has its timings (a plan that is known already
is not published twice). Same server, one after the other; medians. All of it twice: on a server
with the settings that it comes with, and on one that waits for no disk (``fsync = off``, files in
memory), where the client has nothing to wait for.

``planning`` is what the executor counts (``timingsSeconds`` of the summary): reading the kept
facts, reading the live facts twice, comparing and fingerprinting both times. What is not in it:
starting the processes, connecting, the advisory lock, the engine's passes.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._report import Row, median, seconds
from benchmarks._schema import TABLES, declaration
from benchmarks._server import Place, my_place, place
from ptahk.wire import jobspec
from tests.kit.operations import Operator, operator

COLD_MAX = 1.3
PLANNING_MAX_S = 0.3


_SHOWN_S = 0.005


@dataclass
class _Bench:
    """One database that has the declaration already, and what was measured on it."""

    spot: Place
    file: Path
    url: str
    runners: dict[str, Operator]
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def round(self) -> None:
        """Everything once, one after the other."""
        loaded: list[Any] = []
        self.times["client"].append(seconds(lambda: loaded.append(self.spot.load(self.file))))
        loaded[0].drop()
        with tempfile.TemporaryDirectory(dir=self.spot.folder) as empty:
            self.times["cold"].append(seconds(lambda: self._plan(Path(empty))))
        self.times["kept"].append(seconds(lambda: self._plan(self.spot.folder / "state")))
        for name, runner in self.runners.items():
            self._operation(name, runner)

    def _plan(self, state: Path) -> None:
        arguments = ("--engine", self.spot.make, "--schema", str(self.file), "--exit-code")
        self.spot.ptahk(self.url, state, "plan", *arguments)

    def _operation(self, name: str, runner: Operator) -> None:
        done = runner.plan(self.file.read_text(), deadline_s=600)
        if done.reason is not None or done.statements:
            raise RuntimeError(f"no empty plan: {done.frame['error']}")
        timings = done.result["summary"]["timingsSeconds"]
        for step, spent in timings.items():
            self.times[f"{name}: {step}"].append(spent)
        self.times[f"{name} in all"].append(sum(timings.values()))

    def steps(self, name: str) -> str:
        """The medians of the executor's steps, as a note."""
        found = {
            step.removeprefix(f"{name}: "): median(spent)
            for step, spent in self.times.items()
            if step.startswith(f"{name}: ")
        }
        return ", ".join(f"{step} {s:.3f}" for step, s in found.items() if s >= _SHOWN_S)


def rows(rounds: int, version: int) -> list[Row]:
    """The figures of both servers; the bounds are those of the one that is as installed."""
    return [
        row
        for as_installed in (True, False)
        for row in _rows(rounds, place(version, as_installed=as_installed), as_installed)
    ]


def rows_of(make: str) -> Callable[[int, int], list[Row]]:
    """The same of ``mysql`` or ``mariadb``."""

    def rows(rounds: int, _: int) -> list[Row]:
        return [
            row
            for as_installed in (True, False)
            for row in _rows(rounds, my_place(make, as_installed=as_installed), as_installed)
        ]

    return rows


def _rows(rounds: int, where: AbstractContextManager[Place], as_installed: bool) -> list[Row]:
    """The figures of one server. The first round only warms up."""
    with where as spot:
        file = spot.folder / "schema.sql"
        file.write_text(declaration(engine=spot.engine))
        url = spot.load(file).url()
        kept = {jobspec.CACHE_DIR: str(spot.folder / "facts")}
        defaults = {"engine": spot.engine}
        with (
            operator(url, spot.folder, defaults=defaults) as cold,
            operator(url, spot.folder, environment=kept, defaults=defaults) as warm,
        ):
            bench = _Bench(spot, file, url, {"cold": cold, "kept": warm})
            bench.round()
            bench.times.clear()
            for _ in range(rounds):
                bench.round()
    return _report(bench, as_installed)


def _report(bench: _Bench, as_installed: bool) -> list[Row]:
    times = bench.times
    middle = {name: median(values) for name, values in times.items()}
    ratio = median(c / p for c, p in zip(times["cold"], times["client"], strict=True))
    where = "" if as_installed else " (fsync off)"
    client = bench.spot.client
    head = f"empty plan of {TABLES} tables"
    return [
        Row(f"{client} loads {TABLES} tables{where}", middle["client"], "s"),
        Row(f"{head}, cold: whole process{where}", middle["cold"], "s"),
        Row(
            f"{head}, cold: against {client}{where}", ratio, "x", COLD_MAX if as_installed else None
        ),
        Row(
            f"{head}, cold: executor{where}", middle["cold in all"], "s", note=bench.steps("cold")
        ),
        Row(f"{head}, facts kept: whole process{where}", middle["kept"], "s"),
        Row(
            f"{head}, facts kept: planning{where}", middle["kept in all"], "s", PLANNING_MAX_S,
            bench.steps("kept"),
        ),
    ]  # fmt: skip
