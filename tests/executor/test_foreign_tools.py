"""Histories that golang-migrate and goose themselves made, and go on with after the import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptahk.migrations import history
from ptahk.migrations.findings import InvalidSource
from ptahk.migrations.foreign import baseline
from ptahk.migrations.foreign.tables import SHAPES
from tests.executor.test_foreign_history import bed, foreign, make, mine, rows_to_write
from tests.kit.migrators import TOOLS, Migrator
from tests.kit.presence import present
from tests.kit.sequences import Sequences
from tests.kit.targets import Target

__all__ = ["bed", "mine"]

UP = {
    "1_a": "CREATE TABLE t (a int);", "2_b": "CREATE TABLE u (a int);",
    "3_c": "CREATE TABLE v (a int);",
}  # fmt: skip
DOWN = {"1_a": "DROP TABLE t;", "2_b": "DROP TABLE u;", "3_c": "DROP TABLE v;"}
GOING = ("golang-migrate", "goose")
TO = {"golang-migrate": ("goto", "2"), "goose": ("up-to", "2")}
BACK = {"golang-migrate": ("down", "1"), "goose": ("down",)}


@pytest.fixture
def migrator(target: Target, tmp_path: Path) -> Callable[[str], Migrator]:
    present(lambda: [TOOLS.program(name) for name in TOOLS.tools])
    return lambda tool: Migrator(tool, target.database, tmp_path)


def write(folder: Path, tool: str, up: dict[str, str]) -> None:
    """A directory of the tool's own layout."""
    for name, text in up.items():
        if tool == "goose":
            down = f"-- +goose Down\n{DOWN[name]}\n"
            (folder / f"{name}.sql").write_text(f"-- +goose Up\n{text}\n{down}")
        else:
            (folder / f"{name}.up.sql").write_text(f"{text}\n")
            (folder / f"{name}.down.sql").write_text(f"{DOWN[name]}\n")


def columns(bed: Sequences, table: str) -> list[tuple[Any, ...]]:
    """Of a table of the database, as its server has it."""
    schema = "public" if bed.postgresql else bed.target.database.name
    return bed.target.rows(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        f" WHERE table_schema = '{schema}' AND table_name = '{table}' ORDER BY ordinal_position"
    )


@pytest.mark.parametrize("tool", GOING)
def test_what_the_tool_made_is_imported_and_watched(
    bed: Sequences, mine: Any, migrator: Callable[[str], Migrator], tmp_path: Path, tool: Any
) -> None:
    write(tmp_path, tool, UP)
    directory = bed.corpus(tmp_path)
    assert directory.format == tool, "the layout is detected"
    going = migrator(tool)
    going.run(*TO[tool])
    assert bed.target.has_table("u") and not bed.target.has_table("v")
    content = foreign(bed).find(mine, None, None)
    assert content.tool == tool
    found = baseline.of(directory, content)
    assert found.findings == []
    assert [(row.version, row.kind, row.verified) for row in found.rows] == [
        ("1", "imported", False), ("2", "imported", False),
    ]  # fmt: skip
    foreign(bed).adopt(mine, bed.attempt(directory), content, rows_to_write(directory, found))
    assert foreign(bed).watched(mine, "default") == (content.digest, False)
    judged = history.judge(directory, bed.rows(mine))
    assert (judged.verdict, [each.version for each in judged.pending]) == ("pending", ["3"])
    assert bed.run(mine, directory, judged.pending) == 1
    assert foreign(bed).watched(mine, "default") == (content.digest, False)
    bed.target.run("DROP TABLE v")
    going.run("up")
    digest, moved = foreign(bed).watched(mine, "default")
    assert (digest, moved) == (content.digest, True), "somebody still runs it"
    again = baseline.of(directory, foreign(bed).find(mine, tool, None))
    assert [row.version for row in again.rows] == ["1", "2", "3"]


@pytest.mark.parametrize("tool", GOING)
def test_what_the_tool_took_back_is_not_imported(
    bed: Sequences, mine: Any, migrator: Callable[[str], Migrator], tmp_path: Path, tool: Any
) -> None:
    write(tmp_path, tool, UP)
    going = migrator(tool)
    going.run("up")
    going.run(*BACK[tool])
    found = baseline.of(bed.corpus(tmp_path), foreign(bed).find(mine, None, None))
    assert [row.version for row in found.rows] == ["1", "2"]
    assert not bed.target.has_table("v")


def test_a_failure_leaves_golang_migrate_dirty_and_is_not_imported(
    bed: Sequences, mine: Any, migrator: Callable[[str], Migrator], tmp_path: Path
) -> None:
    write(tmp_path, "golang-migrate", {**UP, "3_c": "SELECT nothing_of_the_kind;"})
    migrator("golang-migrate").run("up", ok=False)
    found = baseline.of(bed.corpus(tmp_path), foreign(bed).find(mine, None, None))
    with pytest.raises(InvalidSource, match="MG701"):
        found.required(accept_unverified=True)


@pytest.mark.parametrize("tool", GOING)
def test_the_ddl_of_the_other_tests_is_the_tools(
    bed: Sequences, migrator: Callable[[str], Migrator], tmp_path: Path, tool: Any
) -> None:
    write(tmp_path, tool, UP)
    migrator(tool).run("up")
    table = SHAPES[tool].names[0]  # type: ignore[index]
    theirs = columns(bed, table)
    bed.target.run(f"DROP TABLE {table}")
    make(bed, tool)
    assert columns(bed, table) == theirs
