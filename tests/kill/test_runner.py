"""SIGKILL to the runner at each of its steps, its executor left an orphan where it has one."""

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points
from tests.kill.pg import Bed
from tests.kill.points import Point

pytestmark = pytest.mark.pg(18)


PLAN = [
    *points("single", "runner", ("Plan",), ("before",), only=("start", "spawn", "frame")),
    *points("single", "runner", ("Plan",), ("after",), only=("spawn", "child", "frame")),
    *points("single", "runner", ("Plan",), ("during",), only=("frame",)),
]
APPLY = [
    *points("concurrent-planned", "runner", ("Apply",)),
    *points("concurrent-planned", "runner", ("Apply",), ("after",)),
    *points("concurrent-planned", "runner", ("Apply",), ("during",), only=("frame",)),
]
PROVE = [
    *points("single-planned", "runner", ("Prove",), ("before",), only=("start", "spawn", "frame")),
    *points("single-planned", "runner", ("Prove",), ("after",), only=("spawn", "child", "frame")),
    *points("single-planned", "runner", ("Prove",), ("during",), only=("frame",)),
]


@pytest.mark.parametrize("point", PLAN, ids=names)
def test_killed_in_a_plan(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single")
    run = bed.strike(point)
    assert run.code == 0, run  # a read-only operation is tried again under a new claim (C-3.3)
    bed.verify()


@pytest.mark.parametrize("point", APPLY, ids=names)
def test_killed_in_an_apply(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("concurrent", planned=True)
    bed.strike(point)
    bed.verify_verdict()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", PROVE, ids=names)
def test_killed_in_a_proof(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single", planned=True)
    bed.strike(point)
    bed.converge()
    bed.verify()
