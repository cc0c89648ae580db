"""SIGKILL to the executor at each request that it sends, alone, with its runner, with everybody.

The backend outlives its client for a moment; that it can neither go on nor be overtaken is what
the proof's lock and the ledger are for.
"""

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points, thorough, thorough_only
from tests.kill.pg import Bed
from tests.kill.points import EVERYBODY, Point

pytestmark = pytest.mark.pg(18)

QUIET = ("ledger-ddl", "read", "constraints", "begin")
LATE = ("ledger-row", "commit", "intent", "statement", "document")
"""Steps after which the world differs from before the next one."""

APPLY = [
    *points("groups-planned", "executor", ("Apply",), without=("rollback", *thorough(QUIET))),
    *points("groups-planned", "executor", ("Apply",), ("after",), only=LATE),
    *points("groups-planned", "executor", ("Apply",), ("during",), only=("document",)),
]
OTHERS = [
    (change, point)
    for change in ("single", "multi", "concurrent")
    for point in points(
        f"{change}-planned", "executor", ("Apply",), ("after",),
        only=("ledger-row", "commit", "intent", *thorough_only("statement"), "finish"),
    )
]  # fmt: skip
TOGETHER = [
    *points("groups-planned", "executor", ("Apply",), only=("commit",), victims=EVERYBODY),
    *points(
        "groups-planned", "executor", ("Apply",), ("after",),
        only=("intent", *thorough_only("statement", "commit"), "document"), victims=EVERYBODY,
    ),
    *points(
        "groups-planned", "executor", ("Prove",), ("after",),
        only=("lock", "commit", "document"), victims=EVERYBODY,
    ),
]  # fmt: skip
ORPHAN = [
    *points(
        "groups-planned", "executor", ("Apply",), only=("lock", "ledger-row", "statement"),
        victims=("runner",),
    ),
    *points(
        "groups-planned", "executor", ("Apply",), ("after",), only=("intent", "commit"),
        victims=("runner",),
    ),
]  # fmt: skip
SCRATCHES = ("scratch-create", "scratch-prepare", "scratch-comment", "scratch-drop")
PLAN = [
    *points("single-uncached", "executor", ("Plan",), only=("lock", "document"), most=1),
    *points(
        "single-uncached", "executor", ("Plan",), ("before", "after"),
        only=(*SCRATCHES, "scratch.load"), most=1,
    ),
]  # fmt: skip
PROVE = [
    *points(
        "single-planned", "executor", ("Prove",), without=("rollback", "read", *thorough(QUIET))
    ),
    *points("single-planned", "executor", ("Prove",), ("after",), only=("commit", "document")),
]


@pytest.mark.parametrize("point", APPLY, ids=names)
def test_killed_in_an_apply(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("groups", planned=True)
    bed.strike(point)
    bed.verify_verdict()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize(
    ("change", "point"), OTHERS, ids=[f"{change}-{point.name}" for change, point in OTHERS]
)
def test_killed_in_an_apply_of(make_bed: Callable[..., Bed], change: str, point: Point) -> None:
    bed = make_bed(change, planned=True)
    bed.strike(point)
    bed.verify_verdict()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", TOGETHER, ids=names)
def test_everything_killed_at_once(make_bed: Callable[..., Bed], point: Point) -> None:
    """As when the machine that runs ptahk reboots."""
    bed = make_bed("groups", planned=True)
    bed.strike(point)
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", ORPHAN, ids=names)
def test_its_runner_killed(make_bed: Callable[..., Bed], point: Point) -> None:
    """An executor without a runner stops (I4); what it did by then is in the ledger."""
    bed = make_bed("groups", planned=True)
    bed.strike(point)
    bed.verify_verdict()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", PLAN, ids=names)
def test_killed_in_a_plan(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single", cached=False)
    run = bed.strike(point)
    assert run.code == 0, run
    bed.verify()
    bed.verify_swept()


@pytest.mark.parametrize("point", PROVE, ids=names)
def test_killed_in_a_proof(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single", planned=True)
    bed.strike(point)
    bed.converge()
    bed.verify()
