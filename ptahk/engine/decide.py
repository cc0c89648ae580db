"""The order of the questions. One snapshot in, one next step out; nothing is read or done."""

import dataclasses
from datetime import timedelta

from ptahk.engine import gates, lifecycle, status
from ptahk.engine.family import Family, Later, Summary
from ptahk.engine.lifecycle import answers
from ptahk.engine.model import reasons
from ptahk.engine.model.intent import (
    Decision,
    DispatchJob,
    Do,
    Done,
    EditFinalizers,
    Prune,
    Publish,
    Wait,
    WriteStatus,
)
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.resource import FINALIZER
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import THAWED_KEPT, Status

REALM_HELD = "RealmHeld"
BLOCKED_RECHECK_S = 60.0
"""A conflict is looked at again within a minute (C-6.3)."""


def decide(s: Snapshot, family: Family) -> Decision:
    """What to do now: carry on, leave, thaw, or take on something new."""
    decision = (
        lifecycle.step(s, family) or _leaving(s) or _thaw(s) or _prune(s) or _propose(s, family)
    )
    if isinstance(decision, Wait) and (s.job is not None or decision.reason == REALM_HELD):
        return _supervised(s, family, decision)
    return _with_outputs(s, family, decision, None)


def _supervised(s: Snapshot, family: Family, wait: Wait) -> Decision:
    """Say once what keeps an operation's claim or Job waiting, and once that nothing does.

    A command that acts alone tells its person itself what it waits for.
    """
    waiting = _waiting(s, s.status)
    if wait.reason == REALM_HELD:
        waiting = Refusal(wait.reason, wait.message) if s.store.automatic else None
    shown = _outputs(s, family, s.status, None, waiting)
    said = any(item.reason in reasons.WAITING for item in s.status.conditions)
    if shown == s.status or (waiting is None and not said):
        return wait
    text = "" if waiting is None else f"{waiting.reason}: {waiting.message}"
    return Do(WriteStatus("Report", shown, text))


def _waiting(s: Snapshot, facts: Status) -> Refusal | None:
    claim = facts.active_operation
    if claim is None or claim.outcome is not None or s.job is None:
        return None
    return s.job.waiting


def _leaving(s: Snapshot) -> Decision | None:
    """A deleted resource goes once nothing is owed any more (invariant 25)."""
    if not s.deleting:
        return None
    if not s.finalized:
        return Done("Deleting")
    return Do(EditFinalizers(_finalizers(s, keep=False), "RemoveFinalizer"))


def _thaw(s: Snapshot) -> Decision | None:
    """A person acknowledged the number that the realm was frozen over (C-6.14)."""
    frozen, word = s.status.frozen, s.acknowledge
    if frozen is None or word is None or word.frozen != frozen.number:
        return None
    operations = s.status.thawed_operations
    if frozen.operation_id is not None:
        operations = (*operations, frozen.operation_id)[-THAWED_KEPT:]
    thawed = dataclasses.replace(
        s.status, frozen=None, thawed=max(s.status.thawed, frozen.number),
        thawed_operations=operations,
        realm_number=max(s.status.realm_number, frozen.number),
    )  # fmt: skip
    told = f"{word.user}: {word.reason}" if word.user else word.reason
    return Do(WriteStatus("Thaw", thawed, told))


def _prune(s: Snapshot) -> Decision | None:
    return Do(Prune(s.prunable[0])) if s.prunable else None


def _propose(s: Snapshot, family: Family) -> Decision:
    """Take on something new, or say why not."""
    refusal = gates.first(s, gates.NEW_CLAIM)
    if refusal is not None:
        return _refuse(s, family, refusal)
    retry = s.status.retry
    if retry is not None and s.now < retry.not_before and not _fresh(s):
        return _rest(s, family, Wait(retry.not_before, "BackOff", retry.message), None)
    proposal = family.next_operation(s)
    if isinstance(proposal, Refusal):
        return _refuse(s, family, proposal)
    if proposal is None or isinstance(proposal, Later):
        conflict = _conflict(s)
        if conflict is not None:
            return _refuse(s, family, conflict)
        return _rest(s, family, _idle(proposal), None)
    realm = family.needs_realm(proposal.operation)
    refusal = gates.claim(s, realm=realm, mutates=family.mutates(proposal.operation))
    refusal = refusal or family.gate(proposal.operation, s)
    if refusal is not None:
        return _refuse(s, family, refusal)
    if not s.finalized:
        return Do(EditFinalizers(_finalizers(s, keep=True), "AddFinalizer"))
    bundle = s.source.bundle if s.source is not None else None
    if bundle is not None and "bundles" in proposal.inputs:
        return Do(Publish(bundle))
    return lifecycle.new_claim(s, family, proposal)


def _conflict(s: Snapshot) -> Refusal | None:
    """A realm that is claimed twice is shown at rest too, by whoever claims it (C-6.3)."""
    assert s.spec is not None, "else it was refused"
    dormant = s.spec.apply_policy == "Never" and not s.spec.interval
    return gates.first(s, gates.CENSUS) if s.store.automatic and not dormant else None


def _fresh(s: Snapshot) -> bool:
    """The failure was another request's or another generation's: do not wait for it."""
    retry, request = s.status.retry, s.open_request
    assert retry is not None
    if retry.generation != s.generation:
        return True
    return request is not None and request.id != retry.request


def _refuse(s: Snapshot, family: Family, refusal: Refusal) -> Decision:
    """Answer an open request with the refusal, else show it and look again later."""
    if s.open_request is not None:
        answered = answers.refused(s.status, s, refusal)
        decision = Do(WriteStatus("Answer", answered, refusal.message))
        return _with_outputs(s, family, decision, refusal)
    until = s.now + timedelta(seconds=BLOCKED_RECHECK_S)
    rest: Decision = Wait(until, refusal.reason, refusal.message)
    if not s.store.automatic or s.deleting:
        rest = Done(refusal.reason)
    return _rest(s, family, rest, refusal)


def _idle(later: Later | None) -> Decision:
    return Done() if later is None else Wait(later.until, "Interval")


def _rest(s: Snapshot, family: Family, rest: Decision, refusal: Refusal | None) -> Decision:
    """Rest, after the outputs say what they should."""
    shown = _outputs(s, family, s.status, refusal)
    if shown == s.status:
        return rest
    return Do(WriteStatus("Report", shown))


def _finalizers(s: Snapshot, *, keep: bool) -> dict[str, object]:
    metadata = dict(s.document["metadata"])
    others = [item for item in metadata.get("finalizers") or [] if item != FINALIZER]
    metadata["finalizers"] = [*others, FINALIZER] if keep else others
    return s.document | {"metadata": metadata}


def _with_outputs(
    s: Snapshot, family: Family, decision: Decision, refusal: Refusal | None
) -> Decision:
    """Every stored status carries outputs that fit its facts."""
    match decision:
        case Do(WriteStatus(step="Report")):
            return decision
        case Do(WriteStatus() as write):
            shown = _outputs(s, family, write.status, refusal)
            return Do(dataclasses.replace(write, status=shown))
        case Do(DispatchJob() as dispatch):
            shown = _outputs(s, family, dispatch.status, refusal)
            return Do(dataclasses.replace(dispatch, status=shown))
        case _:
            return decision


def _outputs(
    s: Snapshot, family: Family, facts: Status, refusal: Refusal | None,
    waiting: Refusal | None = None,
) -> Status:  # fmt: skip
    shown = refusal or s.spec_refusal or _last_refusal(s, facts)
    if s.spec is None:
        steady = Summary("Blocked", False, "InvalidSpec", "")
    else:
        steady = family.summary(facts, s.spec)
    return status.outputs(
        facts, s.generation, s.now, steady, shown, deleting=s.deleting,
        waiting=waiting or _waiting(s, facts),
    )  # fmt: skip


def _last_refusal(s: Snapshot, facts: Status) -> Refusal | None:
    """On a store that acts on requests only, the last one's refusal stands until the next."""
    answer = facts.request
    if s.store.automatic or answer is None or answer.outcome != "Refused":
        return None
    if answer.reason == "ApprovalMissing":
        return None
    return Refusal(answer.reason, answer.message, answer.field)
