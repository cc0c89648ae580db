"""Which realm Leases a resource keeps, and when each is due (C-6.10).

Renewals never wait for a pass: a manager keeps this schedule beside its passes, with a client of
its own. What is renewed here is exactly what no pass may let go: the Lease of a dispatched
operation, and of a proof owed. A claim that is not dispatched holds nothing worth keeping alone:
where its passes stop, others may have the realm (D19).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptahk.engine.lease import RENEW_AT
from ptahk.engine.model import lease as leases
from ptahk.engine.model.status import Status


@dataclass(frozen=True, slots=True)
class Keep:
    """One Lease that has to be renewed: exactly this holder and epoch."""

    realm: str
    holder: str
    epoch: str
    duration_s: int
    """Of the claim, never of the spec (C-6.5)."""

    @property
    def every_s(self) -> float:
        """A third of the duration."""
        return self.duration_s / RENEW_AT


@dataclass(frozen=True, slots=True)
class Renew:
    """It is due: replace the Lease by this document."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NotDue:
    """Somebody renewed it since; look again then."""

    in_s: float


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Holder or epoch is another's. The next pass judges what that means (C-6.8)."""

    message: str


Verdict = Renew | NotDue | NotOurs


def kept(status: Status) -> Keep | None:
    """The Lease that this resource must not lose; None: none."""
    claim, owed = status.active_operation, status.pending_observation
    if claim is not None and claim.dispatch_started and claim.epoch and claim.outcome is None:
        return Keep(claim.realm, claim.holder, claim.epoch, claim.lease_duration_seconds)
    if owed is not None and not owed.continuity_lost:
        return Keep(owed.realm, owed.holder, owed.epoch, owed.lease_duration_seconds)
    return None


def verdict(document: dict[str, Any], keep: Keep, now: datetime) -> Verdict:
    """What to do with the stored Lease. The wall clock only decides when to write again."""
    record = leases.parse(document)
    if isinstance(record, leases.Malformed):
        return NotOurs(f"the realm's Lease is malformed ({record.message})")
    if record.identity != keep.holder or str(record.epoch) != keep.epoch:
        return NotOurs("the realm's Lease carries another holder or epoch")
    assert record.renewed is not None, "a held Lease has a renewal time"
    age_s = (now - record.renewed).total_seconds()
    if 0 <= age_s < keep.every_s:
        return NotDue(keep.every_s - age_s)
    return Renew(leases.renewed(document, keep.duration_s, now))


def late_s(keep: Keep, since_due_s: float) -> float | None:
    """By how much a renewal misses its bound (another third); None: it does not."""
    over = since_due_s - keep.every_s
    return over if over > 0 else None
