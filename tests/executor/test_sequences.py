"""Files on a real server of each engine: what runs, what is recorded, what an end proves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ptahk.errors import Refused
from ptahk.executor.budget import ConnectionLost
from ptahk.migrations import history
from tests.kit.sequences import Sequences
from tests.kit.targets import Target


@pytest.fixture
def bed(target: Target) -> Sequences:
    return Sequences(target)


CORPORA = {
    "postgresql": ("vaultwarden/postgresql", "kratos"),
    "mysql": ("vaultwarden/mysql", "kratos"),
    "mariadb": ("vaultwarden/mysql",),
}


@pytest.mark.parametrize("number", [0, 1])
def test_a_corpus_from_empty_one_file_at_a_time_and_all_at_once(
    bed: Sequences, corpora: Path, number: int
) -> None:
    for name in CORPORA[bed.engine][number : number + 1]:
        directory = bed.corpus(corpora / name)
        checks = not name.startswith("vaultwarden")  # its first file needs them off
        with bed.session(budget_s=1800) as mine:
            bed.empty(mine)
            statements = bed.run(mine, directory, foreign_key_checks=checks)
            once = bed.schema(mine)
            rows = bed.rows(mine)
            judged = history.judge(directory, rows)
            assert statements == sum(len(each.statements) for each in directory.migrations)
            assert (judged.verdict, judged.findings) == ("nothingPending", ())
            bed.empty(mine)
            for migration in directory.migrations:
                before = history.judge(directory, bed.rows(mine))
                assert before.pending[0].version == migration.version
                bed.run(mine, directory, [migration], foreign_key_checks=checks)
            assert bed.schema(mine) == once
            assert [(row.version, row.checksum) for row in bed.rows(mine)] == [
                (row.version, row.checksum) for row in rows
            ]


def test_a_failure_in_one_transaction_leaves_nothing_and_is_pending(bed: Sequences) -> None:
    table = "CREATE TABLE t (a int);"
    directory = bed.directory(
        v1_a=table, v2_b="INSERT INTO t VALUES (1);\nSELECT 1;\nSELECT 1,\n  x FROM t;\n"
    )
    with bed.session() as mine:
        failed = bed.fails(mine, directory)
        assert failed.state == "failed"
        assert failed.message.startswith("2_b.sql:")
        assert "statement 3 of 3" in failed.message
        assert bed.states(mine) == [("1", "applied", 1, None), ("2", "failed", 0, None)]
        assert mine.query("SELECT count(*) FROM t")[0][0] == 0
        judged = history.judge(directory, bed.rows(mine))
        assert (judged.verdict, [each.version for each in judged.pending]) == ("pending", ["2"])
        mended = bed.directory(v1_a=table, v2_b="INSERT INTO t VALUES (1);")
        assert bed.run(mine, mended, mended.migrations[1:]) == 1
        assert mine.query("SELECT count(*) FROM t")[0][0] == 1
        kept = mine.query(f"SELECT error, error_line FROM {bed.table} WHERE version = '2'")
        assert tuple(kept[0]) == (None, None)


def test_the_errors_place_is_the_servers_own(bed: Sequences) -> None:
    directory = bed.directory(v1_a="SELECT 1;\n\n  SELECT 1,\n    * FROM FROM;\n")
    with bed.session() as mine:
        failed = bed.fails(mine, directory)
        kept = mine.query(
            f"SELECT error_code, error_statement, error_line, state FROM {bed.table}"
        )[0]
    assert failed.message.startswith("1_a.sql:4:")
    assert ": statement 2 of 2 failed: " in failed.message
    assert tuple(kept) == ("42601" if bed.postgresql else "1064", 2, 4, "failed")


def test_without_a_transaction_it_stops_where_it_failed_and_resumes(bed: Sequences) -> None:
    setting = "SET search_path = public" if bed.postgresql else "SET @one = 1"
    one = "1" if bed.postgresql else "@one"
    text = bed.text(
        f"{setting};\nCREATE TABLE t (a int);\nCREATE INDEX i ON t (a);\n"
        "INSERT INTO t VALUES (7);\nINSERT INTO nowhere VALUES (1);\n"
        f"INSERT INTO t VALUES ({one});\n"
    )
    directory = bed.directory(v1_a=text)
    with bed.session() as mine:
        assert bed.fails(mine, directory).state == "partial"
        assert bed.states(mine) == [("1", "partial", 4, None)]
        judged = history.judge(directory, bed.rows(mine))
        assert (judged.verdict, judged.findings[0].number) == ("dirty", "MG601")
        for other in (text.replace("TABLE t (a int)", "TABLE t (a text)"), bed.text("SELECT 1;")):
            with pytest.raises(Refused) as refused:
                bed.resume(mine, bed.directory(v1_a=other), 4)
            assert refused.value.reason == "ResumeRefused"
        assert bed.states(mine) == [("1", "partial", 4, None)]
        mended = bed.directory(v1_a=text.replace("INSERT INTO nowhere VALUES (1);\n", "-- gone\n"))
        assert bed.resume(mine, mended, 4) == 1
        assert bed.states(mine) == [("1", "applied", 5, None)]
        assert [row[0] for row in mine.query("SELECT a FROM t ORDER BY a")] == [1, 7]


def test_a_block_of_the_file_is_one_unit(bed: Sequences) -> None:
    text = bed.text("CREATE TABLE t (a int);\nBEGIN;\nINSERT INTO t VALUES (1);\n{};\nCOMMIT;\n")
    with bed.session() as mine:
        bed.fails(mine, bed.directory(v1_a=text.format("SELECT nosuch")))
        assert bed.states(mine) == [("1", "partial", 1, None)]
        assert mine.query("SELECT count(*) FROM t")[0][0] == 0
        good = bed.directory(v1_a=text.format("INSERT INTO t VALUES (2)"))
        assert bed.resume(mine, good, 1) == 4
        assert bed.states(mine) == [("1", "applied", 5, None)]
        assert mine.query("SELECT count(*) FROM t")[0][0] == 2


def test_what_may_commit_within_itself_is_unknown_when_it_fails(bed: Sequences) -> None:
    if bed.postgresql:
        code = "DO $$ BEGIN INSERT INTO t VALUES (1); COMMIT; RAISE EXCEPTION 'no'; END $$"
        text = bed.text(f"CREATE TABLE t (a int);\n{code};\n")
        expected = ("1", "unknown", 1, 2)
    else:
        text = (
            "CREATE TABLE t (a int);\n"
            "CREATE PROCEDURE p() BEGIN INSERT INTO t VALUES (1); COMMIT;"
            " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END;\nCALL p();\n"
        )
        expected = ("1", "unknown", 2, 3)
    with bed.session() as mine:
        assert bed.fails(mine, bed.directory(v1_a=text)).state == "unknown"
        assert bed.states(mine) == [expected]
        assert mine.query("SELECT count(*) FROM t")[0][0] == 1
        judged = history.judge(bed.directory(v1_a=text), bed.rows(mine))
        assert (judged.verdict, judged.findings[0].number) == ("dirty", "MG602")


def test_a_precondition_that_does_not_hold_begins_nothing(bed: Sequences) -> None:
    text = "-- ptahk:requires SELECT {}\nCREATE TABLE t (a int);"
    with bed.session() as mine:
        with pytest.raises(Refused) as refused:
            bed.run(mine, bed.directory(v1_a=text.format("1 = 2")))
        assert (refused.value.reason, bed.states(mine)) == ("RequirementNotMet", [])
        bed.run(mine, bed.directory(v1_a=text.format("1 = 1")))
        assert bed.states(mine) == [("1", "applied", 1, None)]


def test_a_row_of_somebody_elses_stops_the_run(bed: Sequences) -> None:
    directory = bed.directory(v1_a="CREATE TABLE t (a int);")
    with bed.session() as mine:
        bed.run(mine, directory)
        with pytest.raises(Refused) as refused:
            bed.run(mine, directory)
        assert (refused.value.reason, bed.states(mine)) == (
            "HistoryMoved", [("1", "applied", 1, None)],
        )  # fmt: skip


ALONE = "ALTER TABLE held ADD b int"
DEATHS = [
    # text, what its row proves on PostgreSQL, on the others
    (f"CREATE TABLE t (a int); {ALONE};", ("failed", 0), ("unknown", 1)),
    ("CREATE TABLE t (a int); SELECT 1; INSERT INTO t VALUES (1);" + ALONE + ";",
     ("failed", 0), ("unknown", 3)),
    (f"{ALONE};", ("failed", 0), ("unknown", 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "one", "other"), DEATHS)
def test_a_session_that_dies_leaves_what_its_rows_say(
    bed: Sequences, text: str, one: tuple[str, int], other: tuple[str, int]
) -> None:
    """Without the ledger: a statement that commits by itself is in doubt, all else is not."""
    bed.target.run(f"CREATE TABLE {bed.target.table('held')} (a int)")
    directory = bed.directory(v1_a=text)
    with (
        bed.session() as mine,
        bed.killed_while_waiting("held"),
        pytest.raises(ConnectionLost),
    ):
        bed.run(mine, directory, lock_timeout_s=50.0)
    with bed.session() as mine:
        (row,) = bed.rows(mine)
        assert row.state == "running"
        settled = history.settled(row, postgresql=bed.postgresql)
        assert (settled.state, settled.applied) == (one if bed.postgresql else other)
        assert bed.target.has_table("t") == (settled.applied > 0)
        assert not bed.target.has_column("held", "b")
        if settled.state == "failed":
            assert bed.run(mine, directory) == len(directory.migrations[0].statements)
            assert bed.states(mine)[0][1] == "applied"


def test_the_ledgers_marks_go_with_the_work(bed: Sequences) -> None:
    marks: list[tuple[str, int]] = []
    alone = "VACUUM t" if bed.postgresql else "ALTER TABLE t ADD b int"
    directory = bed.directory(
        v1_a="CREATE TABLE t (a int);", v2_b=bed.text(f"SELECT 1; {alone}; SELECT 2;")
    )
    with bed.session() as mine:
        given: dict[str, Any] = {
            "intend": lambda n: marks.append(("intend", n)),
            "done": lambda n: marks.append(("done", n)),
        }
        assert bed.run(mine, directory, **given) == 4
        assert dataclasses.astuple(bed.attempt(directory))[0] == "default"
    first = [] if bed.postgresql else [("intend", 1)]
    assert marks == [
        *first, ("done", 1), ("done", 2), ("intend", 3), ("done", 3), ("done", 4),
    ]  # fmt: skip
