"""What an import writes beside rows that are there already; whose table is meant."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.commands import baseline as command
from ptahk.errors import UsageError
from ptahk.migrations import importing, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.foreign import baseline
from ptahk.migrations.foreign.tables import TOOLS, Content, Table
from ptahk.migrations.history import Row
from ptahk.migrations.plans import Chosen, Refusal

TEXTS = {"1_a.sql": "SELECT 1;", "2_b.sql": "SELECT 2;", "3_c.sql": "SELECT 3;"}
OLD = "sha256:" + "0" * 64


def choose(versions: list[str], rows: list[Row], known: str | None = OLD) -> Any:
    directory = reading.read(
        [SourceFile(name, text) for name, text in TEXTS.items()], engine="postgresql"
    ).required()
    table = Table("public", "schema_migrations", ("version",))
    found = baseline.of(directory, Content("dbmate", table, tuple((v,) for v in versions)))
    asked = importing.change("auto", accept_unverified=True)
    return importing.choose(directory, rows, found, asked, known=known)


def row(version: str, kind: Any, state: Any = "applied", checksum: str | None = None) -> Row:
    return Row(version, kind, state, int(version), f"{version}.sql", checksum, None, "none", 1, 1)


def test_the_command_knows_every_tool() -> None:
    assert set(command.TOOLS) == {"auto", *TOOLS}
    assert importing.tool_of({"from": "auto"}) is None
    assert [importing.tool_of({"from": tool}) for tool in TOOLS] == list(TOOLS)
    with pytest.raises(UsageError, match="liquibase"):
        importing.tool_of({"from": "liquibase"})


def test_what_ptahk_ran_is_its_own_and_the_rest_is_written_anew() -> None:
    chosen = choose(["1", "2", "3"], [row("1", "imported", checksum=OLD), row("2", "executed")])
    assert isinstance(chosen, Chosen), chosen
    assert [(each["version"], each["checksum"]) for each in chosen.rows] == [
        ("1", OLD), ("3", None),
    ], "what a person accepted of a row stays"  # fmt: skip
    assert chosen.approval and "3 unverified" in chosen.notes[1]
    failed = choose(["1"], [row("1", "executed", "failed")])
    assert [each["version"] for each in failed.rows] == ["1"], "another ran what failed here"


@pytest.mark.parametrize(
    ("versions", "rows", "known", "reason", "said"),
    [
        (["2"], [row("1", "imported")], OLD, "ForeignHistoryRefused", "took back"),
        (["1"], [row("1", "executed")], None, "NothingToRecord", "has a history already"),
        (["1"], [row("1", "executed", "partial")], OLD, "HistoryDirty", "is partial"),
        (["1"], [row("1", "executed")], OLD, "NothingToRecord", "nothing that is not there"),
        (["9"], [], None, "ForeignHistoryRefused", "MG702"),
        ([], [], None, "NothingToRecord", "nothing that is not there"),
    ],
)
def test_it_is_refused(
    versions: list[str], rows: list[Row], known: str | None, reason: str, said: str
) -> None:
    refused = choose(versions, rows, known)
    assert isinstance(refused, Refusal), refused
    assert refused.reason == reason and said in refused.message
