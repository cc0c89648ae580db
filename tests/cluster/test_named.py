"""A cluster that the user names gives a test what one of our own gives it."""

import json
from pathlib import Path

import pytest

from tests.kit import clusters, servers
from tests.kit.clusters import NamedCluster, PodCluster
from tests.kit.controlplane import KubectlFailed, run_kubectl
from tests.kit.installs import ServerMissing


@pytest.fixture
def named(cluster: PodCluster, tmp_path: Path) -> NamedCluster:
    return NamedCluster(cluster.plane.admin, tmp_path)


def test_its_own_signer_makes_the_identities(named: NamedCluster, namespace: str) -> None:
    kubeconfig = named.kubeconfig("dora", ["testers"])
    who = json.loads(run_kubectl(kubeconfig, "auth", "whoami", "--output=json"))
    assert who["status"]["userInfo"]["username"] == "dora"
    assert set(who["status"]["userInfo"]["groups"]) == {"testers", "system:authenticated"}
    with pytest.raises(KubectlFailed, match="forbidden"):
        run_kubectl(kubeconfig, "get", "pods", "--namespace", namespace)


def test_it_says_where_and_what_it_is(named: NamedCluster, cluster: PodCluster) -> None:
    assert named.url == cluster.plane.url
    assert named.version == cluster.plane.version
    assert named.ca.read_text().strip() == cluster.plane.ca.read_text().strip()


def test_a_run_uses_it_and_starts_nothing(
    cluster: PodCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clusters.KUBECONFIG_ENV, str(cluster.plane.admin))
    for name in (clusters.HOST_ENV, *clusters.IMAGE_ENVS.values()):
        monkeypatch.delenv(name, raising=False)
    run = servers.Run(tmp_path)
    assert clusters.shared(run).url == cluster.plane.url
    assert clusters.version_used(run) == cluster.plane.version
    assert list(tmp_path.glob("cluster-*")) == []
    with pytest.raises(ServerMissing, match=clusters.HOST_ENV):
        clusters.shared_with_node(run)
    monkeypatch.setenv(clusters.HOST_ENV, "10.9.8.1,10.9.8.0/24")
    for target, name in clusters.IMAGE_ENVS.items():
        monkeypatch.setenv(name, f"example.test/{target}@sha256:{'0' * 64}")
    found = clusters.shared_with_node(run)
    assert (found.guests.address, found.guests.subnet) == ("10.9.8.1", "10.9.8.0/24")
    assert found.images["executor"].startswith("example.test/executor@")
