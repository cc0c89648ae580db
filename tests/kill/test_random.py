"""Several strikes in a row, wherever they fall: also on the recovery, and on its recovery."""

import dataclasses
import random
from collections.abc import Callable

import pytest

from tests.kill.matrix import points
from tests.kill.pg import CHANGES, Bed
from tests.kill.points import EVERYBODY, Point
from tests.kit import budget

pytestmark = pytest.mark.pg(18)

STRIKES = 3
ALONE: dict[str, list[tuple[str, ...]]] = {
    "cli": [("cli",)],
    "runner": [("runner",), ("cli", "runner")],
    "executor": [("executor",), ("runner",), EVERYBODY, ("backend",), ("server",), ("cli",)],
}


def draw(dice: random.Random, record: str, left: int) -> Point:
    """Any step of any process, before or after it; any victims that can be reached from there."""
    process = dice.choice(("cli", "runner", "executor", "executor"))
    operations = ("Plan", "Apply", "Prove") if left > 1 else ("Apply", "Prove")
    when = ("before", "after")
    point = dice.choice(points(record, process, operations, when))
    victims = dice.choice(ALONE[process])
    if point.step in ("start", "document") and victims[0] in ("backend", "server"):
        victims = (process,)  # nothing of the server serves these
    return dataclasses.replace(point, victims=victims)


@pytest.mark.parametrize("seed", range(budget.scaled(8)))
def test_struck_several_times(make_bed: Callable[..., Bed], seed: int) -> None:
    dice = random.Random(seed)
    change = dice.choice(list(CHANGES))
    bed = make_bed(change, planned=dice.random() < 0.5)
    record = f"{change}-planned" if bed.planned else change
    drawn = []
    for left in range(STRIKES, 0, -1):
        point = draw(dice, record, left)
        drawn.append(f"{point.name} of {point.process}, victims {point.victims}")
        bed.mark.unlink(missing_ok=True)
        run = bed.run(point=point)
        bed.ground.ready()
        if run.code == 0:
            break
    print("\n".join(drawn))  # with the seed, all that it takes to repeat this
    bed.converge()
    bed.verify()
