"""The invariants of the design, section 1, checked as things happen. Numbers are its own.

``tests/kit/auditor.py`` checks what one write shows; this adds what needs the world's own truth:
sessions, the ledger at the moment of an effect, process lives, Pods, a whole pass.

====  =====================================================================================
 1    every create sent, counted by operation id, all processes, before any fault
 2    at the create: mark stored, its nonce the order's, written by this life of this process
 3    every status write: the fixed fields of a dispatched claim
 4    every effect: (operation id, statement number) at most once
 5    every effect: row committed, this process's nonce, its session holds the lock
 6    every effect of an attempt on one session, the lock never given up in between
 7    ledger row and statement: the database's clock against ``notAfter``
 8    every effect: row still ``started``, no higher number of the store under another claim
 9    at the mark: no other unresolved mutation of the realm; at the row: no other live session
10    Lease writes: ledger row closed, proof not owed, no session of the claim left
11    Lease writes: a change of holder raises the number
12    Lease and status numbers never fall; the ledger's highest covers each number that ran
13    a stored success: epoch the Lease's, Job pinned, and the ledger agrees with the report
14    settled outcomes against the ledger's row
15    stored and settled outcomes never change
16    by 1 and 2: the one create comes from the life that wrote the mark, and no other comes
17    a pinned Job is one that this claim's create made
20    every write: the same pass has read the document that it replaces (ports read live, which
      ``tests/ports`` holds the backends to)
21    every write carries its resourceVersion
22    after an answer that was lost: the next request of that process about the key is a read
23    debts are cleared only with their result
24    a release carries uid and version, and releases what is owed
25    a resource with an unresolved dispatched claim does not vanish
26    every effect: the server is the one that the plan names
27    no read of a Job before its terminal condition; success needs a row (13)
28    a frozen status takes no claim that needs the realm
30    at the end: no coordination key in what is stored beside ``spec``, or told
31-35 at the end of the healed phase, by ``World.check_end``
====  =====================================================================================

Not checked here: 18 and 19 (admission needs a cluster's webhook, which this version has not), 29
(time inside a read does not exist in a simulation; ``tests/ports`` bounds the real reads).
Relaxed: a restored backup (1, 2, 3, 12, 15 compare with what was taken away: they start again from
the restored status; 4 to 8 hold across it, for they are the database's) and a person's edit of
Lease or finalizers (10, 24, 25 of that resource).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ptahk.engine.model import lease as leases
from ptahk.engine.model import status as statuses
from ptahk.engine.model.claim import PROVE, Claim
from ptahk.engine.model.fields import parse_time
from ptahk.engine.model.job import EPOCH, INTENT, NONCE, OPERATION_ID, SNAPSHOT
from ptahk.engine.model.resource import LEASE, PLAN
from ptahk.engine.model.status import Status
from ptahk.engine.ports import (
    Collected,
    Document,
    JobOrder,
    JobView,
    Key,
    PodView,
    Result,
    key_of,
)
from tests.kit.auditor import AuditedJobs, AuditedObjects, Auditor, Violation, _need
from tests.kit.fakedb import Execution
from tests.sim import fast
from tests.sim.cluster import ApiServer, Cluster, SimJob

if TYPE_CHECKING:
    from tests.sim.conduct import Conduct


@dataclasses.dataclass
class SimAuditor(Auditor):
    """One store's."""

    api: ApiServer | None = None
    jobs: Cluster | None = None
    writers: dict[str, int] = dataclasses.field(default_factory=dict)
    """Dispatch nonce → the life that sent it."""
    marks: dict[str, str] = dataclasses.field(default_factory=dict)
    """Dispatch nonce → operation id, of every mark that landed."""
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    """Dispatch nonce → the Job's name."""
    forced: bool = False
    """A person has edited a Lease or a finalizer by hand."""
    restored: bool = False
    numbers: dict[str, int] = dataclasses.field(default_factory=dict)
    reported: dict[str, str] = dataclasses.field(default_factory=dict)
    """Operation id of a mutation → the outcome that it was stored with."""
    settled: dict[str, str] = dataclasses.field(default_factory=dict)
    consumed: dict[str, str] = dataclasses.field(default_factory=dict)
    """Approval uid → the operation that used it up."""
    refused: int = 0
    frozen: int = 0
    _parsed: dict[tuple[str, str], Status] = dataclasses.field(default_factory=dict)

    def status_of(self, document: Document) -> Status:
        """As stored, parsed once a version."""
        metadata = document["metadata"]
        mark = (metadata["uid"], metadata["resourceVersion"])
        found = self._parsed.get(mark)
        if found is None:
            found = statuses.parse(document.get("status"), metadata["uid"])
            self._parsed[mark] = found
        return found

    def forget(self) -> None:
        """A backup was restored: what it took away never was, for this store."""
        self.restored = True
        self.created.clear()
        self.writers.clear()
        self.marks.clear()
        self.consumed.clear()
        self.numbers.clear()
        self._parsed.clear()

    def status_write(self, before: Status, after: Status, lease: Any) -> None:
        if not self.forced:
            super().status_write(before, after, lease)
        old, new = before.active_operation, after.active_operation
        uid = after.resource_uid
        floor = self.numbers.get(uid, 0)
        _need(12, after.realm_number >= floor, "the status's number went back")
        self.numbers[uid] = after.realm_number
        if new is not None and (old is None or old.operation_id != new.operation_id):
            thawed = before.frozen is None or not new.lease or new.type == PROVE
            _need(28, thawed, "claimed in a frozen realm")
        if new is not None:
            self._claim(uid, old, new)
        if after.frozen is not None and before.frozen is None:
            self.frozen += 1
        answer = after.request
        if answer is not None and answer != before.request and answer.outcome == "Refused":
            self.refused += 1
        for item in after.history:
            if item.settled is not None and item.type in self.mutating:
                self.settled[item.operation_id] = item.settled.type

    def _claim(self, uid: str, old: Claim | None, new: Claim) -> None:
        same = old is not None and old.operation_id == new.operation_id
        marked = new.dispatch_started and not (same and old is not None and old.dispatch_started)
        if marked:
            self.marks[new.dispatch_nonce or ""] = new.operation_id
            self.names[new.dispatch_nonce or ""] = new.job_name
        if marked and new.type in self.mutating:
            self._alone(uid, new)
        if new.approval is not None:
            first = self.consumed.setdefault(new.approval.uid, new.operation_id)
            _need(16, first == new.operation_id, "an approval was used twice (C-3.2)")
        pinned = new.job_uid is not None and not (same and old is not None and old.job_uid)
        if pinned and self.jobs is not None:
            job = self.jobs.jobs.get(("local", new.job_name))
            # Replaced between this pass's look and its write: the next pass finds another UID.
            replaced = job is None or job.uid != new.job_uid
            built = {
                OPERATION_ID: new.operation_id, EPOCH: new.epoch or "", NONCE: new.dispatch_nonce,
                INTENT: new.intent_digest, SNAPSHOT: new.snapshot_digest,
            }  # fmt: skip
            ours = replaced or built.items() <= dict(job.order.annotations).items()
            _need(17, ours, "a Job was pinned that the claim did not build")
        if new.outcome is not None and new.type in self.mutating:
            self.reported[new.operation_id] = new.outcome.type
            applied = new.outcome.type == "Succeeded" and new.outcome.reason != "AlreadyConverged"
            row = self.database.rows.get(new.operation_id)
            done = row is not None and row["state"] == "finished"
            _need(13, done or not applied, "success was stored, and the ledger knows nothing of it")

    def _alone(self, uid: str, claim: Claim) -> None:
        """No other mutation of this realm and store is dispatched and unresolved."""
        assert self.api is not None
        for document in self.api.all():
            if "status" not in document or document["metadata"]["uid"] == uid:
                continue
            if document["kind"] not in ("PtahSchema", "PtahMigration", "PtahToy"):
                continue
            status = self.status_of(document)
            other, owed = status.active_operation, status.pending_observation
            busy = other is not None and other.dispatch_started and other.type in self.mutating
            if self.forced:
                continue
            clash = busy and other is not None and other.realm == claim.realm
            _need(9, not clash, "two dispatched mutations in one realm")
            clash = owed is not None and owed.realm == claim.realm
            _need(9, not clash, "dispatched while another's proof is owed")

    def lease_write(self, before: Document, after: Document, owner: Status | None) -> None:
        old, new = leases.parse(before), leases.parse(after)
        if isinstance(old, leases.Malformed) or isinstance(new, leases.Malformed):
            raise Violation("invariant 24: a malformed Lease was written over")
        if not self.forced:
            super().lease_write(before, after, owner)
        if old.identity is not None and old.identity == new.identity:
            _need(12, old.epoch == new.epoch, "its holder's epoch changed (C-6.7)")
        if old.identity is not None and old.identity != new.identity and not self.forced:
            operation = self.dispatched.get(old.identity)
            session = self.database.session
            alive = (
                session is not None and operation is not None
                and session.order.spec.operation_id == operation
            )  # fmt: skip
            _need(10, not alive, "a realm was given up while a session of it lives")

    def sent(self, order: JobOrder, life: int) -> None:
        """A create is sent by this process life.

        It may come late, even behind its outcome, where the process stood still between mark and
        create: that is what tombstone and wait are for (C-6.9). It may not come twice, nor from
        anyone who did not write the mark.
        """
        nonce, identity = order.annotations[NONCE], order.annotations[OPERATION_ID]
        count = self.created.get(identity, 0) + 1
        self.created[identity] = count
        _need(1, count <= 1, f"two creates for {order.spec.operation}")
        _need(2, self.marks.get(nonce) == identity, "no mark when the Job is created")
        _need(17, self.names.get(nonce) == order.name, "a Job of another name than its claim's")
        _need(2, self.writers.get(nonce) == life, "the mark was written by another process")

    def vanished(self, document: Document) -> None:
        """An object is removed from the store."""
        if "status" not in document or self.forced:
            return
        status = self.status_of(document)
        claim, owed = status.active_operation, status.pending_observation
        busy = claim is not None and claim.dispatch_started and claim.type in self.mutating
        _need(25, not busy and owed is None, "a resource vanished with its claim unresolved")

    def begins(self, run: Execution) -> None:
        """A ledger row was committed."""
        row = self.database.rows[run.order.spec.operation_id]
        late = self.database.time() >= parse_time(row["notAfter"])
        _need(7, not late, "a ledger row after notAfter")
        _need(9, self.database.session is run, "a ledger row without the lock")


class EffectAuditor:
    """What the database itself sees, whatever store an attempt came from."""

    def __init__(self) -> None:
        self.count: dict[tuple[str, int], int] = {}
        self.sessions: dict[str, Execution] = {}
        self.ran: dict[str, int] = {}
        """Store uid → the highest number that ran DDL."""
        self.wanted: dict[str, dict[str, Any]] = {}
        """Operation id of a mutation → what its mark was written for."""

    def begins(self, run: Execution) -> None:
        """A ledger row was committed, and nothing else yet."""
        state = self.wanted.get(run.order.spec.operation_id, {}).get("observedState")
        live = run.db.fingerprint(run.db.live)
        _need(8, state in (None, live), "begun on another state than the plan's (C-10.3)")

    def effect(self, run: Execution, statement: str, sent_late: bool) -> None:
        db, spec = run.db, run.order.spec
        row = db.rows.get(spec.operation_id)
        _need(5, row is not None, "an effect without a ledger row")
        assert row is not None
        _need(5, row["startNonce"] == run.nonce, "an effect under another process's row")
        _need(5, db.session is run, "an effect without the lock")
        first = self.sessions.setdefault(spec.operation_id, run)
        _need(6, first is run, "two sessions of one attempt")
        _need(7, not sent_late, "a statement was sent after notAfter")
        _need(8, row["state"] == "started", "an effect behind a tombstone")
        number = row["number"]
        higher = [
            other for other in db.rows.values()
            if other["storeUid"] == row["storeUid"] and other["number"] > number
            and other["serverIdentity"] == row["serverIdentity"]
        ]  # fmt: skip
        _need(8, not higher, "an effect under a number that is not the highest")
        index = row["statementsDone"] + 1
        times = self.count.get((spec.operation_id, index), 0) + 1
        self.count[spec.operation_id, index] = times
        _need(4, times <= 1, f"statement {index} took effect {times} times")
        identity = self.wanted.get(spec.operation_id, {}).get("serverIdentity")
        _need(26, identity in (None, spec.server_identity), "a Job that may run on any server")
        _need(26, identity in (None, db.identity), "an effect on another server")
        self.ran[spec.store_uid] = max(self.ran.get(spec.store_uid, 0), number)
        _need(12, number >= self.ran[spec.store_uid], "DDL ran under a number that had passed")


class SimObjects(AuditedObjects):
    """The kit's, with each stored status parsed once, and what one pass has read."""

    def __init__(self, api: ApiServer, auditor: SimAuditor) -> None:
        super().__init__(api, auditor)
        self.api, self.audit = api, auditor
        self.read: dict[Key, Document] = {}
        """What this pass has read, as it read it."""
        self.listed: dict[str, tuple[Document, ...]] = {}
        """Kind → what this pass was answered."""
        self.saw: Callable[[Document], None] = lambda document: None

    def begin(self) -> None:
        """A pass begins: it has read nothing."""
        self.read.clear()
        self.listed.clear()

    def get(self, key: Key) -> Document:
        found = self.api.get(key)
        self.read[key] = found
        self.saw(found)
        return found

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        found = self.api.list(kind, namespace, labels)
        self.listed[kind] = found
        if kind == PLAN:
            self.read.update((key_of(item), item) for item in found)
        return found

    def replace_status(self, document: Document) -> Document:
        key = key_of(document)
        _need(21, bool(document["metadata"].get("resourceVersion")), "a write without its version")
        before = self.api.find(key)
        new = None
        if before is not None and self._fits(before, document):
            uid = before["metadata"]["uid"]
            new = fast.STATUSES.once(fast.status)(document.get("status"), uid)
            self.audit.status_write(self.audit.status_of(before), new, self.lease())
        stored = self.api.replace_status(document)
        if new is not None:
            metadata = stored["metadata"]
            self.audit._parsed[metadata["uid"], metadata["resourceVersion"]] = new
            fast.STATUSES.learn(stored["status"], new)
        return stored

    def replace(self, document: Document) -> Document:
        if document["kind"] == LEASE:
            _need(24, bool(document["metadata"].get("uid")), "a Lease written without its uid")
        return super().replace(document)

    def _owner(self, lease: Document) -> Status | None:
        record = leases.parse(lease)
        holder = record.holder if isinstance(record, leases.LeaseRecord) else None
        if holder is None:
            return None
        document = self.api.find(Key(holder.kind, holder.namespace, holder.name))
        return None if document is None else self.audit.status_of(document)


class SimJobs(AuditedJobs):
    """The kit's, knowing whose life sends the create."""

    life = 0
    conduct: "Conduct"
    cluster: Cluster

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        found = super().collect(namespace, name, uid)
        job = self.cluster.jobs.get((namespace, name))
        forged = isinstance(job, SimJob) and job.forged and isinstance(found, Result)
        self.conduct.forged[uid] = forged
        return found

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        found = super().pods(namespace, name, uid)
        self.conduct.pods[name, uid or ""] = tuple(pod.uid for pod in found)
        return found

    def create(self, order: JobOrder) -> JobView:
        auditor = self._auditor
        assert isinstance(auditor, SimAuditor)
        auditor.sent(order, self.life)
        return self._inner.create(order)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        """Of the claim whose Job it is: another process may have gone on meanwhile."""
        status = self._status()
        claim = status.active_operation
        stored = any(item.job == name for item in status.history)
        if claim is not None and claim.job_name == name:
            stored = claim.outcome is not None
        _need(10, stored, "a Job's cleanup was set before its outcome was stored")
        self._inner.expire(namespace, name, uid, ttl_s)


__all__ = ["EffectAuditor", "SimAuditor", "SimJobs", "SimObjects"]
