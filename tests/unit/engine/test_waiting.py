"""What keeps an operation from its start on a cluster: said once, never a busy loop, and over once
it is mended."""

import pytest

from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Refusal
from tests.kit import toy
from tests.kit.memory import MemoryJob
from tests.kit.scenario import Process, Scenario, scenario

MISSING = Refusal("SecretUnavailable", 'secret "db" not found')


def alone(*lines: str) -> tuple[Scenario, Process]:
    """A resource on a cluster that acts by itself."""
    s = scenario(*lines, certain=False, automatic=True, policy={"apply": "Always"})
    return s, s.process()


def job_of(s: Scenario) -> MemoryJob:
    claim = s.status().active_operation
    assert claim is not None
    return s.world.jobs.jobs[("local", claim.job_name)]


def conditions(s: Scenario) -> set[tuple[str, str, str]]:
    return {(item.type, item.reason, item.message) for item in s.status().conditions}


def test_what_a_pod_waits_for_is_shown_once_and_goes_when_it_runs() -> None:
    s, process = alone("a")
    process.until("ConfirmJob")
    job = job_of(s)
    job.waiting = MISSING
    assert process.until("Report") == "Report"
    shown = {(name, *said) for name in ("Ready", "Reconciling", "Stalled")
             for said in [(MISSING.reason, MISSING.message)]}  # fmt: skip
    assert conditions(s) == shown
    assert "Create what the message names" in s.status().next_step
    version = s.world.objects.resource_version
    for _ in range(5):
        result = process.step()
        assert (result.step, result.requeue and result.requeue.reason) == ("Wait", MISSING.reason)
        assert result.requeue is not None
        assert result.requeue.at > s.world.clock.monotonic(), "no busy loop"
        s.world.clock.advance(5)
    assert s.world.objects.resource_version == version, "what is said already is not written again"
    job.waiting = None
    assert process.until("Report") == "Report"
    assert not any(MISSING.message in said for _, _, said in conditions(s))
    process.settle(patience_s=300)
    assert s.status().phase == "InSync"


def test_a_job_that_is_not_as_built_is_never_confirmed() -> None:
    s, process = alone("a")
    process.until("DispatchJob")
    job = job_of(s)
    job.differs = "its spec was changed"
    process.until("Settle")
    claim = s.status().active_operation
    assert claim is not None and claim.outcome is not None
    assert (claim.job_uid, claim.outcome.reason) == (None, "JobForeign")
    assert job.differs in claim.outcome.message


@pytest.mark.parametrize("kind", [SCHEMA, MIGRATION, toy.KIND])
def test_surroundings_that_cannot_be_had_are_said_and_looked_at_again_later(kind: str) -> None:
    s = scenario("a", kind=kind, certain=False, automatic=True, policy={"apply": "Always"})
    process = s.process()
    s.world.surroundings.refusal = Refusal("ExecutionRefused", "PriorityClass high does not exist")
    before = s.world.clock.monotonic()
    steps = process.settle(patience_s=500)
    assert steps.count("DiscardClaim") <= 10, "once in a retry interval"
    assert s.world.clock.monotonic() - before > 400
    assert s.status().phase == "Blocked"
    assert any(said == "PriorityClass high does not exist" for _, _, said in conditions(s))
    assert s.holder() is None and not s.world.jobs.created
    s.world.surroundings.refusal = None
    process.settle(patience_s=1000)
    assert s.status().active_operation is None and s.world.jobs.created


def test_a_proof_whose_surroundings_cannot_be_had_stays_owed() -> None:
    s, process = alone("a")
    for _ in range(100):
        if s.status().pending_observation is not None:
            break
        process.step()
        s.world.jobs.run_all()
    s.world.surroundings.refusal = Refusal("ExecutionRefused", "ServiceAccount x does not exist")
    process.settle(patience_s=400)
    owed = s.status().pending_observation
    assert owed is not None and (owed.reason, s.holder()) == ("ExecutionRefused", owed.holder)
    s.world.surroundings.refusal = None
    process.settle(patience_s=400)
    assert s.status().pending_observation is None and s.holder() is None


def test_without_a_url_nothing_is_claimed_and_the_realm_is_free_for_others() -> None:
    s = scenario("a", certain=False, automatic=True, policy={"apply": "Always"})
    other = s.beside("other")
    s.edit(target={"engine": "postgresql", "coordinationKey": "test/db"})
    first, second = s.process(), other.process()
    first.settle(patience_s=200)
    assert s.status().phase == "Blocked"
    assert {reason for _, reason, _ in conditions(s)} == {"UrlMissing"}
    second.settle(patience_s=200)
    assert other.status().phase == "InSync"


def test_a_policy_too_long_for_a_pod_is_refused_before_the_mark() -> None:
    """A create that cannot be sent would be an outcome that nobody knows (contract part 3)."""
    names = [f"{number:03}{'$' * 100}{'x' * 200}" for number in range(256)]
    s = scenario("a", certain=False, automatic=True, policy={"apply": "Always", "exclude": names})
    process = s.process()
    steps = process.settle(patience_s=200)
    assert "DispatchMark" not in steps and not s.world.jobs.created
    assert any(
        reason == "InvalidSpec" and "policy is too long" in said
        for _, reason, said in conditions(s)
    )
    s.edit(policy={"apply": "Always"})
    process.settle(patience_s=1000)
    assert s.status().phase == "InSync" and s.holder() is None
