"""Who may write what of ptahk's own kinds: plans, status, approvals, a person's word (C-12.3)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.engine.model.plan import plan_name
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    ACKNOWLEDGED_BY,
    APPROVAL,
    CHANGED_BY,
    FINALIZER,
    PLAN,
    RESOURCE_UID,
    SCHEMA,
)
from tests.kit import clusters, policybed, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.controlplane import ControlPlane, KubectlFailed, run_kubectl
from tests.kit.policybed import MERGE, Realm
from tests.kit.presence import present
from tests.kit.rawapi import Answered, RawApi
from tests.kit.serving import install

Document = dict[str, Any]
ROLE = "ptahk-test-writer"


@pytest.fixture(scope="module")
def guarded(server_run: servers.Run) -> Iterator[ControlPlane]:
    """An API server with the policies, the switch of two persons included."""
    plane = present(lambda: clusters.own(server_run))
    install(plane)
    policybed.install_policies(plane, other_person=True)
    yield plane
    clusters.end(plane)


@pytest.fixture
def realm(guarded: ControlPlane) -> Realm:
    return Realm(guarded, create_namespace(guarded))


def refused(answer: Answered, *words: str) -> None:
    assert answer.status in (403, 422), (answer.status, answer.message)
    for word in words:
        assert word in answer.message, answer.message


def test_kubectl_approves_without_saying_who(realm: Realm, guarded: ControlPlane) -> None:
    """Neither approver nor label: both are stamped, and a name is not asked for twice."""
    kubeconfig = guarded.kubeconfig("bob", ("system:masters", "team-b"))
    text = json.dumps(realm.approval("yes"))
    run_kubectl(kubeconfig, "create", f"--namespace={realm.namespace}", "--filename=-", stdin=text)
    stored = realm.bob.call("GET", realm.at(APPROVAL, "yes")).document
    assert stored["spec"]["approver"]["username"] == "bob"
    assert {"system:masters", "team-b"} <= set(stored["spec"]["approver"]["groups"])
    assert stored["metadata"]["labels"] == {RESOURCE_UID: realm.resource["metadata"]["uid"]}
    assert stored["metadata"]["creationTimestamp"] >= realm.plan["metadata"]["creationTimestamp"]


def test_what_a_client_forges_is_replaced(realm: Realm) -> None:
    forged = realm.approval(
        "forged", approver={"username": "carol", "uid": "1", "groups": ["owners"]}
    )
    forged["metadata"] |= {
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "labels": {RESOURCE_UID: "another", "team": "b"},
    }
    stored = realm.made(realm.bob.make(forged, realm.namespace))
    assert stored["spec"]["approver"]["username"] == "bob"
    assert "owners" not in stored["spec"]["approver"]["groups"]
    assert not stored["metadata"]["creationTimestamp"].startswith("2001")
    assert stored["metadata"]["labels"] == {
        RESOURCE_UID: realm.resource["metadata"]["uid"], "team": "b",
    }  # fmt: skip


def test_under_impersonation_it_is_the_impersonated_user(
    realm: Realm, guarded: ControlPlane
) -> None:
    text = json.dumps(realm.approval("as"))
    guarded.kubectl(
        "create", "--as=dora", "--as-group=system:masters", f"--namespace={realm.namespace}",
        "--filename=-", stdin=text,
    )  # fmt: skip
    stored = realm.bob.call("GET", realm.at(APPROVAL, "as")).document
    assert stored["spec"]["approver"]["username"] == "dora"


def test_an_approval_fits_the_live_plan_and_resource(realm: Realm) -> None:
    other = realm.made(realm.manager.make(realm.planned("b"), realm.namespace))
    mine = realm.approval("x")["spec"]
    cases: dict[str, tuple[Document, str]] = {
        "another plan's fingerprint": (
            {"fingerprint": other["spec"]["fingerprint"]},
            "spec.fingerprint is not that of the plan",
        ),
        "another plan's uid": (
            {"plan": {**mine["plan"], "uid": other["metadata"]["uid"]}}, "spec.plan.uid is not",
        ),
        "another resource's uid": (
            {"resource": {**mine["resource"], "uid": "0"}}, "spec.resource",
        ),
        "another resource": (
            {"resource": {**mine["resource"], "name": "others"}}, "not what the plan is for",
        ),
        "another kind": ({"resource": {**mine["resource"], "kind": PLAN}}, "spec.resource"),
    }  # fmt: skip
    for name, (change, words) in cases.items():
        answer = realm.bob.make(realm.approval("x", **change), realm.namespace)
        assert words in answer.message, (name, answer.message)
        refused(answer)
    assert realm.bob.make(realm.approval("x"), realm.namespace).status == 201


def test_a_resource_made_anew_is_not_approved_by_its_name(realm: Realm) -> None:
    path = realm.at(SCHEMA, "orders")
    assert realm.ann.call("DELETE", path).status == 200
    realm.made(realm.ann.make(realm.schema("orders"), realm.namespace))
    refused(
        realm.bob.make(realm.approval("late"), realm.namespace),
        "spec.resource.uid is not that of the resource",
    )


def test_without_a_plan_there_is_nothing_to_approve(realm: Realm) -> None:
    approval = realm.approval("none")
    assert realm.ann.call("DELETE", realm.at(PLAN, realm.plan["metadata"]["name"])).status == 200
    refused(realm.bob.make(approval, realm.namespace), "ptahk-approval-plan")


def test_an_approval_never_changes(realm: Realm) -> None:
    realm.made(realm.bob.make(realm.approval("kept"), realm.namespace))
    path = realm.at(APPROVAL, "kept")
    for change in (
        {"spec": {"approver": {"username": "carol"}}},
        {"spec": {"fingerprint": "sha256:" + "c" * 64}},
        {"metadata": {"labels": {RESOURCE_UID: "another"}}},
    ):
        refused(realm.bob.call("PATCH", path, change, kind=MERGE))


def test_the_manager_approves_nothing(realm: Realm) -> None:
    refused(realm.manager.make(realm.approval("own"), realm.namespace), "approves nothing")


def _writer(realm: Realm, guarded: ControlPlane, user: str, *verbs: str) -> RawApi:
    """Somebody with these verbs on ptahk's kinds in the namespace."""
    rules = [{"apiGroups": ["ptahk.dev"], "resources": ["*"], "verbs": list(verbs)}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": user, "namespace": realm.namespace}, "rules": rules}  # fmt: skip
    guarded.kubectl("create", "--filename=-", stdin=json.dumps(role))
    guarded.kubectl(
        "create", "rolebinding", user, f"--role={user}", f"--user={user}",
        f"--namespace={realm.namespace}",
    )  # fmt: skip
    return RawApi(guarded, user, ())


def test_an_approval_needs_the_verb_approve(realm: Realm, guarded: ControlPlane) -> None:
    eve = _writer(realm, guarded, "eve", "get", "create", "update", "patch")
    refused(eve.make(realm.approval("eve"), realm.namespace), "needs the verb approve")
    word = {"metadata": {"annotations": {ACKNOWLEDGE: '{"reason": "x"}'}}}
    path = realm.at(SCHEMA, "orders")
    refused(eve.call("PATCH", path, word, kind=MERGE), "needs the verb approve")
    fay = _writer(realm, guarded, "fay", "get", "create", "update", "patch", "approve")
    assert fay.make(realm.approval("fay"), realm.namespace).status == 201
    assert fay.call("PATCH", path, word, kind=MERGE).status == 200


def test_who_changed_the_spec_last_does_not_approve(realm: Realm) -> None:
    refused(realm.ann.make(realm.approval("own"), realm.namespace), "ask somebody else")
    path = realm.at(SCHEMA, "orders")
    stored = realm.ann.call("GET", path).document
    assert stored["metadata"]["annotations"] == {CHANGED_BY: "ann"}
    assert realm.bob.call("PATCH", path, {"spec": {"suspend": True}}, kind=MERGE).status == 200
    refused(realm.bob.make(realm.approval("own"), realm.namespace), "ask somebody else")
    assert realm.ann.make(realm.approval("other"), realm.namespace).status == 201


def test_who_changed_the_spec_is_not_for_writing(realm: Realm) -> None:
    path = realm.at(SCHEMA, "orders")
    for change in (
        {"metadata": {"annotations": {CHANGED_BY: "carol", "team": "a"}}},
        {"metadata": {"annotations": {CHANGED_BY: None}}},
        {"metadata": {"annotations": None}},
    ):
        stored = realm.made(realm.bob.call("PATCH", path, change, kind=MERGE))
        assert stored["metadata"]["annotations"][CHANGED_BY] == "ann"
    applied = {**realm.schema("orders"), "metadata": {"name": "orders"}}
    answer = realm.bob.call(
        "PATCH", path, applied, kind="application/apply-patch+yaml", fieldManager="bob",
        force="true",
    )  # fmt: skip
    stored = realm.made(answer)
    assert stored["metadata"]["annotations"][CHANGED_BY] == "ann", "the spec is the same"
    new = realm.schema("fresh")
    new["metadata"]["annotations"] = {CHANGED_BY: "carol"}
    stored = realm.made(realm.bob.make(new, realm.namespace))
    assert stored["metadata"]["annotations"][CHANGED_BY] == "bob"


def _freeze(realm: Realm, number: int) -> None:
    told = {"reason": "x", "message": "x", "number": number, "time": "2026-01-01T00:00:00Z"}
    status = {"resourceUid": realm.resource["metadata"]["uid"], "frozen": told}
    path = realm.at(SCHEMA, "orders", "status")
    realm.made(realm.manager.call("PATCH", path, {"status": status}, kind=MERGE))


def test_a_persons_word_is_stamped_and_fits_what_is_frozen(realm: Realm) -> None:
    _freeze(realm, 7)
    path = realm.at(SCHEMA, "orders")

    def say(by: RawApi, text: str, **more: str) -> Answered:
        given = {"metadata": {"annotations": {ACKNOWLEDGE: text, **more}}}
        return by.call("PATCH", path, given, kind=MERGE)

    refused(say(realm.bob, '{"frozen": 8, "reason": "x"}'), "another number")
    refused(say(realm.bob, r'{"reason": "\"frozen\": 7", "frozen":8}'), "another number")
    refused(say(realm.manager, '{"frozen": 7, "reason": "x"}'), "ptahk's manager")
    stored = realm.made(
        say(realm.bob, '{"frozen": 7, "reason": "x", "user": "carol"}', **{ACKNOWLEDGED_BY: "{}"})
    )
    told = json.loads(stored["metadata"]["annotations"][ACKNOWLEDGED_BY])
    assert told["username"] == "bob" and "system:masters" in told["groups"]
    kept = realm.made(
        realm.ann.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, kind=MERGE)
    )
    assert json.loads(kept["metadata"]["annotations"][ACKNOWLEDGED_BY])["username"] == "bob"
    forged = {"metadata": {"annotations": {ACKNOWLEDGED_BY: '{"username":"carol"}'}}}
    kept = realm.made(realm.ann.call("PATCH", path, forged, kind=MERGE))
    assert json.loads(kept["metadata"]["annotations"][ACKNOWLEDGED_BY])["username"] == "bob"
    gone = {"metadata": {"annotations": {ACKNOWLEDGE: None}}}
    kept = realm.made(realm.ann.call("PATCH", path, gone, kind=MERGE))
    assert ACKNOWLEDGED_BY not in kept["metadata"]["annotations"]


def test_status_is_the_managers_alone(realm: Realm) -> None:
    path = realm.at(SCHEMA, "orders", "status")
    uid = realm.resource["metadata"]["uid"]
    change = {"status": {"resourceUid": uid, "phase": "InSync"}}
    refused(realm.ann.call("PATCH", path, change, kind=MERGE), "only ptahk's manager writes status")
    applied = {**realm.schema("orders"), **change}
    refused(
        realm.ann.call(
            "PATCH", path, applied, kind="application/apply-patch+yaml", fieldManager="ann"
        ),
        "only ptahk's manager writes status",
    )
    whole = {**realm.ann.call("GET", realm.at(SCHEMA, "orders")).document, **change}
    refused(realm.ann.call("PUT", path, whole), "only ptahk's manager writes status")
    assert realm.manager.call("PATCH", path, change, kind=MERGE).status == 200


def test_the_manager_writes_no_spec(realm: Realm) -> None:
    path = realm.at(SCHEMA, "orders")
    for change in (
        {"spec": {"policy": {"apply": "Always"}}},
        {"metadata": {"annotations": {"ptahk.dev/request": "{}"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/other"]}},
    ):
        refused(realm.manager.call("PATCH", path, change, kind=MERGE), "ptahk's manager changes")
    refused(realm.manager.make(realm.schema("own"), realm.namespace), "makes no resources")
    for finalizers in ([FINALIZER], None):
        change = {"metadata": {"finalizers": finalizers}}
        assert realm.manager.call("PATCH", path, change, kind=MERGE).status == 200


def test_a_plan_never_changes(realm: Realm) -> None:
    path = realm.at(PLAN, plan_name("sha256:" + "a" * 64))
    for change in (
        {"spec": {"statements": 0}},
        {"metadata": {"labels": {RESOURCE_UID: "another"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"ownerReferences": None}},
    ):
        for by in (realm.ann, realm.manager):
            refused(by.call("PATCH", path, change, kind=MERGE))
    refused(realm.ann.make(realm.planned("c"), realm.namespace), "manager publishes plans")


def test_the_bytes_of_a_plan_never_change(realm: Realm) -> None:
    name = plan_name("sha256:" + "a" * 64)
    base = f"/api/v1/namespaces/{realm.namespace}/configmaps"
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {RESOURCE_UID: "u"}},
        "immutable": True,
        "binaryData": {"plan.json.gz": "eA=="},
    }
    loose = copy.deepcopy(made)
    del loose["immutable"]
    refused(realm.manager.call("POST", base, loose), "are immutable")
    refused(realm.ann.call("POST", base, made), "only ptahk's manager publishes")
    other = {**made, "metadata": {"name": "settings", "labels": {RESOURCE_UID: "u"}}}
    refused(realm.manager.call("POST", base, other), "no ConfigMap but plans")
    realm.made(realm.manager.call("POST", base, made))
    for change in (
        {"binaryData": {"plan.json.gz": "eQ=="}},
        {"metadata": {"labels": {RESOURCE_UID: None}}},
        {"metadata": {"ownerReferences": [realm.owner()]}},
    ):
        for by in (realm.ann, realm.manager):
            refused(by.call("PATCH", f"{base}/{name}", change, kind=MERGE))
    realm.made(realm.ann.call("POST", base, other))
    change = {"metadata": {"labels": {"a": "b"}}}
    unfrozen = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    realm.made(realm.ann.call("POST", base, unfrozen))
    assert realm.ann.call("PATCH", f"{base}/mine", change, kind=MERGE).status == 200


def test_a_missing_kind_of_parameters_fails_closed(realm: Realm, guarded: ControlPlane) -> None:
    with pytest.raises(KubectlFailed, match="ptahk-approval"):
        guarded.kubectl(
            "create", f"--namespace={create_namespace(guarded)}", "--filename=-",
            stdin=json.dumps(realm.approval("elsewhere")),
        )  # fmt: skip
