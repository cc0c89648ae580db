"""Every durable step has a name, and is in the record that the other tests are made from."""

import os
from collections.abc import Callable

import pytest

from tests.kill.bed import CHANGES, Bed, Ground
from tests.kill.matrix import FOLDER, by_process, recorded
from tests.kill.points import Point


@pytest.mark.pg(18)
@pytest.mark.parametrize("start", ["", "-planned", "-uncached"])
@pytest.mark.parametrize("change", [*CHANGES, "sequence"])
def test_every_step_has_a_name(
    ground: Ground, make_bed: Callable[..., Bed], change: str, start: str
) -> None:
    record = f"{change}{start}"
    if start == "-planned":
        ground.place(change).plan()  # what an older plan knows of the database is read once more
    bed = make_bed(change, planned=start == "-planned", cached=start != "-uncached")
    run = bed.run(point=Point(steps=str(bed.steps)))
    assert run.code == 0, run
    bed.verify()
    lines = by_process(bed.steps.read_text().splitlines())
    if os.environ.get("PTAHK_KILL_RECORD") == "1":
        (FOLDER / f"{record}.txt").write_text("\n".join(lines) + "\n")
    assert lines == recorded(record), "a new step? see docs/testing.md"
