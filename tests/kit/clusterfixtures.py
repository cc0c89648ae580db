"""Fixtures of the suites that need a cluster; ``tests/conftest.py`` makes them known everywhere."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import clusters, databases, servers
from tests.kit.apiproxy import ApiProxy
from tests.kit.clusters import PodCluster
from tests.kit.controlplane import Cluster, ControlPlane
from tests.kit.presence import present

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Labels of a test's namespace: no Pod gets in that the restricted standard refuses."""


def create_namespace(cluster: Cluster) -> str:
    """Make a namespace that nothing else uses."""
    name = f"ptahk-test-{secrets.token_hex(5)}"
    document = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": RESTRICTED},
    }
    cluster.kubectl("create", "--filename=-", stdin=json.dumps(document))
    return name


@pytest.fixture(scope="session")
def control_plane(server_run: servers.Run) -> Cluster:
    """The run's shared API server. A test may not stop it; it keeps to its own namespace."""
    return present(lambda: clusters.shared(server_run))


@pytest.fixture
def own_control_plane(server_run: servers.Run) -> Iterator[ControlPlane]:
    """etcd and an API server of this test alone, which it may kill, freeze or take back."""
    plane = present(lambda: clusters.own(server_run))
    yield plane
    clusters.end(plane)


@pytest.fixture
def api_proxy(control_plane: Cluster, tmp_path: Path) -> Iterator[ApiProxy]:
    """A fault proxy of this test, in front of ``control_plane``."""
    with ApiProxy(control_plane, tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(server_run: servers.Run) -> PodCluster:
    """The run's shared cluster with a node, where Pods run. A test may not stop any of it."""
    return present(lambda: clusters.shared_with_node(server_run))


@pytest.fixture
def own_cluster(server_run: servers.Run) -> Iterator[PodCluster]:
    """A cluster with a node of this test alone, which it may kill, freeze or take back."""
    made = present(lambda: clusters.own_with_node(server_run))
    yield made
    clusters.end(made.own_plane)


@pytest.fixture(scope="session")
def pod_postgres(
    server_run: servers.Run, cluster: PodCluster, postgres_version: int
) -> servers.Server:
    """A shared PostgreSQL server that Pods reach too, at ``cluster.guests.address``."""
    return present(lambda: server_run.server(postgres_version, cluster.guests))


@pytest.fixture
def pod_database(pod_postgres: servers.Server) -> Iterator[databases.Database]:
    """A fresh database for Pods: ``pod_database.url(role, host=cluster.guests.address)``."""
    made = databases.create(pod_postgres)
    yield made
    made.drop()


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A fresh namespace of the shared cluster."""
    name = create_namespace(control_plane)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
