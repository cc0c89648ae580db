"""The webhook's certificate on a real API server, with the rights that the chart gives for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.backends.kube import vault
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.vault import KubeVault
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Conflict, Forbidden
from ptahk.serve.certs import OwnCertificates, read
from tests.kit import helm
from tests.kit.controlplane import Cluster
from tests.kit.presence import present
from tests.kit.rawapi import RawApi

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IMAGE = "registry.example/executor@sha256:" + "e" * 64


def hook(name: str) -> dict[str, Any]:
    """A hook that nothing calls: its resource does not exist."""
    nothing = {"apiGroups": ["nothing.example"], "apiVersions": ["v1"], "operations": ["CREATE"],
               "resources": ["nothings"]}  # fmt: skip
    return {
        "name": f"{name}.ptahk.dev",
        "clientConfig": {"service": {"namespace": "default", "name": vault.SERVICE}},
        "rules": [nothing],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


@pytest.fixture
def configuration(control_plane: Cluster, namespace: str) -> Iterator[str]:
    """An empty Secret and a configuration, as the chart makes them, under a name of the test's."""
    api = RawApi(control_plane)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": vault.SECRET}}
    other = {**secret, "metadata": {"name": "db"}}
    for document in (secret, other):
        made = api.call("POST", f"/api/v1/namespaces/{namespace}/secrets", document)
        assert made.status == 201, made.message
    document = {"metadata": {"name": namespace}, "webhooks": [hook("one"), hook("two")]}
    made = api.call("POST", CONFIGURATIONS, document)
    assert made.status == 201, made.message
    _grant(api, namespace)
    yield namespace
    api.call("DELETE", f"{CONFIGURATIONS}/{namespace}")
    for kind in ("clusterroles", "clusterrolebindings"):
        api.call("DELETE", f"{RBAC}/{kind}/{namespace}")


def _grant(api: RawApi, namespace: str) -> None:
    values = {"image": {"manager": "m", "executor": IMAGE}}
    documents = present(lambda: helm.template(values, namespace=namespace))
    for item in documents:
        if item["metadata"]["name"] != "ptahk-certificate":
            continue
        text = json.dumps(item)
        wide = item["kind"].startswith("Cluster")
        if wide:
            text = text.replace('"ptahk-certificate"', f'"{namespace}"')
            text = text.replace('["ptahk"]', f'["{namespace}"]')
        where = RBAC if wide else f"{RBAC}/namespaces/{namespace}"
        made = api.call("POST", f"{where}/{item['kind'].lower()}s", json.loads(text))
        assert made.status == 201, made.message


@pytest.fixture
def clients(control_plane: Cluster, configuration: str) -> Iterator[list[Client]]:
    user = f"system:serviceaccount:{configuration}:ptahk-manager"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{configuration}")
    kubeconfig = control_plane.kubeconfig(user, groups)
    made = [Client.load(kubeconfig, None) for _ in range(2)]
    yield made
    for client in made:
        client.close()


def test_replicas_share_one_secret_and_publish_one_bundle(
    control_plane: Cluster, configuration: str, clients: list[Client]
) -> None:
    vaults = [KubeVault(client, configuration, configuration) for client in clients]
    names = vault.names(configuration)
    one, two = (OwnCertificates(item, names, SystemClock()) for item in vaults)
    one.look()
    two.look()
    stored = vaults[0].load()
    assert read(stored) is not None
    api = RawApi(control_plane)
    path = f"{CONFIGURATIONS}/{configuration}"
    hooks = api.call("GET", path).document["webhooks"]
    bundles = {base64.b64decode(item["clientConfig"]["caBundle"]) for item in hooks}
    assert bundles == {stored.bundle}
    before = api.call("GET", path).document["metadata"]["resourceVersion"]
    one.look()
    assert api.call("GET", path).document["metadata"]["resourceVersion"] == before
    with pytest.raises(Conflict):
        vaults[1].store(type(stored)(stored.bundle, version="1"))


def test_a_bundle_that_somebody_broke_is_mended(
    control_plane: Cluster, configuration: str, clients: list[Client]
) -> None:
    kept = KubeVault(clients[0], configuration, configuration)
    mine = OwnCertificates(kept, vault.names(configuration), SystemClock())
    mine.look()
    api = RawApi(control_plane)
    path = f"{CONFIGURATIONS}/{configuration}"
    broken = api.call("GET", path).document
    del broken["webhooks"][0]["clientConfig"]["caBundle"]
    assert api.call("PUT", path, broken).status == 200
    kept.published()
    with pytest.raises(Conflict):
        other = KubeVault(clients[1], configuration, configuration)
        other.published()
        kept.publish(kept.load().bundle)
        other.publish(b"x")
    mine.look()
    hooks = api.call("GET", path).document["webhooks"]
    assert len({item["clientConfig"].get("caBundle") for item in hooks}) == 1


def test_no_other_secret_is_read(configuration: str, clients: list[Client]) -> None:
    with pytest.raises(Forbidden):
        clients[0].request("GET", f"/api/v1/namespaces/{configuration}/secrets/db")
    with pytest.raises(Forbidden):
        clients[0].request("GET", f"/api/v1/namespaces/{configuration}/secrets")
