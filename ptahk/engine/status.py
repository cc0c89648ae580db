"""Durable facts → phase, conditions, next step. Outputs only: no decision reads them (C-2.2)."""

import dataclasses
from datetime import datetime
from typing import Any

from ptahk.engine.family import Summary
from ptahk.engine.model import reasons
from ptahk.engine.model.claim import PROVE
from ptahk.engine.model.fields import cut
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.status import Condition, Status

MESSAGE_MAX = 1024


def outputs(
    status: Status, generation: int, now: datetime, steady: Summary, refusal: Refusal | None,
    *, deleting: bool, waiting: Refusal | None = None,
) -> Status:  # fmt: skip
    """The status with its outputs computed anew.

    :param steady: the family's word on a resource with nothing in flight and nothing refused.
    :param refusal: why nothing new is claimed now.
    :param waiting: why the operation's Job has not begun to run, where that needs a person.
    """
    shown = _shown(status, steady, refusal, deleting=deleting)
    if waiting is not None:
        next_step = reasons.advice(waiting.reason)
        shown = Summary(shown.phase, False, waiting.reason, waiting.message, next_step)
    working = _in_flight(status) and not (shown.ready and _routine(status))
    stalled = not shown.ready and not working and shown.phase in _STALLED
    message = cut(shown.message, MESSAGE_MAX)
    wanted = (
        ("Ready", shown.ready and not working),
        ("Reconciling", working),
        ("Stalled", stalled),
    )
    before = {item.type: item for item in status.conditions}
    conditions = tuple(
        _condition(before.get(name), name, value, shown.reason, message, generation, now)
        for name, value in wanted
    )
    return dataclasses.replace(
        status,
        observed_generation=generation,
        phase=shown.phase,
        conditions=conditions,
        next_step=cut(shown.next_step, MESSAGE_MAX),
    )


_STALLED = frozenset({"Blocked", "Failed", "Unknown", "Frozen"})


def _in_flight(status: Status) -> bool:
    return (
        status.active_operation is not None
        or status.pending_observation is not None
        or status.pending_lock_release is not None
    )


def _routine(status: Status) -> bool:
    """Only a look at the database: what is in sync does not cease to be so at each interval."""
    claim = status.active_operation
    owes = status.pending_observation is not None or status.pending_lock_release is not None
    return claim is not None and claim.type in _LOOKS and not owes


def _condition(
    before: Condition | None, name: str, value: bool, reason: str, message: str,
    generation: int, now: datetime,
) -> Condition:  # fmt: skip
    text = "True" if value else "False"
    since = before.last_transition_time if before and before.status == text else now
    return Condition(name, "True" if value else "False", reason, message, generation, since)


def _shown(status: Status, steady: Summary, refusal: Refusal | None, *, deleting: bool) -> Summary:
    """The first that holds."""
    claim, owed = status.active_operation, status.pending_observation
    if deleting:
        return Summary("Deleting", False, "Deleting", "the resource is being deleted")
    if status.frozen is not None:
        return _blocked("Frozen", "Frozen", status.frozen.message)
    if owed is not None and (claim is None or claim.type == PROVE):
        if owed.attempts == 0:
            text = f"Apply {owed.operation_id[:12]} is being proven"
            if owed.uncertain and owed.reported.message:
                text = f"{text}: {owed.reported.message}"
            return Summary("Proving", False, "Proving", text)
        text = f"the proof owed of Apply {owed.operation_id} could not be had: {owed.message}"
        return _blocked("Unknown", owed.reason, text)
    if claim is not None and claim.outcome is None and claim.type in _WORK:
        text = f"{claim.type} {claim.operation_id[:12]}"
        return Summary("Applying" if claim.type == "Apply" else "Planning", False, claim.type, text)
    if refusal is not None:
        if refusal.reason == "Suspended":
            return Summary("Suspended", False, "Suspended", refusal.message)
        return _blocked("Blocked", refusal.reason, refusal.message)
    retry = status.retry
    if retry is not None:
        refused = reasons.exit_code(retry.reason, 5) in (2, 3)
        return _blocked("Blocked" if refused else "Failed", retry.reason, retry.message)
    return steady


_WORK = frozenset({"Plan", "Apply"})
_LOOKS = frozenset({"Observe", "History"})


def _blocked(phase: Any, reason: str, message: str) -> Summary:
    return Summary(phase, False, reason, message, reasons.advice(reason))


def in_flight(status: Status) -> str | None:
    """What stands between this resource and rest, for a person; None: it rests."""
    claim = status.active_operation
    if claim is not None:
        return f"{claim.type} {claim.operation_id}"
    if status.pending_observation is not None:
        return f"the proof owed of Apply {status.pending_observation.operation_id}"
    if status.pending_lock_release is not None:
        return f"the release of realm {status.pending_lock_release.realm}"
    return None
