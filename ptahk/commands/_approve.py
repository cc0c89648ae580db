"""Approvals in the store: find an unused one, store one; and the work of ``approve``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptahk.commands import _cluster, _documents, _local, _resource, _text, _wiring
from ptahk.commands._drive import read_status, store_faults
from ptahk.commands._options import Cluster, Common, Place
from ptahk.commands._render import Messages, document
from ptahk.engine import approval as approvals
from ptahk.engine.model.plan import Approval, Plan, parse_approval
from ptahk.engine.model.resource import APPROVAL, RESOURCE_UID
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, Objects
from ptahk.errors import Refused, UsageError
from ptahk.wire import digest


def find(objects: Objects, namespace: str, status: Status, plan: Plan) -> Approval | None:
    """The oldest unused approval that binds the plan."""
    uid = plan.spec.resource.uid
    with store_faults():
        documents = objects.list(APPROVAL, namespace, {RESOURCE_UID: uid})
    usable = []
    for item in documents:
        try:
            found = parse_approval(item)
        except ValueError:
            continue  # not one of ours: it approves nothing
        if approvals.binds(found, plan, uid) and not approvals.consumed(found, status):
            usable.append(found)
    return min(usable, key=lambda item: (item.created, item.uid), default=None)


def in_cluster(
    common: Common, place: Place, cluster: Cluster, ref: str | None, fingerprint: str | None
) -> dict[str, Any]:
    """Approve the current plan of a resource of the cluster, once a manager is known to live."""
    _cluster.check_options(place, None, None)
    messages = Messages(common)
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
        stored = _cluster.one_resource(reader, cluster, place, ref)
        with _cluster.driving(reader, cluster, stored, messages, None) as drive:
            drive.require_manager()
            return approve(
                reader.objects,
                stored,
                fingerprint,
                messages,
                lambda plan: _cluster.approve(reader, None, stored, plan),
            )


def approve(
    objects: Objects,
    owner: Document,
    fingerprint: str | None,
    messages: Messages,
    store: Callable[[Plan], object],
) -> dict[str, Any]:
    """Show the current plan of a resource and approve it. :returns: the ``Approval`` document.

    :param store: stores this person's approval.
    :raises PtahkError: there is no plan, nothing to approve, or another one is current.
    """
    if fingerprint is not None and not digest.is_digest(fingerprint):
        raise UsageError("not a fingerprint (plan): write sha256: and 64 hex digits", field="plan")
    plans = _local.plans_of(objects, owner)
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
    made = _local.stored_plan(objects, namespace, current)
    spec = _resource.checked(owner)
    messages.lines(_text.plan(_documents.plan(owner, spec, made.plan, made.data)))
    if not made.plan.spec.statements:
        raise Refused("nothing to approve: the plan changes nothing", reason="PlanMissing")
    found = find(objects, namespace, read_status(owner), made.plan)
    if found is None:
        store(made.plan)
        found = find(objects, namespace, read_status(owner), made.plan)
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
