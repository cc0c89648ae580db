"""What one pass may send, judged by what that very pass has read.

``auditor.py`` looks at what lands; a write may land minutes later, in another world. Here a
request is looked at as it is sent: rules about evidence (the census was read live, the Lease was
watched, the approval binds) can only be judged then. Everything is computed anew from documents,
with none of the engine's own judgements, so that both would have to be wrong alike.
"""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from ptahk.engine.model import lease as leases
from ptahk.engine.model.claim import PROVE, Claim, PendingObservation
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import ACKNOWLEDGE, APPROVAL, LEASE, PLAN, SCHEMA
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, Key
from ptahk.wire import digest
from tests.kit import toy
from tests.kit.auditor import _need
from tests.sim import fast

if TYPE_CHECKING:
    from tests.sim.world import Manager

NO_RESULT = frozenset({"FrameLost", "FrameRefused", "ContinuityLost", "JobMissing", "JobForeign"})
"""Outcomes of an operation whose output was not believed."""
SKEW_MAX_S = 30.0
DISPATCH_MAX_S = 300.0


@dataclass
class Conduct:
    """One process life's."""

    manager: "Manager"
    watched: dict[tuple[str, str], float] = field(default_factory=dict)
    """What this life has seen stand (Lease or uncertain proof), and since when."""
    pods: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """(Job, uid or empty) → Pods that this pass was shown."""
    forged: dict[str, bool] = field(default_factory=dict)
    """Job uid → whether the output that this life read was not the executor's own."""

    def saw(self, document: Document) -> None:
        """This pass has read it."""
        metadata = document["metadata"]
        now_s = self.manager.clock.monotonic()
        if document["kind"] == LEASE:
            self.watched.setdefault((metadata["uid"], metadata["resourceVersion"]), now_s)
        elif "status" in document:
            owed = self._status(document).pending_observation
            if owed is not None and owed.uncertain:
                self.watched.setdefault((owed.operation_id, owed.epoch), now_s)

    def sends(self, key: Key, document: Document) -> None:
        """A document is about to be written over the one that this pass has read."""
        before = self.manager.objects.read.get(key)
        if before is None:
            return
        if key.kind == LEASE:
            self._lease(before, document)
        elif "status" in document and key.kind == self.manager.world.kind:
            after = document["status"]
            new = fast.STATUSES.once(fast.status)(after, before["metadata"]["uid"])
            if before.get("status") != after:
                self._write(before, self._status(before), new)

    def _status(self, document: Document) -> Status:
        return self.manager.site.auditor.status_of(document)

    # -- status -------------------------------------------------------------------------------

    def _write(self, document: Document, old: Status, new: Status) -> None:
        was, now = old.active_operation, new.active_operation
        if now is not None and (was is None or was.operation_id != now.operation_id):
            self._claims(document, old, now)
        marked = was is not None and was.dispatch_started
        if now is not None and now.dispatch_started and not marked:
            self._marks(document, old, now)
        if now is not None and now.approval is not None and (was is None or not was.approval):
            self._consumes(now)
        if now is not None and now.outcome is not None and was is not None and not was.outcome:
            self._ends(old, new, was, now)
        if was is not None and was.outcome is not None and now is None:
            self._clears(was)
        if now is not None and now.epoch is not None:
            known = int(now.epoch.split(".")[0]) <= new.realm_number
            _need(12, known, "an epoch above the status's number")
        if old.frozen is not None and new.frozen is None:
            word = json.loads(document["metadata"]["annotations"][ACKNOWLEDGE])
            _need(28, word.get("frozen") == old.frozen.number, "thawed by a word on another number")
        if new.database is not None and new.database != old.database:
            self._frozen(now, new)
        self._forgets(old, new)
        self._unresolved(old, new)

    def _unresolved(self, old: Status, new: Status) -> None:
        """A run that stopped in a file stands until its database says otherwise (C-4.4)."""
        run, seen = new.unresolved_run, new.last_observation
        if seen is not None and seen != old.last_observation and seen.get("verdict") == "dirty":
            _need(23, run is not None, "the history is dirty, and no run is unresolved (C-4.4)")
        if run is None and old.unresolved_run is not None:
            database = new.database
            assert database is not None and seen is not None
            told = {} if old.active_operation is None else old.active_operation.inputs
            word = (told.get("change") or {}).get("operation") == old.unresolved_run.operation_id
            same = database.server_identity == old.unresolved_run.server_identity
            _need(23, same or word, "a run was resolved by another server's history (C-4.4)")
            _need(23, seen["verdict"] != "dirty", "a run was resolved by a dirty history (C-4.4)")

    def _claims(self, document: Document, old: Status, claim: Claim) -> None:
        name = digest.job_name(
            claim.type, document["metadata"]["uid"], claim.operation_id,
            claim.input_fingerprint, claim.attempt,
        )  # fmt: skip
        _need(17, claim.job_name == name, "a Job's name that does not come from its claim (C-3.1)")
        owed = old.pending_observation
        if claim.type == PROVE:
            assert owed is not None
            _need(13, claim.holder == owed.holder, "a proof under another holder (C-6.9)")
            if owed.uncertain:
                since = self.watched.get((owed.operation_id, owed.epoch))
                waited = 0.0 if since is None else self.manager.clock.monotonic() - since
                enough = waited >= owed.lease_duration_seconds
                _need(10, enough, "no whole wait for a create that may still land (C-6.9)")
            return
        suspended = document["spec"].get("suspend") is True
        _need(28, not suspended, "a suspended resource claims (C-3.5)")
        deleted = "deletionTimestamp" in document["metadata"]
        _need(25, not deleted, "a deleted resource claims")

    def _marks(self, document: Document, old: Status, claim: Claim) -> None:
        assert claim.dispatch_time is not None
        whole = float(claim.active_deadline_seconds)
        soon = timedelta(seconds=min(DISPATCH_MAX_S, whole / 2))
        exact = (
            claim.dispatch_not_after == claim.dispatch_time + soon
            and claim.execution_not_after == claim.dispatch_time + timedelta(seconds=whole)
        )
        _need(7, exact, "deadlines that are not the claim's (C-3.7)")
        if claim.type == PROVE:
            return
        if claim.lease:
            _need(28, old.frozen is None, "dispatched in a frozen realm")
            self._census(document)
        if claim.type not in self.manager.site.auditor.mutating:
            return
        seen = old.database
        near = seen is None or abs(seen.clock_offset_seconds) <= SKEW_MAX_S
        _need(7, near, "dispatched though the database's clock is off (C-3.7)")
        self.manager.world.database.effects_seen.wanted[claim.operation_id] = dict(claim.inputs)
        if self.manager.world.kind == SCHEMA:
            self._permitted(document, claim)
        elif self.manager.world.kind == MIGRATION:
            self._sequence(document, old, claim)

    def _census(self, document: Document) -> None:
        """Nobody else claims the realm, or all share it, as this pass has read it (C-6.3)."""
        listed = self.manager.objects.listed.get(document["kind"])
        _need(20, listed is not None, "no census in the pass that dispatches (C-6.4)")
        own = document["spec"]["target"]["sharedRealm"] is True
        for other in listed or ():
            if other["metadata"]["uid"] == document["metadata"]["uid"]:
                continue
            both = own and other["spec"]["target"]["sharedRealm"] is True
            _need(9, both or not self._claimant(other), "dispatched in spite of a conflict (C-6.3)")

    def _claimant(self, other: Document) -> bool:
        status = self._status(other)
        claim = status.active_operation
        owing = status.pending_observation or status.pending_lock_release
        if owing or (claim is not None and claim.dispatch_started):
            return True
        idle = other["spec"].get("suspend") or "deletionTimestamp" in other["metadata"]
        if idle or self.manager.world.kind == toy.KIND:
            return False
        return self.manager.site.store.automatic or (claim is not None and claim.outcome is None)

    def _permitted(self, document: Document, claim: Claim) -> None:
        """Policy, approval and declaration, as this pass has read them."""
        spec = document["spec"]
        policy, planned = spec["policy"], self._planned(document, claim)
        allowed = policy["allowDestructive"] or not planned["destructive"]
        _need(16, allowed, "destroys, and policy does not allow it (C-10.4)")
        declared = digest.source_digest((("inline.sql", spec["desired"]["inline"]),))
        same = planned["binding"]["sourceDigest"] == declared
        _need(16, same, "applies the plan of another declaration (C-3.6)")
        if policy["apply"] != "Always" or planned["destructive"] or planned["privileges"]:
            self._approved(claim)

    def _sequence(self, document: Document, old: Status, claim: Claim) -> None:
        """Policy, approval, sequence and history, as this pass has read them."""
        planned = self._planned(document, claim)
        binding = planned["binding"]
        bound = (binding["sequenceDigest"], binding["historyFingerprint"], binding["change"])
        told = (claim.inputs["sequence"], claim.inputs["history"], claim.inputs["change"])
        _need(16, bound == told, "another sequence or history than the plan's (C-7.2)")
        settled = old.unresolved_run is None or binding["action"] != "run"
        _need(16, settled, "applied while a run is unresolved (C-4.4)")
        if document["spec"]["policy"]["apply"] != "Always" or binding["approval"] is not False:
            self._approved(claim)

    def _planned(self, document: Document, claim: Claim) -> Document:
        named = claim.inputs["plan"]
        plan = self.manager.objects.read[Key(PLAN, "local", named["name"])]
        _need(16, plan["metadata"]["uid"] == named["uid"], "another plan than the claim's")
        never = document["spec"]["policy"]["apply"] == "Never"
        _need(16, not never, "applied though policy.apply is Never")
        planned: Document = plan["spec"]
        return planned

    def _approved(self, claim: Claim) -> None:
        _need(16, claim.approval is not None, "applied without an approval (C-10.4)")
        assert claim.approval is not None
        found = self._approval(claim.approval.uid)
        _need(16, found is not None, "applied under an approval that is gone (step 4)")

    def _approval(self, uid: str) -> Document | None:
        listed = self.manager.objects.listed.get(APPROVAL, ())
        return next((item for item in listed if item["metadata"]["uid"] == uid), None)

    def _consumes(self, claim: Claim) -> None:
        assert claim.approval is not None
        found = self._approval(claim.approval.uid)
        _need(16, found is not None, "an approval was used that this pass has not read")
        assert found is not None
        spec, named = found["spec"], claim.inputs["plan"]
        plan = self.manager.objects.read[Key(PLAN, "local", named["name"])]
        binds = (
            spec["resource"]["uid"] == plan["spec"]["resource"]["uid"]
            and spec["plan"]["uid"] == plan["metadata"]["uid"]
            and spec["fingerprint"] == plan["spec"]["fingerprint"]
        )
        _need(16, binds, "an approval was used that does not bind the plan (C-2)")

    def _ends(self, old: Status, new: Status, was: Claim, now: Claim) -> None:
        """An operation ends: its result is its own, and every Pod was taken into account."""
        assert now.outcome is not None
        owed, before = new.pending_observation, old.pending_observation
        if now.outcome.type == "Succeeded" and was.epoch is not None:
            _need(13, self._holds(was), "a result was used after the Lease had changed (C-5.6)")
        if was.job_uid is not None and self.forged.get(was.job_uid):
            dropped = now.outcome.reason in {*NO_RESULT, "Superseded"}
            _need(13, dropped, "a result was believed that is not its executor's (C-5.1)")
        if was.type in self.manager.site.auditor.mutating:
            _need(23, owed is not None, "a mutation ended without its proof owed")
            assert owed is not None
            self._counted(owed)
            unsure = now.outcome.reason in ("JobMissing", "JobForeign") and was.job_uid is None
            waits = owed.uncertain or not unsure or self.manager.site.local
            _need(10, waits, "a create may still land, and nobody waits for it (C-6.9)")
        proven = owed is None or owed.fenced
        if was.type == PROVE and before is not None and proven:
            self._counted(owed or before)  # a proof that starts again takes them along

    def _counted(self, owed: PendingObservation) -> None:
        seen = self.pods.get((owed.job_name, owed.job_uid or ""), ())
        known = len(owed.pods.uids) == 8 or set(seen) <= set(owed.pods.uids)
        _need(13, known, "it ended before a Pod that was seen was recorded (C-4.2)")

    def _holds(self, claim: Claim) -> bool:
        """The Lease that this pass has read is the claim's."""
        for key, document in self.manager.objects.read.items():
            if key.kind == LEASE:
                record = leases.parse(document)
                return isinstance(record, leases.LeaseRecord) and (
                    record.identity == claim.holder and str(record.epoch) == claim.epoch
                )
        return False

    def _clears(self, claim: Claim) -> None:
        job = self.manager.site.jobs.jobs.get(("local", claim.job_name))
        if claim.job_uid is None or job is None or job.uid != claim.job_uid or not job.present:
            return
        _need(15, job.ttl_s is not None, "cleared before its Job's cleanup was set (step 12)")

    def _frozen(self, claim: Claim | None, new: Status) -> None:
        """What the ledger says against this store freezes it (C-6.14)."""
        assert new.database is not None
        if new.frozen is not None or claim is None:
            return
        world, store = self.manager.world, self.manager.site.store
        rows = [
            row for row in world.database.rows.values()
            if row["serverIdentity"] == new.database.server_identity
        ]  # fmt: skip
        thawed = getattr(new, "thawed_operations", ())
        foreign = [row for row in rows if row["storeUid"] != store.uid]
        for row in foreign:
            open_ = row["state"] == "started" and row["storeKind"] == "cluster"
            if len(world.sites) == 1 and open_ and claim.inputs.get("sharedRealm") is False:
                known = row["number"] <= new.thawed or row["operationId"] in thawed
                _need(28, known, "another cluster's open attempt, and nothing freezes")
        if foreign or self.manager.site.auditor.forced:
            return
        leased = [leases.parse(item) for item in self.manager.site.api.list(LEASE)]
        numbers = [item.epoch.number for item in leased if isinstance(item, leases.LeaseRecord)]
        known = new.database.highest_number <= max([*numbers, new.realm_number, new.thawed])
        _need(28, known, "the ledger is ahead of the store, and nothing freezes")

    def _forgets(self, old: Status, new: Status) -> None:
        """A Lease that a claim or debt of ours holds stays somebody's business (C-4.5)."""
        was = old.active_operation
        if was is None or was.epoch is None or self.manager.site.auditor.forced:
            return
        after = (new.active_operation, new.pending_observation, new.pending_lock_release)
        active = new.active_operation
        if any(item is not None and item.holder == was.holder for item in after[1:]):
            return
        if active is not None and active.holder == was.holder and active.outcome is None:
            return
        if old.pending_lock_release is None and was.outcome is None:
            _need(23, not self._holds(was), "a realm is held, and nobody owes its release")

    # -- Lease --------------------------------------------------------------------------------

    def _lease(self, before: Document, after: Document) -> None:
        old, new = leases.parse(before), leases.parse(after)
        if isinstance(old, leases.Malformed) or isinstance(new, leases.Malformed):
            return
        about = self.manager.objects.read[self.manager.site.keys[-1]]
        status = self._status(about)
        if new.identity is None:
            return
        claim, owed = status.active_operation, status.pending_observation
        holders = {
            item.holder: item.lease_duration_seconds for item in (owed, claim) if item is not None
        }
        _need(24, new.identity in holders, "a Lease was written for another's claim")
        same = new.duration_s == holders[new.identity]
        _need(10, same, "a Lease of another duration than its claim's (C-6.5)")
        if old.identity == new.identity:
            return
        fenced = owed is None or owed.fenced
        _need(10, fenced, "a realm was taken again before the fence (C-6.8)")
        if old.identity is not None:
            metadata = before["metadata"]
            since = self.watched.get((metadata["uid"], metadata["resourceVersion"]))
            stood = 0.0 if since is None else self.manager.clock.monotonic() - since
            _need(11, stood >= old.duration_s, "taken over before it was watched (C-6.6)")
