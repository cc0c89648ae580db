"""What the chart gives the manager: no Secret, nothing that it does not ask for."""

from typing import Any

from ptahk.engine.leader import LEASE_NAME
from tests.kit import chart

NAMESPACE = "ptahk-system"


def documents(template: str) -> list[dict[str, Any]]:
    return chart.render(template, NAMESPACE, chart.values())


def rules() -> list[dict[str, Any]]:
    return [rule for document in documents("rbac.yaml") for rule in document.get("rules", ())]


def test_no_rule_reaches_a_secret_or_everything() -> None:
    for rule in rules():
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], rule
        assert not any("secret" in name for name in rule["resources"]), rule
    everything = {verb for rule in rules() for verb in rule["verbs"]}
    assert everything <= {"get", "list", "watch", "create", "update", "patch", "delete"}


def test_what_is_dangerous_is_not_there() -> None:
    granted = {
        (name, verb) for rule in rules() for name in rule["resources"] for verb in rule["verbs"]
    }
    assert {verb for name, verb in granted if name.startswith("pods/")} == {"get"}
    assert {verb for name, verb in granted if name == "pods"} == {"get", "list", "create"}
    assert {verb for name, verb in granted if name == "jobs"} & {"delete", "update"} == set()
    assert {verb for name, verb in granted if name == "leases"} == {"get", "create", "update"}
    assert {verb for name, verb in granted if name == "ptahapprovals"} == {"get", "list", "watch"}
    assert not any("exec" in name or "attach" in name for name, _ in granted)


def test_leases_and_pods_to_try_with_are_granted_in_one_namespace_alone() -> None:
    found = [
        (document["kind"], rule)
        for document in documents("rbac.yaml")
        for rule in document.get("rules", ())
    ]
    assert [kind for kind, rule in found if "leases" in rule["resources"]] == ["Role"]
    makers = [kind for kind, rule in found if rule["resources"] == ["pods"]
              and "create" in rule["verbs"]]  # fmt: skip
    assert makers == ["Role"]
    assert LEASE_NAME == "ptahk-manager", "the name that the page of operations gives"


def test_the_manager_is_restricted_and_says_what_it_runs() -> None:
    deployment = documents("manager.yaml")[0]
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert f"--coordination-namespace={NAMESPACE}" in container["args"]
    assert not any("unguarded" in argument for argument in container["args"])
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= labels.items()
