"""The servers of these tests, which they may crash, and a bed for each test."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kill import bed, my, pg
from tests.kill.points import kill
from tests.kit import binlog, myservers, servers
from tests.kit.presence import present


@pytest.fixture(scope="session")
def ground(
    server_run: servers.Run, postgres_version: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pg.Ground]:
    """A PostgreSQL server of this process alone."""
    server = server_run.own_server(postgres_version)
    yield pg.Ground(server, tmp_path_factory.mktemp("ground"))
    servers.stop(server)


@pytest.fixture(scope="session")
def my_ground(
    server_run: servers.Run, my_make: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[my.Ground]:
    """A MySQL or MariaDB server of this process alone."""
    server = present(lambda: myservers.start(server_run, my_make, binlog.SETTINGS))
    made = my.Ground(server, tmp_path_factory.mktemp(f"ground-{my_make}"))
    yield made
    myservers.stop(made.server)


@contextmanager
def _beds(ground: bed.Ground, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    made: list[bed.Bed] = []

    def make(change: str, *, again: bool = False, **options: bool) -> bed.Bed:
        place = ground.place(change)
        if not made or again:
            place.reset()
        folder = tmp_path / f"bed-{len(made)}"
        folder.mkdir()
        one = place.make_bed(folder, folder / "state", **options)
        made.append(one)
        return one

    yield make
    for one in made:
        for pid in one.job_processes():
            kill(pid)
    ground.ready()


@pytest.fixture
def make_bed(ground: pg.Ground, tmp_path: Path) -> Iterator[Callable[..., pg.Bed]]:
    """Makes a bed for a change by name; options as of `Bed`. One place in one test; with ``again``
    it is made new for a further bed."""
    with _beds(ground, tmp_path) as make:
        yield make


@pytest.fixture
def make_my_bed(my_ground: my.Ground, tmp_path: Path) -> Iterator[Callable[..., my.Bed]]:
    """The same on MySQL and MariaDB."""
    with _beds(my_ground, tmp_path) as make:
        yield make
