"""Which Leases are renewed beside the passes, and when."""

import dataclasses
from datetime import timedelta

import pytest

from ptahk.engine import renewal
from ptahk.engine.model import lease as leases
from ptahk.engine.renewal import Keep, NotDue, NotOurs, Renew
from tests.kit.scenario import Process, Scenario, planned, scenario


def running(*steps: str) -> tuple[Scenario, Process]:
    """An Apply, brought to one of these steps."""
    s = scenario("a", "b")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until(*steps)
    return s, process


def now_kept(s: Scenario) -> Keep | None:
    return renewal.kept(s.status())


@pytest.mark.parametrize("step", ["WriteClaim", "AcquireLease", "CopyEpoch", "PersistSnapshot"])
def test_an_undispatched_claim_keeps_nothing(step: str) -> None:
    s, _ = running(step)
    assert now_kept(s) is None


def test_from_the_mark_to_the_proof_one_holder_and_epoch_are_kept() -> None:
    s, process = running("DispatchJob")
    keep = now_kept(s)
    claim = s.status().active_operation
    assert claim is not None and claim.epoch is not None
    assert keep == Keep(claim.realm, claim.holder, claim.epoch, claim.lease_duration_seconds)
    seen = set()
    while s.status().active_operation is not None or s.status().pending_observation is not None:
        status = s.status()
        claim, owed = status.active_operation, status.pending_observation
        if owed is not None or (claim is not None and claim.outcome is None):
            assert now_kept(s) == keep
            seen.add("claim" if owed is None else "owed")
        else:
            assert now_kept(s) is None, "the proof has spoken: what is left is the release"
        process.step()
        s.world.jobs.run_all()
    assert seen == {"claim", "owed"}
    assert now_kept(s) is None


def test_a_proof_that_lost_its_continuity_keeps_nothing() -> None:
    s, process = running("DispatchJob")
    lease = s.lease()
    s.world.objects.replace(leases.released(lease, s.world.clock.now()))
    process.until("LatchUnknown", "Settle")
    owed = s.status().pending_observation
    assert owed is not None and owed.continuity_lost
    assert now_kept(s) is None or s.status().active_operation is not None


def test_a_third_of_the_duration_and_not_before() -> None:
    s, _ = running("DispatchJob")
    keep = now_kept(s)
    assert keep is not None
    lease, now = s.lease(), s.world.clock.now()
    found = renewal.verdict(lease, keep, now)
    assert isinstance(found, NotDue) and 0 < found.in_s <= keep.every_s
    late = renewal.verdict(lease, keep, now + timedelta(seconds=keep.every_s))
    assert isinstance(late, Renew)
    assert late.document["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]
    before = renewal.verdict(lease, keep, now - timedelta(hours=1))
    assert isinstance(before, Renew), "a clock that stepped back renews at once"


def test_another_holder_or_epoch_is_left_alone() -> None:
    s, _ = running("DispatchJob")
    keep, lease, now = now_kept(s), s.lease(), s.world.clock.now()
    assert keep is not None
    other = dataclasses.replace(keep, epoch="9.0123456789abcdef")
    assert isinstance(renewal.verdict(lease, other, now), NotOurs)
    assert isinstance(renewal.verdict(leases.released(lease, now), keep, now), NotOurs)
    lease["spec"]["leaseDurationSeconds"] = "?"
    assert isinstance(renewal.verdict(lease, keep, now), NotOurs)


def test_lateness_is_counted_from_the_bound() -> None:
    keep = Keep("r", "h", "1.0", 90)
    assert renewal.late_s(keep, 29.0) is None
    assert renewal.late_s(keep, 31.0) == pytest.approx(1.0)
