"""2,000 seeds of the simulator in each default run, 200 more of the migration family, and the
seeds that once failed.

What they covered is in the run's summary. ``make sim SEEDS=20000`` runs a campaign, which fails
where shares of outcomes or hits of crash points are too few.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ptahk.engine.model.migration import MIGRATION
from tests.kit.budget import scaled
from tests.sim import campaign
from tests.sim.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 2000
SEQUENCES = 200
"""Of the migration family; the others draw schema or toy."""
KEPT = [
    (kind or None, int(seed))
    for kind, _, seed in (
        path.stem.rpartition("-")
        for path in sorted((Path(__file__).parent / "seeds").glob("*.txt"))
    )
]


CASES = [(None, first) for first in range(0, scaled(SEEDS), campaign.CHUNK)]
CASES += [(MIGRATION, first) for first in range(0, scaled(SEQUENCES), campaign.CHUNK)]


@pytest.mark.parametrize(("kind", "first"), CASES)
def test_seeds(
    kind: str | None, first: int, record_property: Callable[[str, object], None]
) -> None:
    whole = campaign.run_many(range(first, first + campaign.CHUNK), kind)
    record_property(campaign.PROPERTY, whole.text())
    assert not whole.failures, "\n".join(whole.failures)


def test_kept_seeds() -> None:
    """Each found a fault once; ``seeds/SEED.txt`` says which, ``KIND-SEED.txt`` of a family."""
    for kind, seed in KEPT:
        whole = campaign.run_many([seed], kind)
        assert not whole.failures, "\n".join(whole.failures)


def test_a_seed_repeats_byte_for_byte() -> None:
    """In another process, with other hashes; and with documents copied instead of shared."""
    for seed in (3, 11, 40):
        machine = Machine(seed)
        first = machine.run().digest
        found = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", str(seed)],
            cwd=ROOT, check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONHASHSEED": "7"},
        )  # fmt: skip
        assert found.stdout.splitlines()[-1].endswith(first)
        copied = Machine(seed)
        for site in copied.world.sites:
            site.api.shared = False
        assert copied.run().digest == first, "the engine wrote into a document that it had read"


def test_a_failing_seed_prints_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world whose bound cannot be kept fails, and says how to see it again."""
    monkeypatch.setattr("tests.sim.machine.HEALED_TURNS", 0)
    whole = campaign.run_many(range(10))
    assert whole.failures, "every one of these seeds was at rest before anything was healed"
    assert ".venv/bin/python -m tests.sim --seed " in whole.failures[0]
