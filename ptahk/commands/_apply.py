"""The steps of an apply: go on with what was begun, plan, get the approval, apply, report."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptahk.commands import _approve, _documents, _local, _text
from ptahk.commands._drive import failure, read_status
from ptahk.commands._local import Made, Session
from ptahk.commands._render import document, write_lines
from ptahk.engine.model.plan import Plan
from ptahk.engine.model.resource import REQUEST, Request, parse_annotation
from ptahk.engine.model.status import Answer, HistoryEntry
from ptahk.errors import Refused, UsageError
from ptahk.wire import digest

QUESTION = "Apply exactly these statements? Type yes: "
ANSWER_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Consent:
    """What the command line says about approval."""

    fingerprint: str | None = None
    automatic: bool = False

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not digest.is_digest(self.fingerprint):
            raise UsageError(
                "not a fingerprint (approve): write sha256: and 64 hex digits", field="approve"
            )

    @property
    def given(self) -> bool:
        return self.automatic or self.fingerprint is not None


def converge(session: Session, consent: Consent) -> dict[str, Any]:
    """Go on with a begun apply, or plan and apply. :returns: the ``ApplyResult`` document."""
    begun = _resume(session, plan=None)
    if begun is not None:
        return begun
    made = _local.make_plan(session)
    return apply_plan(session, made, consent)


def apply_plan(session: Session, made: Made, consent: Consent) -> dict[str, Any]:
    """Apply a published plan. :raises PtahkError: it is not approved, or ended badly."""
    shown = _documents.plan(session.wanted.document, session.wanted.spec, made.plan, made.data)
    session.messages.lines(_text.plan(shown))
    if not made.plan.spec.statements:
        return _result(session, None, made.plan, "NoChanges")
    if session.wanted.spec.apply_policy == "Never":  # before anybody is asked in vain
        raise Refused(
            "policy.apply is Never",
            reason="ApplyNever",
            field="spec.policy.apply",
            hint="Change the policy, or do not apply.",
        )
    _obtain_approval(session, made.plan, shown, consent)
    answer = session.drive.ask(session.wanted, "apply", plan=made.plan.spec.fingerprint)
    return _answered(session, answer, made.plan)


def resume_saved(session: Session, plan: str) -> dict[str, Any] | None:
    """Go on with a begun apply of exactly this plan."""
    return _resume(session, plan=plan)


def _resume(session: Session, plan: str | None) -> dict[str, Any] | None:
    """Go on with an Apply that is claimed or owes its proof, where the resource still asks for it.

    :param plan: only where the begun apply is of this plan; None: of whatever plan.
    :returns: the result, or None where there is nothing to go on with, or it turned out that
        nothing was started, so that a new attempt is in order.
    """
    stored = session.drive.resource()
    if stored is None or stored.get("spec") != session.wanted.document["spec"]:
        return None
    text = (stored["metadata"].get("annotations") or {}).get(REQUEST)
    if text is None:
        return None
    try:
        request: Request = parse_annotation(Request, text, REQUEST)
    except ValueError:
        return None
    status = read_status(stored)
    answered = status.request is not None and status.request.id == request.id
    if request.type != "apply" or (answered and status.request and status.request.state == "Done"):
        return None
    claim = status.active_operation
    begun = status.pending_observation is not None or (claim is not None and claim.type == "Apply")
    if not begun or (plan is not None and request.plan != plan) or request.plan is None:
        return None
    session.messages.note("Going on with the apply that was begun.")
    answer = session.drive.until_answered(request.id)
    if answer.outcome == "NotStarted":
        session.messages.note(f"The begun apply changed nothing: {answer.message}")
        return None
    namespace = session.wanted.key.namespace
    made = _local.stored_plan(session.objects, namespace, request.plan)
    return _answered(session, answer, made.plan)


def _obtain_approval(session: Session, plan: Plan, shown: dict[str, Any], consent: Consent) -> None:
    """Make sure that an unused approval of exactly this plan is stored, where one is needed.

    :raises Refused: there is none, and nobody can be asked.
    """
    fingerprint = plan.spec.fingerprint
    if consent.fingerprint is not None and consent.fingerprint != fingerprint:
        raise Refused(
            f"another plan was approved (approve={consent.fingerprint}): this plan is "
            f"{fingerprint}{_changed_since(session, consent.fingerprint, plan)}",
            reason="ApprovalMissing",
            field="approve",
            hint="Review the plan above, then approve its fingerprint.",
        )
    if not shown["approval"]["required"]:
        return
    namespace = session.wanted.key.namespace
    if _approve.find(session.objects, namespace, session.drive.status(), plan) is not None:
        return
    if not consent.given:
        _ask(session, fingerprint, shown)
    session.approve(plan)


def _changed_since(session: Session, approved: str, plan: Plan) -> str:
    """The first file of a migration directory that differs from what was approved, in words."""
    namespace = session.wanted.key.namespace
    try:
        before = _local.stored_plan(session.objects, namespace, approved)
    except Refused:
        return ""
    now = _local.stored_plan(session.objects, namespace, plan.spec.fingerprint)
    found = [json.loads(each.data).get("sequence", {}).get("directory") for each in (before, now)]
    if None in found:
        return ""
    named = first_difference(*found)
    return "" if named is None else f"; since then {named}"


def first_difference(approved: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """The first file that was added, removed or changed, and which of it; None: none was."""
    for name in sorted(approved.keys() | here.keys()):
        if name not in approved:
            return f"{name} was added"
        if name not in here:
            return f"{name} was removed"
        if approved[name] != here[name]:
            return f"{name} was changed"
    return None


def _ask(session: Session, fingerprint: str, shown: dict[str, Any]) -> None:
    """Ask a person at a terminal. :raises Refused: there is no terminal, or the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refused(
            f"approval missing (plan={fingerprint}): no terminal to ask at",
            reason="ApprovalMissing",
            hint=f"Review the plan, then use --approve {fingerprint}.",
        )
    if session.told.common.quiet:  # nobody approves what they were not shown
        write_lines(_text.plan(shown), no_color=session.told.common.no_color, stream=sys.stderr)
    with session.drive.interrupts.immediate():  # from the first word: who reads it may answer so
        sys.stderr.write(QUESTION)
        sys.stderr.flush()
        answer = sys.stdin.readline(ANSWER_CHARACTERS_MAX)
    if answer.strip().lower() != "yes":
        raise Refused(
            f"approval refused (plan={fingerprint})",
            reason="ApprovalMissing",
            hint="Nothing was changed.",
        )


def _answered(session: Session, answer: Answer, plan: Plan) -> dict[str, Any]:
    if answer.exit_code != 0:
        raise failure(answer)
    outcome = answer.reason if answer.reason in {"AlreadyConverged", "Converged"} else "Applied"
    return _result(session, answer, plan, outcome)


def _result(session: Session, answer: Answer | None, plan: Plan, outcome: str) -> dict[str, Any]:
    entry = _entry(session, answer)
    status = session.drive.status()
    done = plan.spec.statements if outcome == "Applied" else 0
    return document(
        "ApplyResult",
        resource=_documents.resource(session.wanted.document),
        engine=_documents.engine(session.wanted.document),
        outcome=outcome,
        converged=outcome == "NoChanges" or entry is None or entry.converged is not False,
        plan=plan.spec.fingerprint,
        operationId=None if entry is None else entry.operation_id,
        statements=plan.spec.statements,
        statementsDone=done,
        approver=None if entry is None else entry.approver,
        message="" if answer is None else answer.message,
        nextStep=status.next_step or None,
        startedAt=None if entry is None else _documents.time(entry.start_time),
        finishedAt=None if entry is None else _documents.time(entry.finish_time),
    )


def _entry(session: Session, answer: Answer | None) -> HistoryEntry | None:
    """The Apply of this answer in the account."""
    if answer is None:
        return None
    for entry in reversed(session.drive.status().history):
        if entry.type == "Apply" and answer.operation_id in (None, entry.operation_id):
            return entry
    return None
