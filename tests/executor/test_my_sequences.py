"""What only MySQL and MariaDB ask of a run: statements that commit by themselves, tables without
transactions, table locks, and a session that nothing may reset."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import types
from collections.abc import Callable
from typing import Any

import pytest

from ptahk.errors import Refused
from ptahk.executor.budget import ConnectionLost
from ptahk.executor.dialects.mysql import ledger, marking, migrating, revisions, sequences
from ptahk.executor.filerun import Run
from ptahk.migrations import history
from ptahk.migrations.reading import statement_digest
from ptahk.wire.jobspec import JobSpec
from tests.kit.databases import unique
from tests.kit.sequences import Sequences
from tests.kit.sessions import apply_spec
from tests.kit.targets import Target
from tests.kit.waiting import until

pytestmark = pytest.mark.needs("implicit-commit")


@pytest.fixture
def bed(target: Target) -> Sequences:
    return Sequences(target)


def count(bed: Sequences, table: str = "t") -> int:
    return int(bed.target.rows(f"SELECT count(*) FROM {table}")[0][0])


def test_what_an_error_of_several_objects_proves_is_what_the_database_shows(bed: Sequences) -> None:
    """MySQL's DDL is atomic over all of them, MariaDB's is not."""
    mariadb = bed.engine == "mariadb"
    for version, (make, statement, gone) in enumerate(
        [
            ("CREATE TABLE a (a int)", "DROP TABLE a, missing", "a"),
            ("CREATE VIEW w AS SELECT 1", "DROP VIEW w, missing", "w"),
        ],
        start=1,
    ):
        directory = bed.directory(**{f"v{version}_x": f"{make}; {statement};"})
        with bed.session() as mine:
            failed = bed.fails(mine, directory)
            there = bed.target.has_table(gone)
            state, applied, running = bed.states(mine)[-1][1:]
            if mariadb:
                assert (failed.state, state, applied, running, there) == (
                    "unknown", "unknown", 1, 2, False,
                )  # fmt: skip
            else:
                assert (state, applied, running, there) == ("partial", 1, None, True)


def test_accounts_that_one_statement_makes(bed: Sequences) -> None:
    old, new = unique("u")[-30:], unique("u")[-30:]
    directory = bed.directory(v1_a=f"CREATE USER {new}, {old};")
    try:
        bed.target.run(f"CREATE USER {old}")
        with bed.session() as mine:
            state = bed.fails(mine, directory).state
        made = bool(bed.target.rows(f"SELECT 1 FROM mysql.user WHERE user = '{new}'"))
        expected = ("unknown", True) if bed.engine == "mariadb" else ("failed", False)
        assert (state, made) == expected
    finally:
        bed.target.run(f"DROP USER IF EXISTS {old}, {new}")


def test_one_object_is_all_or_nothing(bed: Sequences) -> None:
    for statement in (
        "CREATE TABLE t (b int)",
        "ALTER TABLE t ADD c int, ADD c int",
        "ALTER TABLE t MODIFY a int NOT NULL, ADD UNIQUE (a)",
        "DROP TABLE missing",
        "CREATE TABLE u AS SELECT 1 AS b UNION SELECT nosuch",
        "CREATE VIEW v AS SELECT nosuch",
        "RENAME TABLE t TO mysql.user",
        "TRUNCATE TABLE missing",
        "GRANT SELECT ON t TO nobody_here",
        "ANALYZE LOCAL TABLE",
    ):
        with bed.session() as mine:
            bed.empty(mine)
            text = f"CREATE TABLE t (a int); INSERT INTO t VALUES (1), (1); {statement};"
            before = bed.directory(v1_a="CREATE TABLE t (a int);")
            bed.run(mine, before)
            schema = bed.schema(mine)
            bed.empty(mine)
            assert bed.fails(mine, bed.directory(v1_a=text)).state == "partial", statement
            assert bed.states(mine) == [("1", "partial", 2, None)], statement
            assert (bed.schema(mine), count(bed)) == (schema, 2), statement


def test_or_replace_is_in_doubt_where_it_may_lose_the_table(bed: Sequences) -> None:
    if bed.engine != "mariadb":
        return  # the other make has no such statement
    text = "CREATE TABLE t (a int); CREATE OR REPLACE TABLE t AS SELECT nosuch AS a;"
    with bed.session() as mine:
        assert bed.fails(mine, bed.directory(v1_a=text)).state == "unknown"
        assert bed.states(mine) == [("1", "unknown", 1, 2)]


def test_a_table_without_transactions_is_in_doubt_when_a_statement_fails(bed: Sequences) -> None:
    make = "CREATE TABLE m (a int PRIMARY KEY) ENGINE=MyISAM;"
    fill = "INSERT INTO m VALUES (1), (2), (1);"
    for texts, expected in (
        ({"v1_a": make + fill}, ("1", "unknown", 1, 2)),
        ({"v1_a": make, "v2_b": fill}, ("2", "unknown", 0, 1)),
        ({"v1_a": make, "v2_b": "SELECT 1; " + fill}, ("2", "unknown", 1, 2)),
        ({"v1_a": make + f"BEGIN; INSERT INTO m VALUES (9); {fill} COMMIT;"},
         ("1", "unknown", 1, 4)),
        ({"v1_a": make, "v2_b": "SELECT nosuch;"}, ("2", "unknown", 0, 1)),
        ({"v1_a": make, "v2_b": "SELECT FROM;"}, ("2", "failed", 0, None)),
    ):  # fmt: skip
        with bed.session() as mine:
            bed.empty(mine)
            bed.fails(mine, bed.directory(**texts))
            assert bed.states(mine)[-1] == expected, texts
            kept = count(bed, "m")
            assert kept == (0 if "SELECT FROM" in str(texts) or "nosuch" in str(texts) else kept)


def test_a_rollback_that_kept_something_is_in_doubt(bed: Sequences) -> None:
    """Of another database, which nobody looks at beforehand."""
    other = unique("other")
    bed.target.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.m (a int) ENGINE=MyISAM")
    try:
        text = f"INSERT INTO {other}.m VALUES (1); SELECT nosuch;"
        with bed.session() as mine:
            assert bed.fails(mine, bed.directory(v1_a=text)).state == "unknown"
            assert bed.states(mine) == [("1", "unknown", 0, 2)]
            assert count(bed, f"{other}.m") == 1
    finally:
        bed.target.run(f"DROP DATABASE {other}")


LOCKED = (
    "CREATE TABLE t (a int); LOCK TABLES t WRITE; INSERT INTO t VALUES (1);"
    " ALTER TABLE t ADD b int;"
    " {}; UNLOCK TABLES; INSERT INTO t (a) VALUES (9);"
)


def test_table_locks_are_one_unit_and_a_resume_takes_them_again(bed: Sequences) -> None:
    with bed.session() as mine:
        bed.fails(mine, bed.directory(v1_a=LOCKED.format("ALTER TABLE t ADD b int")))
        assert bed.states(mine) == [("1", "partial", 4, None)]
        assert count(bed) == 1
        good = bed.directory(v1_a=LOCKED.format("INSERT INTO t VALUES (2, 2)"))
        assert bed.resume(mine, good, 4) == 3
        assert bed.states(mine) == [("1", "applied", 7, None)]
        assert count(bed) == 3


def test_a_lock_alone_is_no_effect(bed: Sequences) -> None:
    text = "CREATE TABLE t (a int); LOCK TABLES t WRITE; SELECT nosuch FROM t; UNLOCK TABLES;"
    with bed.session() as mine:
        bed.fails(mine, bed.directory(v1_a=text))
        assert bed.states(mine) == [("1", "partial", 1, None)]
        assert bed.resume(mine, bed.directory(v1_a=text.replace("nosuch", "a")), 1) == 3


def test_every_file_starts_from_one_session_state_and_the_lock_stays(bed: Sequences) -> None:
    asked = (
        "SELECT @@sql_mode, @@time_zone, @@foreign_key_checks, @@unique_checks, @@sql_safe_updates,"
        " @@character_set_client, @@collation_connection, @@autocommit, @@sort_buffer_size,"
        " @@transaction_isolation, @a, DATABASE(), CURRENT_ROLE()"
    )
    if bed.engine == "mariadb":
        asked = asked.replace("@@transaction_isolation", "@@tx_isolation")
    directory = bed.directory(
        v1_a="SET sql_mode = '', time_zone = '+03:00', foreign_key_checks = 0, unique_checks = 0;"
        " SET @a = 1, sql_safe_updates = 1, sort_buffer_size = 65536, @@timestamp = 5;"
        " SET character_set_client = utf8mb3, collation_connection = utf8mb4_bin;"
        " SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE;"
        " PREPARE q FROM 'SELECT 1'; CREATE TEMPORARY TABLE x (a int);",
        v2_b="CREATE TABLE x (a int, b timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP);"
        " INSERT INTO x (a) SELECT coalesce(@a, 3);",
    )
    with bed.session() as mine:
        before = mine.query(asked)
        bed.run(mine, directory)
        assert mine.query(asked) == before
        mine.check_still_mine()
        assert mine.locked
        assert [row[1] for row in bed.states(mine)] == ["applied", "applied"]
        assert bed.target.rows("SELECT a, b > '2020-01-01' FROM x") == [(3, 1)]
        with pytest.raises(Exception, match="prepared statement"):
            mine.run("EXECUTE q")


def test_a_mode_that_the_text_does_not_show_ends_the_file(bed: Sequences) -> None:
    text = "CREATE TABLE t (a int); SET sql_mode = concat('AN', 'SI'); SELECT 1;"
    with bed.session() as mine:
        before = mine.query("SELECT @@sql_mode")
        failed = bed.fails(mine, bed.directory(v1_a=text))
        assert "ANSI_QUOTES" in failed.message
        assert bed.states(mine) == [("1", "partial", 1, None)]
        assert mine.query("SELECT @@sql_mode") == before


def test_a_character_set_that_the_text_does_not_show_ends_the_file(bed: Sequences) -> None:
    """Text after it would be read as another."""
    text = "CREATE TABLE t{} (a int); SET @c = '{}'; SET {} = @c; INSERT INTO t VALUES (1);"
    cases = (
        ("character_set_client", "latin1"),
        ("character_set_results", "latin1"),
        ("character_set_results", "binary"),
        ("character_set_results", "utf16"),
    )
    for number, (name, value) in enumerate(cases, start=1):
        directory = bed.directory(**{f"v{number}_a": text.format(number, value, name)})
        with bed.session() as mine:
            failed = bed.fails(mine, directory)
            assert failed.state == "partial" and f"{name} {value}" in failed.message
            assert mine.query(f"SELECT @@{name}") == (("utf8mb4",),)
            assert bed.states(mine)[-1][1] == "partial"


def test_foreign_key_checks_are_the_specs(bed: Sequences) -> None:
    directory = bed.directory(
        v1_a="CREATE TABLE c (a int, FOREIGN KEY (a) REFERENCES p (a));",
        v2_b="SET foreign_key_checks = 1; SELECT 1;",
        v3_c="INSERT INTO c VALUES (5);",
    )
    with bed.session() as mine:
        assert bed.fails(mine, directory).state == "failed"
        assert bed.run(mine, directory, foreign_key_checks=False) == 4
        assert [row[1] for row in bed.states(mine)] == ["applied"] * 3
        assert mine.query("SELECT @@foreign_key_checks")[0][0] == 1


def test_what_the_other_make_alone_reads_is_no_statement_here(bed: Sequences) -> None:
    text = "/*M!100100 SET @a = 1 */; /*!80000 SET @b = 1 */; SELECT 1;"
    with bed.session() as mine:
        assert bed.run(mine, bed.directory(v1_a=text)) == 3
        assert bed.states(mine) == [("1", "applied", 3, None)]


def test_a_statements_own_timeout_ends_it(bed: Sequences) -> None:
    text = "-- ptahk:statement-timeout 1s\nCREATE TABLE t (a int); SELECT 1; {};"
    with bed.session() as mine:
        slow = text.format("UPDATE t SET a = 1 WHERE sleep(20) = 0 OR a = 1")
        bed.run(mine, bed.directory(v1_a=text.format("INSERT INTO t VALUES (1)")))
        failed = bed.fails(
            mine, bed.directory(v2_b=slow.replace("CREATE TABLE t (a int)", "SELECT 2"))
        )
        assert "interrupted" in failed.message.lower()
        assert bed.states(mine)[-1] == ("2", "failed", 0, None)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE {0}; CREATE TABLE {0} (a int) ENGINE=MyISAM",
        "DROP TABLE {0}; CREATE TABLE {0} (a int PRIMARY KEY)",
        "ALTER TABLE {0} DROP PRIMARY KEY",
        "ALTER TABLE {0} DROP COLUMN error",
        "ALTER TABLE {0} MODIFY version varchar(4) NOT NULL",
        "RENAME TABLE {0} TO other; CREATE VIEW {0} AS SELECT * FROM other",
        "CREATE TRIGGER trap BEFORE INSERT ON {0} FOR EACH ROW SET NEW.state = 'applied'",
    ],
)
def test_a_table_of_somebody_elses_is_not_trusted(bed: Sequences, change: str) -> None:
    with bed.session() as mine:
        for text in change.format("ptahk_revisions").split("; "):
            mine.run(text)
        with pytest.raises(Refused) as refused:
            bed.rows(mine)
        assert refused.value.reason == "LedgerUntrusted"
        assert "ptahk_revisions" in refused.value.message


def test_ptahks_tables_are_no_part_of_a_schema(bed: Sequences) -> None:
    from ptahk.executor.dialects.mysql.inspecting import read_live
    from ptahk.executor.dialects.mysql.reading import excluded

    with bed.session() as mine:
        spec = apply_spec(engine="mysql")
        assert "ptahk_revisions" in excluded(spec)
        assert read_live(mine, spec).objects == {}


# With the ledger, a statement that commits by itself is settled by its own row.


def begun(mine: Any) -> JobSpec:
    spec = apply_spec(engine="mysql", server_identity=str(mine.identity))
    ledger.begin(mine, spec, secrets.token_hex(16), 9)
    return spec


def run_of(
    bed: Sequences, mine: Any, directory: Any, spec: JobSpec, lock_timeout_s: float = 3.0
) -> Run:
    attempt = revisions.Attempt(
        "default", spec.operation_id, 1, "sha256:" + "0" * 64, directory.format
    )
    run_ = Run(attempt, lock_timeout_s)
    return marking.with_marks(run_, mine, spec, directory.migrations)


def statements(bed: Sequences) -> list[tuple[Any, ...]]:
    return bed.target.rows("SELECT number, state, object FROM ptahk_statement ORDER BY number")


def test_the_ledger_has_a_row_for_what_commits_by_itself(bed: Sequences) -> None:
    directory = bed.directory(
        v1_a="CREATE TABLE t (a int); SELECT 1;", v2_b="INSERT INTO t VALUES (1); ALTER TABLE t"
        " ADD b int; ALTER TABLE t ADD b int;",
    )  # fmt: skip
    with bed.session() as mine:
        spec = begun(mine)
        with pytest.raises(migrating.MigrationFailed):
            migrating.run(mine, directory.migrations, run_of(bed, mine, directory, spec))
        assert statements(bed) == [
            (1, "done", "table t"), (4, "done", "table t"), (5, "none", "table t"),
        ]  # fmt: skip
        row = ledger.row_of(mine, spec.operation_id)
        assert row is not None
        assert (row["statementsDone"], row["statementRunning"]) == (4, None)
        assert bed.states(mine)[-1] == ("2", "partial", 2, None)


CASES = [
    ("CREATE TABLE t (a int); ALTER TABLE held ADD b int; SELECT 1;", "partial", 1),
    ("ALTER TABLE held ADD b int; SELECT 1;", "failed", 0),
    ("CREATE TABLE t (a int); TRUNCATE TABLE held; SELECT 1;", "unknown", 1),
]


@pytest.mark.parametrize(("text", "state", "applied"), CASES)
def test_a_statement_that_never_got_its_lock_took_no_effect(
    bed: Sequences, text: str, state: str, applied: int
) -> None:
    bed.target.run("CREATE TABLE held (a int)")
    directory = bed.directory(v1_a=text)
    with bed.session() as mine, bed.killed_while_waiting("held"):
        run_ = run_of(bed, mine, directory, begun(mine), lock_timeout_s=50.0)
        with pytest.raises(ConnectionLost):
            migrating.run(mine, directory.migrations, run_)
    with bed.session() as mine:
        settled = history.settled(bed.rows(mine)[0], postgresql=False)
        assert (settled.state, settled.applied) == (state, applied)
        if state == "partial":
            assert bed.resume(mine, directory, 1) == 2
            assert bed.states(mine) == [("1", "applied", 3, None)]
            assert bed.target.has_column("held", "b")


@contextlib.contextmanager
def dying(bed: Sequences, run_: Run, number: int, kind: str) -> Any:
    """A run whose session is ended by the server as it writes the word on a statement."""
    given: Callable[[int], None] = getattr(run_, kind)

    def die(at: int) -> None:
        given(at)
        if at == number:
            idle = (
                "SELECT id FROM information_schema.processlist WHERE db = "
                f"'{bed.target.database.name}' AND command = 'Sleep'"
            )
            # The server says so a moment after it has answered.
            bed.target.kill(int(until(lambda: bed.target.rows(idle), "an idle session")[0][0]))

    yield dataclasses.replace(run_, **{kind: die})


@pytest.mark.parametrize(
    ("text", "number", "kind", "expected"),
    [
        # Done, and nobody wrote it.
        ("CREATE TABLE t (a int); SELECT 1;", 1, "done", ("partial", 1)),
        ("CREATE TABLE t (a int); DROP TABLE t; SELECT 1;", 2, "done", ("partial", 2)),
        ("SELECT 1; CREATE TABLE t (a int); ALTER TABLE t ADD b int;", 3, "done", ("applied", 3)),
        # Data goes with its progress.
        ("CREATE TABLE t (a int); INSERT INTO t VALUES (1);", 2, "done", ("partial", 1)),
        # Not even begun.
        ("CREATE TABLE t (a int); ALTER TABLE t ADD b int;", 2, "intend", ("partial", 1)),
        ("CREATE TABLE t (a int); SELECT 1;", 1, "intend", ("failed", 0)),
        # Nothing tells.
        ("CREATE TABLE t (a int); TRUNCATE TABLE t; SELECT 1;", 2, "done", ("unknown", 1)),
    ],
)
def test_a_session_that_dies_beside_a_statement_is_settled_by_the_ledger(
    bed: Sequences, text: str, number: int, kind: str, expected: tuple[str, int]
) -> None:
    directory = bed.directory(v1_a=text)
    with bed.session() as mine:
        run_ = run_of(bed, mine, directory, begun(mine))
        with dying(bed, run_, number, kind) as dies, pytest.raises(ConnectionLost):
            migrating.run(mine, directory.migrations, dies)
    with bed.session() as mine:
        (row,) = bed.rows(mine)
        settled = history.settled(row, postgresql=False)
        assert (settled.state, settled.applied) == expected
        if expected[0] == "unknown":
            return
        total = len(directory.migrations[0].statements)
        if expected[0] == "failed":
            assert bed.run(mine, directory) == total
        elif expected[0] == "applied":  # only the last mark is missing, which its proof writes
            assert bed.states(mine)[0][1:3] == ("running", total)
            return
        else:
            assert bed.resume(mine, directory, expected[1]) == total - expected[1]
        assert bed.states(mine) == [("1", "applied", total, None)]
        if "INSERT" in text:
            assert count(bed) == 1


def test_a_stop_between_mark_and_statement_leaves_no_doubt(bed: Sequences) -> None:
    from ptahk.executor.budget import Stopped

    directory = bed.directory(v1_a="CREATE TABLE t (a int); TRUNCATE TABLE t;")
    with bed.session() as mine:
        run_ = run_of(bed, mine, directory, begun(mine))

        def stop(number: int) -> None:
            intend(number)
            if number == 2:
                mine.budget._stop.set()

        intend = run_.intend
        with pytest.raises(Stopped):
            migrating.run(mine, directory.migrations, dataclasses.replace(run_, intend=stop))
        (row,) = bed.rows(mine)
        assert (row.state, row.applied, row.running) == ("running", 1, None)
        assert statements(bed)[-1] == (2, "none", "")


# What the operations of a migration ask of the engine.


class MigrationSpec:
    """A spec with the part that is a migration's."""

    def __init__(self, mine: Any) -> None:
        self.spec = apply_spec(engine="mysql", server_identity=str(mine.identity))
        self.migration = types.SimpleNamespace(
            stream="default", sequence_digest="sha256:" + "1" * 64, foreign_key_checks=True
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spec, name)


def test_an_operation_runs_records_and_finishes(bed: Sequences) -> None:
    directory = bed.directory(
        **{"v5_all.checkpoint": "CREATE TABLE t (a int); SELECT 1;", "v6_b": "SELECT 2;"}
    )
    covered = [
        {
            "version": str(version), "kind": "covered", "state": "applied", "file": f"{version}",
            "description": "", "checksum": None, "tokenDigest": None, "rawDigest": None,
            "txMode": "file", "total": 3, "applied": 3, "note": None, "append": [],
        }
        for version in (1, 2)
    ]  # fmt: skip
    with bed.session() as mine:
        assert not sequences.occupied(mine)
        assert not sequences.any_stream(mine)
        spec = MigrationSpec(mine)
        sequences.admit(mine, spec)
        out: dict[str, Any] = {"notes": [], "statementsDone": 0}
        sequences.start(mine, spec, secrets.token_hex(16), 3, out)
        sequences.run(mine, spec, directory.format, directory.migrations, 0, covered)
        sequences.finish(mine, spec, 3)
        row = sequences.row_of(mine, spec)
        assert (row["state"], row["outcome"], row["statementsDone"]) == ("finished", "applied", 3)
        assert [(row.version, row.kind, row.state) for row in sequences.rows(mine, "default")] == [
            ("5", "executed", "applied"), ("1", "covered", "applied"), ("2", "covered", "applied"),
            ("6", "executed", "applied"),
        ]  # fmt: skip
        entry = sequences.entries(mine, "default")[0]
        assert (entry["version"], entry["verified"], entry["total"]) == ("5", True, 2)
        assert entry["startedAt"].endswith("Z")
        assert entry["finishedAt"] >= entry["startedAt"]
        assert sequences.occupied(mine)
        assert sequences.any_stream(mine)
        with pytest.raises(Refused):
            sequences.admit(mine, spec)


def test_a_persons_word_is_a_row(bed: Sequences) -> None:
    """Applied: the digest that a resume compares goes with it."""
    text = (
        "CREATE TABLE t (a int); CREATE PROCEDURE p() SIGNAL SQLSTATE '45000'; CALL p(); SELECT 1;"
    )
    directory = bed.directory(v1_a=text)
    (migration,) = directory.migrations
    with bed.session() as mine:
        bed.fails(mine, directory)
        assert bed.states(mine) == [("1", "unknown", 2, 3)]
        spec = MigrationSpec(mine)
        out: dict[str, Any] = {"notes": [], "statementsDone": 0}
        sequences.start(mine, spec, secrets.token_hex(16), 1, out)
        given = {
            "version": "1", "kind": "executed", "state": "partial", "file": "1_a.sql",
            "description": "a", "checksum": migration.checksum,
            "tokenDigest": migration.token_digest, "rawDigest": migration.raw_digest,
            "txMode": "none", "total": 4, "applied": 3, "note": "seen by me",
            "append": [statement_digest(migration.statements[2])],
        }  # fmt: skip
        sequences.record(mine, spec, directory.format, [given])
        assert bed.states(mine) == [("1", "partial", 3, None)]
        assert bed.resume(mine, directory, 3) == 1
        assert bed.states(mine) == [("1", "applied", 4, None)]
