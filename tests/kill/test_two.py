"""Two commands at once: on one claim, and on one database from two state directories."""

import time
from collections.abc import Callable

import pytest

from tests.kill.pg import Bed
from tests.kill.points import kill
from tests.kit.waiting import until

pytestmark = pytest.mark.pg(18)

IMPATIENT = ("apply", "--auto-approve", "--coordination-timeout", "1s")


def test_a_second_command_on_one_claim_is_refused(make_bed: Callable[..., Bed]) -> None:
    bed = make_bed("single", planned=True)
    with bed.gate("ADD COLUMN") as held:
        first = bed.start()
        held()
        second = bed.run()
        assert second.code == 3, second
        assert second.result["reason"] == "ResourceBusy"
        assert f"pid={first.pid}" in second.error
    assert bed.end(first).code == 0
    bed.verify()
    assert len(bed.attempts()) == 1


def test_two_heirs_of_a_killed_command(make_bed: Callable[..., Bed]) -> None:
    bed = make_bed("single", planned=True)
    with bed.gate("ADD COLUMN") as held:
        first = bed.start()
        held()
        kill(first.pid)
        bed.end(first)
        heirs = [bed.start(), bed.start()]
        until(lambda: any(heir.poll() is not None for heir in heirs), "one heir's refusal")
    codes = sorted(bed.end(heir).code for heir in heirs)
    assert codes == [0, 3], bed.runs
    bed.verify()
    assert len(bed.attempts()) == 1


def test_another_state_directory_meets_the_lock(make_bed: Callable[..., Bed]) -> None:
    bed, other = make_bed("single"), make_bed("single")
    with bed.gate("ADD COLUMN") as held:
        first = bed.start()
        held()
        refused = other.run(*IMPATIENT)
        assert refused.code == 3, refused
        identity = bed.attempts()[0]["operation_id"]
        assert f"ptahk/apply/{identity[:12]}" in refused.error, refused
    assert bed.end(first).code == 0
    assert other.run().result["outcome"] == "NoChanges"
    for one in (bed, other):
        one.verify_at_rest()
    bed.verify()


def test_another_state_directory_meets_an_unsettled_attempt(make_bed: Callable[..., Bed]) -> None:
    """The ledger outlives everybody: until the deadline only the attempt's own store may go on."""
    bed, other = make_bed("groups"), make_bed("groups")
    with bed.gate("VALIDATE CONSTRAINT") as held:
        first = bed.start()
        backend = held()
        runner, executor = bed.job()
        for pid in (first.pid, executor, runner):  # an orphaned executor would settle its row
            kill(pid)
        bed.end(first)
        until(lambda: backend not in dict(bed.ground.sessions()), "the old session's end")
    identity = bed.attempts()[0]["operation_id"]
    refused = other.run()
    assert refused.code == 3, refused
    assert refused.result["reason"] == "UnfinishedAttempt"
    assert identity in refused.error
    bed.converge()
    bed.verify()
    assert other.run().result["outcome"] == "NoChanges"
    other.verify_at_rest()


def test_another_state_directory_takes_over_after_the_deadline(
    make_bed: Callable[..., Bed],
) -> None:
    """Past its deadline an attempt that nobody settles is fenced by the next one, which says so."""
    bed, other = make_bed("groups"), make_bed("groups")
    with bed.gate("VALIDATE CONSTRAINT") as held:
        first = bed.start()
        backend = held()
        runner, executor = bed.job()
        for pid in (first.pid, executor, runner):  # an orphaned executor would settle its row
            kill(pid)
        bed.end(first)
        until(lambda: backend not in dict(bed.ground.sessions()), "the old session's end")
    identity = bed.attempts()[0]["operation_id"]
    bed.database.run("UPDATE ptahk.attempt SET not_after = clock_timestamp()")
    assert other.run().code == 0
    assert bed.changed()
    bed.verify_once()
    states = {row["operation_id"]: row["state"] for row in bed.attempts()}
    assert states.pop(identity) == "fenced"
    assert set(states.values()) == {"finished"}
    # The first store comes back: its own attempt is over, and it says what became of it.
    began = time.monotonic()
    bed.converge()
    assert time.monotonic() - began < 60
    for one in (bed, other):
        one.verify_at_rest()
    bed.verify_once()
