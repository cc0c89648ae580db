"""``python -m tests.matrix STORY [CHOICE …]``: replay one run; without a story, run them all."""

import argparse
import sys
import time

from tests.matrix import explore
from tests.matrix.bed import Bed
from tests.matrix.stories import STORIES
from tests.matrix.strikes import Strike
from tests.sim import fast


def replay(name: str, choices: list[str]) -> int:
    """One run, turn by turn, with every crash where it was."""
    bed = Bed(STORIES[name])
    todo = [choice.split(explore.SEPARATOR) for choice in choices]
    more = True
    try:
        while more:
            strike = None
            if todo and int(todo[0][0]) == bed.turns:
                choice = todo.pop(0)
                if len(choice) == 2:
                    bed.arrive(-1 if choice[1] == "end" else int(choice[1].removeprefix("land")))
                    print(f"{bed.turns:4} {bed.now_s - bed.begun_s:8.1f} s  * {bed.event}")
                    continue
                strike = Strike(int(choice[1]), choice[3])
            more = bed.turn(strike)
            if strike is not None and not _named(bed, strike, choice[2]):
                print(f"there is no {choice[2]} in turn {bed.turns - 1}: the run is another now")
                return 2
            hit = "" if strike is None else f"  * {choice[2]} {strike.kind}"
            steps = ", ".join(bed.hit)
            print(f"{bed.turns - 1:4} {bed.now_s - bed.begun_s:8.1f} s  {bed.event} [{steps}]{hit}")
        bed.story.check(bed)
    except AssertionError as error:
        print(f"VIOLATION: {error}")
        return 1
    print("ended well")
    return 0


def _named(bed: Bed, strike: Strike, name: str) -> bool:
    """What was hit is what the choice says. An executor's steps count from 1 (0: before any)."""
    if bed.event.startswith("executor"):
        return strike.index == 0 or bed.hit[strike.index - 1] == name
    return strike.index < len(bed.hit) and bed.hit[strike.index] == name


def everything(record: bool) -> int:
    """Every story, with its account."""
    begun = time.perf_counter()
    accounts = []
    for story in STORIES.values():
        accounts.append(explore.account(story))
        print("\n".join(explore.lines(accounts[-1])), flush=True)
    print("\n".join(explore.summary([explore.properties(found) for found in accounts])))
    print(f"{time.perf_counter() - begun:.0f} s on one core")
    if record:
        explore.record(accounts)
    return 1 if any(found.failures for found in accounts) else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("story", nargs="?", choices=sorted(STORIES))
    parser.add_argument("choices", nargs="*")
    parser.add_argument("--record", action="store_true", help="write the kept list anew")
    given = parser.parse_args()
    if given.story is None:
        return everything(given.record)
    with fast.parsing_once():
        return replay(given.story, given.choices)


if __name__ == "__main__":
    sys.exit(main())
