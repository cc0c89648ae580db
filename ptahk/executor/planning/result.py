"""What a planner hands on: the plan, or why there is none; and how far the two sides differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ptahk.executor.planning.document import Statement
from ptahk.executor.planning.model import SEVERITIES, ObjectId, PlanRefusal, Policy, Severity, Step

ITEMS_MAX = 500
"""Longest list of a drift report; the counts say how many there really are."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan, or why there is none.

    ``refusals`` without statements: no plan can be made. With statements: the plan stands but
    policy forbids it (``ProtectedTable``, ``DestructiveNotAllowed``, ``DeadlineTooShort``).
    """

    statements: tuple[Statement, ...]
    refusals: tuple[PlanRefusal, ...]
    notes: tuple[str, ...]
    sizes_bytes: Mapping[int, int]
    """Size of the table that a statement works on, by the statement's index; not in the plan."""
    observed_fingerprint: str
    desired_fingerprint: str
    """What ``fingerprint`` of the live side will be once the plan has run."""
    differences: tuple[tuple[str, ObjectId], ...] = field(default=(), repr=False)
    """``missing``, ``undeclared`` or ``changed``, and the object; wholes, not their parts."""
    steps: tuple[Step, ...] = field(default=(), repr=False)


def destructive(
    policy: Policy, steps: Sequence[Step], hints: Sequence[str]
) -> Iterator[PlanRefusal]:
    """What a plan loses where the policy does not allow that; ``hints``: how it need not."""
    losses = [step for step in steps if step.severity == "destructive"]
    if not losses or policy.allow_destructive:
        return
    named = "; ".join(f"{step.kind} {step.object} ({step.reason})" for step in losses[:10])
    more = f"; and {len(losses) - 10} more" if len(losses) > 10 else ""
    hint = f". {hints[0]}" if hints else ""
    message = f"the plan is destructive and allowDestructive is not set: {named}{more}{hint}"
    yield PlanRefusal("DestructiveNotAllowed", message, losses[0].object)


@dataclass(frozen=True, slots=True)
class DriftItem:
    """One object that is not as declared."""

    category: str
    """``missing``, ``undeclared`` or ``changed``."""
    object: str
    severity: Severity
    """Of the strongest statement that a plan would run on it."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Advisory; never a planning scope, and authorises nothing."""

    counts: Mapping[str, int]
    highest: Severity | None
    items: tuple[DriftItem, ...]


def drift(made: PlanResult) -> DriftReport:
    """What a plan found to differ. Parts of a missing or undeclared whole are not counted."""
    strongest: dict[ObjectId, Severity] = {}
    for step in made.steps:
        known = strongest.get(step.object, "safe")
        strongest[step.object] = max(known, step.severity, key=SEVERITIES.index)
    items = []
    for category, oid in made.differences:
        fallback: Severity = "destructive" if category == "undeclared" else "safe"
        items.append(DriftItem(category, str(oid), strongest.get(oid, fallback)))
    levels = [*strongest.values(), *(item.severity for item in items)]
    return DriftReport(
        counts=dict(Counter(item.category for item in items)),
        highest=max(levels, key=SEVERITIES.index) if items else None,
        items=tuple(items[:ITEMS_MAX]),
    )
