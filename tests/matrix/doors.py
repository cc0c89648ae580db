"""The auditors at the doors of a bed: every write that lands, every create that is sent.

What is checked is the simulator's (``tests/sim/auditor.py``); here it is wired to a world whose
versions come again in forks.
"""

from collections.abc import Mapping
from typing import Any

from ptahk.engine.model import lease as leases
from ptahk.engine.model.resource import LEASE, PLAN
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, JobOrder, JobView, Key, key_of
from tests.kit.auditor import AuditedJobs, AuditedObjects, _need
from tests.sim import fast
from tests.sim.auditor import SimAuditor
from tests.sim.cluster import ApiServer


class MatrixAuditor(SimAuditor):
    """Knows a stored status by the very document: a version may come again in another fork."""

    def status_of(self, document: Document) -> Status:
        parse = fast.STATUSES.once(fast.status)
        found: Status = parse(document.get("status"), document["metadata"]["uid"])
        return found


class DoorObjects(AuditedObjects):
    """The Objects port, audited, and what one pass has read."""

    def __init__(self, api: ApiServer, auditor: MatrixAuditor) -> None:
        super().__init__(api, auditor)
        self.api, self.audit = api, auditor
        self.read: dict[Key, Document] = {}

    def get(self, key: Key) -> Document:
        found = self.api.get(key)
        self.read[key] = found
        return found

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        found = self.api.list(kind, namespace, labels)
        if kind == PLAN:
            self.read.update((key_of(item), item) for item in found)
        return found

    def replace_status(self, document: Document) -> Document:
        _need(21, bool(document["metadata"].get("resourceVersion")), "a write without its version")
        before = self.api.find(key_of(document))
        new: Any = None
        if before is not None and self._fits(before, document):
            new = fast.status(document.get("status"), before["metadata"]["uid"])
            self.audit.status_write(self.audit.status_of(before), new, self.lease())
        stored = self.api.replace_status(document)
        if new is not None:
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


class DoorJobs(AuditedJobs):
    """The Jobs port, audited, knowing whose life sends the create."""

    life = 0

    def create(self, order: JobOrder) -> JobView:
        auditor = self._auditor
        assert isinstance(auditor, MatrixAuditor)
        auditor.sent(order, self.life)
        return self._inner.create(order)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        """Of the claim whose Job it is, or of one that is over."""
        status = self._status()
        claim = status.active_operation
        stored = any(item.job == name for item in status.history)
        if claim is not None and claim.job_name == name:
            stored = claim.outcome is not None
        _need(10, stored, "a Job's cleanup was set before its outcome was stored")
        self._inner.expire(namespace, name, uid, ttl_s)
