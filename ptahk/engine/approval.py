"""Does this approval bind this plan now? (steps 4 and C-3.2)"""

import dataclasses

from ptahk.engine.model.plan import Approval, Plan
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import APPROVALS_KEPT, ConsumedApproval, Status


def binds(item: Approval, plan: Plan, resource_uid: str) -> bool:
    """It names this resource and this plan by uid, and this fingerprint. Names are not identity."""
    spec = item.spec
    return (
        spec.resource.uid == resource_uid
        and plan.spec.resource.uid == resource_uid
        and spec.plan.uid == plan.uid
        and spec.fingerprint == plan.spec.fingerprint
    )


def consumed(item: Approval, status: Status) -> bool:
    """It was used up by some operation."""
    if any(used.uid == item.uid for used in status.consumed_approvals):
        return True
    floor = status.approvals_not_before
    return floor is not None and item.created <= floor


def find(s: Snapshot, plan: Plan) -> Approval | None:
    """The oldest unused approval that binds the plan."""
    usable = [
        item for item in s.approvals if binds(item, plan, s.uid) and not consumed(item, s.status)
    ]
    return min(usable, key=lambda item: (item.created, item.uid), default=None)


def consume(status: Status, item: Approval, operation_id: str) -> Status:
    """The status with the approval used up by this operation.

    Only so many records are kept. What is dropped stays consumed through its creation time:
    every approval that is not newer counts as used.
    """
    used = (
        *status.consumed_approvals,
        ConsumedApproval(item.uid, operation_id, item.created),
    )
    floor = status.approvals_not_before
    if len(used) > APPROVALS_KEPT:
        dropped, used = used[:-APPROVALS_KEPT], used[-APPROVALS_KEPT:]
        floor = max([floor or "", *(record.created for record in dropped)])
    return dataclasses.replace(status, consumed_approvals=used, approvals_not_before=floor)
