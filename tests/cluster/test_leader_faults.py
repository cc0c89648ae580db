"""The leader struck at every durable step of an Apply: SIGKILL, SIGSTOP and a partition.

The managers are the two replicas of the chart as Helm installs it, behind a fault proxy. Each step
has a resource and a database of its own. Once every resource of a round stands at its step, one
fault of the leader strikes them all; the next leader takes all of them on.

- SIGKILL, partition: the write was carried out, and its answer is never seen.
- SIGSTOP: the write is on its way, and lands after the next leader has gone on.

``steps.txt`` names the steps. A step more or less than an undisturbed Apply has fails the test:
``PTAHK_CLUSTER_RECORD=1 pytest tests/cluster/test_leader_faults.py`` writes the names anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.kit import revisions
from tests.kit.budget import scaled
from tests.kit.theatre import (
    DEADLINE_S,
    RENEWAL,
    STATEMENT,
    STEPS,
    Standing,
    Theatre,
    accounted,
    kept,
    one_job_a_claim,
)
from tests.kit.waiting import until

RECORD_ENV = "PTAHK_CLUSTER_RECORD"
PASSING = {"Apply Report", "Prove Report", "Prove RenewLease"}
FAULTS = ("stopped", "killed", "apart")
ANYWHERE = ("CreateJob", "Publish-bytes", "Publish-plan")
"""Steps whose write may land late and count: a Job that comes late meets its fence. The guard may
refuse it before that: the claim that asked for it is decided by then."""


def rounds(names: list[str]) -> list[tuple[str, list[str]]]:
    """Fault → the steps that it strikes: each step by one of them; with a budget, by all."""
    if scaled(1) > 1:
        return [(fault, names) for fault in FAULTS]
    return [(fault, names[index :: len(FAULTS)]) for index, fault in enumerate(FAULTS)]


def undisturbed(theatre: Theatre, made: Standing) -> list[str]:
    """The steps of an Apply and its proof that nothing disturbs, each once.

    But for what comes or does not, as things take long or not: why a Pod waits, a renewal more.
    """
    seen_of, namespace = theatre.steps.seen_of, made.bed.namespace
    until(lambda: RENEWAL in seen_of(namespace), "a renewal", 4 * DEADLINE_S)
    accounted(made.bed, "undisturbed")
    until(lambda: "Prove ClearClaim" in seen_of(namespace), "its end")
    found = set(seen_of(namespace)) - PASSING
    return sorted(step for step in found if step.startswith(("Apply ", "Prove ")))


def land(made: Standing) -> None:
    """Let the write through once the next leader has gone on; it may change nothing."""
    assert made.hold is not None

    def gone_on() -> bool:
        stored = made.bed.stored()["metadata"]["resourceVersion"]
        return bool(stored != made.version)

    until(gone_on, f"the next leader to go on after {made.step}", 120)
    made.release()
    made.hold.wait_done()
    answer = made.hold.done[0]
    step = made.step.partition(" ")[2]
    allowed = (201,) if step in ANYWHERE else ()
    # 500: no replica could be asked just then.
    refused = (403, 404, 409, 422, 500) if step == "CreateJob" else (404, 409, 422)
    assert answer in (*refused, *allowed), (made.step, answer)


def check(made: Standing, fault: str) -> None:
    """Everything of ``accounted``, and no claim had two Jobs."""
    what = (made.step, fault)
    one_job_a_claim(made.bed, accounted(made.bed, what), what)


@pytest.mark.timeout(scaled(1800))
def test_a_leader_is_struck_at_every_step_of_an_apply(
    theatre: Theatre, record_property: Callable[[str, object], None]
) -> None:
    calm = theatre.enter("Apply ConsumeApproval", hold=False, locked=True, renewed=True)
    theatre.approve(calm.bed)
    if os.environ.get(RECORD_ENV):
        found = undisturbed(theatre, calm)
        STEPS.write_text("".join(f"{step}\n" for step in found))
        return
    plan = rounds([*kept(), STATEMENT])
    every: list[tuple[Standing, str]] = []
    with revisions.watched(theatre.town.plane) as seen:
        for number, (fault, steps) in enumerate(plan):
            made = [theatre.enter(step, done=fault != "stopped") for step in steps]
            every += [(item, fault) for item in made]
            theatre.replica()
            if number == 0:
                assert undisturbed(theatre, calm) == kept(), "other steps than tests/cluster/steps"
            for item in made:
                theatre.arrive(item)
            theatre.strike(fault)
            for item in made:
                item.locks.close()
            theatre.heal(fault)
            for item in made:
                if item.done or item.hold is None:
                    item.release()  # the next life at the same address is not held
                else:
                    land(item)
        for item, fault in every:
            check(item, fault)
    assert seen.early_releases() == []
    assert seen.released() >= len(every), "every realm was held and given back before our eyes"
    struck = ", ".join(f"{len(steps)} {fault}" for fault, steps in plan)
    record_property("struck", f"leaders struck at {len(kept()) + 1} steps of an Apply: {struck}")
