"""Several resources in one realm: census, shared realms, take-over, resources that act alone."""

from typing import Any

from ptahk.engine import driver
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import API_VERSION, SCHEMA
from ptahk.engine.ports import Key
from ptahk.migrations.history import Row
from tests.kit import fakesequence, toy
from tests.kit.faults import Fate, Faults
from tests.kit.scenario import Scenario, applied, planned, scenario

SHARED: dict[str, Any] = {
    "target": {
        "engine": "postgresql",
        "coordinationKey": "test/db",
        "sharedRealm": True,
        "urlFrom": {"name": "db"},
    }
}


def test_two_local_resources_exclude_each_other_only_while_one_works() -> None:
    one = scenario("a")
    two = one.beside("two")
    first, second = one.process(), two.process()
    plan = planned(one, first)
    one.ask("apply", plan)
    first.until("ConfirmJob")
    two.ask("plan")
    second.settle(patience_s=10)
    answer = two.answer()
    assert (answer.reason, answer.exit_code) == ("RealmConflict", 3)
    assert "default" in answer.message
    first.settle()
    assert one.answer().exit_code == 0
    two.ask("plan")
    second.settle()
    assert two.answer().reason == "Converged"


def test_a_shared_realm_makes_the_second_wait_and_then_says_who_holds_it() -> None:
    one = scenario("a")
    one.edit(**SHARED)
    two = one.beside("two")
    first, second = one.process(), two.process()
    plan = planned(one, first)
    one.ask("apply", plan)
    first.until("ConfirmJob")
    two.ask("plan")
    second.until("WriteClaim")
    before = one.world.clock.monotonic()
    second.until("DiscardClaim")
    answer = two.answer()
    assert (answer.reason, answer.exit_code) == ("RealmHeld", 3)
    assert "Apply" in answer.message and "default" in answer.message
    assert one.world.clock.monotonic() - before >= 60, "policy.coordinationTimeout"
    first.settle()
    assert one.answer().exit_code == 0


def test_a_one_shot_command_never_takes_a_foreign_lease_over() -> None:
    one = scenario("a")
    one.edit(**SHARED)
    two = one.beside("two")
    one.ask("plan")
    one.process().until("AcquireLease")
    two.ask("plan")
    second = two.process()
    one.world.clock.advance(100_000)
    second.settle()
    one.world.clock.advance(100_000)
    two.ask("plan")
    second.settle()
    assert two.answer().reason == "RealmHeld"


def automatic(*lines: str, **options: Any) -> Scenario:
    return scenario(*lines, automatic=True, certain=False, **options)


def test_a_resource_that_acts_alone_converges_and_watches() -> None:
    s = automatic("a", policy={"apply": "Always"})
    process = s.process()
    process.settle(patience_s=0)
    assert s.database.live == ["a"] and s.status().phase == "InSync"
    s.world.clock.advance(700)
    s.database.live.append("by hand")
    process.settle(patience_s=0)
    assert s.status().phase in ("Drifted", "Blocked"), "seen by the observation, then planned"
    assert [item.type for item in s.status().history][-2:] == ["Observe", "Plan"]


def test_one_that_rests_shows_the_conflict_that_a_newcomer_of_the_other_family_brought() -> None:
    """C-6.3: both are refused, and nobody has to want to run something for it to be seen."""
    one = automatic("a", kind=MIGRATION, policy={"apply": "Always"})
    one.process().settle(patience_s=0)
    assert one.status().phase == "InSync"
    spec = {"target": one.world.objects.get(one.key)["spec"]["target"],
            "desired": {"inline": "a"}, "interval": "0"}  # fmt: skip
    document = {
        "apiVersion": API_VERSION, "kind": SCHEMA, "spec": spec,
        "metadata": {"namespace": one.key.namespace, "name": "newcomer"},
    }  # fmt: skip
    one.world.objects.create(document)
    two = Scenario(one.world, one.database, Key(SCHEMA, one.key.namespace, "newcomer"), one.auditor)
    for s in (two, one):
        s.process().settle(patience_s=0)
        assert s.status().phase == "Blocked"
        assert s.status().conditions[0].reason == "RealmConflict"
    two.edit(**SHARED)
    one.process().settle(patience_s=0)
    assert one.status().phase == "Blocked", "one that shares is not enough"
    one.edit(**SHARED)
    one.process().settle(patience_s=0)
    assert one.status().phase == "InSync"


def test_one_that_claims_nothing_shows_no_conflict() -> None:
    """Dormant: it neither blocks another nor is blocked."""
    one = automatic("a", policy={"apply": "Never"})
    one.edit(interval="0")
    one.process().settle(patience_s=0)
    phase = one.status().phase
    two = one.beside("two", policy={"apply": "Always"}, interval="10m")
    for s in (two, one):
        s.process().settle(patience_s=0)
        assert all(item.reason != "RealmConflict" for item in s.status().conditions)
    assert one.status().phase == phase and two.status().phase == "InSync"


def test_without_an_approval_it_waits_and_then_goes_on() -> None:
    s = automatic("a")
    process = s.process()
    process.settle(patience_s=0)
    assert s.status().phase == "AwaitingApproval" and s.database.live == []
    plan = s.status().last_plan
    assert plan is not None
    s.approve(plan["fingerprint"])
    process.settle(patience_s=0)
    assert s.database.live == ["a"] and s.status().phase == "InSync"


def test_two_automatic_resources_of_one_realm_are_both_blocked() -> None:
    one = automatic("a", policy={"apply": "Always"})
    two = one.beside("two")
    for s in (one, two):
        s.process().settle(patience_s=0)
        assert s.status().phase == "Blocked"
        assert s.status().conditions[0].reason == "RealmConflict"
    assert one.database.effects == []
    two.edit(suspend=True)
    two.process().settle(patience_s=0)
    one.process().settle(patience_s=0)
    assert one.database.live == ["a"] and two.status().phase == "Suspended"


def test_a_dead_holder_is_taken_over_only_after_this_process_watched_it() -> None:
    one = automatic("a", policy={"apply": "Always"})
    one.edit(**SHARED)
    two = one.beside("two")
    one.process().until("AcquireLease")
    two.process().until("WriteClaim")
    one.world.clock.advance(100_000)
    second = two.process()
    assert second.step().step == "Report"
    assert second.step().step == "Wait", "stored times count for nothing"
    one.world.clock.advance(500)
    assert second.step().step == "Wait"
    one.world.clock.advance(500)
    assert second.step().step == "AcquireLease"
    second.settle(patience_s=0)
    assert two.status().last_plan is not None
    # The first resource finds its continuity lost, and simply claims anew.
    one.process().settle(patience_s=0)
    assert one.status().last_plan is not None


def test_who_holds_the_realm_is_shown_while_a_claim_waits_for_it() -> None:
    one = automatic("a", policy={"apply": "Always"})
    one.edit(**SHARED)
    two = one.beside("two")
    first, second = one.process(), two.process()
    first.until("AcquireLease")
    second.until("WriteClaim")
    assert second.step().step == "Report"
    ready = next(item for item in two.status().conditions if item.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "RealmHeld")
    assert "Plan" in ready.message and "local/default" in ready.message, "who holds it"
    version = one.world.objects.resource_version
    for _ in range(3):
        assert second.step().step == "Wait"
        one.world.clock.advance(5)
    assert one.world.objects.resource_version == version, "said once"
    first.settle(patience_s=0)
    second.until("CopyEpoch")
    assert all(item.reason != "RealmHeld" for item in two.status().conditions)


def test_a_dispatched_holder_is_never_taken_over() -> None:
    one = automatic("a", policy={"apply": "Always"})
    one.edit(**SHARED)
    two = one.beside("two")
    process = one.process()
    process.until("ConfirmJob")
    one.world.jobs.run_all()
    process.until("ClearClaim")
    while True:
        claim = one.status().active_operation
        if claim is not None and claim.type == "Apply" and claim.dispatch_started:
            break
        process.step()
    holder = one.holder()
    second = two.process()
    second.settle(patience_s=1_500)
    assert one.holder() == holder
    process.settle(patience_s=0)
    assert driver.at_rest(one.status())


def test_the_lifecycle_serves_the_toy_alike() -> None:
    s = scenario("a", kind=toy.KIND)
    process = s.process()
    s.ask("observe")
    process.settle()
    assert s.answer().exit_code == 0
    s.ask("plan")
    process.settle()
    assert s.answer().exit_code == 0 and s.database.live == ["a"]
    assert [item.type for item in s.status().history] == ["Look", "Touch", "Prove"]
    assert s.holder() is None


def test_two_processes_of_one_command_share_its_claim() -> None:
    s = scenario("a", kind=SCHEMA)
    first, second = s.process(), s.process()
    plan = planned(s, first)
    s.ask("apply", plan)
    for _ in range(60):
        first.step()
        second.step()
        s.world.jobs.run_all()
    assert s.answer().exit_code == 0
    assert len([item for item in s.status().history if item.type == "Apply"]) == 1
    assert applied(s, first, plan).reason == "ApprovalMissing"


def test_a_lease_of_a_resource_that_is_gone_is_taken_over_once_watched() -> None:
    one = automatic("a", policy={"apply": "Always"})
    one.edit(**SHARED)
    two = one.beside("two")
    faults = Faults()
    process = one.process(faults)
    process.until("WriteClaim")
    faults.fate = lambda call: Fate(late=True) if call.writes else None
    assert process.step().step == "Fault"
    one.world.objects.delete(one.world.objects.get(one.key))
    faults.fate = lambda call: None
    assert one.process().settle()[-1] == "Gone"
    faults.settle()
    assert one.holder() is not None, "the acquisition landed after its resource's end"
    second = two.process()
    second.settle(patience_s=500)
    assert two.status().last_plan is None
    second.settle(patience_s=900)
    assert two.status().phase == "InSync" and two.holder() is None


def both(**changes: object) -> tuple[Scenario, Scenario]:
    """A schema and a migration of one realm; ``changes`` go into both specs."""
    one = automatic("a", policy={"apply": "Always"})
    files = {"kind": "ConfigMap", "apiVersion": "v1",
             "metadata": {"namespace": "local", "name": "files"},
             "data": fakesequence.files_of(("b",))}  # fmt: skip
    one.world.objects.create(files)
    spec = {
        "target": one.world.objects.get(one.key)["spec"]["target"],
        "artifact": {"configMapRef": {"name": "files"}},
        "policy": {"apply": "Always"},
    }
    document = {"apiVersion": "ptahk.dev/v1alpha1", "kind": MIGRATION,
                "metadata": {"namespace": "local", "name": "sequence"}, "spec": spec}  # fmt: skip
    one.world.objects.create(document)
    two = Scenario(one.world, one.database, Key(MIGRATION, "local", "sequence"), one.auditor)
    if changes:
        one.edit(**changes)
        two.edit(**changes)
    return one, two


def test_a_schema_and_a_migration_on_one_realm_are_both_blocked() -> None:
    one, two = both()
    for each in (one, two):
        each.process().settle(patience_s=200)
    for each in (one, two):
        status = each.status()
        assert status.phase == "Blocked", status
        assert {item.reason for item in status.conditions} == {"RealmConflict"}
    assert one.database.effects == []


def test_a_schema_and_a_migration_that_share_take_turns() -> None:
    one, two = both(**SHARED)
    # Another stream's row: what is in the database is accounted for (C-11.4).
    one.database.revisions["other", "1"] = Row("1", "executed", "applied", 1, "1_x.sql")
    first, second = one.process(), two.process()
    for _ in range(12):
        first.settle(patience_s=30)
        second.settle(patience_s=30)
    assert {"a", "b"} <= set(one.database.live), one.database.effects
    assert len({operation for operation, _ in one.database.effects}) == 2
    assert two.status().phase == "InSync", two.status()
    assert one.holder() is None and driver.at_rest(one.status())
