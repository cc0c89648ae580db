"""The accounts: constant work per event, and they agree with a count from scratch."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptahk.engine.driver import FAMILIES
from ptahk.engine.ports import Document, Key
from ptahk.serve.accounts import Accounts, Ended
from tests.kit.scenario import Process, Scenario, command, planned, scenario

NAMES = "abcd"


def document(name: str, realm: str, shared: bool, suspended: bool) -> Document:
    return {
        "apiVersion": "ptahk.dev/v1alpha1",
        "kind": "PtahSchema",
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {
            "target": {
                "engine": "postgresql", "coordinationKey": realm, "sharedRealm": shared,
                "urlFrom": {"name": "db", "key": "url"},
            },
            "desired": {"inline": "a"},
            "suspend": suspended,
        },
    }  # fmt: skip


STATE = st.none() | st.builds(
    dict, realm=st.sampled_from(["r", "s"]), shared=st.booleans(), suspended=st.booleans()
)


@given(st.lists(st.tuples(st.sampled_from(NAMES), STATE), max_size=30))
def test_the_index_agrees_with_a_count_from_scratch(
    history: list[tuple[str, dict[str, Any] | None]],
) -> None:
    s = scenario("a")
    now = s.world.clock.now()
    grown = Accounts(FAMILIES)
    last: dict[str, dict[str, Any] | None] = {}
    for name, state in history:
        key = Key("PtahSchema", "ns", name)
        before = {other: last[other] for other in last}
        noted = grown.note(key, None if state is None else document(name, **state))
        last[name] = state
        for other in noted.neighbours:
            theirs = last.get(other.name)
            assert theirs is not None and other != key
            realms = {item["realm"] for item in (before.get(name), state) if item is not None}
            assert theirs["realm"] in realms, "only neighbours in a realm that it touched"
    fresh = Accounts(FAMILIES)
    for name, state in last.items():
        if state is not None:
            fresh.note(Key("PtahSchema", "ns", name), document(name, **state))
    assert grown.totals(now) == fresh.totals(now)
    living = [state for state in last.values() if state is not None and not state["suspended"]]
    realms = {state["realm"] for state in living}
    assert grown.totals(now).realms == len(realms)
    assert grown.totals(now).conflicts == sum(
        len(found) > 1 and not all(state["shared"] for state in found)
        for found in ([s for s in living if s["realm"] == realm] for realm in realms)
    )


def noting(s: Scenario, accounts: Accounts) -> list[Ended]:
    return list(accounts.note(s.key, s.world.objects.get(s.key)).ended)


def test_what_ends_is_told_once_and_not_what_ended_before() -> None:
    s = scenario("a")
    process = s.process()
    planned(s, process)
    accounts = Accounts(FAMILIES)
    assert noting(s, accounts) == [], "counted by whoever looked then"
    command(s, process)
    told = noting(s, accounts)
    assert Ended("Apply", "Succeeded") in told
    assert Ended("Settled", "Succeeded") in told
    assert noting(s, accounts) == []


def applying(*steps: str) -> tuple[Scenario, Process]:
    s = scenario("a")
    process = s.process()
    plan = planned(s, process)
    s.ask("apply", plan)
    process.until(*steps)
    return s, process


def test_what_is_owed_and_overdue_is_counted() -> None:
    s, process = applying("DispatchJob")
    accounts = Accounts(FAMILIES)
    noting(s, accounts)
    now = s.world.clock.now()
    assert accounts.totals(now).overdue_operations == 0
    late = now + timedelta(seconds=961)
    assert accounts.totals(late).overdue_operations == 1
    s.world.jobs.jobs.clear()
    process.until("Settle", "LatchUnknown")
    noting(s, accounts)
    totals = accounts.totals(now + timedelta(seconds=50))
    assert (totals.unresolved, totals.owed_proofs) == (1, 1)
    assert 0 < totals.oldest_unresolved_s <= 50
    assert totals.overdue_operations == 0
    process.settle()
    noting(s, accounts)
    assert accounts.totals(now).unresolved == 0
    assert accounts.totals(now).owed_proofs == 0


def test_an_observation_is_overdue_after_two_intervals() -> None:
    s = scenario("a", automatic=True, certain=False, policy={"apply": "Always"})
    s.edit(target={**s.world.objects.get(s.key)["spec"]["target"],
                   "urlFrom": {"name": "db", "key": "url"}})  # fmt: skip
    s.process().settle(patience_s=60)
    assert s.status().phase == "InSync"
    accounts = Accounts(FAMILIES)
    noting(s, accounts)
    now = s.world.clock.now()
    assert accounts.totals(now).overdue_observations == 0
    assert accounts.totals(now + timedelta(minutes=19)).overdue_observations == 0
    assert accounts.totals(now + timedelta(minutes=25)).overdue_observations == 1


def test_a_status_of_another_version_is_unreadable_and_counted() -> None:
    accounts = Accounts(FAMILIES)
    odd = document("a", "r", False, False) | {"status": {"protocolVersion": 99}}
    s = scenario("a")
    assert accounts.note(s.key, odd).status is None
    totals = accounts.totals(s.world.clock.now())
    assert totals.phases == {("PtahSchema", "Unreadable"): 1}
    assert totals.realms == 1, "its spec still names the realm"
