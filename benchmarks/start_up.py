"""Whole-process time of cheap commands against a bare one-command typer app without pydantic.

Interleaved in one run, so that a busy machine slows both alike; the median counts. The bound of
1.3 is on ``digest realm`` and ``--help``; ``digest target`` is shown beside them. A command on a
cluster has the bound against importing the official client: until its first request reaches an API
server that answers at once. Its whole process is shown beside it. Runner and executor are shown as
what their imports add to a bare interpreter.
"""

from __future__ import annotations

import compileall
import contextlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import ptahk
from benchmarks._report import Row, median, seconds
from benchmarks._server import PROGRAM

BOUND = 1.3
BOUNDED = ("digest realm", "--help")
RUNNER_MAX_S = 0.06
CLUSTER = "status on a cluster"
ASKED = "first request"
BARE = """
import typer

app = typer.Typer(add_completion=False)


@app.command()
def greet(name: str = typer.Option("x")) -> None:
    print("digest", name)


app()
"""
COMMANDS = {
    "digest realm": ["digest", "realm", "--engine", "PostgreSQL", "--key", "production/orders"],
    "digest target": ["digest", "target", "--engine", "postgres"],
    "--help": ["--help"],
}


EMPTY = b'{"kind":"PtahSchemaList","metadata":{"resourceVersion":"1"},"items":[]}'
IMPORTS = {
    "python": "pass",
    "client": "import kubernetes.client, kubernetes.config",
    "runner": "import ptahk.runner.__main__",
    "executor": (
        "import ptahk.executor.__main__, ptahk.executor.operations,"
        " ptahk.executor.dialects.postgres.planning_operation"
    ),
}


class _Answers(http.server.BaseHTTPRequestHandler):
    """An API server that has nothing, and when it was last asked for something."""

    asked: ClassVar[list[float]] = []

    def do_GET(self) -> None:
        self.asked.append(time.perf_counter())
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(EMPTY)))
        self.end_headers()
        self.wfile.write(EMPTY)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def _api_server(place: Path) -> Iterator[Path]:
    """The kubeconfig of an API server that answers at once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {}}],
    }
    path = place / "config"
    path.write_text(json.dumps(config))
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()


def _measure(argv: list[str]) -> float:
    """Seconds of one whole process, from before its start to after its end."""
    environment = {**os.environ, "DATABASE_URL": "postgresql://app:x@db.example.com/orders"}
    return seconds(
        lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    )


def _medians(rounds: int) -> dict[str, float]:
    """Seconds by name; ``bare`` and ``python`` are the yardsticks."""
    # pip compiles typer when it installs it; an editable ptahk is compiled here.
    compileall.compile_dir(str(Path(ptahk.__file__).parent), quiet=1)
    with tempfile.TemporaryDirectory() as place, _api_server(Path(place)) as kubeconfig:
        bare = Path(place) / "bare.py"
        bare.write_text(BARE)
        commands = {name: [PROGRAM, *argv] for name, argv in COMMANDS.items()}
        commands[CLUSTER] = [PROGRAM, "status", "--kubeconfig", str(kubeconfig)]
        commands["bare"] = [sys.executable, str(bare)]
        for name, code in IMPORTS.items():
            commands[name] = [sys.executable, "-I", "-c", code]
        times: dict[str, list[float]] = {name: [] for name in (*commands, ASKED)}
        for argv in commands.values():
            _measure(argv)  # warm the file cache and the compiled modules
        for _ in range(rounds):
            for name, argv in commands.items():
                _Answers.asked.clear()
                begun = time.perf_counter()
                times[name].append(_measure(argv))
                if name == CLUSTER:
                    times[ASKED].append(_Answers.asked[0] - begun)
    return {name: median(values) for name, values in times.items()}


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. ``version`` plays no part."""
    middle = _medians(rounds * 5)
    found = [Row("bare typer app, whole process", middle["bare"] * 1e3, "ms")]
    for name in COMMANDS:
        found.append(Row(f"ptahk {name}, whole process", middle[name] * 1e3, "ms"))
        bound = BOUND if name in BOUNDED else None
        found.append(Row(f"ptahk {name}, against it", middle[name] / middle["bare"], "x", bound))
    found += [
        Row("import of the Kubernetes client, whole process", middle["client"] * 1e3, "ms"),
        Row("ptahk status on a cluster, whole process", middle[CLUSTER] * 1e3, "ms"),
        Row("ptahk status on a cluster, first request", middle[ASKED] * 1e3, "ms"),
        Row("... against the import", middle[ASKED] / middle["client"], "x", BOUND),
    ]
    runner, executor = (middle[each] - middle["python"] for each in ("runner", "executor"))
    return [
        *found,
        Row("runner: start beyond bare Python", runner * 1e3, "ms", RUNNER_MAX_S * 1e3),
        Row("executor: start beyond bare Python", executor * 1e3, "ms"),
    ]
