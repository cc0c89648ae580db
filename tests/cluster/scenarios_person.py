"""A person at a terminal, from a plan to its proof, while real replicas and Pods do the work."""

from __future__ import annotations

from collections.abc import Callable

from ptahk.engine.model.resource import APPROVAL
from tests.kit.chartbed import Start
from tests.kit.podbed import DECLARED, Bed, Person
from tests.kit.rawapi import resources
from tests.kit.waiting import until

MORE = DECLARED.replace("app.items (id int)", "app.items (id int, more int)")


def approved(bed: Bed, person: Person) -> None:
    """Plan, look, and say yes to what was seen."""
    here = ("schema/db", "-n", bed.namespace, "-o", "json")
    answer = person.run("plan", *here, "--exit-code")
    plan = answer.document("Plan")
    assert answer.code == 1 and plan["statements"], answer
    assert person.run("apply", *here).refusal(3, "ApprovalMissing")
    answer = person.run("approve", *here, "--plan", plan["fingerprint"])
    assert answer.code == 0 and answer.document("Approval")["approver"] == "ann", answer


def test_a_person_takes_a_change_from_its_plan_to_its_proof(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    start().ready()
    bed = beds()
    here = ("schema/db", "-n", bed.namespace, "-o", "json")
    bed.make(policy={"apply": "OnApproval"}, interval="24h")
    approved(bed, person)
    bed.ready()
    assert bed.tables() == ["items", "orders"]
    made = bed.api.call("GET", resources(APPROVAL, bed.namespace)).document["items"]
    assert [item["spec"]["approver"]["username"] for item in made] == ["ann"]
    assert "system:masters" in made[0]["spec"]["approver"]["groups"], "by admission"

    with bed.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.items IN ACCESS SHARE MODE")
        bed.change(desired={"inline": MORE}, policy={"lockTimeout": "10m"})
        approved(bed, person)
        until(lambda: bed.claim().get("type") == "Apply" and bed.waits(), "the Apply", 120)
        answer = person.run("release-lock", *here)
        report = answer.document("LockReport")
        assert (answer.code, report["verdict"]) == (3, "Refused"), answer
        assert report["process"]["running"] and bed.lease() is not None
        unsettled = person.run("census", "--unsettled")
        assert unsettled.code == 1 and bed.namespace in unsettled.out + unsettled.err, unsettled
    bed.ready()
    until(lambda: bed.lease() is None, "the release")
    until(lambda: person.run("census", "--unsettled").code == 0, "a cluster at rest")
    done = person.run("history", *here).document("History")["operations"]
    applies = [item["outcome"] for item in done if item["type"] == "Apply"]
    assert applies == ["Succeeded", "Succeeded"]

    bed.database.run("ALTER TABLE app.items ADD COLUMN by_hand int")
    answer = person.run("observe", *here, "--exit-code")
    assert answer.code == 1 and not answer.document("DriftReport")["inSync"], answer
