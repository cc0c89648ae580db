"""Every durable step of every story × every way to crash there, and the same again in recovery.

A failure names the first and the second crash, and the command that replays just that one.
``python -m tests.matrix`` runs the same without pytest and prints the account of each story.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from ptahk.engine import perform
from ptahk.engine.model import intent
from tests.matrix import explore
from tests.matrix.stories import STORIES
from tests.sim import points

ROOT = Path(__file__).resolve().parents[2]
NAMED = {
    intent.AcquireLease: "AcquireLease",
    intent.RenewLease: "RenewLease",
    intent.ReleaseLease: "ReleaseLease",
    intent.DispatchJob: "DispatchMark CreateJob",
    intent.Publish: "Publish",
    intent.SetJobTtl: "SetJobTtl",
    intent.EditFinalizers: "AddFinalizer RemoveFinalizer",
    intent.Prune: "Prune",
}
"""Intent → the names of its durable writes; those of ``WriteStatus`` are its own steps."""


@pytest.mark.parametrize("name", STORIES)
def test_every_pair(name: str, record_property: Callable[[str, object], None]) -> None:
    found = explore.account(STORIES[name])
    record_property("crash matrix", explore.properties(found))
    assert not found.failures, "\n".join(found.failures)
    assert sorted(found.found) == explore.kept()[name], (
        "other durable steps than tests/matrix/steps.txt: python -m tests.matrix --record"
    )


def test_every_durable_write_is_in_the_matrix() -> None:
    """The kept list has every write that the engine's intents can make, and every step."""
    named = set(get_args(intent.StatusStep))
    for item in get_args(intent.Intent):
        named |= set() if item is intent.WriteStatus else set(NAMED[item].split())
    covered = {step for steps in explore.kept().values() for step in steps}
    assert named | set(points.EXECUTOR_STEPS) == covered


def test_sharing_changes_no_verdict_and_no_count() -> None:
    """Whole first crashes, each pair run to its end, and the same with what is alike shared."""
    for name, first in (("touch", 24), ("touch-deleted", 9), ("deleted-before", 2)):
        whole = explore.account(STORIES[name], share=False, first=first)
        shared = explore.account(STORIES[name], first=first)
        assert (whole.pairs, whole.failures) == (shared.pairs, shared.failures)
        assert whole.pairs.total() >= 18 and whole.found.keys() == shared.found.keys()


def test_a_fault_is_found_and_its_command_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark whose answer is lost is taken for stored, and nobody looks."""
    monkeypatch.setattr(perform, "_marked", lambda *given: True)
    found = explore.account(STORIES["touch-deleted"])
    first = found.failures[0]
    assert "DispatchMark answer lost" in first and "Violation: invariant" in first
    command = next(line for line in found.failures[0].splitlines() if "replay: " in line)
    given = shlex.split(command.partition("replay: ")[2])[1:]
    done = subprocess.run(
        [sys.executable, *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "ended well", "the engine as it is does not fail there"
