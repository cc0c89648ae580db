"""The heart of the matrix on the oldest server that is tested."""

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points
from tests.kill.pg import Bed
from tests.kill.points import EVERYBODY, Point

pytestmark = pytest.mark.pg(15)

RECORD = "concurrent-planned"
STEPS = ("ledger-row", "statement", "commit", "intent", "document")
STRUCK = [
    *points(RECORD, "executor", ("Apply",), ("after",), only=STEPS),
    *points(RECORD, "executor", ("Apply",), ("after",), only=("intent",), victims=EVERYBODY),
    *points(RECORD, "executor", ("Apply",), ("after",), only=("commit",), victims=("backend",)),
    *points(RECORD, "executor", ("Apply",), ("after",), only=("statement",), victims=("server",)),
]


@pytest.mark.parametrize(
    "point",
    STRUCK,
    ids=[f"{'-'.join(point.victims) or 'alone'}-{names(point)}" for point in STRUCK],
)
def test_killed_in_an_apply(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("concurrent", planned=True)
    bed.strike(point)
    bed.ground.ready()
    bed.converge()
    bed.verify()
