"""How the points of MySQL's and MariaDB's matrices are dealt over beds.

A run of ptahk takes a second, most of it to begin and to end. So one bed is struck several times,
each time at a point of what its next command has to do, until the change is complete or the bed has
seen enough; then it has to converge and to be accounted for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.kill.matrix import THOROUGH, names
from tests.kill.my import Bed
from tests.kill.points import EVERYBODY, Point

STRIKES_MAX = 6
"""To one bed."""
SHARE = 1 if THOROUGH else 5
"""Of how many points one is struck; all of them, some 220 of a schema on each make, with a budget
above 1."""
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


def deal(hands: int, *groups: Iterable[Point], share: int = SHARE) -> list[list[Point]]:
    """The points in so many hands, alike.

    :param share: of how many in a hand one is struck.
    """
    deck = [point for group in groups for point in group]
    return [deck[at::hands][::share] for at in range(hands)]


def struck_by(victims: tuple[str, ...], found: Iterable[Point]) -> list[Point]:
    """The same points, with these victims."""
    return [Point(**{**point.__dict__, "victims": victims}) for point in found]


class Round:
    """Beds that are struck one after the other, until no point is left."""

    def __init__(self, make_bed: Callable[..., Bed], change: str, hand: Iterable[Point]) -> None:
        self._make_bed = make_bed
        self._change = change
        self._hand = list(hand)
        self.struck = 0

    def play(self) -> None:
        """Strike at every point, and see every bed to its end."""
        while self._hand:
            first = self._hand[0]
            planned, cached = first.operation != "Plan", first.step[:7] != "scratch"
            bed = self._make_bed(self._change, again=True, planned=planned, cached=cached)
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


def carry_out(make_bed: Callable[..., Bed], change: str, given: list[Point]) -> int:
    """Strike a hand of points, each once. :returns: how many."""
    assert given
    print("\n".join(names(point) for point in given))
    played = Round(make_bed, change, given)
    played.play()
    assert played.struck == len(given)
    return played.struck
