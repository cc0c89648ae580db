"""Every durable step has a name, and is in the record that the other tests are made from."""

import os
from collections.abc import Callable

import pytest

from tests.kill import bed as beds
from tests.kill import my, pg
from tests.kill.matrix import FOLDER, by_process, recorded
from tests.kill.points import Point

STARTS = ("", "-planned", "-uncached")


def walk(ground: beds.Ground, make_bed: Callable[..., beds.Bed], record: str) -> None:
    """One undisturbed apply; its steps are those of the record."""
    change, _, start = record.rpartition("/")[2].partition("-")
    if start == "planned":
        ground.place(change).plan()  # what an older plan knows of the database is read once more
    bed = make_bed(change, planned=start == "planned", cached=start != "uncached")
    run = bed.run(point=Point(steps=str(bed.steps)))
    assert run.code == 0, run
    bed.verify()
    lines = by_process(bed.steps.read_text().splitlines())
    if os.environ.get("PTAHK_KILL_RECORD") == "1":
        path = FOLDER / f"{record}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    assert lines == recorded(record), "a new step? see docs/testing.md"


@pytest.mark.pg(18)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("change", [*pg.CHANGES, pg.SEQUENCE.name])
def test_every_step_has_a_name(
    ground: pg.Ground, make_bed: Callable[..., pg.Bed], change: str, start: str
) -> None:
    walk(ground, make_bed, f"{change}{start}")


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("change", [*my.CHANGES, my.SEQUENCE.name])
def test_every_step_has_a_name_in_the_family(
    my_ground: my.Ground, make_my_bed: Callable[..., my.Bed], change: str, start: str
) -> None:
    walk(my_ground, make_my_bed, f"family/{change}{start}")
