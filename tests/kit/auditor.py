"""Checks the invariants of the design after every write that lands, whoever sent it.

It stands inside the faults, right on the stored documents, so that a request which arrives late is
audited when it arrives. Numbers are those of ``invariants.md``, section 1.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ptahk.engine.model import lease as leases
from ptahk.engine.model import status as statuses
from ptahk.engine.model.claim import PROVE, Claim
from ptahk.engine.model.job import NONCE, OPERATION_ID
from ptahk.engine.model.resource import LEASE
from ptahk.engine.model.status import Status
from ptahk.engine.ports import (
    Change,
    Collected,
    Document,
    JobOrder,
    Jobs,
    JobView,
    Key,
    NotFound,
    Objects,
    PodView,
    key_of,
)
from tests.kit.fakedb import FakeDatabase

FIXED = (
    "operation_id", "type", "job_name", "input_fingerprint", "realm", "holder", "epoch",
    "snapshot_digest", "dispatch_nonce", "dispatch_not_after", "execution_not_after",
    "intent_digest", "lease_duration_seconds", "active_deadline_seconds",
)  # fmt: skip


class Violation(AssertionError):
    """An invariant does not hold."""


def _need(number: int, condition: bool, text: str) -> None:
    if not condition:
        raise Violation(f"invariant {number}: {text}")


@dataclasses.dataclass
class Auditor:
    """What was seen so far, and the judge of what comes."""

    database: FakeDatabase
    mutating: frozenset[str]
    """Operation types that change user objects."""
    created: dict[str, int] = dataclasses.field(default_factory=dict)
    outcomes: dict[str, str] = dataclasses.field(default_factory=dict)
    dispatched: dict[str, str] = dataclasses.field(default_factory=dict)
    """Holder → operation id of every dispatched mutation."""

    def status_write(self, before: Status, after: Status, lease: Any) -> None:
        """A resource's status is about to become ``after``."""
        old, new = before.active_operation, after.active_operation
        if old is not None and new is not None and old.operation_id == new.operation_id:
            self._same_claim(old, new)
        if old is not None and old.dispatch_started and old.type in self.mutating:
            self._mutation_kept(old, before, after)
        if new is not None and new.dispatch_started and new.type in self.mutating:
            self.dispatched[new.holder] = new.operation_id
        if new is not None and new.outcome is not None and (old is None or old.outcome is None):
            self._outcome_stored(new, lease)
        self._debts(before, after, lease)
        self._history(before, after)

    def _same_claim(self, old: Claim, new: Claim) -> None:
        if old.dispatch_started:
            for name in FIXED:
                text = f"{name} changed after the dispatch"
                _need(3, getattr(old, name) == getattr(new, name), text)
            _need(3, new.dispatch_started, "the mark was taken back")
        if old.job_uid is not None:
            _need(17, new.job_uid == old.job_uid, "the pinned Job changed")
        if old.outcome is not None:
            _need(15, new.outcome == old.outcome, "a stored outcome changed")

    def _mutation_kept(self, old: Claim, before: Status, after: Status) -> None:
        """A dispatched mutation leaves the status only with its outcome and its proof owed."""
        new = after.active_operation
        if new is not None and new.operation_id == old.operation_id:
            return
        _need(15, old.outcome is not None, "a dispatched mutation vanished without an outcome")
        owed = after.pending_observation
        kept = owed is not None and owed.operation_id == old.operation_id
        _need(23, kept, "a dispatched mutation was cleared without its proof owed")

    def _outcome_stored(self, claim: Claim, lease: Any) -> None:
        assert claim.outcome is not None
        if claim.type in self.mutating and claim.outcome.type == "Succeeded":
            record = leases.parse(lease) if lease is not None else None
            same = isinstance(record, leases.LeaseRecord) and (
                str(record.epoch) == claim.epoch and record.identity == claim.holder
            )
            _need(13, same, "success was stored under an epoch that is not the Lease's")
            _need(13, claim.job_uid is not None, "success was stored of an unpinned Job")
        if claim.type in self.mutating:
            allowed = ("Succeeded", "Unknown", "NotStarted")
            _need(14, claim.outcome.type in allowed, "a frame alone settled a mutation")

    def _debts(self, before: Status, after: Status, lease: Any) -> None:
        owed = before.pending_observation
        if owed is not None and after.pending_observation is None:
            claim = after.active_operation
            proven = claim is not None and claim.type == PROVE and claim.outcome is not None
            _need(23, proven, "a proof owed was cleared without a proof's outcome")
            entry = [item for item in after.history if item.operation_id == owed.operation_id]
            settled = [item for item in entry if item.settled is not None]
            _need(23, bool(settled), "a proof owed was cleared without its result")
            row = self.database.rows.get(owed.operation_id)
            fenced = row is not None and row["state"] in ("fenced", "finished")
            _need(10, fenced, "a proof was settled without a tombstone")
        release = before.pending_lock_release
        if release is not None and after.pending_lock_release is None and lease is not None:
            record = leases.parse(lease)
            held = isinstance(record, leases.LeaseRecord) and (
                record.identity == release.holder and str(record.epoch) == release.epoch
            )
            _need(23, not held, "a release owed was forgotten")

    def _history(self, before: Status, after: Status) -> None:
        known = {item.operation_id: item for item in before.history}
        for item in after.history:
            old = known.get(item.operation_id)
            if old is not None and old.settled is not None:
                _need(15, item.settled == old.settled, "a settled outcome changed")
            if item.settled is not None and (old is None or old.settled is None):
                self._settled(item)

    def _settled(self, item: statuses.HistoryEntry) -> None:
        assert item.settled is not None
        row = self.database.rows.get(item.operation_id)
        done = sum(1 for operation, _ in self.database.effects if operation == item.operation_id)
        kind = item.settled.type
        if kind == "NotStarted":
            _need(14, row is None or row["startNonce"] is None, "NotStarted, and it started")
        if kind == "Failed":
            _need(14, done == 0, "Failed, and something took effect")
        if kind == "Partial":
            _need(14, done == item.settled.done, "Partial with another count")
        if kind == "Succeeded" and row is not None:
            _need(14, done == row["statementsTotal"], "Succeeded with another count")

    def lease_write(self, before: Document, after: Document, owner: Status | None) -> None:
        """A Lease is about to change hands or epoch."""
        old, new = leases.parse(before), leases.parse(after)
        assert isinstance(old, leases.LeaseRecord) and isinstance(new, leases.LeaseRecord)
        _need(12, new.epoch.number >= old.epoch.number, "the number went back")
        if old.identity is None or new.identity == old.identity:
            if old.identity is None and new.identity is not None:
                _need(12, new.epoch.number > old.epoch.number, "acquired under an old number")
            return
        if new.identity is not None:
            _need(11, new.epoch.number > old.epoch.number, "taken over under an old number")
        operation = self.dispatched.get(old.identity)
        if operation is not None:
            row = self.database.rows.get(operation)
            fenced = row is not None and row["state"] in ("fenced", "finished")
            _need(10, fenced, "a realm was given up without a tombstone")
            if owner is not None:
                owed = owner.pending_observation
                text = "a realm was given up while its proof is owed"
                _need(10, owed is None or owed.operation_id != operation, text)
        if new.identity is None and owner is not None:
            release = owner.pending_lock_release
            exact = release is not None and (
                release.holder == old.identity and release.epoch == str(old.epoch)
            )
            _need(24, exact, "released what was not owed")

    def create(self, order: JobOrder, status: Status) -> None:
        """A Job is about to be created."""
        identity = order.annotations[OPERATION_ID]
        count = self.created.get(identity, 0) + 1
        self.created[identity] = count
        _need(1, count <= 1, f"two creates for {order.spec.operation}")
        claim = status.active_operation
        _need(2, claim is not None and claim.dispatch_started, "no mark when the Job is created")
        assert claim is not None
        _need(2, claim.operation_id == identity, "the mark is another operation's")
        _need(2, claim.dispatch_nonce == order.annotations[NONCE], "the mark's nonce is another's")
        _need(16, claim.outcome is None, "created after its outcome")


class AuditedObjects:
    """The Objects port with an auditor at the door."""

    def __init__(self, inner: Objects, auditor: Auditor) -> None:
        self._inner = inner
        self._auditor = auditor

    def get(self, key: Key) -> Document:
        return self._inner.get(key)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        return self._inner.list(kind, namespace, labels)

    def create(self, document: Document) -> Document:
        return self._inner.create(document)

    def replace(self, document: Document) -> Document:
        _need(21, bool(document["metadata"].get("resourceVersion")), "a write without its version")
        before = self._find(key_of(document))
        fits = before is not None and self._fits(before, document)
        if fits and before is not None and document["kind"] == LEASE:
            self._auditor.lease_write(before, document, self._owner(before))
        return self._inner.replace(document)

    def replace_status(self, document: Document) -> Document:
        _need(21, bool(document["metadata"].get("resourceVersion")), "a write without its version")
        before = self._find(key_of(document))
        if before is not None and self._fits(before, document):
            uid = before["metadata"]["uid"]
            old = statuses.parse(before.get("status"), uid)
            new = statuses.parse(document.get("status"), uid)
            self._auditor.status_write(old, new, self.lease())
        return self._inner.replace_status(document)

    def delete(self, document: Document) -> None:
        self._inner.delete(document)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        return self._inner.watch(kind, namespace, since, timeout_s)

    def lease(self) -> Document | None:
        found = self._inner.list(LEASE)
        return found[0] if found else None

    def _owner(self, lease: Document) -> Status | None:
        """The status of the resource whose claim holds the Lease."""
        record = leases.parse(lease)
        holder = record.holder if isinstance(record, leases.LeaseRecord) else None
        if holder is None:
            return None
        document = self._find(Key(holder.kind, holder.namespace, holder.name))
        if document is None:
            return None
        return statuses.parse(document.get("status"), document["metadata"]["uid"])

    def _find(self, key: Key) -> Document | None:
        try:
            return self._inner.get(key)
        except NotFound:
            return None

    def _fits(self, before: Document, after: Document) -> bool:
        keys = ("uid", "resourceVersion")
        return all(before["metadata"][key] == after["metadata"].get(key) for key in keys)


class AuditedJobs:
    """The Jobs port with an auditor at the door."""

    def __init__(self, inner: Jobs, auditor: Auditor, status: Callable[[], Status]) -> None:
        self._inner = inner
        self._auditor = auditor
        self._status = status

    @property
    def creation_certain(self) -> bool:
        return self._inner.creation_certain

    def create(self, order: JobOrder) -> JobView:
        self._auditor.create(order, self._status())
        return self._inner.create(order)

    def observe(self, namespace: str, name: str) -> JobView | None:
        return self._inner.observe(namespace, name)

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        view = self._inner.observe(namespace, name)
        _need(27, view is None or view.terminal, "read before the terminal condition")
        return self._inner.collect(namespace, name, uid)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        status = self._status()
        claim = status.active_operation
        stored = any(item.job == name for item in status.history)
        if claim is not None and claim.job_name == name:
            stored = claim.outcome is not None
        _need(10, stored, "a Job's cleanup was set before its outcome was stored")
        self._inner.expire(namespace, name, uid, ttl_s)

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        return self._inner.pods(namespace, name, uid)
