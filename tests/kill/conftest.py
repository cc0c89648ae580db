"""The server of these tests, which they may crash, and a bed for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kill.bed import Bed, Ground
from tests.kill.points import kill
from tests.kit import servers


@pytest.fixture(scope="session")
def ground(
    server_run: servers.Run, postgres_version: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    """A server of this process alone."""
    server = server_run.own_server(postgres_version)
    yield Ground(server, tmp_path_factory.mktemp("ground"))
    servers.stop(server)


@pytest.fixture
def make_bed(ground: Ground, tmp_path: Path) -> Iterator[Callable[..., Bed]]:
    """Makes a bed for a change by name; options as of `Bed`. One place in one test."""
    made: list[Bed] = []

    def make(change: str, **options: bool) -> Bed:
        place = ground.place(change)
        if not made:
            place.reset()
        folder = tmp_path / f"bed-{len(made)}"
        folder.mkdir()
        bed = Bed(place, folder, folder / "state", **options)
        made.append(bed)
        return bed

    yield make
    for bed in made:
        for pid in bed.job_processes():
            kill(pid)
    ground.ready()
