"""Several resources of one database: refused, or served in turn (C-6.3, C-6.7)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.kit.chartbed import Start
from tests.kit.podbed import Bed, Person
from tests.kit.waiting import until

CONFLICT_S = 60
"""A conflict is looked at again within a minute (C-6.3)."""


def blocked(bed: Bed) -> bool:
    return bed.condition().get("reason") == "RealmConflict"


@pytest.mark.usefixtures("nobody")
def test_two_claim_one_database_until_one_is_suspended(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    one = beds()
    two = one.beside()
    for bed in (one, two):
        bed.make(suspend=True)
        bed.change(suspend=False)
    replica = start().ready()
    for bed in (one, two):
        until(lambda bed=bed: blocked(bed), "RealmConflict", 120)
        assert bed.status()["phase"] == "Blocked"
        assert bed.jobs() == [] and "WriteClaim" not in bed.events(), "before any Job"
        assert one.database.name not in json.dumps(bed.status()), "only the digest is told"
    assert two.namespace not in json.dumps(one.status()), "a neighbour is only counted"

    answer = person.run("census", "--conflicts", "-o", "json")
    assert answer.code == 1
    (realm,) = answer.document("Census")["realms"]
    assert realm["reason"] == "RealmConflict"
    named = {(each["namespace"], each["name"]) for each in realm["claimants"]}
    assert named == {(one.namespace, "db"), (two.namespace, "db")}
    assert replica.metric("ptahk_census_conflicts") == 1.0

    since = time.monotonic()
    two.change(suspend=True)
    until(lambda: one.claim() or one.history(), "the other to go on", CONFLICT_S)
    assert time.monotonic() - since < CONFLICT_S
    one.ready()
    assert one.tables() == ["items", "orders"]
    assert two.jobs() == [] and two.status()["phase"] == "Suspended"
    assert person.run("census", "--conflicts").code == 0


def test_sharers_take_turns_and_a_newcomer_stops_no_proof(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    """The newcomer that does not share comes during an Apply."""
    one = beds()
    two, three, late = one.beside(), one.beside(), one.beside()
    one.database.run("CREATE TABLE app.one (id int)", one.role)
    shared = {"target": {"sharedRealm": True}, "policy": {"lockTimeout": "5m"}}
    text = "CREATE SCHEMA app; CREATE TABLE app.one (id int, more int);"
    with one.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.one IN ACCESS SHARE MODE")
        start().ready()
        one.make(text=text, **shared)
        until(lambda: one.claim().get("type") == "Apply" and one.waits(), "the Apply", 180)
        claim = one.claim()
        for bed in (two, three):
            bed.make(text=text, **shared)
            until(lambda bed=bed: bed.claim(), "a claim that waits for its turn", 120)
        late.make(text=text)
        for bed in (late, two, three):
            bed.told("RealmConflict")
        assert one.claim()["operationId"] == claim["operationId"]
        assert one.jobs().count("apply") == 1
    # What runs is proven and released although the realm is in conflict.
    until(lambda: len(one.history()) > 2, "the Apply's history", 120)
    until(lambda: one.lease() is None, "the release", 120)
    assert [entry["type"] for entry in one.history()][-2:] == ["Apply", "Prove"]
    assert one.history()[-2]["settled"]["type"] == "Succeeded"
    assert two.jobs() == three.jobs() == late.jobs() == []
    assert person.run("census", "--conflicts").code == 1

    late.kubectl("delete", "ptahschema", "db")
    for bed in (one, two, three):
        bed.ready()
    assert late.jobs() == []
    first, second = sorted(
        (bed.history()[0] for bed in (two, three)), key=lambda entry: str(entry["startTime"])
    )
    assert first["type"] == second["type"] == "Plan"
    assert first["finishTime"] < second["finishTime"], "oldest claim first"
    assert two.jobs().count("apply") == 0, "the first one did all that they declare"
