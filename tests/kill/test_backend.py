"""The server's process that serves the Apply is killed: by a DBA, and by SIGKILL.

A SIGKILLed backend makes the server restart all the others, so the proof may meet a server that
is just starting.
"""

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points, thorough, thorough_only
from tests.kill.pg import Bed
from tests.kill.points import Point

pytestmark = pytest.mark.pg(18)

QUIET = ("ledger-ddl", "read", "constraints", "begin")
TERMINATED = [
    *points(
        "groups-planned", "executor", ("Apply",),
        without=("rollback", "start", "document", *thorough(QUIET)), victims=("backend",),
    ),
    *points("groups-planned", "executor", ("Apply",), ("after",), only=("commit",),
            victims=("backend",)),
]  # fmt: skip
CRASHED = [
    *points(
        "groups-planned", "executor", ("Apply",),
        only=("ledger-row", "statement", *thorough_only("progress")), victims=("server",),
    ),
    *points(
        "groups-planned", "executor", ("Apply",), ("after",),
        only=("commit", "intent", *thorough_only("lock", "statement")),
        victims=("server",),
    ),
]  # fmt: skip
READING = [
    *points("single-uncached", "executor", ("Plan",), ("after",),
            only=("lock", "scratch-create", "scratch.load"), victims=("backend",), most=1),
    *points("single-planned", "executor", ("Prove",), ("after",), only=("lock", "commit"),
            victims=("backend",)),
    *points("single-planned", "executor", ("Prove",), ("after",), only=("lock", "commit"),
            victims=("server",)),
]  # fmt: skip


@pytest.mark.parametrize("point", TERMINATED, ids=names)
def test_terminated_in_an_apply(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("groups", planned=True)
    bed.strike(point)
    bed.verify_verdict()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", CRASHED, ids=names)
def test_crashed_in_an_apply(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("groups", planned=True)
    bed.strike(point)
    bed.ground.ready()
    bed.converge()
    bed.verify()


@pytest.mark.parametrize("point", READING, ids=names)
def test_killed_in_a_read(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("single", planned=point.operation == "Prove", cached=False)
    bed.strike(point)
    bed.ground.ready()
    bed.converge()
    bed.verify()
    if point.operation == "Plan":
        bed.verify_swept()
