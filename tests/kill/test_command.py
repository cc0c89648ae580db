"""SIGKILL to the command at each of its writes; the same command again ends converged."""

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points
from tests.kill.pg import Bed
from tests.kill.points import Point

pytestmark = pytest.mark.pg(18)

FROM_DECLARATION = [
    *points("single", "cli", ("Plan",)),
    *points("single", "cli", ("Plan",), ("after",), only=("job-name", "job-start")),
]
FROM_PLAN = [
    *points("single-planned", "cli", ("Apply", "Prove")),
    *points("single-planned", "cli", ("Apply", "Prove"), ("after",), only=(
        "DispatchJob-replace-status", "job-name", "job-start", "ClearClaim-replace-status",
    )),
]  # fmt: skip


@pytest.mark.parametrize("point", FROM_DECLARATION, ids=names)
def test_killed_from_a_declaration(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single")
    bed.strike(point)
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", FROM_PLAN, ids=names)
def test_killed_from_a_plan_file(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single", planned=True)
    bed.strike(point)
    bed.converge()
    bed.verify()
