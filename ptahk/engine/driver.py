"""One pass over one resource: gather → decide → perform, and when to look again.

CLI, manager and simulator call ``run_pass`` alike; they differ in how often, and with which ports.
Nothing that a pass remembers is needed for safety.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from ptahk.engine.decide import decide
from ptahk.engine.families.migration import MigrationFamily
from ptahk.engine.families.schema import SchemaFamily
from ptahk.engine.family import Family
from ptahk.engine.gather import gather
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.intent import Decision, Do, Done, Need, Wait
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.model.status import Status
from ptahk.engine.perform import perform
from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Indeterminate,
    Invalid,
    Key,
    NotFound,
    PortError,
    Ports,
    Unavailable,
)

FAMILIES: Final[Mapping[str, Family]] = {
    SCHEMA: SchemaFamily(),
    MIGRATION: MigrationFamily(),
}

BACK_OFF_S: Final[Mapping[type[PortError], tuple[float, float]]] = {
    # A lost race or a lost answer: the fresh snapshot decides, at once.
    Conflict: (0.0, 1.0),
    AlreadyExists: (0.0, 1.0),
    NotFound: (0.0, 1.0),
    Indeterminate: (0.05, 5.0),
    Unavailable: (0.5, 60.0),
    Forbidden: (5.0, 300.0),
    Invalid: (5.0, 300.0),
}
"""Port error → seconds before the next pass, first and at most; doubled each time in a row."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """When to make the next pass, on the monotonic clock, and why."""

    at: float
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did.

    ``requeue`` None: nothing to do until a document changes. ``need``: a result that ``fetch``
    did not read (a manager reads it elsewhere, C-5.4). ``fault``: what the store answered.
    """

    requeue: Requeue | None
    step: str = ""
    need: Need | None = None
    fault: PortError | None = None


Fetch = Callable[[Ports, Need], None]


def collect(ports: Ports, need: Need) -> None:
    """Read a result here and now; for callers whose passes nobody else waits for."""
    ports.memory.results[need.uid] = ports.jobs.collect(need.namespace, need.name, need.uid)


def run_pass(
    ports: Ports, key: Key, *, families: Mapping[str, Family] = FAMILIES,
    fetch: Fetch | None = collect,
) -> PassResult:  # fmt: skip
    """Take the one next step for one resource. Never raises a PortError.

    :param fetch: reads a result; None: it is left to the caller (``PassResult.need``).
    """
    try:
        snapshot = gather(ports, key, families)
        decision = decide(snapshot, families[key.kind])
        done = _carry_out(ports, snapshot.document, snapshot.now, decision, fetch)
    except NotFound as error:
        if not _exists(ports, key):
            return PassResult(None, "Gone")
        return _fault(ports, key, error)
    except PortError as error:
        return _fault(ports, key, error)
    except FieldError as error:
        text = f"the stored status cannot be read: {error}"
        ports.recorder.event(key, "Warning", "StatusUnreadable", text)
        return PassResult(Requeue(_later(ports, 60.0), "StatusUnreadable", text))
    ports.memory.faults.pop(key, None)
    return done


def _carry_out(
    ports: Ports, document: dict[str, object], now: datetime, decision: Decision,
    fetch: Fetch | None,
) -> PassResult:  # fmt: skip
    match decision:
        case Do():
            step = perform(ports, document, decision.intent)
            return PassResult(Requeue(_later(ports, 0.0), "Progress"), step)
        case Need():
            if fetch is None:
                return PassResult(None, "Need", decision)
            fetch(ports, decision)
            return PassResult(Requeue(_later(ports, 0.0), "Progress"), "Collect")
        case Wait():
            seconds = max(0.0, (decision.until - now).total_seconds())
            requeue = Requeue(_later(ports, seconds), decision.reason, decision.message)
            return PassResult(requeue, "Wait")
        case Done():
            return PassResult(None, decision.reason)
        case _:
            assert_never(decision)


def _later(ports: Ports, seconds: float) -> float:
    return ports.clock.monotonic() + seconds


def _exists(ports: Ports, key: Key) -> bool:
    try:
        ports.objects.get(key)
    except NotFound:
        return False
    except PortError:
        return True
    return True


def _fault(ports: Ports, key: Key, error: PortError) -> PassResult:
    """What a fault means for the next pass: only when it is made."""
    count = ports.memory.faults.get(key, 0)
    ports.memory.faults[key] = count + 1
    first, most = BACK_OFF_S.get(type(error), (0.5, 60.0))
    seconds = first if count == 0 else min(most, max(first, 0.05) * 2.0 ** min(count, 12))
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, Conflict):
        ports.recorder.event(key, "Warning", "StoreFault", text)
    return PassResult(Requeue(_later(ports, seconds), "StoreFault", text), "Fault", fault=error)


def at_rest(status: Status) -> bool:
    """Nothing is in flight that further passes would bring on now.

    A command goes on with passes until its request is answered **and** this is true: TTL, clearing
    and release come after the answer. A proof that waits for its next attempt is at rest: the same
    command goes on with it later.
    """
    if status.active_operation is not None or status.pending_lock_release is not None:
        return False
    owed = status.pending_observation
    return owed is None or owed.attempts > 0
