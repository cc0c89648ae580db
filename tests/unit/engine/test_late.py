"""What comes late, and what a restored store does not know."""

import dataclasses

from ptahk.engine import driver
from ptahk.engine.model.resource import ACKNOWLEDGE
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


OTHER = "00000000-0000-4000-b000-00000000ffff"


def row_of_another(s: Scenario, operation: str, number: int, **changes: object) -> None:
    """An attempt that this store does not know, open on the same database."""
    s.database.rows[operation] = {
        "operationId": operation, "storeUid": OTHER, "storeKind": "cluster",
        "serverIdentity": s.database.identity, "coordinationDigest": "", "sharedRealm": False,
        "number": number, "epoch": f"{number}.{'f' * 16}", "startNonce": "f" * 32,
        "planDigest": None, "notAfter": "2026-01-01T00:00:00Z", "state": "started",
        "statementsTotal": 1, "statementsDone": 0, "statementRunning": None, "outcome": None,
    } | changes  # fmt: skip


def acknowledge(s: Scenario, number: int) -> None:
    document = s.world.objects.get(s.key)
    text = f'{{"reason":"known","frozen":{number}}}'
    document["metadata"]["annotations"][ACKNOWLEDGE] = text
    s.world.objects.replace(document)


def frozen(s: Scenario) -> int | None:
    """Plan; the number that the realm is frozen over."""
    s.ask("plan")
    s.process().settle()
    found = s.status().frozen
    return None if found is None else found.number


def test_a_word_on_one_foreign_attempt_says_nothing_of_the_next() -> None:
    s = scenario("a")
    row_of_another(s, "a" * 32, 9)
    assert frozen(s) == 9
    acknowledge(s, 9)
    s.process().settle()
    assert frozen(s) is None, "this attempt is known now"
    row_of_another(s, "b" * 32, 4)
    assert frozen(s) == 4, "another attempt, though its number is lower"


def test_an_executor_refuses_a_foreign_attempt_that_came_after_the_word() -> None:
    s = scenario("a")
    row_of_another(s, "a" * 32, 9)
    assert frozen(s) == 9
    acknowledge(s, 9)
    process = s.process()
    process.settle()
    s.ask("apply", planned(s, process))
    process.until("ConfirmJob")
    row_of_another(s, "b" * 32, 4)
    process.settle(patience_s=5)
    assert s.database.effects == []
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.reason == "Frozen"


def test_a_restored_store_freezes_though_its_first_plan_takes_the_lost_number() -> None:
    s = scenario("a")
    row_of_another(s, "a" * 32, 1, storeUid=s.world.store.uid, state="finished")
    assert frozen(s) == 1, "number 1 is its own Plan's too, under another epoch"
    acknowledge(s, 1)
    assert command(s, s.process()).exit_code == 0
