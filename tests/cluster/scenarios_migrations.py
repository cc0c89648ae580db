"""``PtahMigration`` in a cluster: real Pods, a real database, and the guard in force."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ptahk.engine.model.resource import REQUEST, Request, request_text
from tests.conftest import my_makes
from tests.kit import mypodbed, servers
from tests.kit.chartbed import Start
from tests.kit.clusters import PodCluster
from tests.kit.mypodbed import MySequence
from tests.kit.podbed import Bed, Person, Sequence
from tests.kit.rawapi import resources
from tests.kit.waiting import until

ORDERS = {"1_orders.sql": "CREATE TABLE app.orders (id int PRIMARY KEY);\n"}
CUSTOMER = {"2_customer.sql": "ALTER TABLE app.orders ADD COLUMN customer text;\n"}
LOG = {"1_log.sql": "CREATE SCHEMA log;\nCREATE TABLE log.lines (id int);\n"}
MORE = {"2_more.sql": "SELECT pg_sleep(1);\nCREATE TABLE log.more (id int);\n"}
PATH = [
    "WriteClaim", "PersistSnapshot", "DispatchMark", "DispatchJob", "ConfirmJob", "Settle",
    "ClearClaim", "AcquireLease", "ConsumeApproval", "ReleaseLease",
]  # fmt: skip


def sequence(beds: Callable[[], Bed]) -> Sequence:
    made = beds()
    return Sequence(made.town, made.namespace, made.database, made.role)


def columns(bed: Bed) -> list[str]:
    rows = bed.database.rows(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('app.orders')"
        " AND attnum > 0 ORDER BY attnum"
    )
    return [name for (name,) in rows]


def types(bed: Bed) -> list[str]:
    return [entry["type"] for entry in bed.history()]


def test_from_a_directory_to_its_proof_and_its_next_version(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    """History, approval, claim, Job, frame, proof and release; then one version more, by ptahk."""
    replica = start().ready()
    bed = sequence(beds)
    bed.directory(ORDERS)
    bed.make()
    fingerprint = bed.plan()
    status = bed.status()
    assert (status["phase"], types(bed)) == ("AwaitingApproval", ["History"])
    assert columns(bed) == [] and bed.jobs() == ["history"]
    bed.approve(fingerprint)
    bed.ready()
    assert columns(bed) == ["id"]
    assert bed.revisions() == [("1", "executed", "applied", 1)]
    assert bed.status()["phase"] == "InSync"
    (apply,) = [entry for entry in bed.history() if entry["type"] == "Apply"]
    assert (apply["settled"]["type"], apply["converged"]) == ("Succeeded", True)
    assert types(bed)[-2:] == ["Apply", "Prove"] and bed.jobs().count("apply") == 1
    assert [reason for reason in PATH if reason not in bed.events()] == []
    until(lambda: bed.lease() is None, "the release")
    assert [state for _, state in bed.ledger()] == ["finished"]

    bed.directory(ORDERS | CUSTOMER)
    bed.plan()
    assert columns(bed) == ["id"], "pending is not applied"
    here = ("-n", bed.namespace)
    told = person.run("migrate", "status", "migration/db", *here, "-o", "json")
    document = told.document("MigrationStatus")
    assert (told.code, document["verdict"]) == (1, "pending")
    assert document["summary"] == {"files": 2, "applied": 1, "pending": 1}
    answer = person.run("plan", "migration/db", *here, "-o", "json", "--exit-code")
    plan = answer.document("Plan")
    assert answer.code == 1 and [item["sql"] for item in plan["statements"]] == [
        "ALTER TABLE app.orders ADD COLUMN customer text"
    ]
    refused = person.run("apply", "migration/db", *here, "-o", "json")
    refused.refusal(3, "ApprovalMissing")
    done = person.run(
        "apply", "migration/db", *here, "--approve", plan["fingerprint"], "-o", "json"
    )
    result = done.document("ApplyResult")
    assert (done.code, result["outcome"], result["approver"]) == (0, "Applied", "ann"), done
    assert columns(bed) == ["id", "customer"]
    bed.ready()
    told = person.run("migrate", "status", "migration/db", *here, "-o", "json")
    assert (told.code, told.document("MigrationStatus")["verdict"]) == (0, "nothingPending")
    (entry,) = person.run("status", "migration/db", *here, "-o", "json").document("Status")[
        "resources"
    ]
    assert entry["phase"] == "InSync"
    history = person.run("history", "migration/db", *here, "-o", "json").document("History")
    outcomes = [item["outcome"] for item in history["operations"] if item["type"] == "Apply"]
    assert outcomes == ["Succeeded", "Succeeded"] and len(history["plans"]) >= 2

    texts = [replica.log.read_text(), json.dumps(bed.stored()), told.out, done.err]
    texts.append(bed.kubectl("get", "events", "--output=json"))
    assert [text for text in texts if bed.role.password in text] == []
    assert [line for line in replica.lines() if line.get("reason") == "StoreFault"] == []


ASKED = "0" * 31 + "1"


def answered(bed: Sequence) -> dict[str, Any] | None:
    status = bed.status()
    request = status.get("request") or {}
    return status if (request.get("id"), request.get("state")) == (ASKED, "Done") else None


def ask(bed: Sequence, fingerprint: str) -> None:
    """Ask the manager for this plan, whatever the directory is by now."""
    text = request_text(Request(ASKED, "apply", fingerprint))
    path = resources(bed.kind, bed.namespace, "db")
    body = {"metadata": {"annotations": {REQUEST: text}}}
    answer = bed.api.call("PATCH", path, body, kind="application/merge-patch+json")
    assert answer.status == 200, answer.message


def test_a_directory_that_moved_after_its_approval_is_refused_by_name(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    start().ready()
    bed = sequence(beds)
    bed.directory(ORDERS | CUSTOMER)
    bed.make(interval="24h")
    first = bed.plan()
    edited = {"2_customer.sql": "ALTER TABLE app.orders ADD COLUMN other text;\n"}
    bed.directory(ORDERS | edited)
    until(lambda: bed.status()["lastPlan"]["fingerprint"] != first, "a plan of what is there now")
    told = person.run(
        "apply", "migration/db", "-n", bed.namespace, "--approve", first, "-o", "json"
    )
    assert "2_customer.sql was changed" in told.refusal(3, "ApprovalMissing")

    # The approval is for the plan of before; the executor compares both under the lock.
    bed.approve(first)
    ask(bed, first)
    status = until(lambda: answered(bed), "the answer", 180)
    assert status["request"]["reason"] == "SequenceChanged", status["request"]
    assert "2_customer.sql" in status["request"]["message"]
    assert columns(bed) == []

    bed.directory({"1_orders.sql": ORDERS["1_orders.sql"]})
    third = bed.told("ChangesPending")["lastPlan"]["fingerprint"]
    assert third != first


def test_the_interval_finds_what_somebody_changed_by_hand(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    start().ready()
    bed = sequence(beds)
    bed.directory(LOG)
    bed.make(policy={"apply": "Always"}, interval="30s")
    bed.ready()
    before = len(bed.history())
    bed.database.run("ALTER TABLE log.lines ADD COLUMN by_hand int")
    status = bed.told("DriftFound")
    assert status["phase"] == "Drifted" and "differences" in status["conditions"][0]["message"]
    (item,) = status["lastObservation"]["drift"]["items"]
    assert item["object"] == "column log.lines.by_hand"
    until(lambda: not bed.claim(), "the end of the reading")
    assert {entry["type"] for entry in bed.history()[before:]} == {"History"}
    here = ("migration/db", "-n", bed.namespace, "-o", "json", "--exit-code")
    seen = person.run("observe", *here)
    assert (seen.code, seen.document("DriftReport")["inSync"]) == (1, False), seen
    bed.database.run("ALTER TABLE log.lines DROP COLUMN by_hand")
    seen = person.run("observe", *here)
    assert (seen.code, seen.document("DriftReport")["inSync"]) == (0, True), seen
    bed.ready()


def test_the_same_on_mysql(
    start: Start, town: PodCluster, server_run: servers.Run, request: pytest.FixtureRequest
) -> None:
    start().ready()
    with mypodbed.bed(town, server_run, my_makes(request.config)[0]) as one:
        bed = MySequence(one.town, one.namespace, one.database, one.role)
        bed.directory({"1_orders.sql": "CREATE TABLE orders (id int PRIMARY KEY);\n"})
        bed.make(interval="24h")
        bed.approve(bed.plan())
        bed.ready()
        assert bed.tables() == ["orders"]
        assert bed.revisions() == [("1", "executed", "applied", 1)]
        assert [state for _, state in bed.ledger()] == ["finished"]
        assert types(bed) == ["History", "Apply", "Prove"]


def test_a_schema_and_a_migration_on_one_realm(start: Start, beds: Callable[[], Bed]) -> None:
    """Both refused unless both share; sharing, they take turns."""
    replica = start().ready()
    sequences = sequence(beds)
    sequences.directory(LOG)
    sequences.make(policy={"apply": "Always"}, interval="24h")
    sequences.ready()
    schema = Bed(sequences.town, sequences.namespace, sequences.database, sequences.role)
    schema.make()
    for bed in (schema, sequences):
        assert bed.told("RealmConflict")["phase"] == "Blocked"
    assert schema.tables() == [] and "WriteClaim" not in schema.events()
    assert replica.metric("ptahk_census_conflicts") == 1.0

    schema.change(target={"sharedRealm": True})
    for bed in (schema, sequences):
        assert bed.condition()["reason"] == "RealmConflict", "one that shares is not enough"
    sequences.directory(LOG | MORE)
    sequences.change(target={"sharedRealm": True})
    for bed in (schema, sequences):
        bed.ready()
    assert schema.tables() == ["items", "orders"]
    assert [row[:3] for row in sequences.revisions()] == [
        ("1", "executed", "applied"), ("2", "executed", "applied"),
    ]  # fmt: skip
    turns = held(schema) + held(sequences)
    assert len({number for number, _, _ in turns}) == len(turns) == 3, "an epoch for each Apply"
    turns.sort()
    finished = [finish for _, finish, _ in turns]
    assert finished == sorted(finished), "in the order in which they held the Lease"
    ran = schema.database.rows("SELECT started_at, finished_at FROM ptahk.attempt ORDER BY number")
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ran)), ran


def held(bed: Bed) -> list[tuple[int, str, str]]:
    """Lease number and end of each Apply with its proof."""
    found, entries = [], bed.history()
    for entry, proof in itertools.pairwise(entries):
        if entry["type"] == "Apply" and proof["type"] == "Prove":
            number = int(str(entry["epoch"]).partition(".")[0])
            found.append((number, str(proof["finishTime"]), bed.kind))
    return found
