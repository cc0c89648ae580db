"""Planted bugs: each sabotage of the engine must be noticed, alone and beside another one.

One process a hunt; the seed that caught it the last time comes first (``killers.json``, written by
``python -m tests.sim.hunt --refresh``), then the others. ``make mutants`` hunts all pairs.
"""

import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.budget import scaled
from tests.sim import hunt
from tests.sim.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
PAIRS = 60
SAMPLE = random.Random(1).sample(hunt.pairs(), min(scaled(PAIRS), len(hunt.pairs())))


def test_every_sabotage_fits_exactly_once() -> None:
    """A change of the engine cannot disarm one unseen; and what is planted is Python."""
    for mutant in MUTANTS:
        text = hunt.planted(mutant.file, [mutant])
        assert text != (hunt.ENGINE / mutant.file).read_text()
        compile(text, mutant.file, "exec")
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_sabotage_that_does_not_fit_is_refused() -> None:
    gone = dataclasses.replace(MUTANTS[0], old="    this line was refactored away\n")
    with pytest.raises(ValueError, match="fits 0 times"):
        hunt.planted(gone.file, [gone])


def test_what_is_planted_runs_in_that_process_alone() -> None:
    text = (
        "from tests.sim import hunt, mutants\n"
        "hunt.plant([mutants.named('expiry-is-release')])\n"
        "from ptahk.engine import lease\n"
        "print('holder_settled' in lease._foreign.__code__.co_names)\n"
    )
    for planted, known in ((text, "False"), (text.replace("hunt.plant", "str"), "True")):
        found = subprocess.run(
            [sys.executable, "-c", planted], cwd=ROOT, check=True, capture_output=True, text=True
        )
        assert found.stdout.strip() == known


def caught(*names: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.sim.hunt", *names],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS])
def test_each_is_caught(name: str) -> None:
    caught(name)


@pytest.mark.parametrize("pair", SAMPLE, ids=lambda pair: "+".join(one.name for one in pair))
def test_each_two_are_caught(pair: tuple[hunt.Mutant, hunt.Mutant]) -> None:
    caught(*(one.name for one in pair))
