"""The simulator's auditor over a state: every write that lands, every create that is sent.

``tests/sim/auditor.py`` judges; what it has to remember is part of the state (``State.seen``), so
that no two paths with different pasts are taken for one.
"""

import json
from types import SimpleNamespace
from typing import Any

from ptahk.engine.model import lease as leases
from ptahk.engine.model import status as statuses
from ptahk.engine.model.job import NONCE, OPERATION_ID
from ptahk.engine.model.resource import LEASE
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, Key
from tests.kit.auditor import Violation, _need
from tests.kit.fakedb import Execution, FakeDatabase
from tests.model.effects import Effect
from tests.model.parts import NOW, Interned, Part
from tests.sim import fast
from tests.sim.auditor import SimAuditor

MUTATING = frozenset({"Touch"})
_parse = fast.STATUSES.once(statuses.parse)


def status_of(part: Part) -> Status:
    """A resource's status, parsed once."""
    found: Status = _parse(part.extra.document.get("status"), part.extra.uid)
    return found


class _Auditor(SimAuditor):
    """The simulator's, with nothing of its own to remember."""

    def status_of(self, document: Document) -> Status:
        found: Status = _parse(document.get("status"), document["metadata"]["uid"])
        return found


def nothing(interned: Interned) -> Part:
    """Before anything was seen."""
    return interned.of("seen", ((), ()))


def database_facts(database: Part) -> FakeDatabase:
    """Rows and session, as the auditors ask for them.

    A process that got the lock behind its own tombstone, and has not been refused yet, is no
    session that may write: it is left out.
    """
    if database.extra is None:
        base = database.content
        rows = {name: json.loads(text) for name, text in base.rows}
        session: Any = None
        if base.session is not None:
            nonce, order = base.session
            row = rows.get(order.extra.spec.operation_id)
            closed = row is not None and row["state"] != "started" and row["startNonce"] != nonce
            session = None if closed else (order.extra, nonce)
        facts = FakeDatabase(lambda: NOW, live=list(base.live), rows=rows)
        facts.effects = [(name, str(number)) for name, number, _ in base.effects]
        if session is not None:
            facts.session = Execution(facts, session[0], "", session[1])
        database.extra = facts
    found: FakeDatabase = database.extra
    return found


class Audit:
    """Judges effects; a judgement of the same parts is kept."""

    def __init__(self, interned: Interned) -> None:
        self.interned = interned
        self._known: dict[Any, Violation | None] = {}

    def effect(
        self, effect: Effect, stored: dict[Key, Part], jobs: dict[str, Part], database: Part,
        seen: Part, marks: dict[str, str],
    ) -> Part:  # fmt: skip
        """What was seen, with this effect too; ``stored`` is what stood before it.

        :param marks: dispatch nonce → operation id, of every mark that this pass has landed.
        :raises Violation: an invariant does not hold.
        """
        created, dispatched = seen.content
        if effect.verb == "job":
            assert effect.after is not None
            return self._sent(effect.after, seen, marks)
        if effect.verb not in ("status", "replace", "delete") or effect.before is None:
            return seen
        lease = next((part for key, part in stored.items() if key.kind == LEASE), None)
        others = tuple(stored.values())
        key = (effect, others, database, dispatched, self._pinned(effect, jobs))
        if key not in self._known:
            try:
                self._judge(effect, stored, jobs, database, dict(dispatched), lease)
                self._known[key] = None
            except Violation as violation:
                self._known[key] = violation
        found = self._known[key]
        if found is not None:
            raise found
        if effect.verb != "status" or effect.after is None:
            return seen
        claim = status_of(effect.after).active_operation
        if claim is None or not claim.dispatch_started or claim.type not in MUTATING:
            return seen
        known = dict(dispatched) | {claim.holder: claim.operation_id}
        return self.interned.of("seen", (created, tuple(sorted(known.items()))))

    def _pinned(self, effect: Effect, jobs: dict[str, Part]) -> Part | None:
        if effect.verb != "status" or effect.after is None:
            return None
        claim = status_of(effect.after).active_operation
        return None if claim is None else jobs.get(claim.job_name)

    def _judge(
        self, effect: Effect, stored: dict[Key, Part], jobs: dict[str, Part], database: Part,
        dispatched: dict[str, str], lease: Part | None,
    ) -> None:  # fmt: skip
        before, after = effect.before, effect.after
        assert before is not None
        auditor = self._auditor(stored, jobs, database, dispatched)
        if after is None:
            auditor.vanished(before.extra.document)
        elif before.extra.key.kind == LEASE:
            owner = self._owner(before, stored)
            auditor.lease_write(before.extra.document, after.extra.document, owner)
        elif effect.verb == "status":
            old = status_of(before)
            auditor.numbers[old.resource_uid] = old.realm_number
            held = None if lease is None else lease.extra.document
            auditor.status_write(old, status_of(after), held)

    def _auditor(
        self, stored: dict[Key, Part], jobs: dict[str, Part], database: Part,
        dispatched: dict[str, str],
    ) -> _Auditor:  # fmt: skip
        api: Any = SimpleNamespace(all=lambda: [part.extra.document for part in stored.values()])
        listed = {
            ("local", name): SimpleNamespace(uid=part.content[1], order=part.content[0].extra)
            for name, part in jobs.items()
        }
        return _Auditor(
            database_facts(database), MUTATING, dispatched=dispatched, api=api,
            jobs=SimpleNamespace(jobs=listed),  # type: ignore[arg-type]
        )  # fmt: skip

    def _owner(self, lease: Part, stored: dict[Key, Part]) -> Status | None:
        record = leases.parse(lease.extra.document)
        holder = record.holder if isinstance(record, leases.LeaseRecord) else None
        if holder is None:
            return None
        found = stored.get(Key(holder.kind, holder.namespace, holder.name))
        return None if found is None else status_of(found)

    def _sent(self, order: Part, seen: Part, marks: dict[str, str]) -> Part:
        """A create leaves its process: once, by the pass that wrote the mark (1, 2, 16)."""
        annotations = order.extra.annotations
        identity, nonce = annotations[OPERATION_ID], annotations[NONCE]
        created, dispatched = seen.content
        _need(1, identity not in created, f"two creates for {order.extra.spec.operation}")
        _need(2, marks.get(nonce) == identity, "the mark was not written by this pass")
        return self.interned.of("seen", (tuple(sorted((*created, identity))), dispatched))
