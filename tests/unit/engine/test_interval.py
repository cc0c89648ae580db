"""A resource at rest is asked again when something is due, and not before (C-13.3)."""

from datetime import UTC, datetime, timedelta

from ptahk.engine import status
from ptahk.engine.family import Summary
from ptahk.engine.model.status import Retry, Status
from tests.kit.scenario import Process, Scenario, scenario

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def resting(interval: str = "10m", **policy: str) -> tuple[Scenario, Process]:
    """A resource that came to rest by itself."""
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always", **policy})
    target = s.world.objects.get(s.key)["spec"]["target"]
    s.edit(interval=interval, target={**target, "urlFrom": {"name": "db", "key": "url"}})
    process = s.process()
    process.settle(patience_s=60)
    return s, process


def test_the_next_pass_is_at_the_next_observation_and_costs_one_job() -> None:
    s, process = resting()
    assert s.status().phase == "InSync"
    created, passes = len(s.world.jobs.created), s.passes
    result = process.step()
    assert result.requeue is not None and result.requeue.reason == "Interval"
    wait_s = result.requeue.at - s.world.clock.monotonic()
    assert 500 < wait_s <= 660, "an interval, a tenth jittered, and no pass before"
    s.world.clock.advance(wait_s)
    process.settle(patience_s=60)
    assert [o.spec.operation for o in s.world.jobs.created[created:]] == ["Observe"]
    assert s.passes - passes < 25


def test_without_an_interval_nothing_is_due() -> None:
    _, process = resting(interval="0")
    assert process.step().requeue is None


def test_an_apply_that_failed_is_tried_again_after_its_pause_without_an_interval() -> None:
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always"})
    s.database.failing.add("a")
    target = s.world.objects.get(s.key)["spec"]["target"]
    s.edit(
        interval="0", execution={"failureRetryInterval": "5m"},
        target={**target, "urlFrom": {"name": "db", "key": "url"}},
    )  # fmt: skip
    process = s.process()
    process.settle(patience_s=30)
    applies = [o for o in s.world.jobs.created if o.spec.operation == "Apply"]
    assert len(applies) == 1
    result = process.step()
    assert result.requeue is not None
    last = next(item for item in reversed(s.status().history) if item.type == "Apply")
    at = s.world.clock.now() + timedelta(seconds=result.requeue.at - s.world.clock.monotonic())
    assert abs((at - last.finish_time).total_seconds() - 300) < 1
    s.database.failing.clear()
    process.settle(patience_s=400)
    assert s.status().phase == "InSync"


def test_a_refusal_of_the_caller_is_blocked_and_not_failed() -> None:
    """Exit codes 2 and 3: nothing ran, and it is for a person to correct (C-14.2)."""
    for reason, phase in (
        ("SourceInvalid", "Blocked"), ("LockHeld", "Blocked"), ("OperationFailed", "Failed"),
    ):  # fmt: skip
        retry = Retry("Plan", 1, reason, "as it was told", NOW, True, 1, None)
        shown = status.outputs(
            Status("uid", retry=retry), 1, NOW, Summary("Pending", False, "Idle", ""), None,
            deleting=False,
        )  # fmt: skip
        assert shown.phase == phase, reason


def test_ready_stays_true_while_the_interval_looks() -> None:
    s, process = resting()
    result = process.step()
    assert result.requeue is not None
    s.world.clock.advance(result.requeue.at - s.world.clock.monotonic())
    shown, looked = set(), len(s.status().history)
    for _ in range(40):
        process.step()
        s.world.jobs.run_all()
        shown |= {(c.type, c.status) for c in s.status().conditions}
    assert len(s.status().history) > looked
    assert shown == {("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False")}
