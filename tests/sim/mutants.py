"""One-line sabotages of the engine, each an exact replacement in one source file.

``old`` stands in the file exactly once (``test_mutants`` holds it to that), so that a change of
the engine cannot disarm one unseen. ``rule`` says what the line is there for. How they are planted
and hunted: ``tests/sim/hunt.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One sabotage."""

    name: str
    file: str
    """Below ``ptahk/engine``."""
    old: str
    new: str
    rule: str
    """Invariant or rule of the contract that it breaks."""
    kind: str | None = None
    """The family whose seeds hunt it; None: schema and toy."""


MIGRATION = "PtahMigration"
"""Not the engine's own word for it: what plants these has not imported the engine."""
_RUNNING = "lifecycle/running.py"
_CLAIMED = "lifecycle/claimed.py"
_SETTLE = "lifecycle/settle.py"
_FINISHING = "lifecycle/finishing.py"
_OWED = "lifecycle/owed.py"
_STEPS = "lifecycle/__init__.py"
_RESULTS = "families/schema/results.py"
_WANTED = "families/schema/wanted.py"
_JOBS = "families/common.py"
_SEQUENCE = "families/migration/__init__.py"
_SEQUENCE_WANTED = "families/migration/wanted.py"
_SEQUENCE_RESULTS = "families/migration/results.py"

MUTANTS: tuple[Mutant, ...] = (
    # -- the mark and the one create ------------------------------------------------------------
    Mutant(
        "create-again-on-a-missing-job", _RUNNING,
        '        uncertain = claim.job_uid is None\n',
        '        uncertain = claim.job_uid is None\n'
        '        if uncertain: return Do(WriteStatus("DiscardClaim", dataclasses.replace('
        's.status, active_operation=dataclasses.replace(claim, dispatch_started=False, '
        'dispatch_time=None, dispatch_nonce=None, dispatch_not_after=None, '
        'execution_not_after=None, intent_digest=None))))\n',
        "1, 3, 16",
    ),
    Mutant(
        "missing-means-not-started", _RUNNING,
        '        uncertain = claim.job_uid is None\n',
        '        uncertain = claim.job_uid is None\n'
        '        if uncertain: return Do(WriteStatus("DiscardClaim", dataclasses.replace('
        's.status, active_operation=None)))\n',
        "C-3.2",
    ),
    Mutant(
        "create-retried-after-a-lost-answer", "perform.py",
        '        return "CreateUncertain"\n',
        '        ports.jobs.create(intent.order)\n',
        "1",
    ),
    Mutant(
        "create-before-the-mark", "perform.py",
        '        _write_status(ports, document, intent.status)\n    except',
        '        ports.jobs.create(intent.order); '
        '_write_status(ports, document, intent.status)\n    except',
        "2",
    ),
    Mutant(
        "create-after-a-mark-that-was-lost", "perform.py",
        '            raise\n',
        '            pass\n',
        "2",
    ),
    Mutant(
        "anyones-mark-is-ours", "perform.py",
        ' and claim.get("dispatchNonce") == nonce',
        '',
        "2",
    ),
    Mutant(
        "random-job-name", _CLAIMED,
        '        job_name=digest.job_name(proposal.operation, s.uid, operation_id, fingerprint, '
        'attempt),\n',
        '        job_name=f"ptahk-op-{s.draws.nonce}",\n',
        "C-3.1",
    ),
    Mutant(
        "job-name-drawn-at-the-create", _CLAIMED,
        '        name=claim.job_name,\n',
        '        name=f"{claim.job_name[:-6]}{s.draws.epoch_bits[:6]}",\n',
        "C-3.1",
    ),
    Mutant(
        "no-finalizer-before-the-claim", "decide.py",
        '    if not s.finalized:\n        return Do(EditFinalizers(_finalizers(s, keep=True)',
        '    if s.draws is None:\n        return Do(EditFinalizers(_finalizers(s, keep=True)',
        "25",
    ),
    Mutant(
        "no-live-census-before-the-mark", _CLAIMED,
        '    refusal = gates.claim(s, realm=claim.lease, mutates=family.mutates(claim.type))\n',
        '    refusal = gates.claim(s, realm=False, mutates=family.mutates(claim.type))\n',
        "C-6.4",
    ),
    Mutant(
        "clock-skew-is-nothing", "gates.py",
        'abs(database.clock_offset_seconds) <= CLOCK_SKEW_MAX_S',
        'abs(database.clock_offset_seconds) >= 0',
        "C-3.7",
    ),
    Mutant(
        "the-suspended-claim-too", "gates.py",
        '    if s.spec is not None and s.spec.suspend:\n',
        '    if s.spec is None:\n',
        "C-3.5",
    ),
    Mutant(
        "claims-while-frozen", "gates.py",
        '    if frozen is None:\n        return None\n    return Refusal("Frozen"',
        '    if frozen is None or s.generation:\n        return None\n    return Refusal("Frozen"',
        "28",
    ),
    Mutant(
        "dispatch-deadline-of-the-whole-run", _CLAIMED,
        'timedelta(seconds=min(DISPATCH_MAX_S, seconds / 2))',
        'timedelta(seconds=seconds)',
        "C-3.7",
    ),
    # -- approval and policy --------------------------------------------------------------------
    Mutant(
        "approval-of-another-fingerprint", "approval.py",
        '        and spec.fingerprint == plan.spec.fingerprint\n',
        '',
        "C-2",
    ),
    Mutant(
        "approval-of-another-plan", "approval.py",
        '        and spec.plan.uid == plan.uid\n',
        '',
        "C-2",
    ),
    Mutant(
        "approval-used-twice", "approval.py",
        '    if any(used.uid == item.uid for used in status.consumed_approvals):\n',
        '    if status is None:\n',
        "C-3.2",
    ),
    Mutant(
        "consumption-is-permission", _CLAIMED,
        '        if any(approval.binds(item, s.plan, s.uid) for item in kept):\n',
        '        if kept or claim.approval:\n',
        "step 4",
    ),
    Mutant(
        "destruction-needs-no-approval", _WANTED,
        ' or plan.spec.destructive or plan.spec.privileges\n',
        '\n',
        "C-10.4",
    ),
    Mutant(
        "destruction-is-always-allowed", _WANTED,
        '    if plan.spec.destructive and not spec.policy.allow_destructive:\n',
        '    if plan is None:\n',
        "C-10.4",
    ),
    Mutant(
        "plan-of-an-older-declaration", _WANTED,
        '    if s.source is not None:\n        wanted["sourceDigest"]',
        '    if s.plan is None and s.source:\n        wanted["sourceDigest"]',
        "C-3.6",
    ),
    # -- supervision and result -----------------------------------------------------------------
    Mutant(
        "read-before-the-terminal-condition", _RUNNING,
        '    if not job.terminal:\n',
        '    if claim is None:\n',
        "27",
    ),
    Mutant(
        "renewed-for-the-specs-duration", _RUNNING,
        'lease.renew(s, found, claim.lease_duration_seconds)',
        'lease.renew(s, found, (s.spec.execution.deadline_s if s.spec else 900) + 60)',
        "C-6.5",
    ),
    Mutant(
        "consumed-after-the-epoch-changed", _RUNNING,
        '    if claim.epoch is not None:\n',
        '    if claim is None:\n',
        "13, C-5.6",
    ),
    Mutant(
        "any-job-of-that-name-is-adopted", _RUNNING,
        '        if not matches(claim, job):\n',
        '        if claim is None:\n',
        "17",
    ),
    Mutant(
        "a-job-is-known-by-its-operation-alone", _RUNNING,
        '    return all(job.annotations.get(key) == value for key, value in '
        'identity(claim).items())\n',
        '    return job.annotations.get("ptahk.dev/operation-id") == claim.operation_id\n',
        "17",
    ),
    Mutant(
        "frame-of-another-operation", _RUNNING,
        '        if payload.get(key) != value:\n',
        '        if payload is None:\n',
        "C-5.1",
    ),
    Mutant(
        "frame-of-another-epoch", _RUNNING,
        '    decoder = frame.Decoder(claim.operation_id, frame_epoch(s, claim))\n',
        '    decoder = frame.Decoder(claim.operation_id, (result.output.split(b" ")[3:4] '
        'or [b"-"])[0].decode("ascii", "replace"))\n',
        "C-5.6",
    ),
    Mutant(
        "unknown-is-failed", _SETTLE,
        '        outcome = Unknown(refusal.reason, refusal.message)\n',
        '        outcome = Failed(refusal.reason, refusal.message)\n',
        "14",
    ),
    Mutant(
        "pods-are-not-recorded", _RUNNING,
        '        grown = growth(claim.pods, s.pods)\n',
        '        grown = None\n',
        "C-4.2",
    ),
    Mutant(
        "a-late-pod-disturbs-no-proof", _RUNNING,
        '    return settle.invalidate(s, claim, dataclasses.replace(owed, pods=grown))\n',
        '    return None\n',
        "C-4.2",
    ),
    Mutant(
        "certain-though-the-create-was-lost", _SETTLE,
        '            uncertain=uncertain and not s.creation_certain,\n',
        '            uncertain=False,\n',
        "C-6.9",
    ),
    Mutant(
        "a-frozen-finding-is-overlooked", _SETTLE,
        '    frozen = status.frozen or frozen_by(',
        '    frozen = status.frozen if s.draws else frozen_by(',
        "28",
    ),
    # -- proof ----------------------------------------------------------------------------------
    Mutant(
        "released-before-the-proof", _SETTLE,
        '        return _settle(status, f"{reading.outcome.reason}; a proof is owed")\n',
        '        return _settle(_give_back(status, s, claim), reading.outcome.reason)\n',
        "10",
    ),
    Mutant(
        "no-proof-after-an-unknown-outcome", _SETTLE,
        '        status = dataclasses.replace(status, pending_observation=owed)\n'
        '        return Do(WriteStatus("LatchUnknown"',
        '        status = _give_back(status, s, claim)\n'
        '        return Do(WriteStatus("LatchUnknown"',
        "10, 23",
    ),
    Mutant(
        "settled-without-the-tombstone", _RESULTS,
        '        return Unproven(failure.outcome.reason, failure.outcome.message, code)\n',
        '        return Proven(ledger.judge(None, owed.reported), converged=False)\n',
        "C-6.12",
    ),
    Mutant(
        "another-attempt-is-fenced", _JOBS,
        '        operation_id=owed.operation_id,\n',
        '        operation_id=owed.operation_id[::-1],\n',
        "8, 10",
    ),
    Mutant(
        "the-ledger-is-not-asked", _RESULTS,
        '    outcome = ledger.judge(row, owed.reported)\n',
        '    outcome = ledger.judge(None, owed.reported)\n',
        "14",
    ),
    Mutant(
        "an-interrupted-statement-had-no-effect", "model/ledger.py",
        '    if row.get("statementRunning") is not None:\n',
        '    if row is None:\n',
        "14",
    ),
    Mutant(
        "proof-under-a-new-holder", _OWED,
        '        holder=owed.holder,\n        inputs=inputs,\n',
        '        holder=digest.holder(s.uid, operation_id),\n        inputs=inputs,\n',
        "C-6.9",
    ),
    Mutant(
        "realm-taken-again-before-the-fence", _OWED,
        '        lease=owed.fenced or not owed.continuity_lost,\n',
        '        lease=True,\n',
        "C-6.8",
    ),
    Mutant(
        "no-wait-for-a-late-create", _OWED,
        '    if owed.uncertain and s.waited_s < owed.lease_duration_seconds:\n',
        '    if s.waited_s < 0:\n',
        "C-6.9",
    ),
    Mutant(
        "a-suspended-proof-waits", _STEPS,
        '        if s.status.pending_observation is not None:\n',
        '        if s.status.pending_observation is not None '
        'and not (s.spec and s.spec.suspend):\n',
        "C-3.5",
    ),
    Mutant(
        "phase-decides-whether-a-proof-is-owed", _STEPS,
        '        if s.status.pending_observation is not None:\n',
        '        if s.status.pending_observation is not None and s.status.phase == "Proving":\n',
        "C-2.2",
    ),
    Mutant(
        "a-conflict-stops-a-proof", _CLAIMED,
        '    if claim.lease:\n        realm = _realm(s, claim)\n',
        '    if claim.lease:\n'
        '        if claim.type == PROVE and s.spec and census.conflict('
        's, s.spec.target.shared_realm): return _later(s, "RealmConflict", "")\n'
        '        realm = _realm(s, claim)\n',
        "C-6.3",
    ),
    Mutant(
        "any-acknowledgement-thaws", "decide.py",
        ' or word.frozen != frozen.number:\n',
        ':\n',
        "28",
    ),
    Mutant(
        "the-applys-history-entry-is-dropped", "model/status.py",
        '        del kept[1 if kept[0].operation_id == last else 0]\n',
        '        del kept[0]\n',
        "23",
    ),
    # -- the end of an operation ----------------------------------------------------------------
    Mutant(
        "ttl-before-the-outcome", _STEPS,
        '    if claim.outcome is not None:\n',
        '    if claim.outcome is not None or (\n'
        '            s.job and s.job.terminal and claim.job_uid and s.job.ttl_s is None):\n',
        "step 11",
    ),
    Mutant(
        "cleared-before-the-ttl", _FINISHING,
        '    if job is None or not ours or job.ttl_s is not None:\n',
        '    if job is None or not ours or job.terminal:\n',
        "step 12",
    ),
    Mutant(
        "finalizer-gone-while-a-proof-is-owed", "decide.py",
        '        lifecycle.step(s, family) or _leaving(s) or',
        '        _leaving(s) or lifecycle.step(s, family) or',
        "25",
    ),
    Mutant(
        "a-dropped-claim-forgets-its-lease", _CLAIMED,
        '        if isinstance(found, lease.Ours):\n            owed = PendingLockRelease(',
        '        if s.draws is None:\n            owed = PendingLockRelease(',
        "C-4.5",
    ),
    Mutant(
        "a-finished-proof-forgets-its-lease", _SETTLE,
        '    status = _give_back(status, s, claim)\n    identity = owed.request\n',
        '    identity = owed.request\n',
        "C-4.5",
    ),
    # -- Lease and numbers ----------------------------------------------------------------------
    Mutant(
        "status-without-compare-and-swap", "perform.py",
        '    stored = ports.objects.replace_status(document | {"status": render(status)})\n',
        '    stored = ports.objects.replace_status('
        'ports.objects.get(key_of(document)) | {"status": render(status)})\n',
        "21",
    ),
    Mutant(
        "lease-without-compare-and-swap", "perform.py",
        '    if document["metadata"].get("resourceVersion"):\n',
        '    if document["metadata"].get("resourceVersion"):\n'
        '        document["metadata"]["resourceVersion"] = '
        'ports.objects.get(key_of(document))["metadata"]["resourceVersion"]\n',
        "21",
    ),
    Mutant(
        "the-other-clock-is-trusted", "lease.py",
        'view.watched_s >= record.duration_s and',
        'record.renewed and s.now - record.renewed > timedelta(seconds=record.duration_s) and',
        "C-6.6",
    ),
    Mutant(
        "taken-over-on-first-sight", "lease.py",
        'view.watched_s >= record.duration_s and',
        '',
        "C-6.6",
    ),
    Mutant(
        "expiry-is-release", "lease.py",
        ' and view.holder_settled:\n',
        ':\n',
        "10, 11",
    ),
    Mutant(
        "a-holder-with-a-proof-owed-is-over", "gather.py",
        '    if owed is not None:\n        return False\n',
        '',
        "10",
    ),
    Mutant(
        "anyones-lease-is-ours", "lease.py",
        '    if record.identity == identity:\n',
        '    if record.identity:\n',
        "24",
    ),
    Mutant(
        "someone-elses-lease-is-released", "lease.py",
        '    if record.identity != identity or str(record.epoch) != epoch:\n',
        '    if record.identity is None:\n',
        "24",
    ),
    Mutant(
        "a-release-is-forgotten", _OWED,
        '    if found is not None:\n        document, record = found\n',
        '    if found is not None and s.draws is None:\n        document, record = found\n',
        "23",
    ),
    Mutant(
        "a-late-acquisition-stays", _STEPS,
        '        return owed.orphan(s)',
        '        return None',
        "32",
    ),
    Mutant(
        "acquired-under-the-old-number", "lease.py",
        '    return Epoch(known + 1, s.draws.epoch_bits)\n',
        '    return Epoch(max(known, 1), s.draws.epoch_bits)\n',
        "12",
    ),
    Mutant(
        "a-malformed-lease-is-free", "lease.py",
        '        return Foreign(text, malformed=True) if epoch is None else Lost(text)\n',
        '        return Free() if epoch is None else Lost(text)\n',
        "C-6.6",
    ),
    # -- the migration family -------------------------------------------------------------------
    Mutant(
        "a-resume-without-approval", _SEQUENCE_WANTED,
        ' or plan.spec.binding["approval"] is not False\n', '\n', "C-11.3", MIGRATION,
    ),
    Mutant(
        "an-unresolved-run-stops-nothing", _SEQUENCE_WANTED,
        '    if run is None or plan.spec.binding["action"] != RUN:\n', '    if True:\n',
        "C-4.4", MIGRATION,
    ),
    Mutant(
        "a-word-becomes-a-run", _SEQUENCE_WANTED,
        '        "change": dict(binding["change"]),\n', '        "change": {},\n',
        "C-7.2", MIGRATION,
    ),
    Mutant(
        "any-sequence-may-run", _SEQUENCE_WANTED,
        'plan.spec.bound("sequenceDigest")', 'None', "C-11.2", MIGRATION,
    ),
    Mutant(
        "any-history-will-do", _SEQUENCE_WANTED,
        'plan.spec.bound("historyFingerprint")', 'None', "C-9.3", MIGRATION,
    ),
    Mutant(
        "a-sequence-in-spite-of-never", _SEQUENCE_WANTED,
        '        or common.never(spec)\n', '', "16", MIGRATION,
    ),
    Mutant(
        "an-unseen-statement-had-no-effect", _SEQUENCE_RESULTS,
        '    if unknown is not None:\n', '    if False:\n', "14, C-11.13", MIGRATION,
    ),
    Mutant(
        "a-stopped-run-is-forgotten", _SEQUENCE_RESULTS,
        '    if found is None:\n', '    if True:\n', "C-4.4", MIGRATION,
    ),
    Mutant(
        "any-server-resolves-a-run", _SEQUENCE_RESULTS,
        'run.server_identity == result.get("serverIdentity")', 'True', "C-4.4", MIGRATION,
    ),
    Mutant(
        "no-word-counts-without-a-row", _SEQUENCE_RESULTS,
        'resolves=run is None and (word or _same_database(s, result)),',
        'resolves=run is None and _same_database(s, result),',
        "C-4.4", MIGRATION,
    ),
    Mutant(
        "a-sequence-without-a-realm", _SEQUENCE,
        '        return operation in wanted.REALM_OPERATIONS\n', '        return False\n',
        "9", MIGRATION,
    ),
    Mutant(
        "a-sequence-mutates-nothing", _SEQUENCE,
        '    def mutates(self, operation: str) -> bool:\n'
        '        return operation == wanted.APPLY\n',
        '    def mutates(self, operation: str) -> bool:\n        return False\n',
        "13, 23", MIGRATION,
    ),
)  # fmt: skip


def named(name: str) -> Mutant:
    """:raises KeyError: there is none."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
