"""Engines that are broken on purpose: the model has to notice each within a small bound."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from ptahk.engine import lease, perform
from ptahk.engine.lifecycle import finishing, owed, running, settle
from ptahk.engine.model.claim import PendingLockRelease
from ptahk.engine.model.intent import Do, Done, ReleaseLease, WriteStatus
from ptahk.engine.model.status import render
from ptahk.engine.ports import key_of


@contextlib.contextmanager
def create_again() -> Iterator[None]:
    """A mark without a Job is taken for something to do again."""
    real = running._job
    cleared: dict[str, Any] = dict.fromkeys(
        ("dispatch_time", "dispatch_nonce", "dispatch_not_after", "execution_not_after",
         "intent_digest")
    )  # fmt: skip

    def broken(s: Any, family: Any, claim: Any) -> Any:
        if s.job is None and claim.job_uid is None:
            again = dataclasses.replace(claim, dispatch_started=False, **cleared)
            status = dataclasses.replace(s.status, active_operation=again)
            return Do(WriteStatus("DiscardClaim", status))
        return real(s, family, claim)

    with mock.patch.object(running, "_job", broken):
        yield


@contextlib.contextmanager
def create_twice() -> Iterator[None]:
    """A create whose answer was lost is sent again."""

    def broken(ports: Any, document: Any, intent: Any) -> str:
        step = dispatch(ports, document, intent)
        if step == "CreateUncertain":
            with contextlib.suppress(Exception):
                ports.jobs.create(intent.order)
        return step

    dispatch = perform._dispatch
    with mock.patch.object(perform, "_dispatch", broken):
        yield


@contextlib.contextmanager
def release_early() -> Iterator[None]:
    """An unknown outcome gives the realm back at once."""
    real = owed.proof

    def broken(s: Any, debt: Any) -> Any:
        found = lease.release(s, debt.holder, debt.epoch)
        return real(s, debt) if found is None else Do(ReleaseLease(*found))

    with mock.patch.object(owed, "proof", broken):
        yield


@contextlib.contextmanager
def no_proof() -> Iterator[None]:
    """A result that says success is believed: no proof is owed any more."""
    real = settle.result

    def broken(s: Any, family: Any, claim: Any, payload: Any) -> Any:
        decision = real(s, family, claim, payload)
        if family.mutates(claim.type) and isinstance(decision, Do):
            write: Any = decision.intent
            debt = PendingLockRelease(claim.realm, claim.holder, claim.epoch)
            status = dataclasses.replace(
                write.status, pending_observation=None, pending_lock_release=debt
            )
            return Do(dataclasses.replace(write, status=status))
        return decision

    with mock.patch.object(settle, "result", broken):
        yield


@contextlib.contextmanager
def no_compare_and_swap() -> Iterator[None]:
    """A status is written over whatever stands there by now."""

    def broken(ports: Any, document: Any, status: Any) -> Any:
        current = ports.objects.get(key_of(document))
        return ports.objects.replace_status(current | {"status": render(status)})

    with mock.patch.object(perform, "_write_status", broken):
        yield


@contextlib.contextmanager
def trust_silence() -> Iterator[None]:
    """A Lease that stood still for its duration is taken, whatever its holder's claim says."""
    real = lease._foreign

    def broken(s: Any, view: Any, record: Any) -> Any:
        return real(s, dataclasses.replace(view, holder_settled=True), record)

    with mock.patch.object(lease, "_foreign", broken):
        yield


@contextlib.contextmanager
def never_cleared() -> Iterator[None]:
    """A mutation whose outcome is stored is never cleared."""
    real = finishing._clear

    def broken(s: Any, claim: Any) -> Any:
        return real(s, claim) if claim.type != "Touch" else Done("Idle")

    with mock.patch.object(finishing, "_clear", broken):
        yield


PLANTED: dict[str, tuple[Callable[[], Any], int, tuple[str, ...]]] = {
    "create-again": (create_again, 1, ("kill-after",)),
    "create-twice": (create_twice, 1, ("lost",)),
    "release-early": (release_early, 0, ()),
    "no-proof": (no_proof, 0, ()),
    "no-compare-and-swap": (no_compare_and_swap, 1, ("held",)),
    "trust-silence": (trust_silence, 1, ("leap",)),
    "never-cleared": (never_cleared, 0, ()),
}
"""Name → what is broken, and how many faults of which kinds suffice to see it."""
