"""Commands on a cluster: a real API server, and the engine behind it as the manager."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from ptahk.engine.model.resource import SCHEMA
from tests.cluster.bed import Bed
from tests.kit.clusterfixtures import create_namespace
from tests.kit.controlplane import Cluster
from tests.kit.rawapi import resources
from tests.kit.waiting import until


def test_from_plan_to_proof(bed: Bed) -> None:
    """plan, approve, apply, observe, status and history, and what the manager is asked."""
    bed.make()
    with bed.room().at_work() as room:
        answer = bed.run("plan", "schema/orders", "-o", "json", "--exit-code")
        assert answer.code == 1, answer
        plan = answer.document("Plan")
        assert [item["sql"] for item in plan["statements"]] == ["create a", "create b"]
        assert room.database.live == []
        assert "Plan " in answer.err and "Job confirmed" in answer.err

        answer = bed.run("apply", "orders", "-o", "json")
        assert "approval missing" in answer.refusal(3, "ApprovalMissing")

        answer = bed.run("apply", "orders", "--approve", plan["fingerprint"], "-o", "json")
        result = answer.document("ApplyResult")
        assert (answer.code, result["outcome"], result["approver"]) == (0, "Applied", "ann"), answer
        assert room.database.live == ["a", "b"]
        assert [statement for _, statement in room.database.effects] == ["create a", "create b"]

        answer = bed.run("apply", "schema/orders", "--auto-approve", "-o", "json")
        assert answer.document("ApplyResult")["outcome"] == "NoChanges", answer

        room.database.live.append("by hand")
        answer = bed.run("observe", "schema/orders", "-o", "json", "--exit-code")
        assert answer.code == 1 and not answer.document("DriftReport")["inSync"], answer

        status = bed.run("status", "schema/orders", "-o", "json").document("Status")
        (entry,) = status["resources"]
        # The manager plans by itself what it saw drift.
        assert entry["phase"] in ("Drifted", "Planning", "AwaitingApproval")
        assert entry["namespace"] == bed.namespace
        history = bed.run("history", "orders", "-o", "json").document("History")
        assert [item["outcome"] for item in history["operations"] if item["type"] == "Apply"] == [
            "Succeeded"
        ]
        assert history["ledger"] is None and history["plans"]


def test_an_approval_alone_is_enough_for_the_manager(bed: Bed) -> None:
    bed.make()
    with bed.room().at_work() as room:
        plan = bed.run("plan", "schema/orders", "-o", "json").document("Plan")
        answer = bed.run("approve", "orders", "--plan", plan["fingerprint"], "-o", "json")
        approval = answer.document("Approval")
        assert approval["approver"] == "ann"
        until(lambda: room.database.live == ["a", "b"], "the manager to apply")
        made = bed.api.call("GET", resources("PtahApproval", bed.namespace)).document["items"]
        assert "system:masters" in made[0]["spec"]["approver"]["groups"]


def test_a_manifest_names_what_is_stored(bed: Bed, tmp_path: Path) -> None:
    document = bed.make()
    manifest = tmp_path / "orders.json"
    manifest.write_text(json.dumps(document))
    with bed.room().at_work():
        assert bed.run("plan", "-f", str(manifest), "-o", "json").document("Plan")["changes"]
        changed = document | {"spec": document["spec"] | {"suspend": True}}
        manifest.write_text(json.dumps(changed))
        line = bed.run("plan", "-f", str(manifest), "-o", "json").refusal(3, "ManifestNotApplied")
        assert "kubectl apply" in line
    assert bed.stored()["spec"] == document["spec"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "schema/orders"),
        ("apply", "schema/orders", "--auto-approve"),
        ("observe", "schema/orders"),
        ("approve", "schema/orders"),
        ("acknowledge", "schema/orders", "--rebind", "--reason", "x"),
    ],
)
def test_without_a_manager_nothing_is_asked(bed: Bed, arguments: tuple[str, ...]) -> None:
    bed.make()
    before = bed.stored()
    line = bed.run(*arguments, "-o", "json").refusal(6, "NoManager")
    assert "there is no Lease ptahk-manager" in line
    assert bed.stored() == before
    assert bed.run("status", "schema/orders").code == 0
    assert bed.run("history", "schema/orders").code == 0


def test_a_lease_that_stands_still_is_no_manager(bed: Bed) -> None:
    bed.make()
    room = bed.room()
    room.renew()
    line = bed.run("plan", "schema/orders", "-o", "json").refusal(6, "NoManager")
    assert "nobody renews" in line
    assert not bed.asked()


@pytest.mark.parametrize("taken", [True, False])
def test_a_manager_that_dies_on_the_way(bed: Bed, taken: bool) -> None:
    """What it took up goes on with its successor; what it did not is taken back. Exit code 6."""
    bed.make()
    # One that acts by itself is at a plan of its own when it is asked.
    room = bed.room(automatic=not taken)
    room.working.clear()
    with room.at_work():
        if not taken:
            until(room.jobs.running, "the manager's own plan")
        process = bed.ptahk.start("plan", "schema/orders", *bed.place("plan"), "-o", "json")
        until(bed.asked, "the request")
        until(room.jobs.running, "a Job")
        room.halt()
        answer = bed.ptahk.finish(process)
        assert "nobody renews" in answer.refusal(6, "NoManager")
        assert ("The manager took the request up before" in answer.err) == taken
        assert bed.asked() == taken


def test_interrupted_it_says_what_runs(bed: Bed) -> None:
    bed.make()
    with bed.room(automatic=False).at_work() as room:
        room.working.clear()
        process = bed.ptahk.start("plan", "schema/orders", *bed.place("plan"))
        until(room.jobs.running, "the Job")
        until(lambda: "jobUid" in bed.stored()["status"]["activeOperation"], "the Job's uid")
        process.send_signal(signal.SIGINT)
        answer = bed.ptahk.finish(process)
        assert answer.code == 130
        assert "Plan" in answer.err and f"-n {bed.namespace}" in answer.err
        room.working.set()
        answer = bed.run("plan", "schema/orders", "-o", "json")
        assert answer.document("Plan")["changes"]


def test_two_at_once_wait_for_each_other(bed: Bed) -> None:
    bed.make()
    with bed.room().at_work() as room:
        room.working.clear()
        first = bed.ptahk.start("plan", "schema/orders", *bed.place("plan"), "-o", "json")
        until(bed.asked, "the request")
        second = bed.ptahk.start("observe", "schema/orders", *bed.place("observe"), "-o", "json")
        assert second.stderr is not None
        line = second.stderr.readline()
        assert "Waiting for the plan that was asked for before" in line
        room.working.set()
        assert bed.ptahk.finish(first).document("Plan")["changes"]
        assert bed.ptahk.finish(second).document("DriftReport")


def test_refusals_and_failures_are_the_managers(bed: Bed) -> None:
    bed.make(suspend=True)
    with bed.room().at_work():
        bed.run("plan", "schema/orders", "-o", "json").refusal(3, "Suspended")


@pytest.mark.parametrize(
    ("arguments", "reason", "words"),
    [
        (("plan",), "InvalidInput", "no resource named"),
        (("plan", "schema/nothing"), "UnknownResource", "kubectl"),
        (("plan", "migration/x"), "UnknownResource", "migration/x"),
        (("plan", "schema/x", "--allow-destructive"), "InvalidInput", "--allow-destructive"),
        (("status", "schema/x", "--key", "k"), "InvalidInput", "--key"),
        (("status", "schema/nothing"), "UnknownResource", "no such resource"),
    ],
)
def test_what_the_caller_gets_wrong(
    bed: Bed, arguments: tuple[str, ...], reason: str, words: str
) -> None:
    line = bed.run(*arguments, "-o", "json").refusal(2, reason)
    assert words in line


def test_the_census_of_the_whole_cluster(bed: Bed, served: Cluster) -> None:
    other = create_namespace(served)
    key = {"engine": "postgresql", "coordinationKey": f"shared/{bed.namespace}",
           "urlFrom": {"name": "db"}}  # fmt: skip
    document = bed.make(target=key)
    assert bed.run("census", "-o", "json", "--conflicts").code in (0, 1)
    assert bed.api.make(document, other).status == 201
    answer = bed.run("census", "-o", "json", "--conflicts")
    assert answer.code == 1
    census = answer.document("Census")
    mine = [
        realm
        for realm in census["realms"]
        if {(c["namespace"], c["name"]) for c in realm["claimants"]}
        == {(bed.namespace, "orders"), (other, "orders")}
    ]
    assert len(mine) == 1 and mine[0]["reason"] == "RealmConflict"
    patch = {"spec": {"suspend": True}}
    path = resources(SCHEMA, other, "orders")
    bed.api.call("PATCH", path, patch, kind="application/merge-patch+json")
    realms = bed.run("census", "-o", "json").document("Census")["realms"]
    assert [r["conflict"] for r in realms if r["digest"] == mine[0]["digest"]] == [False]


def test_status_follows_live(bed: Bed) -> None:
    bed.make()
    terminal = bed.ptahk.terminal("status", *bed.place("status"), "--watch")
    terminal.expect(f"schema/orders  Pending  in namespace {bed.namespace}")
    with bed.room().at_work():
        terminal.expect("schema/orders  AwaitingApproval")
    terminal.send("\x03")
    assert terminal.end() == 130


def test_status_ends_in_time_and_says_who_is_needed(bed: Bed) -> None:
    bed.make()
    place = bed.place("status")
    assert bed.ptahk.run("status", *place, "--watch", "--timeout", "1s").code == 0
    with bed.room().at_work():
        until(lambda: bed.phase() == "AwaitingApproval", "the manager's plan")
    answer = bed.run("status", "-o", "json")
    assert answer.code == 1
    assert answer.document("Status")["resources"][0]["phase"] == "AwaitingApproval"


def test_a_stranger_is_told_so(bed: Bed, served: Cluster) -> None:
    bed.make()
    where = ("--kubeconfig", str(served.kubeconfig("mallory")), "-n", bed.namespace)
    answer = bed.ptahk.run("plan", "schema/orders", *where, "-o", "json")
    assert 'User "mallory" cannot get' in answer.refusal(6)


def test_a_frozen_realm_is_thawed_by_a_persons_word(bed: Bed) -> None:
    bed.make()
    with bed.room(automatic=False).at_work() as room:
        nothing = ("acknowledge", "schema/orders", "--frozen", "--reason", "x", "-o", "json")
        bed.run(*nothing).refusal(3, "NothingToAcknowledge")
        room.database.frozen = [
            {
                "reason": "UnknownNumber",
                "message": "the ledger is ahead",
                "number": 7,
                "storeUid": room.ports.store.uid,
                "operationId": "e" * 32,
            }
        ]
        bed.run("observe", "schema/orders", "-o", "json")
        until(lambda: bed.phase() == "Frozen", "the realm to freeze")
        assert "ledger number 7" in bed.run("plan", "schema/orders", "-o", "json").refusal(3)
        answer = bed.run(
            "acknowledge",
            "schema/orders",
            "--frozen",
            "--reason",
            "a restored backup",
            "-o",
            "json",
        )
        document = answer.document("Acknowledgement")
        assert (document["what"], document["person"]) == ("frozen", "ann")
        assert bed.run("plan", "schema/orders", "-o", "json").document("Plan")["changes"]
