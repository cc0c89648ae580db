"""Everything of an Apply that a cluster can lose, at every step of it: the ledger decides.

The managers are the two replicas of the chart as Helm installs it, behind a fault proxy. Each step
has a resource and a database of its own. The leader is held at that step; something is lost; then
the leader goes on. ``steps.txt`` names the steps; each is in one group here:

- ``EARLY``: there is no Job yet, so neither container, Pod nor Job can be lost, and nobody makes a
  second Pod of a Job that does not exist.
- ``RUNNING``: the Apply's statement waits for a lock meanwhile.
- ``AFTER``: the Apply's Pod has ended. Job and Pod can still be lost; there is no container.
- ``PROVING``: the proof's Pod waits for a lock meanwhile.
- ``PROVEN``: the proof's Pod has ended.

The kubelet is lost under several of them at once. The default run loses everything at the
statement, and a few things elsewhere; with a budget above 1 everything everywhere. Only so many at
a time that what stands first does not come to its deadline while the last is on its way.

At the end twenty answers hang that a manager reads: the logs of Pods that ran.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from ptahk.engine.model.fields import parse_time
from tests.kit import node, podjobs
from tests.kit.apifaults import Hang
from tests.kit.budget import scaled
from tests.kit.podreplica import Replica
from tests.kit.rawapi import Answered
from tests.kit.servingbed import job_controller, pod_of
from tests.kit.theatre import (
    ARRIVAL_S,
    RENEWAL,
    STATEMENT,
    Standing,
    Theatre,
    accounted,
    jobs_of,
    kept,
    one_job_a_claim,
)
from tests.kit.waiting import until

_T = TypeVar("_T")

EARLY = (
    "Apply WriteClaim", "Apply AcquireLease", "Apply CopyEpoch", "Apply PersistSnapshot",
    "Apply ConsumeApproval", "Apply DispatchMark",
)  # fmt: skip
UNSEEN = ("Apply CreateJob", "Apply ConfirmJob")
"""No Pod of the claim need be recorded yet, and a second one is not told from the first then."""
RUNNING = (*UNSEEN, "Apply RecordPods", RENEWAL, STATEMENT)
AFTER = (
    "Apply Settle", "Apply SetJobTtl", "Apply ClearClaim", "Prove WriteClaim",
    "Prove PersistSnapshot", "Prove DispatchMark",
)  # fmt: skip
PROVING = ("Prove CreateJob", "Prove ConfirmJob")
PROVEN = (
    "Prove Publish-bytes", "Prove Publish-plan", "Prove Settle", "Prove SetJobTtl",
    "Prove ClearClaim", "Prove ClearRelease", "Prove ReleaseLease",
)  # fmt: skip
MARK = "Apply DispatchMark"
"""Whoever marked makes the Job at once or never, so a mark that is held is an Apply that was not
started, and another one follows (C-3.2)."""
DEADLINES_S = {
    RENEWAL: 120, "Apply CreateJob": 60, "Apply ConfirmJob": 90, "Apply RecordPods": 90, MARK: 30,
}  # fmt: skip
"""A Lease is renewed, and a Job that was never confirmed is given up, after times made of it: its
create may land for as long as a Lease lasts (C-6.9). A Pod can be recorded before that."""
DEADLINE_S = 240
EVERY = scaled(1) > 1
"""Whether every step is struck."""
TOGETHER = 8
"""Resources that stand at their steps at the same time."""
SAMPLE = (MARK, "Apply ConfirmJob", STATEMENT, "Apply Settle", "Prove ConfirmJob", "Prove Settle")
"""Steps at which the default run loses the kubelet; all of them with a budget."""


@pytest.fixture(scope="module")
def lease() -> str:
    """Of the leader, whom nothing is to cost the lead here."""
    return "30s"


def stored_job(made: Standing) -> dict[str, Any]:
    """The Job that runs at this step, or ran last."""
    operation = "prove" if made.step in PROVING + PROVEN else "apply"
    found = jobs_of(made.bed, operation)
    return max(found, key=lambda item: str(item["metadata"]["creationTimestamp"]))


def pods(made: Standing) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{made.bed.namespace}/pods"
    selector = f"job-name={stored_job(made)['metadata']['name']}"
    found: list[dict[str, Any]] = made.bed.api.call("GET", path, labelSelector=selector).document[
        "items"
    ]
    return found


def kill_container(made: Standing) -> None:
    """SIGKILL of the container's first process, and with it of all the others."""
    (pod,) = pods(made)
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].rpartition("/")[2]
    node.ctr(made.bed.town.own_plane, "tasks", "kill", "--signal", signal.SIGKILL.name, container)


def delete_pod(made: Standing) -> None:
    (pod,) = pods(made)
    made.bed.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def delete_job(made: Standing) -> None:
    made.bed.kubectl("delete", "job", stored_job(made)["metadata"]["name"], "--wait=false")


def second(made: Standing, job: dict[str, Any]) -> Answered:
    """A Pod of the same owner, which is in everything what the Job controller would make.

    By its identity too. A policy keeps everybody else from taking the first one's owner, labels or
    finalizers off, so a Job controller that makes two is what is left.
    """
    path = f"/api/v1/namespaces/{made.bed.namespace}/pods"
    controller = job_controller(made.bed.town.plane)

    def judged() -> Answered | None:
        """What could not be read in time is denied too, and says nothing of the Pod."""
        answer = controller.call("POST", path, pod_of(job))
        return None if "Unreadable" in (answer.message or "") else answer

    return until(judged, "a review of the second Pod")


def second_pod(made: Standing) -> None:
    seen = (made.bed.claim().get("pods") or {}).get("count", 0)
    answer = second(made, stored_job(made))
    if made.step in UNSEEN + PROVING and not seen:
        assert answer.status == 201, answer.message
    else:
        assert answer.status == 403 and "NotAsked" in answer.message, (made.step, answer.message)


LOSSES: dict[str, Callable[[Standing], None]] = {
    "second": second_pod,
    "container": kill_container,
    "pod": delete_pod,
    "job": delete_job,
}
TWENTY = 20
HANGING_S = 90
RENEWED_S = (HANGING_S + 60) / 3
"""When a Lease of an operation with that deadline is renewed."""
LEFT = ("pod", "job")
"""What is there to be lost once the container has ended."""


@dataclass(frozen=True)
class Case:
    """One resource: where it stands, and what it loses there."""

    step: str
    loss: str
    ended: bool = False
    """Its statement waits for nobody, and has ended while the leader still stands."""

    @property
    def harmless(self) -> bool:
        """What is lost is not needed any more, or made again without a word of the ledger."""
        if self.loss == "second" and self.step in UNSEEN:
            return False  # the Job controller ends one of the two, and by that perhaps its Job
        return self.step not in RUNNING or self.ended or self.loss == "second"


FEW = (Case("Apply Settle", "pod"), Case("Prove ConfirmJob", "job"))
"""Beside the statement, in a default run."""


def cases(*, every: bool) -> list[Case]:
    """The statement with every loss and a few others, or every step with every loss."""
    if not every:
        return [*(Case(STATEMENT, loss) for loss in LOSSES), *FEW]
    made = []
    for group, losses in (
        (RUNNING, tuple(LOSSES)), (AFTER, LEFT), (PROVING, tuple(LOSSES)), (PROVEN, LEFT),
    ):  # fmt: skip
        made += [Case(step, loss) for step in group for loss in losses]
    return made + [Case("Apply RecordPods", loss, ended=True) for loss in LEFT]


def batches(items: Sequence[_T]) -> list[Sequence[_T]]:
    """As many as stand at the same time."""
    return [items[at : at + TOGETHER] for at in range(0, len(items), TOGETHER)]


def test_every_step_is_in_one_group() -> None:
    grouped = [*EARLY, *RUNNING, *AFTER, *PROVING, *PROVEN]
    assert sorted(grouped) == sorted([*kept(), STATEMENT])
    every = cases(every=True)
    assert {case.step for case in every} == set(grouped) - set(EARLY)
    assert set(cases(every=False)) <= set(every)


def enter(
    theatre: Theatre, step: str, *, ended: bool = False, deadline_s: int | None = None
) -> Standing:
    """A resource on its way there; a proof that is to run when it is struck stops before that."""
    deadline_s = DEADLINES_S.get(step, DEADLINE_S) if deadline_s is None else deadline_s
    first = "Prove WriteClaim" if step in PROVING else step
    return theatre.enter(first, locked=step in RUNNING and not ended, deadline_s=deadline_s)


def runs(made: Standing) -> bool:
    """Whether the Pod of an operation waits for a lock."""
    return made.bed.waits()


def prove(theatre: Theatre, made: Standing, step: str) -> Standing:
    """From the claim of its proof to this step; the ledger is locked, so that the Pod waits."""
    holding = made.locks.enter_context(made.bed.database.connect())
    made.locks.enter_context(holding.transaction())
    holding.execute("LOCK TABLE ptahk.attempt IN ACCESS EXCLUSIVE MODE")
    return theatre.onward(made, step)


def over(made: Standing) -> bool:
    """Whether the Pod of its Apply has ended."""
    found = pods(made) if jobs_of(made.bed, "apply") else []
    return [pod["status"].get("phase") for pod in found] == ["Succeeded"]


def checked(made: Standing, what: Any, *, harmless: bool) -> None:
    """Everything of ``accounted``; what was not needed any more cost no second Apply."""
    applies = accounted(made.bed, what)
    one_job_a_claim(made.bed, applies, what)
    settled = [entry["settled"]["type"] for entry in applies]
    assert {"Succeeded", "NotStarted", "Failed"}.issuperset(settled), (what, applies)
    assert len(made.bed.ledger()) <= len(applies), (what, made.bed.ledger())
    if harmless:
        assert settled == ["Succeeded"], (what, applies)
        assert [state for _, state in made.bed.ledger()] == ["finished"], what


CHOSEN = batches([*kept(), STATEMENT] if EVERY else SAMPLE)
STRUCK = batches(cases(every=EVERY))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batch", range(len(CHOSEN)))
def test_the_kubelet_is_killed_at_every_step(theatre: Theatre, batch: int) -> None:
    """And comes back once everything that ran has ended without it."""
    theatre.standby()
    # The renewal first: it comes by itself, and late.
    steps = sorted(CHOSEN[batch], key=lambda step: step != RENEWAL)
    # Who stands first waits for all the others, and what it runs must not come to its deadline.
    made = {
        step: enter(theatre, step, deadline_s=None if step == MARK else DEADLINE_S)
        for step in steps
    }
    for step, item in made.items():
        theatre.arrive(item)
        if step in EARLY:
            nothing_to_lose(item)
        elif step in PROVING:
            made[step] = prove(theatre, item, step)
    for step in steps:
        if step in PROVING:
            theatre.arrive(made[step])
    running = [made[step] for step in RUNNING + PROVING if step in made]
    for item in running:
        until(lambda item=item: runs(item), f"what runs at {item.step}", ARRIVAL_S)

    plane = theatre.town.own_plane
    kubelet = plane.component("kubelet")
    kubelet.kill()
    for item in made.values():
        item.locks.close()
    for item in running:
        until(
            lambda item=item: [state for _, state in item.bed.ledger()] == ["finished"],
            f"what the kubelet misses at {item.step}",
        )
    for item in made.values():
        item.release()
    kubelet.start()
    node.wait_ready(plane)
    for step, item in made.items():
        item.wake()
        checked(item, (step, "kubelet"), harmless=step != MARK)


def nothing_to_lose(made: Standing) -> None:
    """No Job, so no Pod and no container; and nobody makes a Pod of a Job to come."""
    assert jobs_of(made.bed, "apply") == [], made.step
    plan = jobs_of(made.bed, "plan")[0]
    plan["metadata"] |= {
        "name": made.bed.claim()["jobName"], "uid": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    answer = second(made, plan)
    assert answer.status == 403 and "its Job does not exist" in answer.message, answer.message


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batch", range(len(STRUCK)))
def test_what_runs_is_lost_at_every_step(
    theatre: Theatre, batch: int, record_property: Callable[[str, object], None]
) -> None:
    theatre.standby()
    entered = [(case, enter(theatre, case.step, ended=case.ended)) for case in STRUCK[batch]]
    waiting = dict(enumerate(entered))
    end = []

    def standing() -> list[int]:
        return [number for number, one in waiting.items() if stands(theatre, *one)]

    while waiting:
        for number in until(standing, f"one of {list(waiting.values())}", ARRIVAL_S):
            case, made = waiting.pop(number)
            if case.step in PROVING and made.step != case.step:
                waiting[number] = (case, prove(theatre, made, case.step))
                continue
            LOSSES[case.loss](made)
            made.locks.close()
            made.release()
            end.append((case, made))
    for case, made in end:
        made.wake()
        checked(made, case, harmless=case.harmless)
    steps = {case.step for case, _ in end}
    record_property("struck", f"{len(end)} losses at {len(steps)} steps of an Apply")


def stands(theatre: Theatre, case: Case, made: Standing) -> bool:
    """Whether it has come as far as it can before its loss."""
    if not theatre.arrived(made):
        return False
    if made.step != case.step:
        return True
    if case.ended:
        return over(made)
    if case.step in AFTER + PROVEN:
        return True
    return runs(made) and bool(pods(made))


@pytest.mark.timeout(900)
def test_twenty_logs_that_hang_delay_nobody_else(theatre: Theatre) -> None:
    """C-5.4: no other resource's pass, and no renewal, is late by more than a second."""
    leader, stuck, free = theatre.replicas[0], theatre.beds(), theatre.beds()
    url = f"postgresql://nobody:none@{theatre.town.guests.address}:1/none"
    podjobs.create(theatre.town.plane, stuck.namespace, podjobs.secret("nowhere", {"url": url}))
    logs = rf"/namespaces/{stuck.namespace}/pods/[^/]+/log"
    rule = theatre.proxy.rule(Hang(), path=logs, client=leader.address)
    names = [f"stuck{number}" for number in range(TWENTY)]
    for name in names:
        target = {"coordinationKey": f"{stuck.namespace}/{name}", "urlFrom": {"name": "nowhere"}}
        execution = {"activeDeadlineSeconds": HANGING_S}
        document = stuck.manifest(name, target=target, execution=execution)
        assert stuck.api.make(document, stuck.namespace).status == 201
    until(lambda: all(stuck.claim(name).get("jobName") for name in names), "twenty claims")
    # Each of their Leases is renewed once by then, and no read has come to its deadline (C-5.3).
    latest_s, ends = 0.0, time.monotonic() + RENEWED_S + 2
    until(lambda: len({seen.path for seen in rule.hits}) == TWENTY, "twenty logs")
    running = "ptahk_result_reads_running"
    until(lambda: leader.metric(running) == TWENTY, "twenty reads that hang", 5)
    slow = slow_waits(leader)
    free.make(interval="0")
    began = time.monotonic()
    until(lambda: free.claim().get("jobUid"), "the free one's Job")
    assert time.monotonic() - began < 10
    ends = max(ends, time.monotonic() + 10)
    while time.monotonic() < ends:
        latest_s = max(latest_s, leader.metric("ptahk_renewals_overdue_seconds"))
        time.sleep(0.2)  # samples of a gauge
    assert latest_s < 1.0, "no renewal was late"
    assert slow_waits(leader) == slow, "no pass waited longer than a second"
    assert leader.metric("ptahk_renewals_kept") >= TWENTY
    times = [parse_time(item["spec"]["renewTime"]) for item in stuck.leases()]
    ages_s = [(datetime.now(UTC) - renewed).total_seconds() for renewed in times]
    assert len(ages_s) == TWENTY and max(ages_s) < RENEWED_S + 5, ages_s
    free.ready()
    assert free.tables() == ["items", "orders"]
    rule.release()
    until(lambda: leader.metric(running) == 0, "every read to end")
    assert leader.leads()


def slow_waits(replica: Replica) -> float:
    """How many passes waited longer than a second for a worker."""
    name = "ptahk_queue_wait_seconds"
    return replica.metric(f"{name}_count") - replica.metric(f'{name}_bucket{{le="1.0"}}')
