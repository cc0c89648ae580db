"""The matrix on MySQL and MariaDB: SIGKILL or KILL at every step, and what a rerun does.

DDL commits by itself there, so every killed attempt may leave a part of its plan behind. What it
left is named exactly (``verify_half_done``), nothing of it happens twice (``verify_once``, from
the server's own binary log), and a fresh plan goes on from there.

A run of ptahk takes a second, most of it to begin and to end. So the points are dealt: one bed is
struck several times, each time at a point of what its next command has to do, until the change is
complete or the bed has seen enough; then it has to converge and to be accounted for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.kill.matrix import THOROUGH, names, points, thorough, thorough_only
from tests.kill.my import Bed, Ground
from tests.kill.points import EVERYBODY, Point

RECORD = "family/groups-planned"
STRIKES_MAX = 6
"""To one bed."""
SHARE = 1 if THOROUGH else 3
"""Of how many points one is struck; all of them, some 220 on each make, with a budget above 1."""
QUIET = ("read", "begin", "scratch.read", "rollback")
INSIDE = ("statement-row", "progress")
"""Steps inside a transaction: a kill before them is one after its first write."""
LATE = ("ledger-row", *thorough_only("commit"), "intent", "statement", "finish")
"""Steps after which the world differs from before the next one."""
FIRST = ("ledger-ddl", "finish", "ConsumeApproval-replace-status")
"""Steps that only an Apply on a bed of its own is sure to come to."""
FENCE = [
    Point("executor", "Prove", step, number, when)
    for when in ("before", "after")
    for step, number in (("fence", 1), ("statement-end", 1))
]
"""Of a proof that finds an attempt unfinished; it has no record of its own."""
FED = {(point.operation, point.step) for point in FENCE}
FEEDER = Point("executor", "Apply", "statement", 1, "after", EVERYBODY)
WITHOUT_A_SESSION = ("start", "document")
"""Steps that no session serves."""


def deal(hands: int, *groups: Iterable[Point]) -> list[list[Point]]:
    """The points in so many hands, alike."""
    deck = [point for group in groups for point in group]
    return [deck[at::hands][::SHARE] for at in range(hands)]


def struck_by(victims: tuple[str, ...], found: Iterable[Point]) -> list[Point]:
    """The same points, with these victims."""
    return [Point(**{**point.__dict__, "victims": victims}) for point in found]


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


class Round:
    """Beds that are struck one after the other, until no point is left."""

    def __init__(self, make_bed: Callable[..., Bed], hand: Iterable[Point]) -> None:
        self._make_bed = make_bed
        self._hand = list(hand)
        self.struck = 0

    def play(self) -> None:
        """Strike at every point, and see every bed to its end."""
        while self._hand:
            first = self._hand[0]
            planned, cached = first.operation != "Plan", first.step[:7] != "scratch"
            bed = self._make_bed("groups", again=True, planned=planned, cached=cached)
            if (first.operation, first.step) in FED:
                self._strike(bed, FEEDER)
            self._strike(bed, self._hand.pop(0))
            while len(bed.runs) < STRIKES_MAX and not bed.heed():
                point = self._next(bed)
                if point is None or not self._strike(bed, point):
                    break
            bed.converge()
            bed.verify()

    def _strike(self, bed: Bed, point: Point) -> bool:
        """Run the bed's command to its end; False where it ended without having been struck."""
        fresh, alone = not bed.runs, "cli" not in (point.victims or (point.process,))
        bed.mark.unlink(missing_ok=True)
        run = bed.run(point=point)
        bed.ground.ready()
        if not bed.struck:
            assert not fresh, f"{point.name} was never reached: {run}"
            self._hand.append(point)  # on a bed of its own
            return False
        self.struck += point is not FEEDER
        bed.verify_once()
        if alone:
            bed.verify_verdict()
        return True

    def _next(self, bed: Bed) -> Point | None:
        """A point of what the bed's next command begins with."""
        for at, point in enumerate(self._hand):
            if bed.owes_a_proof():
                fits = point.operation == "Prove"
            else:
                fits = point.operation != "Prove" and point.step not in FIRST
            if fits:
                return self._hand.pop(at)
        return None


@pytest.mark.parametrize("hand", list(HANDS))
def test_killed_at_every_step(
    my_make: str,
    my_ground: Ground,
    make_my_bed: Callable[..., Bed],
    hand: str,
    record_property: Callable[[str, object], None],
) -> None:
    deck, number = HANDS[hand]
    given = deck()[number]
    assert given, hand
    print("\n".join(names(point) for point in given))
    played = Round(make_my_bed, given)
    played.play()
    assert played.struck == len(given)
    record_property("struck", f"{my_make}, {hand}: killed {played.struck} times")
