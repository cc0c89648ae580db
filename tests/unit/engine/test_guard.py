"""Without the admission guard nothing is claimed or dispatched, and a proof stays owed."""

import dataclasses

from tests.kit.scenario import Process, planned, scenario


class Switch:
    """An Admission that a test turns."""

    def __init__(self) -> None:
        self.why: str | None = "the policies are missing"

    def missing(self) -> str | None:
        return self.why


def guarded(process: Process, switch: Switch) -> Process:
    return Process(process.scenario, dataclasses.replace(process.ports, admission=switch))


def test_an_apply_that_is_asked_for_is_refused_before_any_job() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    before = len(s.world.jobs.created)
    switch = Switch()
    held = guarded(process, switch)
    s.ask("apply", plan)
    held.settle()
    assert (s.answer().reason, s.answer().exit_code) == ("NoAdmission", 3)
    assert len(s.world.jobs.created) == before
    switch.why = None
    s.ask("apply", plan)
    held.settle()
    assert s.answer().outcome == "Succeeded"


def test_resources_that_act_by_themselves_wait() -> None:
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always"})
    switch = Switch()
    process = guarded(s.process(), switch)
    process.settle(patience_s=300)
    assert s.world.jobs.created == []
    status = s.status()
    assert (status.phase, status.conditions[2].reason) == ("Blocked", "NoAdmission")
    assert status.active_operation is None
    switch.why = None
    process.settle(patience_s=300)
    assert s.status().phase == "InSync"


def test_a_proof_is_kept_and_made_when_the_guard_is_back() -> None:
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always"})
    switch = Switch()
    switch.why = None
    process = guarded(s.process(), switch)
    for _ in range(100):
        process.step()
        if s.status().pending_observation is not None:
            break
        s.world.jobs.run_all()
    switch.why = "gone"
    process.settle(patience_s=300)
    status = s.status()
    owed = status.pending_observation
    assert owed is not None and owed.reason == "NoAdmission" and owed.attempts > 1
    assert "Prove" not in [order.spec.operation for order in s.world.jobs.created]
    assert s.holder() is not None, "the realm is kept"
    switch.why = None
    process.settle(patience_s=300)
    assert s.status().phase == "InSync"


def test_a_claim_is_dropped_where_the_guard_goes_before_the_mark() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    switch = Switch()
    switch.why = None
    held = guarded(process, switch)
    s.ask("apply", plan)
    held.until("ConsumeApproval", "PersistSnapshot")
    switch.why = "gone"
    held.settle()
    assert s.answer().reason == "NoAdmission"
    assert [o.spec.operation for o in s.world.jobs.created].count("Apply") == 0
    assert s.holder() is None, "the realm is released"
