"""Which approval binds, and that one is used once."""

import dataclasses

from ptahk.engine import approval
from ptahk.engine.gather import gather
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import APPROVALS_KEPT
from tests.kit.scenario import FAMILIES, planned, scenario


def approved() -> Snapshot:
    s = scenario("a")
    planned(s, s.process())
    return gather(s.world.ports(), s.key, FAMILIES)


def test_it_binds_by_uid_and_fingerprint_and_never_by_name() -> None:
    s = approved()
    assert s.plan is not None
    (item,) = s.approvals
    assert approval.binds(item, s.plan, s.uid)
    assert not approval.binds(item, s.plan, "another")
    recreated = dataclasses.replace(s.plan, uid="new")
    assert not approval.binds(item, recreated, s.uid)
    other = dataclasses.replace(
        item, spec=dataclasses.replace(item.spec, fingerprint="sha256:" + "0" * 64)
    )
    assert not approval.binds(other, s.plan, s.uid)


def test_the_oldest_unused_one_is_taken_once() -> None:
    s = approved()
    assert s.plan is not None
    found = approval.find(s, s.plan)
    assert found is not None
    used = approval.consume(s.status, found, "0" * 32)
    assert approval.find(dataclasses.replace(s, status=used), s.plan) is None


def test_a_dropped_record_stays_consumed() -> None:
    s = approved()
    (item,) = s.approvals
    status = approval.consume(s.status, item, "0" * 32)
    for number in range(APPROVALS_KEPT):
        newer = dataclasses.replace(item, uid=f"n{number}", created=f"2027-01-01T00:00:{number}Z")
        status = approval.consume(status, newer, "0" * 32)
    assert len(status.consumed_approvals) == APPROVALS_KEPT
    assert all(used.uid != item.uid for used in status.consumed_approvals)
    assert approval.consumed(item, status), "its record is gone, its consumption is not"
