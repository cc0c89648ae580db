"""What a PtahMigration's phase says with nothing in flight and nothing refused."""

from collections.abc import Mapping
from typing import Any

from ptahk.engine.family import Summary
from ptahk.engine.model.snapshot import CommonSpec
from ptahk.engine.model.status import HistoryEntry, Status, UnresolvedRun


def summary(status: Status, spec: CommonSpec) -> Summary:
    """An unresolved run first, then what the last operation left, then the verdict."""
    run = status.unresolved_run
    seen = status.last_observation
    if run is not None:
        return _unresolved(run, seen)
    last = next((e for e in reversed(status.history) if e.type in ("Apply", "History")), None)
    ended = None if last is None or last.type != "Apply" else _applied(last)
    if ended is not None:
        return ended
    if seen is None:
        return Summary("Pending", False, "Idle", "no history was read yet", "Plan.")
    return _verdict(status, spec, seen)


def _unresolved(run: UnresolvedRun, seen: Mapping[str, Any] | None) -> Summary:
    step = str(seen["nextStep"]) if seen is not None else "Plan again."
    if run.outcome == "Partial":
        return Summary("Failed", False, "Partial", run.message, step)
    return Summary("Unknown", False, "OutcomeUnknown", run.message, step)


def _applied(entry: HistoryEntry) -> Summary | None:
    """The last Apply, where it left something for a person and no history was read since."""
    settled = entry.settled
    if settled is None or entry.converged or settled.type in ("Succeeded", "NotStarted"):
        return None
    text = settled.message or settled.reason
    if settled.type == "Unknown":
        return Summary("Unknown", False, settled.reason, text, "Read the history again: plan.")
    return Summary("Failed", False, settled.reason, text, "Correct the cause, then plan again.")


_UNDO = "See what differs with ptahk observe; undo it, or make it a migration."


def _drifted(seen: Mapping[str, Any]) -> str | None:
    """How far the live schema is from what the applied files give."""
    drift = seen.get("drift")
    if drift is None or drift["highest"] is None:
        return None
    count = sum(drift["counts"].values())
    return f"{count} differences from what the applied files give, the highest {drift['highest']}"


def _unlooked(seen: Mapping[str, Any]) -> str:
    """Nobody may take a drift check that could not be made for one that found nothing."""
    refused = seen.get("driftRefused")
    if refused is None:
        return ""
    return f"; drift is not known ({refused['reason']}: {refused['message']})"


def _verdict(status: Status, spec: CommonSpec, seen: Mapping[str, Any]) -> Summary:
    message, step = str(seen["message"]), str(seen["nextStep"])
    if seen["reason"] is not None:
        return Summary("Blocked", False, str(seen["reason"]), message, step)
    drifted = _drifted(seen)
    if seen["verdict"] != "pending" and not seen["pending"]:
        if drifted is not None:
            return Summary("Drifted", False, "DriftFound", drifted, _UNDO)
        return Summary("InSync", True, "Converged", message + _unlooked(seen))
    plan = status.last_plan
    text = message
    if plan is not None and plan["statements"]:
        text = f"plan {plan['fingerprint']} with {plan['files']} files is pending"
    if drifted is not None:
        text = f"{text}; beside it {drifted}"
    if spec.apply_policy == "Never":
        return Summary("Drifted", False, "ApplyNever", text, "policy.apply is Never.")
    return Summary(
        "AwaitingApproval", False, "ChangesPending", text, "Review the plan, then approve it."
    )
