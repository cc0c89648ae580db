"""How far a file came, by a person's word on the statement that nobody saw end (C-11.14)."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.migrations import history, plans, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.history import Row
from ptahk.migrations.plans import Chosen, Refusal

CLAIM = "c" * 32
TEXT = {
    "locked": "CREATE TABLE a (x int); LOCK TABLES a WRITE; INSERT INTO a VALUES (1);"
    " INSERT INTO a VALUES (2); UNLOCK TABLES; SELECT 9;",
    "transaction": "CREATE TABLE a (x int); BEGIN; INSERT INTO a VALUES (1);"
    " INSERT INTO a VALUES (2); COMMIT; SELECT 9;",
    "alone": "CREATE TABLE a (x int); CALL p(); CREATE TABLE b (x int); CREATE TABLE c (x int);"
    " CREATE TABLE d (x int); SELECT 9;",
}


def settle(text: str, word: str, state: Any, applied: int, running: int, **more: Any) -> Any:
    """The choice for a run of six statements that stopped."""
    directory = reading.read([SourceFile("1_a.sql", text)], engine="mysql").required()
    checksum = directory.migrations[0].checksum
    row = Row("1", "executed", state, 1, "1_a.sql", more.get("checksum", checksum), None, "none",
              6, applied, running, CLAIM)  # fmt: skip
    asked = {"action": "settle", "operation": CLAIM, "as": word, "person": "ann", "reason": "seen"}
    judged = history.judge(directory, [row])
    return plans.choose(
        directory, [row], judged, change=asked, ahead="Refuse", occupied=False
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "state", "applied", "running", "reached"),
    [
        ("locked", "running", 1, 2, 5),
        ("locked", "running", 3, 4, 5),
        ("locked", "unknown", 1, 3, 3),
        ("locked", "unknown", 3, 4, 4),
        ("transaction", "running", 1, 2, 5),
        ("transaction", "unknown", 1, 3, 5),
        ("alone", "running", 1, 2, 2),
        ("alone", "unknown", 1, 2, 2),
    ],
)
def test_applied_means_as_far_as_its_record_reaches(
    kind: str, state: str, applied: int, running: int, reached: int
) -> None:
    chosen = settle(TEXT[kind], "applied", state, applied, running)
    assert isinstance(chosen, Chosen), chosen
    (row,) = chosen.rows
    assert (row["state"], row["applied"], row["note"]) == ("partial", reached, "ann: seen")
    directory = reading.read([SourceFile("1_a.sql", TEXT[kind])], engine="mysql").required()
    wanted = directory.migrations[0].statements[applied:reached]
    assert row["append"] == [reading.statement_digest(each) for each in wanted]
    (shown,) = plans.statements(chosen)
    assert shown["sql"].endswith(f"partial after {reached} of 6 statements")


def test_applied_to_the_end_is_all_of_it() -> None:
    chosen = settle(TEXT["alone"], "applied", "running", 5, 6)
    assert [(row["state"], row["applied"]) for row in chosen.rows] == [("applied", 6)]


def test_not_applied_is_where_it_stood() -> None:
    chosen = settle(TEXT["locked"], "not-applied", "running", 1, 2)
    assert [(row["state"], row["applied"]) for row in chosen.rows] == [("partial", 1)]


def test_what_was_run_must_be_there_to_say_what_took_effect() -> None:
    refused = settle(TEXT["alone"], "applied", "running", 1, 2, checksum="sha256:" + "0" * 64)
    assert isinstance(refused, Refusal)
    assert refused.reason == "HistoryDirty" and "1_a.sql" in refused.message
    assert isinstance(
        settle(TEXT["alone"], "not-applied", "running", 1, 2, checksum="sha256:" + "0" * 64), Chosen
    )
