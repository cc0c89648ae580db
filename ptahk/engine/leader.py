"""Which replica leads: verdicts on the managers' own Lease (C-13.1).

As with a realm's Lease nobody's clock is trusted: a holder is gone when this process itself has
watched the identical record stand for the holder's own duration (D4, D5). Unlike a realm's, it
carries no epoch and no claim: losing it touches no realm (D16).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptahk.engine.model.fields import format_time
from ptahk.engine.model.lease import LEASE_API

LEASE_NAME = "ptahk-manager"
DURATION_MAX_S = 3600


@dataclass(frozen=True, slots=True)
class Times:
    """How a leader keeps its Lease, in seconds.

    A write may be sent until ``renew_deadline_s`` after the last good renewal was *sent* (D2), and
    is answered or given up ``call_s`` later: before any other replica's watch can have lasted
    ``duration_s``.
    """

    duration_s: int = 30
    renew_deadline_s: float = 15.0
    retry_s: float = 3.0
    call_s: float = 10.0
    """Longest call of any client of the manager; the election's own is ``retry_s`` at most."""

    def __post_init__(self) -> None:
        if not 1 <= self.duration_s <= DURATION_MAX_S:
            raise ValueError(f"duration_s must be between 1 and {DURATION_MAX_S}")
        if not 0 < self.retry_s < self.renew_deadline_s:
            raise ValueError("retry_s must be below renew_deadline_s")
        if self.renew_deadline_s + self.call_s >= self.duration_s:
            raise ValueError("renew_deadline_s and call_s must end before duration_s")


@dataclass(frozen=True, slots=True)
class Vacant:
    """Nobody holds it, or its holder stood still for its whole duration before our eyes."""

    document: dict[str, Any] | None
    """As stored; None: there is none yet."""


@dataclass(frozen=True, slots=True)
class Ours:
    """This process holds it."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """Another replica holds it."""

    holder: str
    left_s: float
    """Until it is vacant, if the record stays as it is."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something that is not ours stands there: never taken (C-6.6, D14)."""

    message: str


Verdict = Vacant | Ours | Held | Unusable


def mark(document: dict[str, Any]) -> str:
    """Names one state of the record: what has to stand still."""
    metadata = document.get("metadata") or {}
    return f"{metadata.get('uid')}/{metadata.get('resourceVersion')}"


def verdict(document: dict[str, Any] | None, identity: str, watched_s: float) -> Verdict:
    """Where this process stands.

    :param watched_s: how long this process has seen this very record, on its monotonic clock.
    """
    if document is None:
        return Vacant(None)
    spec = document.get("spec") or {}
    if not isinstance(spec, dict):
        return Unusable("its spec is no object")
    for foreign in ("strategy", "preferredHolder"):
        if spec.get(foreign) is not None:
            return Unusable(f"spec.{foreign} is set: another election runs on it")
    holder = spec.get("holderIdentity")
    if holder is None or holder == "":
        return Vacant(document)
    duration = spec.get("leaseDurationSeconds")
    if not isinstance(holder, str) or type(duration) is not int:
        return Unusable("holder or duration is malformed")
    if not 1 <= duration <= DURATION_MAX_S:
        return Unusable(f"leaseDurationSeconds is not between 1 and {DURATION_MAX_S}")
    if holder == identity:
        return Ours(document)
    if watched_s >= duration:
        return Vacant(document)
    return Held(holder, duration - watched_s)


def taken(
    found: Vacant, namespace: str, identity: str, times: Times, now: datetime
) -> dict[str, Any]:
    """The document that makes this process the leader; unknown fields stay (F9)."""
    document = found.document or {
        "apiVersion": LEASE_API,
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": LEASE_NAME},
    }
    spec = dict(document.get("spec") or {})
    transitions = spec.get("leaseTransitions")
    moment = format_time(now)
    spec.update(
        holderIdentity=identity,
        leaseDurationSeconds=times.duration_s,
        acquireTime=moment,
        renewTime=moment,
        leaseTransitions=(transitions if type(transitions) is int else 0) + 1,
    )
    return document | {"spec": spec}


def renewed(found: Ours, times: Times, now: datetime) -> dict[str, Any]:
    """The document as renewed."""
    spec = dict(found.document["spec"])
    spec.update(leaseDurationSeconds=times.duration_s, renewTime=format_time(now))
    return found.document | {"spec": spec}


def released(found: Ours, now: datetime) -> dict[str, Any]:
    """The document without a holder, for a leader that goes in order."""
    spec = dict(found.document["spec"])
    spec.update(holderIdentity=None, renewTime=format_time(now))
    spec.pop("acquireTime", None)
    return found.document | {"spec": spec}
