"""``python -m benchmarks [NAME…]``: run them, print one table, exit 1 where a bound is missed.

Bounds are checked here and not in tests: a test that fails because a machine is busy says nothing.
See docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping

from benchmarks import (
    applying,
    passes,
    planning,
    reviewing,
    sequences,
    serving,
    start_up,
    watching,
)
from benchmarks._report import Row, table

BENCHMARKS: Mapping[str, Callable[[int, int], list[Row]]] = {
    "start_up": start_up.rows,
    "passes": passes.rows,
    "planning": planning.rows,
    "planning_mysql": planning.rows_of("mysql"),
    "planning_mariadb": planning.rows_of("mariadb"),
    "applying": applying.rows,
    "sequences": sequences.rows,
    "watching": watching.rows,
    "serving": serving.rows,
    "reviewing": reviewing.rows,
}


def main() -> int:
    """Run what was asked for. :returns: 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=5, help="more for a busy machine")
    parser.add_argument("--pg", type=int, default=18, help="PostgreSQL version (15, 17 or 18)")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    python = platform.python_version()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"Python {python}, PostgreSQL {options.pg}, {os.cpu_count()} processors, load {load}")
    rows: list[Row] = []
    for name, run in BENCHMARKS.items():
        if not options.names or name in options.names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += run(options.rounds, options.pg)
    print(table(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
