"""The one lifecycle of an operation, contract section 3, whatever family it serves.

``step`` names the one next durable step of what is already under way: a release owed, the active
operation, a proof owed. It returns None where nothing is under way; then a family may propose.

The order is the rule: a release is retried first in every pass (C-4.3), an active operation is
finished before anything else is thought of, and a proof outranks every new claim (C-4.2).
"""

from ptahk.engine.family import Family, Proposal
from ptahk.engine.lifecycle import claimed, finishing, owed, running
from ptahk.engine.model.intent import Decision
from ptahk.engine.model.snapshot import Snapshot


def step(s: Snapshot, family: Family) -> Decision | None:
    """The next step of what is under way; None: nothing is."""
    if s.status.pending_lock_release is not None:
        return owed.release(s, s.status.pending_lock_release)
    claim = s.status.active_operation
    if claim is None:
        if s.status.pending_observation is not None:
            return owed.proof(s, s.status.pending_observation)
        return owed.orphan(s) or owed.stray(s)
    if claim.outcome is not None:
        return finishing.step(s, family, claim)
    if claim.dispatch_started:
        return running.step(s, family, claim)
    return claimed.step(s, family, claim)


def new_claim(s: Snapshot, family: Family, proposal: Proposal) -> Decision:
    """Step 1: the claim, before anything external happens."""
    return claimed.write(s, family, proposal)
