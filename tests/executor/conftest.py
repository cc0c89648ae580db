"""Fixtures of the executor's suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.databases import Database
from tests.kit.operations import Operator, operator


@pytest.fixture
def one(database: Database, tmp_path: Path) -> Iterator[Operator]:
    """The superuser's operations on a fresh database, from one store."""
    with operator(database.url(), tmp_path) as made:
        yield made
