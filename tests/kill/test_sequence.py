"""SIGKILL at each step of a migration's Apply: what the rows say is what the database shows.

The account afterwards is Failed, Partial at k, Unknown at k, or done; the same command, with a
person's word where nobody saw a statement end, finishes, and no statement is effective twice.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kill.matrix import names, points, thorough
from tests.kill.pg import Bed
from tests.kill.points import EVERYBODY, Point

pytestmark = pytest.mark.pg(18)

QUIET = ("ledger-ddl", "read", "begin", "constraints", "progress")
LATE = ("ledger-row", "commit", "statement", "document")
MOST = 2
"""Of the points at steps of one name, by default."""
APPLY = [
    *points(
        "sequence-planned",
        "executor",
        ("Apply",),
        without=("rollback", *thorough(QUIET)),
        most=MOST,
    ),
    *points("sequence-planned", "executor", ("Apply",), ("after",), only=LATE, most=MOST),
]
TOGETHER = points(
    "sequence-planned", "executor", ("Apply",), ("after",), only=("commit", "document"),
    victims=EVERYBODY, most=MOST,
)  # fmt: skip


def states(bed: Bed) -> list[tuple[str, str, int, int, int | None]]:
    """(version, state, applied, total, running) as the rows have them."""
    if not bed.rows("SELECT to_regclass('ptahk.revisions') IS NOT NULL")[0][0]:
        return []
    return [
        (str(row[0]), str(row[1]), row[2], row[3], row[4])
        for row in bed.rows(
            "SELECT version, state, applied, total, running FROM ptahk.revisions ORDER BY ordinal"
        )
    ]


def verify_rows(bed: Bed) -> None:
    """What the rows count as applied is exactly what took effect, save the one marked."""
    counted = sum(applied for _, _, applied, _, _ in states(bed))
    marked = sum(running is not None for *_, running in states(bed))
    done = {text for _, text, event in bed.effects() if event == "ddl_command_end"}
    assert counted <= len(done) <= counted + marked, (states(bed), done)


@pytest.mark.parametrize("point", APPLY, ids=names)
def test_killed_in_a_sequence(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("sequence", planned=True)
    bed.strike(point)
    bed.verify_verdict()
    verify_rows(bed)
    bed.converge()
    bed.verify()
    assert {state for _, state, *_ in states(bed)} == {"applied"}


@pytest.mark.parametrize("point", TOGETHER, ids=names)
def test_everybody_killed_in_a_sequence(make_bed: Callable[..., Bed], point: Point) -> None:
    bed = make_bed("sequence", planned=True)
    bed.strike(point)
    verify_rows(bed)
    bed.run()
    bed.converge()
    bed.verify()
    assert {state for _, state, *_ in states(bed)} == {"applied"}
