"""What a command reads before it does anything."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from ptahk.commands import _inputs as inputs
from ptahk.commands._options import Place, Source
from ptahk.errors import UsageError

URL = "postgresql://user:hunter2@host/db"


def test_the_url_comes_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_URL", URL)
    monkeypatch.setenv("DATABASE_URL", "postgresql://other/db")
    assert inputs.read_url(Place(url_env="ORDERS_URL")) == URL
    assert inputs.read_url(Place(local=True)) == "postgresql://other/db"


def test_the_url_comes_from_a_file_without_its_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "url"
    for ending in ("", "\n", "\r\n"):
        path.write_bytes((URL + ending).encode())
        assert inputs.read_url(Place(url_file=str(path))) == URL
    path.write_text(URL + "\n\n")
    assert inputs.read_url(Place(url_file=str(path))) == URL + "\n"


@pytest.mark.parametrize(
    "place",
    [
        Place(url_env=URL),
        Place(url_env="MISSING_URL"),
        Place(url_file="/nonexistent/hunter2/../url"),
        Place(url_env="A", url_file="b"),
    ],
)
def test_no_url_is_one_clear_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISSING_URL", raising=False)
    with pytest.raises(UsageError) as caught:
        inputs.read_url(place)
    assert "\n" not in caught.value.message
    if place.url_env == URL:
        assert "hunter2" not in caught.value.message + str(caught.value.hint)


def test_bytes_that_are_no_text_are_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_bytes(b"postgresql://u:hunter2\xff@h/d")
    with pytest.raises(UsageError) as caught:
        inputs.read_url(Place(url_file=str(path)))
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None


def test_declared_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("\ufeffSELECT 1;")
    tree = tmp_path / "tree"
    (tree / "b").mkdir(parents=True)
    (tree / ".git").mkdir()
    for name in ("b/2.sql", "a.sql", ".git/x.sql", ".hidden.sql", "note.txt"):
        (tree / name).write_text(name)
    source = Source(schema=[str(tmp_path / "one.sql")], schema_dir=str(tree))
    assert inputs.read_files(source) == (
        ("one.sql", "SELECT 1;"),
        ("a.sql", "a.sql"),
        ("b/2.sql", "b/2.sql"),
    )
    assert inputs.read_files(Source()) is None


def test_files_of_one_name_are_named_as_given(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schema.sql").write_text(name)
        paths.append(str(tmp_path / name / "schema.sql"))
    assert inputs.read_files(Source(schema=paths)) == ((paths[0], "a"), (paths[1], "b"))
    with pytest.raises(UsageError, match="twice"):
        inputs.read_files(Source(schema=[paths[0], paths[0]]))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"SELECT 1;")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert inputs.read_files(Source(schema=["-"])) == (("stdin", "SELECT 1;"),)


def test_what_is_no_declaration(tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\n-- caf\xe9\n")
    (tmp_path / "nul.sql").write_bytes(b"SELECT\0 1;")
    (tmp_path / "empty").mkdir()
    for source, words in (
        (Source(schema=[str(tmp_path / "latin.sql")]), "latin.sql:2"),
        (Source(schema=[str(tmp_path / "nul.sql")]), "NUL"),
        (Source(schema=[str(tmp_path / "missing.sql")]), "No such file"),
        (Source(schema_dir=str(tmp_path / "empty")), "no \\*.sql file"),
        (Source(schema_dir=str(tmp_path / "missing")), "not a directory"),
    ):
        with pytest.raises(UsageError, match=words):
            inputs.read_files(source)


def test_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.delenv("PTAHK_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert inputs.state_directory(Place()) == Path("/home/u/.local/state/ptahk")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert inputs.state_directory(Place()) == Path("/home/u/.local/state/ptahk")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert inputs.state_directory(Place()) == Path("/xdg/ptahk")
    monkeypatch.setenv("PTAHK_STATE", "/variable")
    assert inputs.state_directory(Place()) == Path("/variable")
    assert inputs.state_directory(Place(state="/option")) == Path("/option")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")
    inputs.write_atomically(str(target), b"new")
    assert target.read_bytes() == b"new"
    mask = os.umask(0o027)
    try:
        inputs.write_atomically(str(tmp_path / "other"), b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o640
    with pytest.raises(UsageError, match="No such file"):
        inputs.write_atomically(str(tmp_path / "missing" / "plan"), b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "plan.json"]
