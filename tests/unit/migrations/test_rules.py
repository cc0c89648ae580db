"""How a file runs, and what in it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptahk.migrations import findings, rules


def judged(directory: Any, text: str, engine: str = "postgresql", **options: Any) -> Any:
    return directory({"1_a.sql": text}, engine, **options)


def numbers(found: Any) -> list[str]:
    return [finding.number for finding in found.findings]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)",
        "DROP INDEX CONCURRENTLY i",
        "REINDEX INDEX CONCURRENTLY i",
        "REINDEX (VERBOSE) DATABASE d",
        "REINDEX SCHEMA s",
        "VACUUM t",
        "CLUSTER VERBOSE",
        "ALTER TABLE t DETACH PARTITION p CONCURRENTLY",
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
        "ALTER DATABASE d SET TABLESPACE x",
        "CREATE TABLESPACE x LOCATION '/x'",
    ],
)
def test_statements_that_cannot_run_in_a_transaction(directory: Any, statement: str) -> None:
    alone = judged(directory, statement)
    assert [each.tx_mode for each in alone.required().migrations] == ["none"]
    together = judged(directory, f"SELECT 1;\n{statement};")
    (finding,) = together.findings
    assert (finding.number, finding.where, finding.statement) == ("MG401", "1_a.sql:2:1", 2)
    assert "ptahk:txmode none" in (finding.hint or "")
    told = judged(directory, f"-- ptahk:txmode none\nSELECT 1;\n{statement};").required()
    kinds = rules.units(told.migrations[0].statements, "none", "postgresql")
    assert [unit.kind for unit in kinds] == ["plain", "alone"]


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE INDEX "CONCURRENTLY" ON t (a)',
        "CLUSTER t USING i",
        "REINDEX TABLE t",
        "REINDEX (CONCURRENTLY false) TABLE t",
        "DISCARD TEMP",
        "ALTER TABLE t DETACH PARTITION p",
    ],
)
def test_statements_that_can(directory: Any, statement: str) -> None:
    assert judged(directory, f"SELECT 1; {statement};").findings == ()


@pytest.mark.parametrize(
    ("statement", "number", "engine"),
    [
        ("SELECT pg_advisory_unlock_all()", "MG403", "postgresql"),
        ("SELECT pg_catalog.pg_terminate_backend(1)", "MG403", "postgresql"),
        ("DISCARD ALL", "MG403", "postgresql"),
        ("CREATE DATABASE d", "MG404", "postgresql"),
        ("ALTER SYSTEM SET x = 1", "MG405", "postgresql"),
        ("SET session_replication_role = replica", "MG406", "postgresql"),
        ("SELECT set_config('session_replication_role', 'replica', false)", "MG406", "postgresql"),
        ("SET default_transaction_read_only = on", "MG406", "postgresql"),
        ("SET TRANSACTION READ ONLY", "MG406", "postgresql"),
        ("SET standard_conforming_strings = off", "MG409", "postgresql"),
        ("COPY t FROM '/tmp/x'", "MG407", "postgresql"),
        ("COPY (SELECT 1) TO PROGRAM 'sh'", "MG407", "postgresql"),
        ("DROP TABLE ptahk.revisions", "MG408", "postgresql"),
        ('DROP SCHEMA "ptahk" CASCADE', "MG408", "postgresql"),
        ("DROP SCHEMA IF EXISTS a, ptahk CASCADE", "MG408", "postgresql"),
        ("WITH x AS (DELETE FROM ptahk.revisions RETURNING 1) SELECT 1", "MG408", "postgresql"),
        ("EXPLAIN ANALYZE UPDATE ptahk.attempt SET number = 1", "MG408", "postgresql"),
        ("SELECT * INTO ptahk.more FROM t", "MG408", "postgresql"),
        ("PREPARE p AS DELETE FROM ptahk.revisions", "MG408", "postgresql"),
        ("SET transaction_read_only = on", "MG406", "postgresql"),
        ("BEGIN READ ONLY", "MG406", "postgresql"),
        ("BEGIN", "MG402", "postgresql"),
        ("ROLLBACK", "MG402", "postgresql"),
        ("PREPARE TRANSACTION 'x'", "MG402", "postgresql"),
        ("SELECT RELEASE_ALL_LOCKS()", "MG403", "mysql"),
        ("KILL 5", "MG403", "mysql"),
        ("USE other", "MG404", "mysql"),
        ("DROP SCHEMA other", "MG404", "mysql"),
        ("SET GLOBAL x = 1", "MG405", "mysql"),
        ("SET @@GLOBAL.x = 1", "MG405", "mysql"),
        ("SET @a = 1, @@PERSIST.x = 1", "MG405", "mysql"),
        ("SET @@sql_log_bin = 0", "MG406", "mysql"),
        ("SET `sql_log_bin` = 0", "MG406", "mysql"),
        ("INSTALL PLUGIN p SONAME 'x'", "MG405", "mysql"),
        ("SET sql_log_bin = 0", "MG406", "mysql"),
        ("FLUSH TABLES WITH READ LOCK", "MG406", "mysql"),
        ("LOAD DATA INFILE 'x' INTO TABLE t", "MG407", "mysql"),
        ("DROP TABLE ptahk_revisions", "MG408", "mysql"),
        ("SET sql_mode = 'ANSI_QUOTES'", "MG409", "mysql"),
        ("/*!40101 SET NAMES latin1 */", "MG409", "mysql"),
        ("SET CHARACTER SET latin1", "MG409", "mysql"),
        ("SET @a = 1, NAMES latin1", "MG409", "mysql"),
        ("SET character_set_client = gbk", "MG409", "mysql"),
        ("SET @@SESSION.`character_set_client` := 'latin1'", "MG409", "mysql"),
        ("SET @a = 1, SESSION character_set_results = latin1", "MG409", "mysql"),
        ("XA START 'x'", "MG402", "mysql"),
        ("START TRANSACTION READ ONLY", "MG406", "mysql"),
        ("FLUSH NO_WRITE_TO_BINLOG TABLES WITH READ LOCK", "MG406", "mysql"),
        ("FLUSH TABLES t, u WITH READ LOCK", "MG406", "mysql"),
        ("FLUSH TABLES t FOR EXPORT", "MG406", "mysql"),
        ("SELECT a FROM t INTO OUTFILE '/tmp/x'", "MG407", "mysql"),
        ("SELECT 1 INTO DUMPFILE '/tmp/x'", "MG407", "mysql"),
        ("FLUSH TABLES WITH READ LOCK AND DISABLE CHECKPOINT", "MG406", "mariadb"),
        ("SET character_set_results = binary", "MG409", "mysql"),
        ("SET @a = (1), @@SESSION.character_set_results = latin1", "MG409", "mysql"),
        (
            "SET STATEMENT max_statement_time = 9 FOR UPDATE ptahk_attempt SET epoch = 1",
            "MG408",
            "mariadb",
        ),
        ("SET STATEMENT max_statement_time = 9 FOR DROP TABLE ptahk_revisions", "MG408", "mariadb"),
        ("SET STATEMENT lock_wait_timeout = 9 FOR FLUSH TABLES WITH READ LOCK", "MG406", "mariadb"),
        ("SET STATEMENT lock_wait_timeout = 9 FOR DROP DATABASE other", "MG404", "mariadb"),
        ("SET STATEMENT lock_wait_timeout = 9 FOR SHUTDOWN", "MG403", "mariadb"),
        ("SET STATEMENT lock_wait_timeout = 9 FOR COMMIT", "MG402", "mariadb"),
        ("SET STATEMENT lock_wait_timeout = 9 FOR LOCK TABLES t WRITE", "MG402", "mariadb"),
        ("SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT 1", "MG409", "mariadb"),
        ("SHUTDOWN", "MG403", "mysql"),
        ("RESTART", "MG403", "mysql"),
        ("WITH x AS (SELECT 1) DELETE FROM ptahk_attempt", "MG408", "mysql"),
        ("ANALYZE DELETE FROM ptahk_attempt", "MG408", "mariadb"),
        ("LOAD DATA INFILE 'x' INTO TABLE ptahk_revisions", "MG408", "mysql"),
    ],
)
def test_what_may_not_run(directory: Any, statement: str, number: str, engine: str) -> None:
    found = judged(directory, f"SELECT 1;\n {statement};\nSELECT 2;", engine)
    finding = next(each for each in found.findings if each.number == number)
    assert (finding.line, finding.statement) == (2, 2)
    assert finding.hint


@pytest.mark.parametrize(
    ("statement", "engine"),
    [
        ("SAVEPOINT s; ROLLBACK TO SAVEPOINT s; RELEASE s", "postgresql"),
        ("SELECT 'pg_advisory_unlock'", "postgresql"),
        ("COMMENT ON TABLE t IS 'BEGIN; COMMIT'", "postgresql"),
        ("SELECT * FROM ptahk.revisions", "postgresql"),
        ("CREATE TABLE ptahk (a int)", "postgresql"),
        ("COPY t FROM stdin;\n1\n\\.\nSELECT 1", "postgresql"),
        ("SELECT * FROM ptahk.revisions FOR UPDATE", "postgresql"),
        ("ALTER TABLE ptahk SET SCHEMA other", "postgresql"),
        ("ALTER SCHEMA app OWNER TO ptahk", "postgresql"),
        ("SET @q = (SELECT CONCAT(id, names) FROM t LIMIT 1)", "mysql"),
        (
            "SET @q = (SELECT COUNT(*) FROM a, names), @x = (@@character_set_client = 'latin1')",
            "mysql",
        ),
        ("INSERT INTO dumpfile VALUES (1)", "mysql"),
        ("SET STATEMENT max_statement_time = (SELECT 9) FOR UPDATE t SET a = 1", "mariadb"),
        ("SET NAMES utf8mb4", "mysql"),
        ("SET @s = @@character_set_client, character_set_client = utf8", "mysql"),
        ("SET character_set_client = @s, character_set_results = NULL", "mysql"),
        ("SELECT replace(a, 'x', 'y'), insert(a, 1, 2, 'z') FROM ptahk_attempt", "mysql"),
        ("SELECT number INTO @n FROM ptahk_attempt", "mysql"),
        ("FLUSH TABLES t", "mysql"),
        ("SET sql_mode = 'STRICT_ALL_TABLES'", "mysql"),
        ("CREATE TABLE a (b int)", "mysql"),
    ],
)
def test_what_may(directory: Any, statement: str, engine: str) -> None:
    assert judged(directory, statement, engine).findings == ()


def test_a_block_of_mariadb_is_looked_into(directory: Any) -> None:
    text = "-- ptahk:delimiter //\nBEGIN NOT ATOMIC DROP TABLE ptahk_attempt; END//"
    assert "MG408" in numbers(judged(directory, text, "mariadb"))


def test_a_definition_with_settings_of_its_own_commits_by_itself(directory: Any) -> None:
    text = "SET STATEMENT max_statement_time = 9 FOR {}; SELECT 1"
    for statement, mode in (("CREATE TABLE t (a int)", "none"), ("UPDATE t SET a = 1", "file")):
        found = judged(directory, text.format(statement), "mariadb").required()
        assert found.migrations[0].tx_mode == mode


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("database", "CREATE DATABASE d"),
        ("global", "ALTER SYSTEM SET x = 1"),
        ("replication-role", "SET session_replication_role = replica"),
        ("program", "COPY t FROM PROGRAM 'x'"),
        ("program", "SELECT 1 INTO OUTFILE '/tmp/x'"),
    ],
)
def test_a_header_allows_what_cannot_break_the_record(
    directory: Any, name: str, statement: str
) -> None:
    engine = "mysql" if "OUTFILE" in statement else "postgresql"
    (refused,) = judged(directory, statement, engine).findings
    assert f"-- ptahk:allow {name}" in (refused.hint or "")
    assert judged(directory, f"-- ptahk:allow {name}\n{statement}", engine).findings == ()


def test_a_wrapper_is_taken_off_and_told(directory: Any) -> None:
    found = judged(directory, "BEGIN;\nSELECT 1;\nCOMMIT;")
    assert numbers(found) == ["MG412"]
    (one,) = found.required().migrations
    assert (one.wrapped, [each.text for each in one.statements]) == (True, ["SELECT 1"])
    assert numbers(judged(directory, "BEGIN; SELECT 1; COMMIT; SELECT 2")) == ["MG402", "MG402"]


def test_units_of_a_file_without_a_transaction(directory: Any) -> None:
    text = "-- ptahk:txmode none\nSELECT 1; BEGIN; SELECT 2; SELECT 3; COMMIT; DO 'x'; SELECT 4"
    (one,) = judged(directory, text).required().migrations
    found = rules.units(one.statements, one.tx_mode, "postgresql")
    assert [(unit.kind, unit.first, unit.last) for unit in found] == [
        ("plain", 1, 1), ("transaction", 2, 5), ("alone", 6, 6), ("plain", 7, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("BEGIN; SELECT 1", "MG411"),
        ("SELECT 1; COMMIT; SELECT 2", "MG402"),
        ("SELECT 0; BEGIN; ROLLBACK; COMMIT", "MG402"),
        ("SELECT 0; BEGIN; VACUUM; COMMIT", "MG401"),
    ],
)
def test_pairs_that_do_not_close(directory: Any, text: str, number: str) -> None:
    assert number in numbers(judged(directory, f"-- ptahk:txmode none\n{text}"))


def test_the_mysql_family_runs_data_as_one_transaction_and_ddl_alone(directory: Any) -> None:
    for engine in ("mysql", "mariadb"):
        data = judged(directory, "INSERT INTO t VALUES (1); UPDATE t SET a = 2", engine)
        assert data.required().migrations[0].tx_mode == "file"
        ddl = judged(directory, "INSERT INTO t VALUES (1); ALTER TABLE t ADD b INT", engine)
        (one,) = ddl.required().migrations
        units = rules.units(one.statements, one.tx_mode, "mysql")
        assert (one.tx_mode, [unit.kind for unit in units]) == ("none", ["plain", "alone"])
        told = "-- ptahk:txmode file\nALTER TABLE t ADD b INT; SELECT 1"
        assert numbers(judged(directory, told, engine)) == ["MG401"]


def test_locked_tables_are_one_unit(directory: Any) -> None:
    text = "LOCK TABLES t WRITE; INSERT INTO t VALUES (1); UNLOCK TABLES; ALTER TABLE t ADD b INT"
    (one,) = judged(directory, text, "mysql").required().migrations
    units = rules.units(one.statements, one.tx_mode, "mysql")
    assert [(unit.kind, unit.first, unit.last) for unit in units] == [
        ("locked", 1, 3), ("alone", 4, 4),
    ]  # fmt: skip
    assert "MG411" in numbers(judged(directory, "LOCK TABLES t WRITE; SELECT 1", "mysql"))


def test_tokens_tell_a_cosmetic_edit_from_a_real_one(directory: Any) -> None:
    def of(text: str) -> Any:
        return judged(directory, text).required().migrations[0]

    one, same, other = of("SELECT 1;"), of("-- x\r\nSELECT   1 ;\n"), of("SELECT 2;")
    assert one.token_digest == same.token_digest != other.token_digest
    assert one.checksum != same.checksum
    assert of("SELECT 1;\r\n").checksum == of("SELECT 1;\n").checksum
    assert of("\ufeffSELECT 1;\n").checksum == of("SELECT 1;\n").checksum
    assert of("SELECT 1;\r\n").raw_digest != of("SELECT 1;\n").raw_digest


def test_policy_mode_counts_where_the_file_is_silent(directory: Any) -> None:
    (one,) = judged(directory, "SELECT 1", default_mode="none").required().migrations
    assert one.tx_mode == "none"
    told = judged(directory, "-- ptahk:txmode file\nSELECT 1", default_mode="none")
    assert told.required().migrations[0].tx_mode == "file"


def test_every_finding_is_documented_with_its_severity() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "migrations.md").read_text()
    for number, title in findings.TITLES.items():
        severity = "warning" if number in findings.WARNINGS else "error"
        assert f"| `{number}` | {severity} | {title} |" in page
