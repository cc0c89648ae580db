"""Fixtures of the modules whose scenarios run under the chart as Helm installs it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kit.chartbed import Installed, Start, placed
from tests.kit.clusters import PodCluster


def installed(lease: str) -> Any:
    """The fixture ``release``, of one module alone; it is installed by the first who needs it.

    :param lease: of the leader.
    """

    @pytest.fixture(scope="module")
    def release(town: PodCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
        with placed(town, tmp_path_factory.mktemp("release")) as place:
            yield Installed(place, lease)

    return release


@pytest.fixture
def start(release: Installed) -> Start:
    """The release, where other suites start a replica."""
    release.since = datetime.now(UTC)
    return release.begin


@pytest.fixture
def nobody(release: Installed) -> None:
    """Nobody manages before the test starts a replica."""
    if release.place.pods():
        release.stop()
