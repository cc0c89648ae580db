"""What comes late, and what a restored store does not know."""

import dataclasses

from ptahk.engine import driver
from tests.kit.faults import Call, Fate, Faults
from tests.kit.scenario import Scenario, command, planned, scenario


def late_create(s: Scenario) -> Faults:
    """The faults of a process whose next create of a Job is sent and not answered."""
    seen: list[Call] = []

    def fate(call: Call) -> Fate | None:
        if call.verb != "create_job" or seen:
            return None
        seen.append(call)
        return Fate(late=True)

    return Faults(fate)


def test_a_reading_that_came_after_its_end_is_cleaned_up() -> None:
    s = scenario("a", certain=False)
    faults = late_create(s)
    s.ask("plan")
    process = s.process(faults)
    process.settle()
    assert s.answer().exit_code == 0, "by the second attempt"
    faults.settle()
    process.settle()
    s.world.jobs.run_all()
    process.settle()
    assert len(s.world.jobs.jobs) == 2
    assert {job.ttl_s for job in s.world.jobs.jobs.values()} == {300}
    entries = [entry.unseen for entry in s.status().history]
    assert entries == [True, False], "only of the one that nobody saw is anything asked later"


def test_an_apply_that_came_after_its_proof_is_cleaned_up() -> None:
    s = scenario("a", certain=False)
    process = s.process()
    plan = planned(s, process)
    faults = late_create(s)
    s.ask("apply", plan)
    s.process(faults).settle()
    assert s.answer().outcome == "NotStarted"
    faults.settle()
    process.settle()
    assert s.world.jobs.run_all() == 1
    assert s.database.effects == [], "behind its tombstone"
    process.settle()
    assert {job.ttl_s for job in s.world.jobs.jobs.values()} == {300}
    assert command(s, process).exit_code == 0


def test_a_late_job_that_is_anothers_is_left_alone() -> None:
    s = scenario("a", certain=False)
    faults = late_create(s)
    s.ask("plan")
    process = s.process(faults)
    process.settle()
    faults.settle()
    late = list(s.world.jobs.jobs.values())[-1]
    late.order = dataclasses.replace(late.order, annotations={"ptahk.dev/operation-id": "x"})
    s.world.jobs.run_all()
    process.settle()
    assert late.ttl_s is None and driver.at_rest(s.status())
