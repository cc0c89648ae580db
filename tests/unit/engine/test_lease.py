"""Verdicts on a realm Lease, without a store."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from ptahk.engine import lease
from ptahk.engine.gather import gather
from ptahk.engine.model import lease as leases
from ptahk.engine.model.snapshot import LeaseView, Snapshot
from ptahk.wire.digest import CoordinationDigest
from ptahk.wire.epoch import Epoch
from tests.kit.scenario import FAMILIES, scenario

REALM = CoordinationDigest("sha256:" + "a" * 64)
OURS, THEIRS = "sha256:" + "1" * 64, "sha256:" + "2" * 64
EPOCH = Epoch(3, "0123456789abcdef")


def snapshot() -> Snapshot:
    s = scenario("a")
    return gather(s.world.ports(), s.key, FAMILIES)


def stored(s: Snapshot, identity: str, uid: str = "other") -> dict[str, Any]:
    """A Lease that this identity holds."""
    holder = leases.Holder("PtahSchema", "local", "x", uid, "0" * 32, "Apply")
    document = leases.new_document("local", REALM)
    document["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    return leases.held(document, EPOCH, identity, holder, 960, s.now)


def view(
    s: Snapshot, document: dict[str, Any], *, watched_s: float = 0.0, settled: bool | None = None
) -> Snapshot:
    record = leases.parse(document)
    return dataclasses.replace(s, lease=LeaseView(document, record, watched_s, settled))


def automatic(s: Snapshot) -> Snapshot:
    return dataclasses.replace(s, store=dataclasses.replace(s.store, automatic=True))


def test_absent_or_released_is_free_for_a_claim_without_an_epoch() -> None:
    s = snapshot()
    assert lease.verdict(s, OURS, None) == lease.Free()
    released = leases.released(stored(s, OURS), s.now)
    assert lease.verdict(view(s, released), OURS, None) == lease.Free()


def test_absent_or_released_is_lost_for_a_claim_with_one() -> None:
    s = snapshot()
    assert isinstance(lease.verdict(s, OURS, str(EPOCH)), lease.Lost)
    released = leases.released(stored(s, OURS), s.now)
    assert isinstance(lease.verdict(view(s, released), OURS, str(EPOCH)), lease.Lost)


def test_equality_of_holder_and_epoch_is_ours() -> None:
    s = view(snapshot(), stored(snapshot(), OURS))
    assert isinstance(lease.verdict(s, OURS, None), lease.Ours)
    assert isinstance(lease.verdict(s, OURS, str(EPOCH)), lease.Ours)
    other = str(Epoch(3, "f" * 16))
    assert isinstance(lease.verdict(s, OURS, other), lease.Lost), "same number, other interval"


def test_a_foreign_lease_stays_foreign_whatever_its_times_say() -> None:
    s = snapshot()
    late = dataclasses.replace(s, now=s.now + timedelta(days=365))
    found = lease.verdict(automatic(view(late, stored(s, THEIRS))), OURS, None)
    assert isinstance(found, lease.Foreign) and "Apply" in found.message


@pytest.mark.parametrize(
    ("watched_s", "settled", "acts", "taken"),
    [(960.0, True, True, True), (959.9, True, True, False), (9999.0, False, True, False),
     (9999.0, None, True, False), (9999.0, True, False, False)],
)  # fmt: skip
def test_expired_here_needs_watching_and_a_settled_claim(
    watched_s: float, settled: bool | None, acts: bool, taken: bool
) -> None:
    s = snapshot()
    s = view(s, stored(s, THEIRS), watched_s=watched_s, settled=settled)
    found = lease.verdict(automatic(s) if acts else s, OURS, None)
    assert isinstance(found, lease.ExpiredHere) == taken


def test_a_lease_of_this_resource_without_a_claim_is_an_orphan() -> None:
    s = snapshot()
    s = view(s, stored(s, THEIRS, uid=s.uid))
    assert isinstance(lease.verdict(s, OURS, None), lease.Orphan)


@pytest.mark.parametrize(
    "change",
    [{"leaseDurationSeconds": "960"}, {"renewTime": "yesterday"}, {"holderIdentity": 5},
     {"leaseDurationSeconds": 0}],
)  # fmt: skip
def test_a_malformed_lease_is_never_taken(change: dict[str, Any]) -> None:
    s = snapshot()
    document = stored(s, THEIRS)
    document["spec"] |= change
    found = lease.verdict(automatic(view(s, document, watched_s=1e9, settled=True)), OURS, None)
    assert isinstance(found, lease.Foreign) and found.malformed


def test_the_number_is_above_lease_status_and_ledger() -> None:
    s = view(snapshot(), stored(snapshot(), THEIRS))
    assert lease.next_epoch(s).number == 4
    higher = dataclasses.replace(s, status=dataclasses.replace(s.status, realm_number=9))
    assert lease.next_epoch(higher).number == 10


def test_release_wants_exactly_holder_and_epoch() -> None:
    s = snapshot()
    s = view(s, stored(s, OURS))
    assert lease.release(s, OURS, str(EPOCH)) is not None
    assert lease.release(s, THEIRS, str(EPOCH)) is None
    assert lease.release(s, OURS, str(Epoch(3, "f" * 16))) is None
    assert lease.release(snapshot(), OURS, str(EPOCH)) is None


def test_release_keeps_object_and_number() -> None:
    s = snapshot()
    document = leases.released(stored(s, OURS), s.now)
    record = leases.parse(document)
    assert isinstance(record, leases.LeaseRecord)
    assert record.epoch == EPOCH and record.identity is None and record.holder is None


def test_renewal_keeps_the_epoch_and_comes_at_a_third() -> None:
    s = snapshot()
    s = view(s, stored(s, OURS))
    ours = lease.verdict(s, OURS, None)
    assert isinstance(ours, lease.Ours)
    assert lease.renew(s, ours, 960) is None
    later = dataclasses.replace(s, now=s.now + timedelta(seconds=320))
    document = lease.renew(later, ours, 960)
    assert document is not None
    record = leases.parse(document)
    assert isinstance(record, leases.LeaseRecord) and record.epoch == EPOCH
    back = dataclasses.replace(s, now=s.now - timedelta(seconds=5))
    assert lease.renew(back, ours, 960) is not None, "a clock that stepped back only writes more"
