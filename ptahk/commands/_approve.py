"""Approvals in the store: find an unused one, store one; and the work of ``approve``."""

from __future__ import annotations

from typing import Any

from ptahk.commands import _documents, _inputs, _local, _lookup, _resource, _text
from ptahk.commands._drive import create_once, read_status, store_faults
from ptahk.commands._options import Place
from ptahk.commands._render import Messages, document
from ptahk.commands._wiring import World
from ptahk.engine import approval as approvals
from ptahk.engine.model.plan import Approval, Approver, Plan, approval_document, parse_approval
from ptahk.engine.model.resource import APPROVAL, RESOURCE_UID
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document
from ptahk.errors import Refused, UsageError
from ptahk.wire import digest


def find(world: World, namespace: str, status: Status, plan: Plan) -> Approval | None:
    """The oldest unused approval that binds the plan."""
    uid = plan.spec.resource.uid
    with store_faults():
        documents = world.ports.objects.list(APPROVAL, namespace, {RESOURCE_UID: uid})
    usable = []
    for item in documents:
        try:
            found = parse_approval(item)
        except ValueError:
            continue  # not one of ours: it approves nothing
        if approvals.binds(found, plan, uid) and not approvals.consumed(found, status):
            usable.append(found)
    return min(usable, key=lambda item: (item.created, item.uid), default=None)


def store(world: World, namespace: str, plan: Plan) -> Document:
    """Store this user's approval of exactly this plan."""
    name = f"ptahk-approval-{world.ports.entropy.operation_id()}"
    approver = Approver(username=_inputs.os_user() or "unknown")
    made = approval_document(namespace, name, plan, approver)
    with store_faults():
        create_once(world, made)
    return made


def approve(
    world: World, place: Place, ref: str | None, fingerprint: str | None, messages: Messages
) -> dict[str, Any]:
    """Show the current plan and approve it. :returns: the ``Approval`` document.

    :raises PtahkError: there is no plan, nothing to approve, or another one is current.
    """
    if fingerprint is not None and not digest.is_digest(fingerprint):
        raise UsageError("not a fingerprint (plan): write sha256: and 64 hex digits", field="plan")
    owner = _lookup.one_resource(world, place, ref)
    plans = _local.plans_of(world, owner)
    if not plans:
        raise Refused("no plan to approve", reason="PlanMissing", hint="Run ptahk plan first.")
    current = plans[-1].spec.fingerprint
    if fingerprint is not None and fingerprint != current:
        raise Refused(
            f"not the current plan (plan={fingerprint}): the current one is {current}",
            reason="PlanSuperseded",
            field="plan",
            hint="Review the current plan, then approve its fingerprint.",
        )
    namespace = owner["metadata"]["namespace"]
    made = _local.stored_plan(world, namespace, current)
    spec = _resource.checked(owner["spec"])
    messages.lines(_text.plan(_documents.plan(owner, spec, made.plan, made.data)))
    if not made.plan.spec.statements:
        raise Refused("nothing to approve: the plan changes nothing", reason="PlanMissing")
    found = find(world, namespace, read_status(owner), made.plan)
    if found is None:
        store(world, namespace, made.plan)
        found = find(world, namespace, read_status(owner), made.plan)
    assert found is not None, "what was stored can be found"
    return document(
        "Approval",
        resource=_documents.resource(owner),
        plan=made.plan.name,
        fingerprint=current,
        approver=found.spec.approver.username,
        createdAt=found.created,
        nextStep=f"ptahk apply with the same declaration, or with --approve {current}.",
    )
