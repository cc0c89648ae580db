"""Names of durable writes, from the documents alone.

A crash point is ``NAME:before`` or ``NAME:after``: the process dies right before its write is
sent, or right after it landed and before the answer is used. Those of an executor are the names
of its durable steps: the process dies right after them.
"""

from typing import Any

from ptahk.engine.ports import Key

CLUSTER_WRITES = (
    "AddFinalizer", "RemoveFinalizer", "Publish", "Prune", "AcquireLease", "RenewLease",
    "ReleaseLease", "WriteClaim", "DiscardClaim", "CopyEpoch", "PersistSnapshot",
    "ConsumeApproval", "DispatchMark", "CreateJob", "ConfirmJob", "RecordPods", "InvalidateProof",
    "Settle", "LatchUnknown", "SetJobTtl", "ClearClaim", "OweRelease", "ClearRelease", "Thaw",
    "Answer", "Report",
)  # fmt: skip
EXECUTOR_STEPS = (
    "start", "planned", "started", "running", "sent", "effect", "statement", "finished", "fenced",
)  # fmt: skip
POINTS = (
    *(f"{name}:{side}" for name in CLUSTER_WRITES for side in ("before", "after")),
    *(f"executor {name}" for name in EXECUTOR_STEPS),
)
"""Every named crash point."""


def name(
    verb: str, key: Key, document: dict[str, Any] | None, before: dict[str, Any] | None
) -> str:
    """What this write is called.

    :param before: the stored document that it replaces; None: there is none.
    """
    if verb == "create_job":
        return "CreateJob"
    if verb == "expire":
        return "SetJobTtl"
    if verb == "delete":
        return "Prune"
    assert document is not None
    if key.kind == "Lease":
        return _lease(document, before)
    if verb == "create":
        return "Publish"
    if verb == "replace":
        had = len((before or {"metadata": {}})["metadata"].get("finalizers") or ())
        has = len(document["metadata"].get("finalizers") or ())
        return "RemoveFinalizer" if has < had else "AddFinalizer"
    return status((before or {}).get("status") or {}, document.get("status") or {})


def _lease(document: dict[str, Any], before: dict[str, Any] | None) -> str:
    new = document["spec"].get("holderIdentity")
    if new is None:
        return "ReleaseLease"
    old = None if before is None else before["spec"].get("holderIdentity")
    return "RenewLease" if new == old else "AcquireLease"


def status(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What changes from one stored status to the next."""
    had, has = old.get("activeOperation"), new.get("activeOperation")
    if had is None and has is None:
        return _debts(old, new)
    if had is None:
        return "WriteClaim"
    if has is None:
        return "ClearClaim" if had.get("outcome") is not None else "DiscardClaim"
    if had.get("outcome") is None and has.get("outcome") is not None:
        return _ended(old, new, has)
    for field, step in (
        ("jobUid", "ConfirmJob"), ("dispatchNonce", "DispatchMark"),
        ("approval", "ConsumeApproval"), ("snapshotDigest", "PersistSnapshot"),
        ("epoch", "CopyEpoch"), ("pods", "RecordPods"),
    ):  # fmt: skip
        if had.get(field) != has.get(field):
            return step
    return _debts(old, new)


def _ended(old: dict[str, Any], new: dict[str, Any], claim: dict[str, Any]) -> str:
    reason = claim["outcome"].get("reason")
    if claim["type"] == "Prove" and reason == "Superseded":
        return "InvalidateProof"
    owed = new.get("pendingObservation")
    fresh = owed is not None and old.get("pendingObservation") is None
    latched = ("JobMissing", "JobForeign", "FrameLost", "FrameRefused", "ContinuityLost")
    return "LatchUnknown" if fresh and reason in latched else "Settle"


def _debts(old: dict[str, Any], new: dict[str, Any]) -> str:
    was, now = old.get("pendingLockRelease"), new.get("pendingLockRelease")
    if was is None and now is not None:
        return "OweRelease"
    if was is not None and now is None:
        return "ClearRelease"
    if old.get("frozen") is not None and new.get("frozen") is None:
        return "Thaw"
    if old.get("pendingObservation") != new.get("pendingObservation"):
        return "RecordPods"
    return "Answer" if old.get("request") != new.get("request") else "Report"
