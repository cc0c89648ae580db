"""Whole managers in threads, over a world in memory: convergence, two replicas, faults."""

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ptahk.engine.driver import FAMILIES
from ptahk.engine.families.schema import SchemaFamily
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import Status, render
from ptahk.engine.ports import Key
from tests.kit.replicas import Replica, ThreadWatch, Town
from tests.kit.waiting import until

Start = Callable[..., Replica]


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.jobs.stop()


@pytest.fixture
def start(town: Town) -> Iterator[Start]:
    made: list[Replica] = []

    def starting(name: str = "one", **more: Any) -> Replica:
        made.append(Replica(town, name, **more))
        return made[-1]

    yield starting
    town.jobs.mended.set()
    town.jobs.paused.set()
    for replica in made:
        replica.stop()


def fetch(replica: Replica, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{replica.manager.probes.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


PATH = [
    "WriteClaim", "AcquireLease", "CopyEpoch", "PersistSnapshot", "DispatchMark", "DispatchJob",
    "ConfirmJob", "Settle", "ClearClaim", "ReleaseLease",
]  # fmt: skip


def test_a_resource_converges_and_the_path_shows(town: Town, start: Start) -> None:
    replica = start()
    key = town.schema("db", "a", "b")
    town.phase(key, "InSync")
    assert town.database(key).live == ["a", "b"]
    assert town.operations() == ["Plan", "Apply", "Prove"] or town.operations() == [
        "Plan", "Observe", "Apply", "Prove",
    ]  # fmt: skip
    steps = town.steps(key)
    apply = steps[len(steps) - 1 - steps[::-1].index("DispatchMark") :]
    assert [step for step in PATH if step not in steps] == []
    assert apply.index("ConfirmJob") < apply.index("Settle") < apply.index("ReleaseLease")
    assert replica.stop() == "stopped"
    assert town.leader() is None, "given up after the workers stopped"


def test_probes_and_metrics(town: Town, start: Start) -> None:
    replica = start()
    key = town.schema("db", "a")
    town.phase(key, "InSync")
    assert fetch(replica, "/healthz") == (200, "ok\n")
    until(lambda: fetch(replica, "/readyz")[0] == 200, "readiness")
    assert fetch(replica, "/nothing")[0] == 404
    wanted = 'ptahk_operations_total{kind="PtahSchema",operation="Apply",outcome="Succeeded"} 1.0'
    until(lambda: wanted in fetch(replica, "/metrics")[1], "the Apply to be counted")
    text = fetch(replica, "/metrics")[1]
    assert "ptahk_leader 1.0" in text
    assert 'ptahk_resources{kind="PtahSchema",phase="InSync"} 1.0' in text
    assert "ptahk_census_conflicts 0.0" in text
    assert "apps" not in text, "no namespace, name or realm is a label"


def test_a_changed_declaration_is_applied_without_waiting_for_an_interval(
    town: Town, start: Start
) -> None:
    start()
    key = town.schema("db", "a")
    town.phase(key, "InSync")
    document = town.objects.get(key)
    document["spec"]["desired"]["inline"] = "a\nb"
    town.objects.replace(document)
    until(lambda: town.database(key).live == ["a", "b"], "the change")
    town.phase(key, "InSync")


def test_a_config_map_that_is_read_wakes_its_reader(town: Town, start: Start) -> None:
    start()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x.sql": "a"}}
    town.objects.create({**body, "metadata": {"namespace": "apps", "name": "declared"}})
    key = town.schema("db", desired={"configMapRef": {"name": "declared"}})
    town.phase(key, "InSync")
    document = town.objects.get(Key("ConfigMap", "apps", "declared"))
    document["data"] = {"x.sql": "a\nb"}
    town.objects.replace(document)
    until(lambda: town.database(key).live == ["a", "b"], "the change")


def test_one_of_two_replicas_works_and_the_other_is_ready(town: Town, start: Start) -> None:
    one, two = start("one"), start("two")
    key = town.schema("db", "a")
    town.phase(key, "InSync")
    workers = {replica for replica, _, _ in town.events}
    assert workers == {town.leader()}
    for replica in (one, two):
        until(lambda replica=replica: fetch(replica, "/readyz")[0] == 200, "readiness")
    leader = one if town.leader() == "one" else two
    assert leader.stop() == "stopped"
    other = town.schema("other", "x")
    town.phase(other, "InSync")
    assert {name for name, named, _ in town.events if named == other} == {
        "one" if leader is two else "two"
    }


def pair(town: Town, start: Start) -> tuple[Replica, Replica]:
    """Two replicas, of which the first leads."""
    one = start("one")
    until(lambda: town.leader() == "one", "the first leader")
    return one, start("two")


def cut_at(town: Town, leader: Replica, step: str) -> None:
    """Cut the leader off right after this step of an Apply, as seen by others."""

    def told(replica: str, named: Key, reason: str) -> None:
        status = town.objects.get(named).get("status") or {}
        claim = status.get("activeOperation") or {}
        debt = status.get("pendingLockRelease")
        struck = claim.get("type") == "Apply" or (step == "ReleaseLease" and debt)
        if replica == leader.name and reason == step and struck:
            leader.cut.set()

    town.told = told


@pytest.mark.parametrize(
    "step", ["WriteClaim", "AcquireLease", "PersistSnapshot", "DispatchJob", "ConfirmJob", "Settle",
             "ReleaseLease"],
)  # fmt: skip
def test_a_leader_that_is_cut_off_at_a_step_is_followed(
    town: Town, start: Start, step: str
) -> None:
    """Right after a durable step of the Apply nothing that the leader sends arrives any more."""
    one, two = pair(town, start)
    key = town.schema("db", "a", "b")
    cut_at(town, one, step)
    town.phase(key, "InSync", limit_s=120)
    assert one.cut.is_set(), "the step was struck"
    assert one.wait() == "lost"
    assert town.leader() == "two"
    statements = [statement for _, statement in town.database(key).effects]
    assert sorted(statements) == ["create a", "create b"], "each once"
    names = [order.name for order in town.jobs.created]
    assert len(names) == len(set(names)), "no Job twice"
    assert two.end is None


def test_a_leader_that_is_cut_off_between_mark_and_create_leaves_it_unknown(
    town: Town, start: Start
) -> None:
    """Nobody creates; the proof waits for a create that may still land (C-3.2, C-6.9)."""
    one, two = pair(town, start)
    key = town.schema("db", "a", execution={"activeDeadlineSeconds": 30})
    cut_at(town, one, "DispatchMark")

    def proving() -> Status | None:
        found = town.status(key)
        return None if found.pending_observation is None else found

    status = until(proving, "the proof owed")
    owed = status.pending_observation
    assert owed is not None and owed.uncertain and owed.reported.type == "Unknown"
    assert "Apply" not in town.operations()
    assert status.phase == "Proving"
    until(lambda: one.end, "its end")
    wanted = "ptahk_unresolved_operations 1.0"
    until(lambda: wanted in fetch(two, "/metrics")[1], "the unresolved to be counted")


def test_twenty_results_that_hang_delay_nobody_else(town: Town, start: Start) -> None:
    replica = start()
    town.jobs.hung = lambda namespace: namespace == "stuck"
    stuck = [town.schema(f"db{number}", "a", namespace="stuck") for number in range(20)]
    until(lambda: len(town.operations("stuck")) == 20, "twenty Jobs")
    reads = replica.manager.metrics.reads_running
    until(lambda: reads._value.get() == 20, "twenty reads that hang")
    before = town.clock.monotonic()
    key = town.schema("db", "a")
    town.phase(key, "InSync")
    waits = replica.manager.metrics.queue_wait
    late = sum(bucket.get() for bucket in waits._buckets[6:])  # above a second
    assert late == 0, f"{late} waits above a second"
    assert replica.manager.renewer.overdue_s() < 1.0
    assert town.clock.monotonic() - before < 30
    town.jobs.mended.set()
    for one in stuck:
        town.phase(one, "InSync")


class Broken(SchemaFamily):
    """A family with a bug that one resource meets."""

    def next_operation(self, s: Snapshot) -> Any:
        if s.name == "bad":
            raise RuntimeError("a bug")
        return super().next_operation(s)


def test_a_poison_object_and_a_bug_stop_nobody_else(town: Town, start: Start) -> None:
    unreadable = town.schema("odd", "x")
    document = town.objects.get(unreadable)
    town.objects.replace_status({**document, "status": {"protocolVersion": 99}})
    town.schema("bad", "y")
    replica = start(families={**FAMILIES, SCHEMA: Broken()})
    key = town.schema("db", "a")
    town.phase(key, "InSync")
    assert "StatusUnreadable" in town.steps(unreadable)
    assert "InternalError" in town.steps(Key(SCHEMA, "apps", "bad"))
    text = fetch(replica, "/metrics")[1]
    assert 'ptahk_passes_total{kind="PtahSchema",result="bug"}' in text
    assert 'ptahk_resources{kind="PtahSchema",phase="Unreadable"} 1.0' in text
    assert fetch(replica, "/healthz")[0] == 200


class Unaccountable(SchemaFamily):
    """A specification that no account can be kept of."""

    def parse_spec(self, document: Any) -> Any:
        if document["desired"]["inline"] == "y":
            raise RuntimeError("a bug")
        return super().parse_spec(document)


def test_an_object_that_cannot_be_accounted_for_stops_no_leader(town: Town, start: Start) -> None:
    document = town.objects.get(town.schema("bad", "y"))
    steady = replace(Status(document["metadata"]["uid"]), phase="InSync")
    town.objects.replace_status({**document, "status": render(steady)})
    replica = start(families={**FAMILIES, SCHEMA: Unaccountable()})
    town.phase(town.schema("db", "a"), "InSync")
    assert fetch(replica, "/healthz")[0] == 200
    assert replica.stop() == "stopped"


def test_conflicting_claimants_are_counted_and_blocked(town: Town, start: Start) -> None:
    replica = start()
    one = town.schema("one", "a", key="shared")
    two = town.schema("two", "a", key="shared", namespace="other")
    town.phase(one, "Blocked")
    town.phase(two, "Blocked")
    assert town.jobs.created == []
    until(lambda: "ptahk_census_conflicts 1.0" in fetch(replica, "/metrics")[1], "the conflict")
    document = town.objects.get(two)
    document["spec"]["suspend"] = True
    town.objects.replace(document)
    until(lambda: "ptahk_census_conflicts 0.0" in fetch(replica, "/metrics")[1], "its end")
    town.phase(one, "InSync", limit_s=20)


def test_a_stop_waits_for_the_pass_in_hand(town: Town, start: Start) -> None:
    replica = start()
    inside, go_on = threading.Event(), threading.Event()
    town.told = lambda name, key, reason: (
        (inside.set(), go_on.wait(20)) if reason == "WriteClaim" else None  # type: ignore[func-returns-value]
    )
    town.schema("db", "a")
    assert inside.wait(20)
    replica._stop.set()
    until(lambda: replica.manager._stopping, "the stop to begin")
    assert town.leader() == "one", "not given up while a pass is in hand"
    go_on.set()
    assert replica.wait() == "stopped"
    assert town.leader() is None


def test_a_stop_ends_within_the_grace_of_its_pod(town: Town, start: Start) -> None:
    """A pass and a renewal that hang share one time (``tests/house`` compares with the chart)."""
    replica = start()
    until(lambda: town.leader() == "one", "the lead")
    manager, hung = replica.manager, threading.Event()
    manager._settings = replace(manager._settings, drain_s=1.0)
    manager._start("worker", 1, lambda: bool(hung.wait(30)))
    manager._start("renewer", 1, lambda: bool(hung.wait(30)))
    began = time.monotonic()
    replica._stop.set()
    try:
        assert replica.wait() == "stopped"
    finally:
        hung.set()
    assert time.monotonic() - began < 1.9, "not once for each"
    assert town.leader() == "one", "what may still write keeps the lead until it ends by itself"


def test_a_thread_that_fails_ends_the_process(town: Town, start: Start) -> None:
    """I8: work that stops unseen would be worse."""
    one, _ = pair(town, start)
    one.bug.set()
    assert one.wait() == "failed"
    until(lambda: town.leader() == "two", "the other to lead")
    key = town.schema("db", "a")
    town.phase(key, "InSync")


def test_it_does_not_work_before_every_cache_is_synced(
    town: Town, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    begin = ThreadWatch.start

    def late(watch: ThreadWatch) -> None:
        begin(watch)
        if watch._kind == "PtahApproval":
            watch.synced.clear()
            held.set()

    monkeypatch.setattr(ThreadWatch, "start", late)
    replica = start()
    assert held.wait(20)
    key = town.schema("db", "a")
    code, text = fetch(replica, "/readyz")
    assert (code, "PtahApproval is not synced" in text) == (503, True)
    assert fetch(replica, "/healthz")[0] == 200
    assert town.leader() is None, "it is no candidate either"
    replica.manager._watches["PtahApproval"].synced.set()
    town.phase(key, "InSync")


def test_a_cache_that_is_stale_makes_it_unready(town: Town, start: Start) -> None:
    replica = start()
    until(lambda: fetch(replica, "/readyz")[0] == 200, "readiness")
    watch: Any = replica.manager._watches["PtahSchema"]
    watch.age_s = lambda: 500.0
    code, text = fetch(replica, "/readyz")
    assert code == 503 and "PtahSchema is 500 s old" in text
    assert 'ptahk_cache_age_seconds{kind="PtahSchema"} 500.0' in fetch(replica, "/metrics")[1]
