"""What all resources owe, kept from the watch: constant work per event, read by the metrics.

Nothing here decides anything; every pass reads live.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ptahk.engine import peers
from ptahk.engine.family import Family
from ptahk.engine.model.claim import GRACE_S
from ptahk.engine.model.fields import FieldError, parse_time
from ptahk.engine.model.status import HistoryEntry, Status, parse
from ptahk.engine.ports import Document, Key

UNREADABLE = "Unreadable"
LATE_INTERVALS = 2.2
"""An observation is overdue after two intervals, each a tenth long at most (C-2.1)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What counts of one resource."""

    phase: str
    uid: str
    realms: tuple[tuple[str, bool], ...] = ()
    """(realm, declares sharing) of each realm that it claims or is settling in."""
    unresolved_since: datetime | None = None
    proof_owed: bool = False
    release_owed: bool = False
    must_end: datetime | None = None
    """When a dispatched operation is overdue."""
    must_look: datetime | None = None
    """When the observation of a resource at rest is overdue: an interval late."""


@dataclass(frozen=True, slots=True)
class Totals:
    """One reading of the accounts."""

    phases: dict[tuple[str, str], int]
    """(kind, phase) → resources."""
    unresolved: int
    oldest_unresolved_s: float
    owed_proofs: int
    owed_releases: int
    overdue_operations: int
    overdue_observations: int
    realms: int
    conflicts: int


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that a status newly accounts for."""

    operation: str
    outcome: str


def read_status(document: Document) -> Status | None:
    """The status; None: not one that this version may touch."""
    try:
        return parse(document.get("status"), document["metadata"]["uid"])
    except FieldError:
        return None


def facts(document: Document, status: Status | None, family: Family) -> Facts:
    """What counts of this resource now."""
    uid = document["metadata"]["uid"]
    realms = _realms(document)
    if status is None:
        return Facts(UNREADABLE, uid, realms)
    claim, owed = status.active_operation, status.pending_observation
    must_end = None
    if claim is not None and claim.outcome is None and claim.execution_not_after is not None:
        must_end = claim.execution_not_after + timedelta(seconds=GRACE_S)
    return Facts(
        phase=status.phase,
        uid=uid,
        realms=realms,
        unresolved_since=_unresolved_since(status),
        proof_owed=owed is not None,
        release_owed=status.pending_lock_release is not None,
        must_end=must_end,
        must_look=_must_look(document, status, family),
    )


def _realms(document: Document) -> tuple[tuple[str, bool], ...]:
    found = []
    for realm in sorted(peers.realms(document)):
        for peer in peers.of_realm([document], realm, "", automatic=True):
            if peer.claims or peer.settling:
                found.append((realm, peer.shared))
    return tuple(found)


def _unresolved_since(status: Status) -> datetime | None:
    """Since when nobody knows what an Apply did; None: everything is known."""
    owed = status.pending_observation
    if owed is None or owed.settled is not None or owed.reported.type != "Unknown":
        return None
    claim = status.active_operation
    if claim is not None and claim.operation_id == owed.operation_id and claim.finish_time:
        return claim.finish_time
    for entry in reversed(status.history):
        if entry.operation_id == owed.operation_id:
            return entry.finish_time
    return owed.execution_not_after


def _must_look(document: Document, status: Status, family: Family) -> datetime | None:
    if status.phase not in ("InSync", "Drifted", "AwaitingApproval"):
        return None
    try:
        spec = family.parse_spec(document.get("spec"))
        seen = (status.last_observation, status.last_plan)
        times = [parse_time(str(item["time"])) for item in seen if item]
    except (FieldError, ValueError, KeyError):
        return None
    if spec.suspend or not spec.interval or not times:
        return None
    return max(times) + timedelta(seconds=LATE_INTERVALS * spec.interval)


@dataclass(frozen=True, slots=True)
class Noted:
    """What is new with a resource."""

    status: Status | None
    """None: it is gone, or cannot be read."""
    ended: tuple[Ended, ...] = ()
    neighbours: tuple[Key, ...] = ()
    """Other claimants of a realm that it came to, left, or claims otherwise: their census moved."""


class Accounts:
    """Facts by key, with the realms' claimants beside them."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families
        self._lock = threading.Lock()
        self._facts: dict[Key, Facts] = {}
        self._claimants: dict[str, dict[Key, bool]] = {}
        self._entries: dict[Key, tuple[str, frozenset[tuple[str, str]]]] = {}

    def note(self, key: Key, document: Document | None) -> Noted:
        """The resource as last seen; None: it is gone."""
        status = None if document is None else read_status(document)
        found = None
        if document is not None:
            found = facts(document, status, self._families[key.kind])
        with self._lock:
            known = self._facts.pop(key, None)
            before = frozenset(known.realms if known is not None else ())
            after = frozenset(found.realms if found is not None else ())
            moved = {realm for realm, _ in before ^ after}
            self._leave(key, before - after)
            for realm, shared in after - before:
                self._claimants.setdefault(realm, {})[key] = shared
            others = {
                other for realm in moved for other in self._claimants.get(realm, ()) if other != key
            }
            if found is None:
                self._entries.pop(key, None)
                return Noted(None, neighbours=tuple(others))
            self._facts[key] = found
            return Noted(status, tuple(self._ended(key, found.uid, status)), tuple(others))

    def _leave(self, key: Key, realms: frozenset[tuple[str, bool]]) -> None:
        for realm, _ in realms:
            claimants = self._claimants[realm]
            claimants.pop(key, None)
            if not claimants:
                del self._claimants[realm]

    def _ended(self, key: Key, uid: str, status: Status | None) -> list[Ended]:
        if status is None:
            return []
        now = {entry_key: entry for entry in status.history for entry_key in _names(entry)}
        before = self._entries.get(key)
        self._entries[key] = (uid, frozenset(now))
        if before is None or before[0] != uid:
            return []  # what ended before this process looked was counted by another
        return [
            Ended(entry.type if what == "outcome" else "Settled", _outcome(entry, what))
            for (operation_id, what), entry in now.items()
            if (operation_id, what) not in before[1]
        ]

    def totals(self, now: datetime) -> Totals:
        """Everything counted, at this moment."""
        with self._lock:
            known = list(self._facts.items())
            claimants = [list(found.values()) for found in self._claimants.values()]
        phases = Counter((key.kind, item.phase) for key, item in known)
        since = [item.unresolved_since for _, item in known if item.unresolved_since is not None]
        return Totals(
            phases=dict(phases),
            unresolved=len(since),
            oldest_unresolved_s=max(((now - at).total_seconds() for at in since), default=0.0),
            owed_proofs=sum(item.proof_owed for _, item in known),
            owed_releases=sum(item.release_owed for _, item in known),
            overdue_operations=sum(
                item.must_end is not None and item.must_end < now for _, item in known
            ),
            overdue_observations=sum(
                item.must_look is not None and item.must_look < now for _, item in known
            ),
            realms=len(claimants),
            conflicts=sum(len(shared) > 1 and not all(shared) for shared in claimants),
        )


def _names(entry: HistoryEntry) -> list[tuple[str, str]]:
    settled = [] if entry.settled is None else [(entry.operation_id, "settled")]
    return [(entry.operation_id, "outcome"), *settled]


def _outcome(entry: HistoryEntry, what: str) -> str:
    stored = entry.outcome if what == "outcome" else entry.settled
    assert stored is not None
    return stored.type
