"""Who claims this realm (C-6.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.snapshot import Peer, Snapshot


@dataclass(frozen=True, slots=True)
class Claimant:
    """What the census counts of one resource: stored facts and declared intent."""

    shared: bool
    suspended: bool
    deleting: bool
    dormant: bool
    """No URL or source yet, or ``policy.apply: Never`` with ``interval: 0``."""
    active: bool
    """An operation of its own is in flight."""
    owing: bool
    """It owes a proof or a release, or holds a dispatched Apply."""
    automatic: bool
    """It acts by itself (C-14.4: a local resource claims only while it is active or owing)."""


def claims(item: Claimant) -> bool:
    """It may start operations of its own in this realm."""
    if item.suspended or item.deleting or item.dormant:
        return False
    return item.automatic or item.active


def settling(item: Claimant) -> bool:
    """It only settles a debt: others wait, and it is not blocked itself."""
    return item.owing and not claims(item)


def conflict(s: Snapshot, shared: bool) -> Refusal | None:
    """``RealmConflict`` where another resource claims the realm and not all share it.

    It refuses new claims only, never supervision, renewal, result, proof or release.
    """
    assert s.peers is not None, "the census was read in this pass"
    others = [peer for peer in s.peers if peer.claims or peer.settling]
    if not others or (shared and all(peer.shared for peer in others)):
        return None
    return Refusal("RealmConflict", _name(s, others), "spec.target.coordinationKey")


def _name(s: Snapshot, others: Sequence[Peer]) -> str:
    realm = s.spec.target.coordination_digest if s.spec is not None else "?"
    near = [peer for peer in others if peer.namespace == s.namespace]
    named = ", ".join(f"{peer.kind} {peer.name}" for peer in near[:5])
    far = len(others) - len(near[:5])
    rest = f"{' and ' if named else ''}{far} more" if far else ""
    return f"realm {realm} is claimed by {named}{rest} too"


def turn(s: Snapshot) -> bool:
    """No waiter of a shared realm is older than our claim (C-6.7)."""
    claim = s.status.active_operation
    if claim is None or s.peers is None:
        return True
    return not any(peer.since is not None and peer.since < claim.start_time for peer in s.peers)
