"""``python -m tests.sim``: replay one seed, or run many."""

import argparse
import os
import sys

from ptahk.engine.model.migration import MIGRATION
from tests.kit.auditor import Violation
from tests.sim.campaign import timed
from tests.sim.machine import Machine


def one(seed: int, kind: str | None) -> int:
    """Replay a seed and print everything that happened, then how it ended."""
    machine = Machine(seed, kind)
    try:
        report = machine.run()
    except Violation as violation:
        print("\n".join(machine.world.trace))
        print(f"VIOLATION: {violation}")
        return 1
    print("\n".join(machine.world.trace))
    print(f"{report.outcome} ({report.theme}), {report.passes} passes, digest {report.digest}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--kind", choices=[MIGRATION], help="the family; else schema and toy")
    given = parser.parse_args()
    if given.seed is not None:
        return one(given.seed, given.kind)
    return timed(given.first, given.seeds, given.jobs, given.kind)


if __name__ == "__main__":
    sys.exit(main())
