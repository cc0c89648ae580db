"""Ordered pure checks: Snapshot → Refusal | None.

``new_claim`` is asked before a claim is written, ``dispatch`` again right before the mark, from a
fresh reading. Neither is asked of what is already dispatched, of a proof or of a release.
"""

from collections.abc import Callable

from ptahk.engine import census
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.snapshot import Snapshot

Gate = Callable[[Snapshot], Refusal | None]

CLOCK_SKEW_MAX_S = 30.0


def _valid(s: Snapshot) -> Refusal | None:
    return s.spec_refusal or s.request_refusal


def _living(s: Snapshot) -> Refusal | None:
    return Refusal("Deleting", "the resource is being deleted") if s.deleting else None


def _running(s: Snapshot) -> Refusal | None:
    if s.spec is not None and s.spec.suspend:
        return Refusal("Suspended", "the resource is suspended", "spec.suspend")
    return None


def _reachable(s: Snapshot) -> Refusal | None:
    """Locally the URL never leaves the command's memory, and is in no document."""
    if s.spec is None or s.store.kind == "local" or s.spec.target.url_from is not None:
        return None
    return Refusal("UrlMissing", "spec.target.urlFrom is missing", "spec.target.urlFrom")


def _thawed(s: Snapshot) -> Refusal | None:
    frozen = s.status.frozen
    if frozen is None:
        return None
    return Refusal("Frozen", f"{frozen.message} (ledger number {frozen.number})")


def _alone(s: Snapshot) -> Refusal | None:
    return None if s.spec is None else census.conflict(s, s.spec.target.shared_realm)


def _clock(s: Snapshot) -> Refusal | None:
    database = s.status.database
    if database is None or abs(database.clock_offset_seconds) <= CLOCK_SKEW_MAX_S:
        return None
    return Refusal(
        "ClockSkew",
        f"the database's clock is {database.clock_offset_seconds:+.0f} s from ours",
    )


def _guarded(s: Snapshot) -> Refusal | None:
    if s.unguarded is None:
        return None
    return Refusal("NoAdmission", s.unguarded)


NEW_CLAIM: tuple[Gate, ...] = (_valid, _living, _running, _reachable)
CENSUS: tuple[Gate, ...] = (_alone,)
"""Also asked at rest, where resources act by themselves: a person sees the conflict before any of
them wants to run something (C-6.3)."""
REALM: tuple[Gate, ...] = (*CENSUS, _thawed)
MUTATION: tuple[Gate, ...] = (_clock,)
"""What an earlier reading of the database says: a new reading may say otherwise."""
GUARD: tuple[Gate, ...] = (_guarded,)
"""An operation of any kind holds the database's credentials, so none is dispatched unguarded."""


def first(s: Snapshot, gates: tuple[Gate, ...]) -> Refusal | None:
    """The first refusal in order."""
    for gate in gates:
        refusal = gate(s)
        if refusal is not None:
            return refusal
    return None


def claim(s: Snapshot, *, realm: bool, mutates: bool) -> Refusal | None:
    """Everything that may refuse a new claim, or an undispatched one.

    :param realm: the operation takes the realm Lease: the census and a frozen realm count.
    :param mutates: it changes user objects: the database's clock counts.
    """
    gates = NEW_CLAIM + GUARD + (REALM if realm else ()) + (MUTATION if mutates else ())
    return first(s, gates)
