"""What the suites of a cluster share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import Ptahk
from tests.cluster.bed import Bed
from tests.kit.clusterfixtures import create_namespace
from tests.kit.controlplane import Cluster
from tests.kit.rawapi import ADMINISTRATORS, RawApi, install_crds


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
