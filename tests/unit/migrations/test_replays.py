"""Which files are run again, and which of their statements may be sent to a scratch database."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql import declared as mysql
from ptahk.executor.dialects.postgres import declared as postgres
from ptahk.migrations import reading, replays
from ptahk.migrations.files import SourceFile
from ptahk.migrations.history import Row
from ptahk.migrations.model import Migration
from ptahk.migrations.model import Sequence as Directory


def directory(**files: str) -> Directory:
    given = [SourceFile(name.lstrip("_") + ".sql", text) for name, text in files.items()]
    return reading.read(given, engine="postgresql", layout="ptahk").required()


WHOLE = directory(_1_a="SELECT 1;", _2_b="SELECT 2;", _3_c="SELECT 3;")
CHECKED = reading.read(
    [SourceFile("1_a.sql", "SELECT 1;"), SourceFile("2_b.sql", "SELECT 2;"),
     SourceFile("2_all.checkpoint.sql", "SELECT 12;"), SourceFile("3_c.sql", "SELECT 3;")],
    engine="postgresql", layout="ptahk",
).required()  # fmt: skip


def row(migration: Migration, ordinal: int, kind: Any = "executed", **changes: Any) -> Row:
    given = {"checksum": migration.checksum, "token_digest": migration.token_digest} | changes
    return Row(migration.version, kind, "applied", ordinal, migration.file, **given)


def names(found: tuple[Migration, ...]) -> list[str]:
    return [each.file for each in found]


def test_the_order_is_that_of_the_application() -> None:
    one, two, three = WHOLE.migrations
    rows = [row(one, 1), row(three, 2), row(two, 3)]
    assert names(replays.applied(WHOLE, rows)) == ["1_a.sql", "3_c.sql", "2_b.sql"]
    assert names(replays.applied(WHOLE, [row(one, 1, "baseline")])) == ["1_a.sql"]
    assert replays.applied(WHOLE, []) == ()


def test_what_a_checkpoint_stands_for_is_in_it() -> None:
    by_file = {each.file: each for each in CHECKED.migrations}
    rows = [row(by_file["2_all.checkpoint.sql"], 1), row(by_file["1_a.sql"], 2, "covered"),
            row(by_file["3_c.sql"], 3)]  # fmt: skip
    assert names(replays.applied(CHECKED, rows)) == ["2_all.checkpoint.sql", "3_c.sql"]
    assert names(replays.from_empty(CHECKED)) == ["1_a.sql", "2_b.sql", "3_c.sql"]
    assert names(replays.from_checkpoint(CHECKED)) == ["2_all.checkpoint.sql", "3_c.sql"]
    assert replays.from_checkpoint(WHOLE) == ()


def test_what_is_gone_or_another_text_is_never_replayed_as_something_else() -> None:
    one, two, three = WHOLE.migrations
    shorter = directory(_1_a="SELECT 1;", _2_b="SELECT 2;")
    with pytest.raises(replays.NotThere, match=r"3_c\.sql: version 3 .* not here"):
        replays.applied(shorter, [row(one, 1), row(two, 2), row(three, 3)])
    edited = row(two, 2, checksum="sha256:old", token_digest="sha256:old")
    with pytest.raises(replays.NotThere, match=r"2_b\.sql was applied with another text"):
        replays.applied(WHOLE, [row(one, 1), edited])
    cosmetic = row(two, 2, checksum="sha256:old")
    assert len(replays.applied(WHOLE, [row(one, 1), cosmetic])) == 2
    assert len(replays.applied(WHOLE, [row(one, 1, "imported", checksum=None)])) == 1


POSTGRESQL = {
    "INSERT INTO t VALUES (1)": True,
    "SELECT setval('s', 3)": True,
    "CREATE TABLE t (a int)": True,
    "ALTER TABLE t ADD COLUMN b int": True,
    "GRANT SELECT ON t TO PUBLIC": True,
    "SET search_path TO app": True,
    "DO $$ BEGIN CREATE TABLE x (); END $$": True,
    "CREATE SCHEMA public": False,
    "CREATE ROLE r": None,
    "ALTER USER r PASSWORD 'x'": None,
    "GRANT a TO b": None,
    "GRANT CONNECT ON DATABASE d TO r": None,
    "ALTER DATABASE d SET work_mem = '8MB'": None,
    "SET ROLE r": None,
    "SET SESSION AUTHORIZATION r": None,
    "ALTER SYSTEM SET work_mem = '8MB'": None,
    "CREATE TABLESPACE s LOCATION '/x'": None,
    "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p": None,
    "SELECT pg_reload_conf()": None,
    "SELECT dblink_exec('', '')": None,
    "DO $$ BEGIN EXECUTE 'drop  role r'; END $$": None,
    "COPY t FROM PROGRAM 'x'": None,
    "REASSIGN OWNED BY a TO b": None,
    "SECURITY LABEL ON ROLE r IS 'x'": None,
}


@pytest.mark.parametrize(("sql", "sent"), POSTGRESQL.items())
def test_postgresql_sends_what_stays_in_one_database(sql: str, sent: bool | None) -> None:
    (statement,) = postgres_statements(sql)
    if sent is None:
        with pytest.raises(UsageError):
            postgres.replayed(statement)
    else:
        assert postgres.replayed(statement) is sent


def postgres_statements(sql: str) -> list[Any]:
    from ptahk.executor.dialects.postgres.lexer import split

    return list(split("x.sql", sql))


MYSQL = {
    "INSERT INTO app.t VALUES (1)": "INSERT INTO `scratch`.t VALUES (1)",
    "INSERT t VALUES (1)": "INSERT t VALUES (1)",
    "UPDATE app.t SET a = 1": "UPDATE `scratch`.t SET a = 1",
    "DELETE x FROM app.t AS x": "DELETE x FROM `scratch`.t AS x",
    "CALL app.p()": "CALL `scratch`.p()",
    "LOCK TABLES app.t WRITE": "LOCK TABLES `scratch`.t WRITE",
    "CREATE TEMPORARY TABLE app.x (a int)": "CREATE TEMPORARY TABLE `scratch`.x (a int)",
    "ALTER TABLE app.t ADD b int": "ALTER TABLE `scratch`.t ADD b int",
    "SET @a = 1": "SET @a = 1",
    "SET foreign_key_checks = 0": "SET foreign_key_checks = 0",
    "INSERT INTO app.1t VALUES (1)": "INSERT INTO `scratch`.1t VALUES (1)",
    "INSERT INTO app/*!.t*/ VALUES (1)": "INSERT INTO `scratch`/*!.t*/ VALUES (1)",
    "SELECT x.app.a FROM x": None,
    "INSERT other.t VALUES (1)": None,
    "INSERT IGNORE OTHER.t VALUES (1)": None,
    "DELETE other.t FROM t": None,
    "SELECT a FROM t INTO OUTFILE '/x'": None,
    "PREPARE s FROM @a": None,
    "CREATE PROCEDURE p() BEGIN PREPARE s FROM @a; EXECUTE s; END": None,
    "GRANT SELECT ON t TO u": None,
    "CREATE USER u": None,
    "SET GLOBAL x = 1": None,
    "CREATE DATABASE y": None,
    "DROP DATABASE app": None,
    "USE other": None,
    "FLUSH TABLES": None,
    "KILL 3": None,
    "LOAD DATA INFILE '/x' INTO TABLE t": None,
}


@pytest.mark.parametrize(("sql", "sent"), MYSQL.items())
def test_mysql_sends_what_names_no_other_database(sql: str, sent: str | None) -> None:
    from ptahk.executor.dialects.mysql.lexer import Server, split

    (statement,) = list(split("x.sql", sql, Server(False, 90704)))
    reader = mysql.Reader("scratch", "app", False)
    if sent is None:
        with pytest.raises(UsageError):
            mysql.replayed(reader, statement, {"app", "other", "mysql"})
    else:
        prepared = mysql.replayed(reader, statement, {"app", "other", "mysql"})
        assert prepared is not None and prepared.sql == sent
