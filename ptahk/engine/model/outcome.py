"""How an operation ended: a closed union, no boolean, no None.

``Failed``: nothing changed, proven (of a read-only operation: it gave no result). ``Partial``:
exactly ``done`` of ``total`` statements applied, the next one proven without effect.
``NotStarted``: the ledger proves that nothing ran. ``Unknown``: anything else (C-5.7, C-11.13).
"""

from dataclasses import dataclass
from typing import Any, Literal, assert_never

from ptahk.engine.model.fields import FieldError, cut

OutcomeType = Literal["Succeeded", "Failed", "Partial", "NotStarted", "Unknown"]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Done, as proven."""

    reason: str = "Succeeded"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing changed, proven; or a read-only operation without a result."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Partial:
    """Exactly ``done`` of ``total`` statements took effect."""

    done: int
    total: int
    reason: str = "Partial"
    message: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.done < self.total:
            raise FieldError(".outcome.done", "must be between 0 and total, exclusive")


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Dispatched, and the ledger proves that no statement ran."""

    reason: str = "NotStarted"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something may have run."""

    reason: str
    message: str = ""


Outcome = Succeeded | Failed | Partial | NotStarted | Unknown


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """An Outcome's JSON form: ``{type, reason, message, done?, total?}``."""

    type: OutcomeType
    reason: str
    message: str = ""
    done: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        counted = self.done is not None and self.total is not None
        if counted != (self.type == "Partial"):
            raise FieldError(".outcome", "done and total go with Partial, and with nothing else")


def store(outcome: Outcome) -> StoredOutcome:
    """The form that a status holds."""
    message = cut(outcome.message, 1024)
    match outcome:
        case Succeeded():
            return StoredOutcome("Succeeded", outcome.reason, message)
        case Failed():
            return StoredOutcome("Failed", outcome.reason, message)
        case NotStarted():
            return StoredOutcome("NotStarted", outcome.reason, message)
        case Unknown():
            return StoredOutcome("Unknown", outcome.reason, message)
        case Partial():
            return StoredOutcome("Partial", outcome.reason, message, outcome.done, outcome.total)
        case _:
            assert_never(outcome)


def load(stored: StoredOutcome) -> Outcome:
    """The inverse of ``store``."""
    match stored.type:
        case "Succeeded":
            return Succeeded(stored.reason, stored.message)
        case "Failed":
            return Failed(stored.reason, stored.message)
        case "NotStarted":
            return NotStarted(stored.reason, stored.message)
        case "Unknown":
            return Unknown(stored.reason, stored.message)
        case "Partial":
            return Partial(stored.done or 0, stored.total or 0, stored.reason, stored.message)
        case _:
            assert_never(stored.type)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Expected trouble: a value, not an exception. ``reason`` is one of ``model.reasons``."""

    reason: str
    message: str
    field: str | None = None


Evidence = dict[str, Any]
"""JSON that a family owns and the lifecycle only carries."""
