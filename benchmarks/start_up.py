"""Whole-process time of cheap commands against a bare one-command typer app without pydantic.

Interleaved in one run, so that a busy machine slows both alike; the median counts. The bound of
1.3 (issue 3) is on ``digest realm`` and ``--help``; ``digest target`` is shown beside them. Run:
``python benchmarks/start_up.py [--rounds N] [--json]``.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ptahk

BOUND = 1.3
BOUNDED = ("digest realm", "--help")
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


def measure(argv: list[str]) -> float:
    """Seconds of one whole process, from before its start to after its end."""
    environment = {**os.environ, "DATABASE_URL": "postgresql://app:x@db.example.com/orders"}
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def run(rounds: int) -> dict[str, float]:
    """Median seconds by name; ``bare`` is the yardstick."""
    # pip compiles typer when it installs it; an editable ptahk is compiled here.
    compileall.compile_dir(str(Path(ptahk.__file__).parent), quiet=1)
    with tempfile.TemporaryDirectory() as place:
        bare = Path(place) / "bare.py"
        bare.write_text(BARE)
        # The installed program, as users start it; beside its interpreter.
        program = str(Path(sys.executable).with_name("ptahk"))
        commands = {name: [program, *argv] for name, argv in COMMANDS.items()}
        commands["bare"] = [sys.executable, str(bare)]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for argv in commands.values():
            measure(argv)  # warm the file cache and the compiled modules
        for _ in range(rounds):
            for name, argv in commands.items():
                times[name].append(measure(argv))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print the figures; exit 1 when a command is beyond the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    medians = run(options.rounds)
    ratios = {name: medians[name] / medians["bare"] for name in COMMANDS}
    if options.json:
        print(json.dumps({"bound": BOUND, "secondsMedian": medians, "ratio": ratios}, indent=2))
    else:
        print(f"{'bare typer app':<16} {medians['bare'] * 1000:7.1f} ms")
        for name in COMMANDS:
            limit = f" (at most {BOUND})" if name in BOUNDED else ""
            print(f"{name:<16} {medians[name] * 1000:7.1f} ms  x{ratios[name]:.2f}{limit}")
    return 0 if all(ratios[name] <= BOUND for name in BOUNDED) else 1


if __name__ == "__main__":
    sys.exit(main())
