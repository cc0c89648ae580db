"""Manual recovery of a realm: what is known of its holder, the fence, and the exact release."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from ptahk.commands import _documents, _job, _wiring
from ptahk.commands._drive import read_status, store_faults
from ptahk.commands._render import document
from ptahk.commands._wiring import World
from ptahk.engine.model import lease as leases
from ptahk.engine.model.fields import format_time
from ptahk.engine.model.lease import LeaseRecord, Malformed
from ptahk.engine.model.plan import Plan, parse_plan
from ptahk.engine.model.resource import LEASE, PLAN
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Clock, Conflict, Document, Entropy, Key, NotFound, Objects
from ptahk.errors import PtahkError, Refused
from ptahk.wire.digest import CoordinationDigest, lease_name
from ptahk.wire.jobspec import NOTE_MAX, FencedAttempt

Verdict = Literal["Free", "Released", "WouldRelease", "Refused"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The claim behind a Lease, as far as its release needs it."""

    operation_id: str
    type: str
    dispatched: bool
    fenced: bool
    """A proof has committed the tombstone already."""
    job_name: str
    epoch: str | None
    not_after: str | None
    inputs: dict[str, Any]
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Side:
    """Where the realm is: a state directory, or a cluster."""

    objects: Objects
    clock: Clock
    entropy: Entropy
    coordination_namespace: str
    running: Callable[[str, str, Attempt | None], bool | None]
    """Namespace, operation id, what is known of the claim → whether a process of it may still
    write; None: there is none."""
    busy: Callable[[str], bool]
    """Whether another command works on the resource of this uid."""
    event: Callable[[Document], object]
    """Keeps one Event."""
    fencing: Callable[[], AbstractContextManager[World]]
    """A world whose Jobs reach the database."""


def local_side(world: World) -> Side:
    """A state directory."""

    def running(namespace: str, _: str, attempt: Attempt | None) -> bool | None:
        job = None if attempt is None else world.ports.jobs.observe(namespace, attempt.job_name)
        return None if job is None else not job.terminal

    return Side(
        objects=world.ports.objects,
        clock=world.ports.clock,
        entropy=world.ports.entropy,
        coordination_namespace=world.ports.store.coordination_namespace,
        running=running,
        busy=lambda uid: _wiring.busy(world.state, uid),
        event=world.ports.objects.create,
        fencing=lambda: nullcontext(world),
    )


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that is known of one realm's holder."""

    realm: CoordinationDigest
    lease_document: Document | None
    lease: LeaseRecord | None
    owner: Document | None
    attempt: Attempt | None
    running: bool | None
    """Its process; None: it has none."""
    busy: bool
    """A command is working on the resource."""


def look(side: Side, realm: CoordinationDigest) -> Known:
    """Read the Lease, its holder's claim and the claim's process, live.

    :raises Refused: the Lease is not one that ptahk wrote.
    """
    key = Key(LEASE, side.coordination_namespace, lease_name(realm))
    with store_faults():
        try:
            stored = side.objects.get(key)
        except NotFound:
            return Known(realm, None, None, None, None, None, False)
        record = leases.parse(stored)
        if isinstance(record, Malformed):
            raise Refused(
                f"Lease {key.name} is not one of ours: {record.message}", reason="LeaseMalformed"
            )
        if record.identity is None or record.holder is None:
            return Known(realm, stored, record, None, None, None, False)
        holder = record.holder
        try:
            found = side.objects.get(Key(holder.kind, holder.namespace, holder.name))
        except NotFound:
            found = None
        owner = found if found is not None and found["metadata"]["uid"] == holder.uid else None
        attempt = None if owner is None else _attempt(read_status(owner), holder.operation_id)
        running = side.running(holder.namespace, holder.operation_id, attempt)
    busy = owner is not None and side.busy(holder.uid)
    return Known(realm, stored, record, owner, attempt, running, busy)


def _attempt(status: Status, operation_id: str) -> Attempt | None:
    claim, owed = status.active_operation, status.pending_observation
    if owed is not None and owed.operation_id == operation_id:
        return Attempt(
            operation_id,
            "Apply",
            dispatched=True,
            fenced=owed.fenced,
            # A proof in flight is the process that may still read and fence.
            job_name=owed.job_name if claim is None else claim.job_name,
            epoch=owed.epoch,
            not_after=format_time(owed.execution_not_after),
            inputs=dict(owed.inputs),
            outcome=owed.reported.type,
        )
    if claim is not None and claim.operation_id == operation_id:
        end = claim.execution_not_after
        return Attempt(
            operation_id,
            claim.type,
            dispatched=claim.dispatch_started,
            fenced=False,
            job_name=claim.job_name,
            epoch=claim.epoch,
            not_after=None if end is None else format_time(end),
            inputs=dict(claim.inputs),
            outcome=None if claim.outcome is None else claim.outcome.type,
        )
    return None


def objection(known: Known) -> str | None:
    """Why the realm may not be released now: something may still write (invariant 10)."""
    if known.busy:
        return "a command is working on its resource"
    if known.running:
        return "its process is still running"
    return None


def needs_fence(known: Known) -> bool:
    """A dispatched Apply without a tombstone: a late process could still start."""
    attempt = known.attempt
    return (
        attempt is not None
        and attempt.type == "Apply"
        and attempt.dispatched
        and not attempt.fenced
    )


def fence(side: Side, known: Known, note: str = "") -> dict[str, Any] | None:
    """Commit the tombstone through a local child. :returns: the ledger row as it was found.

    :param note: kept in the row: who forced the release, and why.
    :raises PtahkError: it could not be committed; nothing is released then.
    """
    attempt, owner = known.attempt, known.owner
    assert attempt is not None and owner is not None, "only a dispatched claim is fenced"
    plan = _plan(side, owner, attempt)
    if plan is None or attempt.epoch is None or attempt.not_after is None:
        raise Refused(
            f"the plan of operation {attempt.operation_id} is not kept: it cannot be fenced",
            reason="PlanMissing",
        )
    fenced = FencedAttempt(
        operation_id=attempt.operation_id,
        epoch=attempt.epoch,
        plan_digest=plan.spec.digest,
        not_after=attempt.not_after,
        note=note[:NOTE_MAX],
    )
    with side.fencing() as world:
        spec = _job.spec_of(world, owner, "Prove", fenced=(fenced, attempt.epoch, plan.spec))
        result = _job.run(world, owner, spec, enough=_tombstone)
    if not _tombstone(result):
        raise Refused("the tombstone was not committed", reason="ProofFailed")
    row: dict[str, Any] | None = result["fence"]["row"]
    return row


def _tombstone(result: dict[str, Any]) -> bool:
    return bool((result.get("fence") or {}).get("tombstone"))


def _plan(side: Side, owner: Document, attempt: Attempt) -> Plan | None:
    reference = attempt.inputs.get("plan") or {}
    try:
        with store_faults():
            return parse_plan(
                side.objects.get(
                    Key(PLAN, owner["metadata"]["namespace"], reference.get("name", ""))
                )
            )
    except (NotFound, ValueError, PtahkError):
        return None


def release(side: Side, known: Known) -> None:
    """Release exactly the holder and epoch that were looked at (C-6.7).

    :raises Refused: the Lease changed hands meanwhile.
    """
    assert known.lease_document is not None, "there is a Lease to release"
    with store_faults():
        try:
            side.objects.replace(leases.released(known.lease_document, side.clock.now()))
        except Conflict:
            raise Refused(
                "the Lease changed while it was looked at: nothing was released",
                reason="RealmHeld",
                hint="Look again.",
            ) from None


def report(
    known: Known, row: dict[str, Any] | None, verdict: Verdict, message: str
) -> dict[str, Any]:
    """The ``LockReport`` document."""
    record, attempt = known.lease, known.attempt
    held = record is not None and record.identity is not None
    return document(
        "LockReport",
        realm=known.realm,
        lease=None
        if not held or record is None
        else {
            "name": lease_name(known.realm),
            "holder": record.identity,
            "epoch": str(record.epoch),
            "acquired": _documents.time(record.acquired),
            "renewed": _documents.time(record.renewed),
            "durationSeconds": record.duration_s,
        },
        claim=None
        if attempt is None or known.owner is None
        else {
            "resource": _documents.resource(known.owner),
            "type": attempt.type,
            "operationId": attempt.operation_id,
            "dispatched": attempt.dispatched,
            "outcome": attempt.outcome,
        },
        process=None
        if attempt is None or known.running is None
        else {"jobName": attempt.job_name, "running": known.running},
        ledgerRow=row,
        verdict=verdict,
        message=message,
    )


def recorded(side: Side, known: Known, person: str, reason: str) -> None:
    """Keep an Event of a forced release beside the resource (cli.md, release-lock)."""
    assert known.owner is not None and known.attempt is not None, "force names a claim"
    metadata = known.owner["metadata"]
    with store_faults():
        side.event(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "namespace": metadata["namespace"],
                    "name": f"{metadata['name']}.{side.entropy.nonce()[:16]}",
                },
                "type": "Warning",
                "reason": "ForcedRelease",
                "message": f"{person} forced the release of operation "
                f"{known.attempt.operation_id}: {reason}",
                "involvedObject": {
                    "apiVersion": known.owner["apiVersion"],
                    **_documents.resource(known.owner),
                },
                "firstTimestamp": format_time(side.clock.now()),
            }
        )
