"""Users of ptahk, with and without a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.kit import Ptahk
from tests.kit.databases import Database

MakeUser = Callable[..., Ptahk]


@pytest.fixture
def ptahk(tmp_path: Path) -> Ptahk:
    """A user with a state directory of their own and no database."""
    return Ptahk(tmp_path / "state")


@pytest.fixture
def user_of(tmp_path: Path) -> Iterator[MakeUser]:
    """Makes users, each with a state directory and a database URL."""
    made: list[Ptahk] = []

    def make(url: str, **environment: str) -> Ptahk:
        password = urlsplit(url).password
        user = Ptahk(
            tmp_path / f"state{len(made)}",
            {"DATABASE_URL": url, **environment},
            tmp_path,
            (password,) if password else (),
        )
        made.append(user)
        return user

    yield make
    for one in made:
        one.end()


@pytest.fixture
def user(user_of: MakeUser, database: Database) -> Ptahk:
    """The superuser of a fresh database, working in an empty directory."""
    return user_of(database.url())


@pytest.fixture
def declare(tmp_path: Path) -> Callable[..., str]:
    """Writes a declaration, and answers its file's name in the user's directory."""

    def write(text: str, name: str = "schema.sql") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write
