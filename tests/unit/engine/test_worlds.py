"""Worlds that go wrong, one at a time: what is stored, what is answered, what is held.

The auditor of the kit checks the invariants after every write of each of these.
"""

import dataclasses
from collections.abc import Callable

import pytest

from ptahk.engine import driver
from ptahk.engine.model import plan as plans
from ptahk.engine.model.job import JobOrder, Lost
from ptahk.engine.model.resource import ACKNOWLEDGE, CONFIG_MAP, LEASE, PLAN, PLAN_KEY
from ptahk.engine.ports import Key
from ptahk.wire import digest
from tests.kit.fakedb import SERVER, Died
from tests.kit.faults import Fate, Faults
from tests.kit.memory import MemoryJob
from tests.kit.scenario import Process, Scenario, applied, command, planned, scenario


def once_dies(s: Scenario, at: str, operation: str = "Apply") -> None:
    """The first process of this operation ends at this step of its own."""
    seen: list[str] = []

    def step(order: JobOrder, name: str) -> None:
        if order.spec.operation == operation and name == at and not seen:
            seen.append(name)
            raise Died

    s.database.step = step


def resolved(s: Scenario, process: Process | None = None) -> None:
    """The same command again ends well, with every statement done once."""
    assert command(s, process or s.process()).exit_code == 0
    assert s.holder() is None and driver.at_rest(s.status())
    assert s.status().pending_observation is None
    done = [statement for _, statement in s.database.effects]
    assert len(done) == len(set(done))


def job_of(s: Scenario) -> MemoryJob:
    """The active operation's Job."""
    claim = s.status().active_operation
    assert claim is not None
    return s.world.jobs.jobs[("local", claim.job_name)]


def test_plan_apply_prove() -> None:
    s = scenario("a", "b")
    answer = command(s, s.process())
    assert (answer.outcome, answer.exit_code) == ("Succeeded", 0)
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.settled is not None and entry.settled.type == "Succeeded"
    assert entry.converged is True and entry.approver == "ann"
    assert s.status().phase == "InSync"
    assert s.holder() is None and s.lease() is not None, "the object and its number stay"
    assert {job.ttl_s for job in s.world.jobs.jobs.values()} == {300}


def test_nothing_to_do_is_said_by_the_plan() -> None:
    s = scenario("a", live=("a",))
    answer = command(s, s.process())
    assert (answer.reason, answer.exit_code) == ("Converged", 0)
    assert s.status().phase == "InSync"


@pytest.mark.parametrize(
    ("at", "outcome"),
    [("start", "NotStarted"), ("started", "Failed"), ("running", "Unknown"),
     ("statement", "Partial"), ("finished", "Succeeded")],
)  # fmt: skip
def test_the_executor_dies_in_an_apply(at: str, outcome: str) -> None:
    s = scenario("a", "!b", "c")
    process = s.process()
    plan = planned(s, process)
    once_dies(s, at)
    answer = applied(s, process, plan)
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.type == "Unknown"
    assert entry.settled is not None and entry.settled.type == outcome
    codes = {"NotStarted": 3, "Failed": 5, "Partial": 5, "Unknown": 4, "Succeeded": 0}
    assert answer.exit_code == codes[outcome], answer
    assert s.holder() is None
    resolved(s)


@pytest.mark.parametrize("at", ["start", "fenced"])
def test_the_executor_dies_in_a_proof(at: str) -> None:
    s = scenario("a", "b")
    process = s.process()
    plan = planned(s, process)
    once_dies(s, at, "Prove")
    answer = applied(s, process, plan)
    assert answer.exit_code == 0, "a proof is simply made again"
    assert [item.type for item in s.status().history].count("Prove") == 2


@pytest.mark.parametrize("operation", ["Observe", "Plan"])
def test_a_reading_that_dies_is_made_again(operation: str) -> None:
    s = scenario("a")
    once_dies(s, "start", operation)
    s.ask("observe" if operation == "Observe" else "plan")
    s.process().settle()
    assert s.answer().exit_code == 0


def test_a_reading_that_always_dies_is_told() -> None:
    s = scenario("a")

    def step(order: JobOrder, name: str) -> None:
        raise Died

    s.database.step = step
    s.ask("plan")
    s.process().settle()
    assert (s.answer().reason, s.answer().exit_code) == ("NoResult", 5)
    assert s.holder() is None and s.status().retry is None


def test_a_stale_plan_runs_nothing() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.database.live.append("by hand")
    answer = applied(s, process, plan)
    assert (answer.outcome, answer.reason, answer.exit_code) == ("NotStarted", "StalePlan", 3)
    assert all(row["state"] == "fenced" for row in s.database.rows.values())
    assert s.database.effects == []


def test_the_same_plan_a_second_time_is_already_converged() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    assert applied(s, process, plan).exit_code == 0
    s.approve(plan)
    answer = applied(s, process, plan)
    assert (answer.outcome, answer.reason) == ("Succeeded", "AlreadyConverged")
    assert len(s.database.effects) == 1


def test_an_unreachable_database_claims_nothing() -> None:
    s = scenario("a")
    s.database.down = True
    s.ask("plan")
    s.process().settle()
    assert (s.answer().reason, s.answer().exit_code) == ("Unreachable", 6)
    assert driver.at_rest(s.status()) and s.holder() is None
    s.database.down = False
    resolved(s)


def test_a_server_killed_in_an_apply_is_unknown_and_then_known() -> None:
    s = scenario("a", "b")
    process = s.process()
    plan = planned(s, process)

    def step(order: JobOrder, name: str) -> None:
        if name == "statement":
            s.database.down = True
            raise Died

    s.database.step = step
    s.ask("apply", plan)
    process.settle(patience_s=5)
    answer = s.answer()
    assert answer.exit_code == 4 and answer.operation_id is not None
    assert "proof" in answer.message and answer.hint
    assert s.holder() is not None and s.status().phase == "Unknown"
    s.database.down, s.database.step = False, lambda order, name: None
    resolved(s)


def test_a_held_lock_refuses_a_plan_and_names_its_holder() -> None:
    s = scenario("a")
    s.database.lock_holder = "ptahk/apply/abc"
    s.ask("plan")
    s.process().settle()
    answer = s.answer()
    assert (answer.reason, answer.exit_code) == ("LockHeld", 3)
    assert "ptahk/apply/abc" in answer.message


def test_a_held_lock_refuses_an_apply_and_its_proof_comes_first_next_time() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.database.lock_holder = "ptahk/apply/abc"
    s.ask("apply", plan)
    process.settle(patience_s=5)
    answer = s.answer()
    assert (answer.outcome, answer.reason, answer.exit_code) == ("Refused", "LockHeld", 3)
    assert s.status().pending_observation is not None and driver.at_rest(s.status())
    s.database.lock_holder = None
    resolved(s)
    settled = [item.settled for item in s.status().history if item.type == "Apply"]
    assert [item.type for item in settled if item] == ["NotStarted", "Succeeded"]


@pytest.mark.parametrize("when", ["DispatchJob", "ConfirmJob"])
def test_a_job_that_vanished_is_unknown_and_never_made_again(when: str) -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until(when)
    s.world.jobs.remove(job_of(s).order.name)
    process.settle()
    assert (s.answer().outcome, s.answer().exit_code) == ("NotStarted", 3)
    resolved(s)


def lost_create(s: Scenario, process: Process) -> None:
    """An Apply whose create was sent, and neither answered nor done."""
    faults = Faults()
    other = s.process(faults)
    s.ask("apply", planned(s, process))
    faults.fate = lambda call: Fate(late=True) if call.verb == "create_job" else None
    other.until("LatchUnknown")


def test_on_a_cluster_a_lost_create_is_waited_for_by_one_process() -> None:
    s = scenario("a", certain=False)
    lost_create(s, s.process())
    begun = s.world.clock.monotonic()
    first = s.process()
    first.settle(patience_s=600)
    assert [item.type for item in s.status().history] == ["Plan", "Apply"]
    first.settle(patience_s=2000)
    assert s.world.clock.monotonic() - begun >= 960, "one whole Lease duration (C-6.9)"
    assert (s.answer().outcome, s.answer().exit_code) == ("NotStarted", 3)
    assert s.holder() is None


def test_a_process_that_did_not_see_the_wait_begin_starts_it_again() -> None:
    s = scenario("a", certain=False)
    lost_create(s, s.process())
    s.process().settle(patience_s=900)
    s.process().settle(patience_s=900)
    assert s.status().pending_observation is not None


def test_locally_nothing_is_uncertain_and_nothing_waits() -> None:
    s = scenario("a")
    lost_create(s, s.process())
    begun = s.world.clock.monotonic()
    s.process().settle()
    assert s.world.clock.monotonic() == begun
    assert s.answer().outcome == "NotStarted"


def test_a_foreign_job_under_the_name_is_not_adopted() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("DispatchJob")
    job = job_of(s)
    job.order = dataclasses.replace(job.order, annotations={"ptahk.dev/operation-id": "x"})
    process.settle()
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.reason == "JobForeign"
    resolved(s)


def test_a_result_that_is_gone_is_judged_from_the_ledger() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.world.jobs.run_all()
    job_of(s).lost = True
    process.settle()
    assert s.answer().exit_code == 0
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.reason == "FrameLost"
    assert entry.settled is not None and entry.settled.type == "Succeeded"


def test_a_read_that_fails_for_now_decides_nothing() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.world.jobs.run_all()
    job_of(s).unreadable = 7
    before = s.world.clock.monotonic()
    process.settle()
    assert s.answer().exit_code == 0
    assert s.world.clock.monotonic() - before >= 35, "a fixed 5 s after each (C-5.3)"


def _another_epoch(output: bytes) -> bytes:
    return output.replace(b" 2.", b" 3.", 1)


@pytest.mark.parametrize(
    "forge", [lambda output: output + output, _another_epoch, lambda output: output[:-60]]
)
def test_a_forged_or_cut_result_settles_nothing(forge: Callable[[bytes], bytes]) -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.world.jobs.run_all()
    job = job_of(s)
    assert job.output is not None
    job.output = forge(job.output)
    process.settle()
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.type == "Unknown"
    assert entry.settled is not None and entry.settled.type == "Succeeded"
    resolved(s)


def test_a_late_pod_starts_the_proof_again() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    name = job_of(s).order.name
    s.world.jobs.run_all()
    while process.step().step != "ConfirmJob":
        pass
    s.world.jobs.jobs[("local", name)].pods.append("late")
    process.settle()
    assert s.answer().exit_code == 0
    proofs = [item.outcome for item in s.status().history if item.type == "Prove"]
    assert [item.type for item in proofs] == ["Failed", "Succeeded"]
    assert proofs[0].reason == "Superseded"


def release_by_hand(s: Scenario, holder: str | None = None) -> None:
    """Somebody edits the Lease."""
    document = s.world.objects.list(LEASE)[0]
    document["spec"]["holderIdentity"] = holder
    if holder is not None:
        document["metadata"]["annotations"]["ptahk.dev/epoch"] = "9." + "0" * 16
        document["metadata"]["annotations"].pop("ptahk.dev/holder")
    s.world.objects.replace(document)


@pytest.mark.parametrize("when", ["DispatchJob", "ConfirmJob", "SetJobTtl"])
def test_a_lost_lease_is_unknown_then_fenced_then_taken_anew(when: str) -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until(when) if when != "SetJobTtl" else _until_ttl(s, process)
    release_by_hand(s)
    process.settle()
    assert s.answer().exit_code in (0, 3), s.answer()
    epochs = {item.epoch for item in s.status().history if item.type in ("Apply", "Prove")}
    assert None in epochs and len(epochs) == 3, "fenced without a Lease, proven under a new one"
    resolved(s)


def _until_ttl(s: Scenario, process: Process) -> None:
    process.until("ConfirmJob")
    s.world.jobs.run_all()
    process.until("SetJobTtl")


def test_a_running_job_whose_lease_was_lost_gets_its_ttl_at_once() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    job = job_of(s)
    release_by_hand(s)
    process.until("ClearClaim")
    assert job.output is None and job.ttl_s == 300


def test_a_foreign_holder_makes_the_proof_wait_after_its_fence() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    release_by_hand(s, "somebody else")
    process.settle(patience_s=100)
    owed = s.status().pending_observation
    assert owed is not None and owed.fenced
    assert s.holder() == "somebody else"
    release_by_hand(s)
    process.settle()
    assert s.status().pending_observation is None and s.holder() is None


def test_suspend_stops_what_is_not_dispatched_and_nothing_else() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("PersistSnapshot")
    s.edit(suspend=True)
    process.settle()
    assert (s.answer().reason, s.answer().exit_code) == ("Suspended", 3)
    assert s.holder() is None and s.database.effects == []
    s.edit(suspend=False)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.edit(suspend=True)
    process.settle()
    assert s.answer().exit_code == 0 and s.database.effects
    assert s.holder() is None


def test_an_edit_during_an_apply_does_not_touch_it() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.declare("a", "b")
    process.settle()
    assert s.answer().exit_code == 0
    assert s.database.live == ["a"]
    resolved(s)
    assert s.database.live == ["a", "b"]


def test_an_edit_before_the_dispatch_drops_the_claim() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConsumeApproval")
    s.declare("a", "b")
    process.settle()
    assert (s.answer().reason, s.answer().exit_code) == ("PlanSuperseded", 3)
    assert s.database.effects == [] and s.holder() is None


def test_a_dropped_claim_owes_its_release_in_the_same_write() -> None:
    s = scenario("a")
    process = s.process()
    s.ask("plan")
    process.until("PersistSnapshot")
    s.declare("a", "b")
    assert process.step().step == "DiscardClaim"
    owed = s.status().pending_lock_release
    assert owed is not None and owed.holder == s.holder()
    assert s.world.jobs.created == [], "nothing was dispatched with inputs that had moved"
    process.settle()
    assert s.answer().message == "2 statements"


def test_a_longer_deadline_later_does_not_stretch_what_is_held() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.edit(execution={"activeDeadlineSeconds": 5000})
    s.world.jobs.run_all()
    process.until("ClearClaim")
    process.until("WriteClaim")
    claim = s.status().active_operation
    assert claim is not None and claim.type == "Prove"
    assert claim.lease_duration_seconds == 960
    s.world.clock.advance(400)
    process.until("RenewLease")
    assert s.lease()["spec"]["leaseDurationSeconds"] == 960
    process.settle()
    assert s.answer().exit_code == 0


def test_a_result_of_another_pod_is_refused() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.world.jobs.run_all()
    job_of(s).pods.insert(0, "another")
    process.settle()
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.outcome.reason == "FrameRefused"
    assert entry.settled is not None and entry.settled.type == "Succeeded"


def test_a_reading_whose_inputs_moved_is_dropped_and_made_again() -> None:
    s = scenario("a")
    process = s.process()
    s.ask("plan")
    process.until("ConfirmJob")
    s.declare("a", "b")
    process.settle()
    outcomes = [item.outcome.reason for item in s.status().history]
    assert outcomes == ["Superseded", "ChangesPending"]
    assert s.answer().message == "2 statements" and s.holder() is None


def test_an_edited_record_of_a_plan_is_refused() -> None:
    s = scenario("a", live=("b",), policy={"allowDestructive": True})
    process = s.process()
    plan = planned(s, process)
    key = Key(PLAN, "local", plans.plan_name(plan))
    document = s.world.objects.get(key)
    s.world.objects.delete(document)
    document["spec"]["binding"]["observedState"] = document["spec"]["binding"]["desiredState"]
    del document["metadata"]["resourceVersion"]
    s.world.objects.create(document)
    answer = applied(s, process, plan)
    assert (answer.reason, answer.exit_code) == ("PlanDamaged", 3)
    assert s.database.effects == []


def test_deletion_waits_until_everything_is_settled() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until("ConfirmJob")
    s.world.objects.delete(s.world.objects.get(s.key))
    steps = process.settle()
    assert steps[-1] == "Gone"
    assert s.database.live == ["a"] and s.holder() is None
    assert all(row["state"] in ("finished", "fenced") for row in s.database.rows.values())


def test_an_apply_needs_an_approval_and_uses_it_once() -> None:
    s = scenario("a")
    process = s.process()
    s.ask("plan")
    process.settle()
    plan = s.answer().plan
    assert plan is not None and s.status().phase == "AwaitingApproval"
    assert applied(s, process, plan).reason == "ApprovalMissing"
    s.approve(plan)
    once_dies(s, "start")
    assert applied(s, process, plan).outcome == "NotStarted"
    answer = applied(s, process, plan)
    assert (answer.reason, answer.exit_code) == ("ApprovalMissing", 3), "a new attempt, a new one"
    s.approve(plan)
    assert applied(s, process, plan).exit_code == 0


def test_policy_always_needs_none_but_for_what_destroys() -> None:
    policy = {"apply": "Always", "allowDestructive": True}
    s = scenario("a", live=("b",), policy=policy)
    process = s.process()
    s.ask("plan")
    process.settle()
    plan = s.answer().plan
    assert plan is not None
    assert applied(s, process, plan).reason == "ApprovalMissing"
    s.declare("a", "b")
    s.ask("plan")
    process.settle()
    plan = s.answer().plan
    assert plan is not None
    assert applied(s, process, plan).exit_code == 0


@pytest.mark.parametrize(
    ("policy", "reason"),
    [({"apply": "Never"}, "ApplyNever"), ({}, "DestructiveNotAllowed")],
)
def test_policy_refuses_an_apply(policy: dict[str, str], reason: str) -> None:
    s = scenario("a", live=("b",), policy=policy)
    process = s.process()
    plan = planned(s, process)
    assert applied(s, process, plan).reason == reason
    assert s.status().phase == "Blocked"


def test_what_the_database_says_against_an_apply() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.world.clock.advance(600)
    s.database.identity = "postgresql/2/2"
    assert applied(s, process, plan).reason == "ServerIdentityMismatch"
    s.database.identity = "postgresql/1/1"
    s.database.target = "sha256:" + "8" * 64
    s.world.clock.advance(600)
    assert applied(s, process, plan).reason == "TargetMismatch"
    s.database.target = "sha256:" + "7" * 64
    s.database.creatable = False
    s.world.clock.advance(600)
    assert applied(s, process, plan).reason == "LedgerMissing"
    s.database.creatable = True
    s.database.binding = "sha256:" + "5" * 64
    s.world.clock.advance(600)
    assert applied(s, process, plan).reason == "BindingMismatch"
    s.database.binding = None
    s.database.clock_offset_s = 31.0
    s.world.clock.advance(600)
    assert applied(s, process, plan).reason == "ClockSkew"
    assert s.database.effects == [] and s.database.rows == {}, "nothing was claimed"
    s.database.clock_offset_s = 29.0
    s.world.clock.advance(600)
    assert applied(s, process, plan).exit_code == 0


def test_what_was_mended_is_seen_at_once() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.database.clock_offset_s = 90.0
    s.world.clock.advance(600)
    assert applied(s, process, plan).reason == "ClockSkew"
    s.database.clock_offset_s = 0.0
    assert applied(s, process, plan).exit_code == 0


def test_a_person_rebinds_a_database() -> None:
    s = scenario("a")
    process = s.process()
    s.database.binding = "sha256:" + "5" * 64
    s.ask("rebind")
    process.settle()
    assert (s.answer().outcome, s.answer().exit_code) == ("Succeeded", 0), s.answer()
    spec = s.world.objects.get(s.key)["spec"]["target"]
    assert s.database.binding == digest.coordination_digest(spec["engine"], spec["coordinationKey"])
    resolved(s)


def test_a_plan_without_a_ledger_to_be_had_is_refused() -> None:
    s = scenario("a")
    s.database.creatable = False
    s.ask("plan")
    s.process().settle()
    assert (s.answer().reason, s.answer().exit_code) == ("LedgerMissing", 3)


def test_an_edited_plan_is_refused_before_it_is_dispatched() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    key = Key(CONFIG_MAP, "local", plans.plan_name(plan))
    document = s.world.objects.get(key)
    s.world.objects.delete(document)
    document["binaryData"][PLAN_KEY] = document["binaryData"][PLAN_KEY][:-8] + "AAAAAAA="
    for name in ("uid", "resourceVersion"):
        del document["metadata"][name]
    s.world.objects.create(document)
    answer = applied(s, process, plan)
    assert (answer.reason, answer.exit_code) == ("PlanDamaged", 3)
    assert s.database.effects == [] and s.holder() is None


def test_a_frozen_realm_takes_no_claim_until_a_person_acknowledges_it() -> None:
    s = scenario("a")
    process = s.process()
    s.database.frozen = [{"reason": "UnknownNumber", "message": "a restored store", "number": 7}]
    s.ask("observe")
    process.settle()
    assert s.answer().exit_code == 0 and s.status().phase == "Frozen"
    s.ask("plan")
    process.settle()
    assert (s.answer().reason, s.answer().exit_code) == ("Frozen", 3)
    document = s.world.objects.get(s.key)
    document["metadata"]["annotations"][ACKNOWLEDGE] = '{"reason":"known","frozen":7}'
    s.world.objects.replace(document)
    process.settle()
    assert s.status().frozen is None and s.status().thawed == 7
    resolved(s, process)
    record = s.lease()["metadata"]["annotations"]["ptahk.dev/epoch"]
    assert int(record.split(".")[0]) > 7


def test_a_status_that_cannot_be_read_is_left_alone() -> None:
    s = scenario("a")
    process = s.process()
    planned(s, process)
    document = s.world.objects.get(s.key)
    document["status"]["jobUID"] = "by hand"
    s.world.objects.replace_status(document)
    version = s.world.objects.get(s.key)["metadata"]["resourceVersion"]
    result = process.step()
    assert result.requeue is not None and result.requeue.reason == "StatusUnreadable"
    assert s.world.objects.get(s.key)["metadata"]["resourceVersion"] == version


def test_only_the_last_ten_plans_are_kept() -> None:
    s = scenario("a")
    process = s.process()
    for number in range(14):
        s.declare(f"line {number}")
        s.ask("plan")
        process.settle()
    assert len(s.world.objects.list(PLAN)) == 10
    last = s.status().last_plan
    assert last is not None
    kept = {item["metadata"]["name"] for item in s.world.objects.list(PLAN)}
    assert last["name"] in kept
    bundles = [item["metadata"]["name"] for item in s.world.objects.list(CONFIG_MAP)]
    assert {name for name in bundles if name.startswith("ptahk-plan-")} == kept


def test_collect_says_lost_only_on_evidence() -> None:
    s = scenario("a")
    found = s.world.jobs.collect("local", "none", "none")
    assert isinstance(found, Lost)


def test_a_proof_without_its_declaration_still_settles_the_apply() -> None:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    _until_ttl(s, process)
    for item in s.world.objects.list(CONFIG_MAP):
        s.world.objects.delete(item)
    process.settle()
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.settled is not None and entry.settled.type == "Succeeded"
    assert entry.converged is False, "that needs the declaration"
    assert s.holder() is None and s.status().pending_observation is None


def test_what_somebody_deleted_is_published_again() -> None:
    s = scenario("a")
    process = s.process()
    s.ask("plan")
    process.settle()
    for item in (*s.world.objects.list(CONFIG_MAP), *s.world.objects.list(PLAN)):
        s.world.objects.delete(item)
    assert command(s, process).exit_code == 0, "by the same process"


def test_an_apply_keeps_its_entry_however_many_proofs_it_takes() -> None:
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always"})
    process = s.process()

    def step(order: JobOrder, name: str) -> None:
        s.database.down = s.database.down or name == "finished"

    s.database.step = step
    process.settle(patience_s=3_000, passes=2_000)
    assert len(s.status().history) == 20, "the account is full of proofs"
    s.database.step, s.database.down = (lambda order, name: None), False
    process.settle(patience_s=200)
    entry = next(item for item in s.status().history if item.type == "Apply")
    assert entry.settled is not None and entry.settled.type == "Succeeded"


def test_a_plan_of_another_server_gives_way_to_the_same_plan_of_this_one() -> None:
    """The fingerprint does not bind the server, so both have one name (C-7.2)."""
    s = scenario("a", automatic=True, certain=False, policy={"apply": "OnApproval"})
    process = s.process()
    s.database.identity = "postgresql/2/2"
    process.settle(patience_s=100)
    s.database.identity = SERVER
    s.ask("plan")
    process.settle(patience_s=300)
    last = s.status().last_plan
    assert last is not None
    [plan] = s.world.objects.list(PLAN)
    assert plan["spec"]["serverIdentity"] == SERVER
    s.approve(last["fingerprint"])
    process.settle(patience_s=300)
    assert s.database.live == ["a"]


def test_a_command_plans_again_where_its_plan_is_of_another_server() -> None:
    s = scenario("a")
    process = s.process()
    s.database.identity = "postgresql/2/2"
    s.ask("plan")
    process.settle()
    s.database.identity = SERVER
    s.ask("plan")
    process.settle()
    assert not s.world.objects.list(PLAN), "it goes, for it is the copy's"
    answer = command(s, process)
    assert answer.exit_code == 0 and s.database.live == ["a"], answer
