"""The matrix on MySQL and MariaDB: SIGKILL or KILL at every step, and what a rerun does.

DDL commits by itself there, so every killed attempt may leave a part of its plan behind. What it
left is named exactly (``verify_half_done``), nothing of it happens twice (``verify_once``, from
the server's own binary log), and a fresh plan goes on from there.

How the points are dealt: ``rounds``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kill.matrix import points, thorough, thorough_only
from tests.kill.my import Bed, Ground
from tests.kill.points import EVERYBODY, Point
from tests.kill.rounds import FENCE, carry_out, deal, struck_by

RECORD = "family/groups-planned"
QUIET = ("read", "begin", "scratch.read", "rollback")
INSIDE = ("statement-row", "progress")
"""Steps inside a transaction: a kill before them is one after its first write."""
LATE = ("ledger-row", *thorough_only("commit"), "intent", "statement", "finish")
"""Steps after which the world differs from before the next one."""
WITHOUT_A_SESSION = ("start", "document")
"""Steps that no session serves."""


def executor() -> list[list[Point]]:
    apply, prove = ("Apply",), ("Prove",)
    quiet = thorough(QUIET)
    return deal(
        4,
        points(RECORD, "executor", apply, without=(*quiet, *thorough(INSIDE))),
        points(RECORD, "executor", apply, ("after",), only=LATE, victims=EVERYBODY),
        points(RECORD, "executor", apply, ("during", "after"), only=("document",)),
        points(RECORD, "executor", apply, only=("statement", "statement-end"), victims=("runner",)),
        points(RECORD, "executor", prove, without=quiet, victims=EVERYBODY, most=1),
        points(RECORD, "executor", prove, ("after",), only=("commit", "document"), most=1),
        struck_by(EVERYBODY, FENCE),
        points("family/groups-uncached", "executor", ("Plan",), ("before", "after"),
               only=("lock", "scratch-create", "scratch.load", "scratch-drop"), most=2),
    )  # fmt: skip


def thread() -> list[list[Point]]:
    """KILL, as a DBA does it."""
    without = (*WITHOUT_A_SESSION, *thorough(QUIET))
    return deal(
        2,
        points(RECORD, "executor", ("Apply",), without=without, victims=("backend",), most=3),
        points(RECORD, "executor", ("Apply",), ("after",), only=("commit", "statement"),
               victims=("backend",), most=3),
        points(RECORD, "executor", ("Prove",), without=without, victims=("backend",), most=1),
        struck_by(("backend",), FENCE),
    )  # fmt: skip


def server() -> list[list[Point]]:
    return deal(
        1,
        points(RECORD, "executor", ("Apply",), only=("ledger-row", "statement"),
               victims=("server",)),
        points(RECORD, "executor", ("Apply",), ("after",), only=("statement", "intent"),
               victims=("server",), most=3),
        points(RECORD, "executor", ("Prove",), ("after",), only=("lock",), victims=("server",),
               most=1),
        struck_by(("server",), FENCE[:1]),
    )  # fmt: skip


def runner() -> list[list[Point]]:
    return deal(
        1,
        points(RECORD, "runner", ("Apply",), ("before", "after")),
        points(RECORD, "runner", ("Apply", "Prove"), ("during",), only=("frame",)),
        points(RECORD, "runner", ("Prove",), only=("start", "spawn", "frame"),
               victims=("runner", "cli")),
    )  # fmt: skip


def command() -> list[list[Point]]:
    return deal(
        2,
        points(RECORD, "cli", ("Apply", "Prove")),
        points(RECORD, "cli", ("Apply",), ("after",), only=(
            "DispatchJob-replace-status", "job-name", "job-start", "ClearClaim-replace-status")),
    )  # fmt: skip


HANDS = {
    f"{deck.__name__}-{number}": (deck, number)
    for deck in (executor, thread, server, runner, command)
    for number in range(len(deck()))
}


@pytest.mark.parametrize("hand", list(HANDS))
def test_killed_at_every_step(
    my_make: str,
    my_ground: Ground,
    make_my_bed: Callable[..., Bed],
    hand: str,
    record_property: Callable[[str, object], None],
) -> None:
    deck, number = HANDS[hand]
    struck = carry_out(make_my_bed, "groups", deck()[number])
    record_property("struck", f"{my_make}, {hand}: killed {struck} times")
