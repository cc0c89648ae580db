"""Verdicts on a realm Lease: free, ours, lost, foreign, expired here, an orphan of ours.

Verdict beside the write: each answer that allows a write carries the record that it was reached
on, and the write is conditional on that record. Nobody's clock is trusted; what counts is how
long this process has watched the identical record stand (C-6.6).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from ptahk.engine.model.lease import Holder, LeaseRecord, Malformed, held, released, renewed
from ptahk.engine.model.snapshot import LeaseView, Snapshot
from ptahk.wire.epoch import Epoch

RENEW_AT = 3
"""A Lease is renewed when a third of its duration has passed (C-6.10)."""


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds it; it may be acquired under a new epoch."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Our claim holds it, under the epoch asked for where one was."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Lost:
    """Our claim held it under this epoch and does so no more (C-6.8)."""

    message: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another claim holds it, or something that is not ours stands there."""

    message: str
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class ExpiredHere:
    """A foreign holder's, watched unchanged for its whole duration, its claim proven over."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Orphan:
    """This resource's own, of a claim that it has no more: an acquisition that landed late."""

    record: LeaseRecord


Verdict = Free | Ours | Lost | Foreign | ExpiredHere | Orphan


def verdict(s: Snapshot, identity: str, epoch: str | None) -> Verdict:
    """Where the holder ``identity`` stands.

    :param epoch: the epoch that the claim carries; None before it has one.
    """
    view = s.lease
    record = None if view is None else view.record
    if isinstance(record, Malformed):
        text = f"the realm's Lease is malformed ({record.message})"
        return Foreign(text, malformed=True) if epoch is None else Lost(text)
    if record is None or record.identity is None:
        return Free() if epoch is None else Lost("the realm's Lease was released by another hand")
    if record.identity == identity:
        if epoch is None or str(record.epoch) == epoch:
            return Ours(record)
        return Lost("the realm's Lease carries another epoch")
    if epoch is not None:
        return Lost(f"the realm's Lease was taken by {describe(record.holder)}")
    assert view is not None
    return _foreign(s, view, record)


def _foreign(s: Snapshot, view: LeaseView, record: LeaseRecord) -> Verdict:
    if record.holder is not None and record.holder.uid == s.uid:
        return Orphan(record)
    if s.store.automatic and view.watched_s >= record.duration_s and view.holder_settled:
        return ExpiredHere(record)
    return Foreign(f"the realm is held by {describe(record.holder)}")


def describe(holder: Holder | None) -> str:
    """Who holds it, for a person."""
    if holder is None:
        return "somebody unnamed"
    return (
        f"{holder.operation} {holder.operation_id[:12]} of "
        f"{holder.kind} {holder.namespace}/{holder.name}"
    )


def next_epoch(s: Snapshot) -> Epoch:
    """One more than the largest number that Lease, status or ledger know (C-6.14)."""
    known = known_number(s)
    return Epoch(known + 1, s.draws.epoch_bits)


def known_number(s: Snapshot) -> int:
    """The largest number of this realm that Lease, status or ledger know."""
    record = None if s.lease is None else s.lease.record
    leased = record.epoch.number if isinstance(record, LeaseRecord) else 0
    database = s.status.database
    ledger = database.highest_number if database is not None else 0
    return max(leased, s.status.realm_number, ledger)


def acquire(s: Snapshot, found: Free | ExpiredHere, holder: Holder, identity: str,
            duration_s: int) -> dict[str, object]:  # fmt: skip
    """The document that acquires it. Only a free or expired Lease leads here."""
    assert s.lease is not None
    match found:
        case Free() | ExpiredHere():
            epoch = next_epoch(s)
        case _:
            assert_never(found)
    return held(s.lease.document, epoch, identity, holder, duration_s, s.now)


def renew(s: Snapshot, found: Ours, duration_s: int) -> dict[str, object] | None:
    """The document that renews it, where a third of its duration has passed; else None.

    The wall clock only decides when to write again, never who holds it.
    """
    assert s.lease is not None and found.record.renewed is not None
    age = s.now - found.record.renewed
    if timedelta(0) <= age < timedelta(seconds=duration_s / RENEW_AT):
        return None
    return renewed(s.lease.document, duration_s, s.now)


def release(s: Snapshot, identity: str, epoch: str) -> tuple[dict[str, object], LeaseRecord] | None:
    """The document that releases exactly this holder and epoch; None: it is not held so.

    Idempotent: what is not ours any more needs no release (C-6.7, D10).
    """
    view = s.lease
    record = None if view is None else view.record
    if view is None or not isinstance(record, LeaseRecord):
        return None
    if record.identity != identity or str(record.epoch) != epoch:
        return None
    return released(view.document, s.now), record
