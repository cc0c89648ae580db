"""Users of ptahk, with and without a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Ptahk


@pytest.fixture
def ptahk(tmp_path: Path) -> Ptahk:
    """A user with a state directory of their own and no database."""
    return Ptahk(tmp_path / "state")
