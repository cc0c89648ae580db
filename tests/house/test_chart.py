"""What the chart installs: no Secret but one, nothing that the manager does not ask for."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ptahk import __version__
from ptahk.backends.kube import admission, logs, policies, stamps, vault
from ptahk.engine.leader import LEASE_NAME
from ptahk.serve import webhook
from ptahk.serve.manager import ROUND_S, Settings
from tests.kit import helm
from tests.kit.presence import present

NAMESPACE = "ptahk-system"
IMAGE = "registry.example/executor@sha256:" + "e" * 64
VALUES: dict[str, Any] = {"image": {"manager": "registry.example/manager:1", "executor": IMAGE}}
MONITORING = {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}}
EVERYTHING = VALUES | {
    "certManager": {"enabled": True},
    "metrics": MONITORING,
    "approvals": {"byAnotherPerson": True},
    "admission": {"plugins": ["AlwaysPullImages"]},
}

Document = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def built() -> None:
    present(helm.program)


@functools.cache
def _rendered(version: str) -> list[Document]:
    return helm.template(VALUES, version=version)


def _named(item: Document) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def documents(*kinds: str) -> list[Document]:
    return [item for item in _rendered("4") if not kinds or item["kind"] in kinds]


def named(kind: str, name: str, found: list[Document] | None = None) -> Document:
    [one] = [
        item
        for item in (found or _rendered("4"))
        if item["kind"] == kind and item["metadata"]["name"] == name
    ]
    return one


def of_manager() -> list[Document]:
    """Roles that are bound to the manager."""
    bound = {
        item["roleRef"]["name"]
        for item in documents("RoleBinding", "ClusterRoleBinding")
        if any(subject["name"] == "ptahk-manager" for subject in item["subjects"])
    }
    return [item for item in documents("Role", "ClusterRole") if item["metadata"]["name"] in bound]


def rules() -> list[Document]:
    return [rule for role in of_manager() for rule in role["rules"]]


def test_helm_3_and_4_make_the_same_of_it() -> None:
    three, four = (sorted(_rendered(version), key=_named) for version in helm.VERSIONS)
    assert three == four


@pytest.mark.parametrize("version", helm.VERSIONS)
def test_lint_finds_nothing(version: str) -> None:
    given = f"--set=image.manager=m,image.executor={IMAGE}"
    told = helm.run("lint", "--strict", str(helm.CHART), given, version=version)
    assert "0 chart(s) failed" in told and "[WARNING]" not in told and "[ERROR]" not in told


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_one_secret_alone_is_reached_and_nothing_is_a_star() -> None:
    for rule in rules():
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], rule
    secrets = [rule for rule in rules() if "secrets" in rule["resources"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in secrets] == [
        ([vault.SECRET], ["get", "update"])
    ]
    everything = {verb for rule in rules() for verb in rule["verbs"]}
    assert everything <= {"get", "list", "watch", "create", "update", "patch", "delete"}
    named = [rule for rule in rules() if "validatingwebhookconfigurations" in rule["resources"]]
    assert [rule["resourceNames"] for rule in named] == [[vault.CONFIGURATION]]


def test_with_cert_manager_the_manager_reads_no_secret_at_all() -> None:
    made = helm.template(EVERYTHING)
    for role in (item for item in made if item["kind"] in ("Role", "ClusterRole")):
        for rule in role["rules"]:
            assert not {"secrets", "validatingwebhookconfigurations"} & set(rule["resources"])
    pod = named("Deployment", "ptahk-manager", made)["spec"]["template"]["spec"]
    assert "--webhook-certificates=/etc/ptahk/webhook" in pod["containers"][0]["args"]
    assert "--webhook-certificates=own" in named("Deployment", "ptahk-manager")["spec"][
        "template"]["spec"]["containers"][0]["args"]  # fmt: skip
    certificate = named("Certificate", "ptahk-webhook", made)
    assert certificate["spec"]["dnsNames"] == list(vault.names(NAMESPACE))
    mounted = [item["secret"]["secretName"] for item in pod["volumes"] if "secret" in item]
    assert mounted == [certificate["spec"]["secretName"]]


def test_what_is_dangerous_is_not_there() -> None:
    granted = {
        (name, verb) for rule in rules() for name in rule["resources"] for verb in rule["verbs"]
    }
    assert {verb for name, verb in granted if name == "jobs"} & {"delete", "update"} == set()
    assert {verb for name, verb in granted if name == "leases"} == {"get", "create", "update"}
    assert {verb for name, verb in granted if name == "ptahapprovals"} == {"get", "list", "watch"}
    assert not any("exec" in name or "attach" in name for name, _ in granted)
    wide = [
        rule for role in of_manager() if role["kind"] == "ClusterRole" for rule in role["rules"]
    ]
    pods = {verb for rule in wide if "pods" in rule["resources"] for verb in rule["verbs"]}
    assert pods == {"get", "list"}, "Pods are made by the Job controller"


def test_leases_are_granted_in_one_namespace_alone() -> None:
    holders = [
        role["kind"] for role in of_manager() for rule in role["rules"]
        if "leases" in rule["resources"]
    ]  # fmt: skip
    assert holders == ["Role"]
    assert LEASE_NAME == "ptahk-manager", "the name that the page of operations gives"


def test_the_manager_is_restricted_and_says_what_it_runs() -> None:
    deployment = named("Deployment", "ptahk-manager")
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert f"--coordination-namespace={NAMESPACE}" in container["args"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= labels.items()
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = named(kind, "ptahk-manager")["spec"]
        assert (spec.get("selector") or spec["podSelector"])["matchLabels"] == wanted
    assert len(pod["topologySpreadConstraints"]) == 2


def test_the_manager_has_the_time_and_the_memory_that_it_needs() -> None:
    deployment = named("Deployment", "ptahk-manager")
    pod = deployment["spec"]["template"]["spec"]
    settings = Settings()
    # The round under way, and reading and writing the Lease that is given up.
    longest_s = settings.drain_s + 1.0 + 3 * settings.times.retry_s + ROUND_S
    assert longest_s < pod["terminationGracePeriodSeconds"] - 5
    limit = pod["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    # Twice: what is read is joined once; and as much again for everything else.
    assert int(limit[:-2]) * 1024 * 1024 >= 4 * logs.ROOM_BYTES
    assert logs.ROOM_BYTES >= 2 * logs.KEPT_BYTES_MAX


def test_the_policies_are_those_of_the_code() -> None:
    user = policies.manager(NAMESPACE)
    wanted = [*policies.documents(user), *stamps.documents(user), *stamps.stamping()]
    found = [item for item in documents() if "AdmissionPolicy" in item["kind"]]
    assert sorted(found, key=_named) == sorted(wanted, key=_named)
    named("ValidatingAdmissionPolicy", "ptahk-other-person-schema", helm.template(EVERYTHING))


def test_the_webhook_is_that_of_the_code() -> None:
    service = {"namespace": NAMESPACE, "name": vault.SERVICE, "path": webhook.PATH, "port": 443}
    wanted = admission.configuration({"service": service}, vault.CONFIGURATION)
    found = named("ValidatingWebhookConfiguration", vault.CONFIGURATION)
    assert found["webhooks"] == wanted["webhooks"]
    assert "annotations" not in found["metadata"]
    injected = named("ValidatingWebhookConfiguration", "ptahk", helm.template(EVERYTHING))
    assert injected["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{NAMESPACE}/ptahk-webhook"
    }
    ports = named("Service", vault.SERVICE)["spec"]["ports"]
    assert [(port["port"], port["targetPort"]) for port in ports] == [(443, "webhook")]


def test_without_mutating_policies_nothing_stamps() -> None:
    made = helm.template(VALUES, stamps=False)
    assert not any(item["kind"].startswith("Mutating") for item in made)
    assert named("ValidatingAdmissionPolicy", "ptahk-approval", made)


def test_monitoring_is_off_until_it_is_asked_for() -> None:
    assert not documents("ServiceMonitor", "PrometheusRule")
    made = helm.template(VALUES | {"metrics": MONITORING})
    text = yaml.safe_dump(named("PrometheusRule", "ptahk-manager", made))
    known = (Path(helm.CHART).parents[1] / "docs" / "operations.md").read_text()
    used = set(re.findall(r"ptahk_[a-z_]+", text))
    assert used and all(f"`{name}`" in known for name in used), used


def test_every_object_of_the_whole_cluster_has_a_fixed_name() -> None:
    """So a second release meets the first (C-13.4)."""
    elsewhere = helm.template(VALUES, namespace="other")
    wide = {(item["kind"], item["metadata"]["name"]) for item in documents()
            if "namespace" not in item["metadata"]}  # fmt: skip
    there = {(item["kind"], item["metadata"]["name"]) for item in elsewhere
             if "namespace" not in item["metadata"]}  # fmt: skip
    assert wide == there and ("ClusterRole", "ptahk-manager") in wide
    assert all(item["metadata"].get("namespace", "other") == "other" for item in elsewhere)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": {"manager": "m", "executor": "e:1"}}, "executor"),
        ({"image": {"executor": IMAGE}}, "image.manager is missing"),
        ({"image": {"manager": "m"}}, "image.executor is missing"),
        ({"replicas": 0}, "replicas"),
        ({"replica": 2}, "replica"),
        ({"admission": {"plugins": ["Other"]}}, "plugins"),
        ({"admission": {"defaultTolerations": "none"}}, "defaultTolerations"),
        ({"approvals": {"byAnotherPerson": "yes"}}, "byAnotherPerson"),
    ],
)
@pytest.mark.parametrize("version", helm.VERSIONS)
def test_a_wrong_value_is_named(change: Document, words: str, version: str) -> None:
    with pytest.raises(helm.HelmFailed, match=words):
        helm.template(VALUES | change, version=version)
