"""Fixtures of the executor's suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import my_makes
from tests.kit import servers, targets
from tests.kit.databases import Database
from tests.kit.operations import Operator, operator


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of ``target`` on every engine that has the capabilities it needs."""
    if "target_name" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("needs")
    needed = frozenset(marker.args if marker else ())
    makes = my_makes(metafunc.config)
    names = [
        name
        for name, has in targets.CAPABILITIES.items()
        if needed <= has and (name.startswith("pg") or name in makes)
    ]
    metafunc.parametrize("target_name", names)


@pytest.fixture
def target(server_run: servers.Run, target_name: str) -> Iterator[targets.Target]:
    """A fresh database of each engine."""
    with targets.open_target(server_run, target_name) as made:
        yield made


@pytest.fixture
def one(database: Database, tmp_path: Path) -> Iterator[Operator]:
    """The superuser's operations on a fresh database, from one store."""
    with operator(database.url(), tmp_path) as made:
        yield made
