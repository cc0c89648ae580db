"""SIGKILL or KILL at each step of a migration's Apply on MySQL and MariaDB.

Of every file the rows then say Failed, Partial at k, Unknown at k or Applied, and that is what took
effect (``SequenceBed.verify_rows``): definitions by the server's own binary log, rows by how often
they are there. Only what happened between the file's own table locks is ever unknown. A person's
word there, and the same command again, end with every statement effective once.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kill.matrix import THOROUGH, points, thorough
from tests.kill.my import Ground, SequenceBed
from tests.kill.points import EVERYBODY, Point
from tests.kill.rounds import FENCE, carry_out, deal, struck_by

RECORD = "family/sequence-planned"
SHARE = 1 if THOROUGH else 15
"""Of how many points one is struck; all of them, some 600 on each make, with a budget above 1."""
TOGETHER = 12
"""Points of one test."""
QUIET = ("read", "begin", "rollback", "unlock")
INSIDE = ("statement-row", "progress", "revision-mark", "revision-progress", "intent")
"""Steps inside a transaction: a kill before one is one after its first write."""
LATE = ("ledger-row", "revision-row", "commit", "statement")
"""Steps after which the world differs from before the next one."""
BETWEEN = [Point("executor", "Apply", "statement", number, "after") for number in (11, 12, 13)]
"""After what stands between the locks of the third file; in every run."""


def executor() -> list[list[Point]]:
    quiet = thorough(QUIET)
    (deck,) = deal(
        1,
        points(RECORD, "executor", ("Apply",), without=(*quiet, *thorough(INSIDE))),
        points(RECORD, "executor", ("Apply",), ("after",), only=LATE, victims=EVERYBODY),
        points(RECORD, "executor", ("Apply",), ("during", "after"), only=("document",)),
        struck_by(EVERYBODY, FENCE),
        share=SHARE,
    )  # fmt: skip
    return _hands([*struck_by(EVERYBODY, BETWEEN[:2]), *deck])


def session() -> list[list[Point]]:
    """KILL, as a DBA does it, and the server's own end."""
    without = ("start", "document", *thorough((*QUIET, *INSIDE)))
    (deck,) = deal(
        1,
        points(RECORD, "executor", ("Apply",), without=without, victims=("backend",)),
        points(RECORD, "executor", ("Apply",), ("after",), only=LATE, victims=("backend",)),
        points(RECORD, "executor", ("Apply",), ("after",), only=("statement",),
               victims=("server",)),
        share=SHARE,
    )  # fmt: skip
    return _hands([*struck_by(("backend",), BETWEEN[2:]), *deck])


def _hands(points_: list[Point]) -> list[list[Point]]:
    """What two processes can do beside each other; of many points so many each."""
    once = list(dict.fromkeys(points_))
    count = max(2, -(-len(once) // TOGETHER))
    return [once[at::count] for at in range(count)]


HANDS = {
    f"{deck.__name__}-{number}": (deck, number)
    for deck in (executor, session)
    for number in range(len(deck()))
}


@pytest.mark.parametrize("hand", list(HANDS))
def test_killed_in_a_sequence(
    my_make: str,
    my_ground: Ground,
    make_my_bed: Callable[..., SequenceBed],
    hand: str,
    record_property: Callable[[str, object], None],
) -> None:
    deck, number = HANDS[hand]
    struck = carry_out(make_my_bed, "sequence", deck()[number])
    record_property("struck", f"{my_make}, sequence, {hand}: killed {struck} times")
