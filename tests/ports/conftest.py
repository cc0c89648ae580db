"""The Kubernetes column of the port suites. A missing control plane is a failure."""

from collections.abc import Iterator

import pytest

from tests.kit.controlplane import Cluster
from tests.kit.kubecolumn import Column, Group


@pytest.fixture(scope="session")
def kube_group(control_plane: Cluster) -> Iterator[Group]:
    """Loose copies of our kinds on the run's API server, for this process alone."""
    made = Group(control_plane)
    yield made
    made.remove()


@pytest.fixture
def column(kube_group: Group) -> Iterator[Column]:
    """The Objects port over the API server, with namespaces of this test alone."""
    made = Column(kube_group)
    yield made
    made.close()
