"""What the suites of a cluster share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.kit import Ptahk
from tests.cluster.bed import Bed
from tests.kit import clusters, podbed, podreplica, servers
from tests.kit.apiproxy import ApiProxy
from tests.kit.chartbed import Installed, placed
from tests.kit.clusterfixtures import create_namespace
from tests.kit.clusters import PodCluster
from tests.kit.controlplane import Cluster
from tests.kit.presence import present
from tests.kit.rawapi import ADMINISTRATORS, RawApi, install_crds
from tests.kit.theatre import LEASE, Theatre

for _path in sorted(Path(__file__).parent.glob("scenarios_*.py")):
    pytest.register_assert_rewrite(f"tests.cluster.{_path.stem}")


@pytest.fixture(scope="session")
def served(control_plane: Cluster) -> Cluster:
    """The cluster with the CRDs."""
    install_crds(control_plane)
    return control_plane


@pytest.fixture
def bed(served: Cluster, namespace: str, tmp_path: Path) -> Iterator[Bed]:
    ptahk = Ptahk(tmp_path / "state")
    yield Bed(
        RawApi(served),
        served.kubeconfig("ann", ADMINISTRATORS),
        namespace,
        create_namespace(served),
        ptahk,
    )
    ptahk.end()
    assert not (tmp_path / "state").exists(), "a command on a cluster keeps nothing here"


@pytest.fixture(scope="module")
def town(server_run: servers.Run) -> Iterator[PodCluster]:
    """A cluster with a node for one module alone: a manager works on every namespace."""
    made = present(lambda: clusters.own_with_node(server_run))
    yield made
    clusters.end(made.own_plane)


@pytest.fixture
def beds(
    town: PodCluster, server_run: servers.Run, postgres_version: int
) -> Iterator[Callable[[], podbed.Bed]]:
    """Makes namespaces there, each with a fresh database."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(podbed.bed(town, server_run, postgres_version))


@pytest.fixture
def person(town: PodCluster, tmp_path: Path) -> Iterator[podbed.Person]:
    """A person with ptahk at a terminal."""
    ptahk = Ptahk(tmp_path / "state")
    yield podbed.Person(ptahk, town.plane.kubeconfig("ann", ADMINISTRATORS))
    ptahk.end()


@pytest.fixture(scope="module")
def lease() -> str:
    """Of the leader of the release behind a fault proxy."""
    return LEASE


@pytest.fixture(scope="module")
def fronted(
    town: PodCluster, lease: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiProxy]:
    """A fault proxy, and behind it the two replicas of the chart as Helm installs it."""
    folder, address = tmp_path_factory.mktemp("fronted"), town.guests.address
    with ApiProxy(town.plane, folder) as proxy:
        port = proxy.listen(address, town.own_plane.authority.server("apiproxy", [address]))
        with placed(town, folder, lease, (address, port)) as place:
            Installed(place).ready()
            yield proxy


@pytest.fixture
def theatre(
    town: PodCluster, fronted: ApiProxy, beds: Callable[[], podbed.Bed], person: podbed.Person
) -> Iterator[Theatre]:
    """The release behind the proxy, and resources that stand at a step."""
    with ExitStack() as every:
        yield Theatre(town, fronted, beds, every, person)
    fronted.forget()
    print(podreplica.told(town), file=sys.stderr)
