"""``python -m tests.model``: a campaign over every world, one process each, or one path again."""

import argparse
import os
import sys

from tests.model.campaign import campaign, parts_of
from tests.model.explore import CONFIGS, Bounds, Explorer
from tests.model.parts import key
from tests.sim import fast


def replay(bounds: Bounds, moves: list[int]) -> int:
    """Follow one path and print what happens."""
    with fast.parsing_once():
        explorer = Explorer(bounds)
        state = explorer.world.initial()
        for line, after in explorer.follow(moves):
            print(line)
            if isinstance(after, Exception):
                print(f"VIOLATION: {after}")
                return 1
            state = after
        print(f"state {key(state):016x}" + (", resolved" if explorer.world.resolved(state) else ""))
        for part in (*state.documents, *state.jobs, state.database):
            print(part.content)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--world", choices=sorted(CONFIGS), help="this one alone")
    parser.add_argument("--faults", type=int, default=1, help="at most so many on one path")
    parser.add_argument(
        "--states",
        type=int,
        default=0,
        help="of one exploration are enough; 0: all there are",
    )
    parser.add_argument("--kinds", help="these kinds of faults alone, with commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", help="follow this path: numbers with commas")
    given = parser.parse_args()
    kinds = None if given.kinds is None else tuple(given.kinds.split(","))
    worlds = [given.world] if given.world else sorted(CONFIGS)
    if given.replay is not None:
        moves = [int(number) for number in given.replay.split(",") if number]
        return replay(Bounds(worlds[0], given.faults, None, kinds), moves)
    bounds = [
        part for world in worlds
        for part in parts_of(world, given.faults, given.states or None, kinds, given.jobs)
    ]  # fmt: skip
    return campaign(bounds, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
