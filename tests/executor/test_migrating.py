"""Files on a real PostgreSQL: what runs, what is recorded, what an error and a death prove."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import migrating, revisions
from ptahk.executor.dialects.postgres.catalog import fingerprint, read_catalog
from ptahk.executor.dialects.postgres.session import ConnectionLost, Session
from ptahk.executor.planning.model import Scope
from ptahk.migrations import files, history, reading
from ptahk.migrations.files import SourceFile
from ptahk.wire import ledgersql
from tests.kit.databases import Database
from tests.kit.sessions import session

pytestmark = pytest.mark.pg(18)


def directory_of(**texts: str) -> Any:
    given = [SourceFile(f"{name.removeprefix('v')}.sql", text) for name, text in texts.items()]
    return reading.read(given, engine="postgresql", layout="ptahk").required()


def prepare(mine: Session) -> None:
    mine.run(ledgersql.POSTGRESQL[0])
    revisions.create(mine)


def attempt_of(directory: Any) -> revisions.Attempt:
    return revisions.Attempt(
        "default", secrets.token_hex(16), 1, reading.sequence_digest(directory), directory.format
    )


def run(mine: Session, directory: Any, migrations: Sequence[Any] | None = None) -> int:
    chosen = directory.migrations if migrations is None else migrations
    return migrating.run(mine, chosen, migrating.Run(attempt_of(directory), 3.0))


def states(mine: Session) -> list[tuple[Any, ...]]:
    return [
        (row.version, row.state, row.applied, row.running)
        for row in revisions.rows(mine, "default")
    ]


def schema_of(mine: Session) -> str:
    with mine.snapshot():
        return fingerprint(read_catalog(mine.query, Scope(("public",), ())))


def corpus(folder: Path) -> Any:
    given = [
        found
        for path in sorted(folder.rglob("*.sql"))
        if isinstance(
            found := files.read(path.relative_to(folder).as_posix(), path.read_bytes()), SourceFile
        )
    ]
    return reading.read(given, engine="postgresql").required()


@pytest.mark.parametrize("name", ["vaultwarden/postgresql", "kratos"])
def test_a_corpus_from_empty_one_file_at_a_time_and_all_at_once(
    database: Database, corpora: Path, name: str
) -> None:
    directory = corpus(corpora / name)
    with session(database.url(), locked=True, budget_s=900) as mine:
        prepare(mine)
        mine.run("DROP SCHEMA public CASCADE")
        mine.run("CREATE SCHEMA public")
        statements = run(mine, directory)
        once = schema_of(mine)
        rows = revisions.rows(mine, "default")
        judged = history.judge(directory, rows)
        assert statements == sum(len(each.statements) for each in directory.migrations)
        assert (judged.verdict, judged.findings) == ("nothingPending", ())
        mine.run("DROP SCHEMA public CASCADE")
        mine.run("CREATE SCHEMA public")
        mine.run("TRUNCATE ptahk.revisions")
        for migration in directory.migrations:
            judged_before = history.judge(directory, revisions.rows(mine, "default"))
            assert judged_before.pending[0].version == migration.version
            run(mine, directory, [migration])
        assert schema_of(mine) == once
        assert [(row.version, row.checksum) for row in revisions.rows(mine, "default")] == [
            (row.version, row.checksum) for row in rows
        ]


def test_a_failure_in_one_transaction_leaves_nothing_and_is_pending(database: Database) -> None:
    directory = directory_of(
        v1_a="CREATE TABLE t (a int);",
        v2_b="INSERT INTO t VALUES (1);\nSET ROLE pg_monitor;\nSELECT 1,\n  x FROM t;\n",
    )
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed) as failed:
            run(mine, directory)
        assert failed.value.message.startswith("2_b.sql:")
        assert "statement 3 of 3" in failed.value.message
        assert states(mine) == [("1", "applied", 1, None), ("2", "failed", 0, None)]
        judged = history.judge(directory, revisions.rows(mine, "default"))
        assert (judged.verdict, [each.version for each in judged.pending]) == ("pending", ["2"])
        mended = directory_of(v1_a="CREATE TABLE t (a int);", v2_b="INSERT INTO t VALUES (1);")
        assert run(mine, mended, judged.pending[:0] + mended.migrations[1:]) == 1
        assert mine.query("SELECT count(*) FROM public.t") == [(1,)]
        (kept,) = mine.query("SELECT error, error_line FROM ptahk.revisions WHERE version = '2'")
        assert kept == (None, None)


def test_the_errors_place_is_the_servers_own(database: Database) -> None:
    directory = directory_of(v1_a="SELECT 1;\n\n  SELECT 1,\n    nosuch;\n")
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed) as failed:
            run(mine, directory)
        (kept,) = mine.query("SELECT error_code, error_statement, error_line FROM ptahk.revisions")
    assert failed.value.message.startswith("1_a.sql:4:5: statement 2 of 2 failed: ")
    assert kept == ("42703", 2, 4)


def test_a_deferred_constraint_fails_as_the_file_does(database: Database) -> None:
    text = (
        "CREATE TABLE p (a int PRIMARY KEY);"
        "CREATE TABLE c (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED);"
        "INSERT INTO c VALUES (1);"
    )
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed):
            run(mine, directory_of(v1_a=text))
        assert states(mine) == [("1", "failed", 0, None)]
        assert mine.query("SELECT pg_catalog.to_regclass('public.p')") == [(None,)]


NONE = "-- ptahk:txmode none\n"


def test_without_a_transaction_it_stops_where_it_failed_and_resumes(database: Database) -> None:
    text = NONE + (
        "SET search_path = s, public;\nCREATE SCHEMA s;\nCREATE TABLE t (a int);\n"
        "CREATE INDEX CONCURRENTLY i ON t (a);\nINSERT INTO nowhere VALUES (1);\n"
        "INSERT INTO t VALUES (1);\n"
    )
    directory = directory_of(v1_a=text)
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed) as failed:
            run(mine, directory)
        assert failed.value.state == "partial"
        assert states(mine) == [("1", "partial", 4, None)]
        judged = history.judge(directory, revisions.rows(mine, "default"))
        assert (judged.verdict, judged.findings[0].number) == ("dirty", "MG601")
        for other in (text.replace("TABLE t (a int)", "TABLE t (a text)"), NONE + "SELECT 1;"):
            changed = directory_of(v1_a=other)
            with pytest.raises(Refused) as refused:
                migrating.resume(
                    mine, changed.migrations[0], migrating.Run(attempt_of(changed), 3.0), 4
                )
            assert refused.value.reason == "ResumeRefused"
        assert states(mine) == [("1", "partial", 4, None)]
        mended = directory_of(v1_a=text.replace("INSERT INTO nowhere VALUES (1);\n", "-- gone\n"))
        run_ = migrating.Run(attempt_of(mended), 3.0)
        assert migrating.resume(mine, mended.migrations[0], run_, 4) == 1
        assert states(mine) == [("1", "applied", 5, None)]
        assert mine.query("SELECT count(*) FROM s.t") == [(1,)]


def test_a_block_of_the_file_is_one_unit(database: Database) -> None:
    text = NONE + "CREATE TABLE t (a int);\nBEGIN;\nINSERT INTO t VALUES (1);\n{};\nCOMMIT;\n"
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed):
            run(mine, directory_of(v1_a=text.format("SELECT nosuch")))
        assert states(mine) == [("1", "partial", 1, None)]
        assert mine.query("SELECT count(*) FROM public.t") == [(0,)]
        good = directory_of(v1_a=text.format("INSERT INTO t VALUES (2)"))
        migrating.resume(mine, good.migrations[0], migrating.Run(attempt_of(good), 3.0), 1)
        assert states(mine) == [("1", "applied", 5, None)]
        assert mine.query("SELECT count(*) FROM public.t") == [(2,)]


def test_what_may_commit_within_itself_is_unknown_when_it_fails(database: Database) -> None:
    text = NONE + (
        "CREATE TABLE t (a int);\n"
        "DO $$ BEGIN INSERT INTO t VALUES (1); COMMIT; RAISE EXCEPTION 'no'; END $$;\n"
    )
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(migrating.MigrationFailed) as failed:
            run(mine, directory_of(v1_a=text))
        assert (failed.value.state, states(mine)) == ("unknown", [("1", "unknown", 1, 2)])
        assert mine.query("SELECT count(*) FROM public.t") == [(1,)]


def test_every_file_starts_from_one_session_state_and_the_lock_stays(database: Database) -> None:
    directory = directory_of(
        v1_a="SET search_path = ''; SET ROLE pg_monitor; CREATE TEMP TABLE x (a int);"
        " PREPARE q AS SELECT 1;",
        v2_b="CREATE TABLE t (a int); CREATE TABLE x (a int); PREPARE q AS SELECT 2;",
    )
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        mine.run("GRANT CREATE ON SCHEMA public TO pg_monitor")
        mine.run("GRANT TEMP ON DATABASE " + f'"{database.name}" TO pg_monitor')
        run(mine, directory)
        mine.check_still_mine()
        assert [row[1] for row in states(mine)] == ["applied", "applied"]
        owner = mine.query(
            "SELECT relowner::regrole::text FROM pg_catalog.pg_class"
            " WHERE oid = 'public.t'::pg_catalog.regclass"
        )
        assert owner != [("pg_monitor",)]
        mine.run("REVOKE CREATE ON SCHEMA public FROM pg_monitor")


def test_copy_carries_its_rows(database: Database) -> None:
    text = "CREATE TABLE t (a int, b text);\nCOPY t FROM stdin;\n1\ta;'b\n2\t\\N\n\\.\nSELECT 1;\n"
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        assert run(mine, directory_of(v1_a=text)) == 3
        assert mine.query("SELECT a, b FROM public.t ORDER BY a") == [(1, "a;'b"), (2, None)]


def test_a_precondition_that_does_not_hold_begins_nothing(database: Database) -> None:
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        with pytest.raises(Refused) as refused:
            run(mine, directory_of(v1_a="-- ptahk:requires SELECT false\nCREATE TABLE t ();"))
        assert (refused.value.reason, states(mine)) == ("RequirementNotMet", [])


def test_a_row_of_somebody_elses_stops_the_run(database: Database) -> None:
    directory = directory_of(v1_a="CREATE TABLE t (a int);")
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        run(mine, directory)
        with pytest.raises(Refused) as refused:
            run(mine, directory)
        assert (refused.value.reason, states(mine)) == (
            "HistoryMoved", [("1", "applied", 1, None)],
        )  # fmt: skip


def killed_at(
    database: Database, directory: Any, wait_for: str, then: Callable[[], None] = lambda: None
) -> None:
    """Run, and end the server session while its statement is at work."""
    blocker = psycopg.connect(database.url())
    blocker.execute("LOCK TABLE public.held")

    def kill() -> None:
        with psycopg.connect(database.url(), autocommit=True) as other:
            while not other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type ="
                " 'Lock' AND datname = current_database() AND query LIKE %s", (wait_for,),
            ).fetchall():  # fmt: skip
                then()

    killer = threading.Thread(target=kill)
    try:
        with session(database.url(), locked=True) as mine:
            killer.start()
            run_ = migrating.Run(attempt_of(directory), 60.0)
            with pytest.raises(ConnectionLost):
                migrating.run(mine, directory.migrations, run_)
    finally:
        killer.join(60)
        blocker.close()


@pytest.mark.parametrize(
    ("text", "state", "verdict"),
    [
        ("CREATE TABLE t (a int); INSERT INTO held VALUES (1);", "failed", "pending"),
        (NONE + "CREATE TABLE t (a int); INSERT INTO held VALUES (1);", "partial", "dirty"),
        (NONE + "INSERT INTO held VALUES (1); SELECT 1;", "failed", "pending"),
        (NONE + "CREATE TABLE t (a int); CREATE INDEX CONCURRENTLY held_i ON held (a);",
         "unknown", "dirty"),
    ],
)  # fmt: skip
def test_a_session_that_dies_leaves_what_its_rows_say(
    database: Database, text: str, state: str, verdict: str
) -> None:
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        mine.run("CREATE TABLE public.held (a int)")
    directory = directory_of(v1_a=text)
    killed_at(database, directory, "%held%")
    with session(database.url(), locked=True) as mine:
        rows = revisions.rows(mine, "default")
        assert [row.state for row in rows] == ["running"]
        settled = [history.settled(row, postgresql=True) for row in rows]
        judged = history.judge(directory, rows)
        assert [row.state for row in settled] == [state]
        assert judged.verdict == verdict
        made = mine.query("SELECT pg_catalog.to_regclass('public.t') IS NOT NULL")[0][0]
        assert made == (settled[0].applied > 0)
        assert mine.query("SELECT count(*) FROM public.held") == [(0,)]
        if state == "failed":
            assert run(mine, directory) == len(directory.migrations[0].statements)
        elif state == "partial":
            run_ = migrating.Run(attempt_of(directory), 3.0)
            assert migrating.resume(mine, directory.migrations[0], run_, rows[0].applied) == 1
            assert mine.query("SELECT count(*) FROM public.held") == [(1,)]


def test_the_ledgers_marks_go_with_the_work(database: Database) -> None:
    marks: list[tuple[str, int]] = []
    directory = directory_of(
        v1_a="CREATE TABLE t (a int);", v2_b=NONE + "SELECT 1; VACUUM t; SELECT 2;"
    )
    with session(database.url(), locked=True) as mine:
        prepare(mine)
        run_ = migrating.Run(
            attempt_of(directory), 3.0,
            intend=lambda n: marks.append(("intend", n)), done=lambda n: marks.append(("done", n)),
        )  # fmt: skip
        assert migrating.run(mine, directory.migrations, run_) == 4
        assert dataclasses.astuple(run_.attempt)[0] == "default"
    assert marks == [("done", 1), ("done", 2), ("intend", 3), ("done", 3), ("done", 4)]
