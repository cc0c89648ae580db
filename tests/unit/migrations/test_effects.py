"""What a statement of MySQL or MariaDB may leave behind."""

from __future__ import annotations

import pytest

from ptahk.migrations import effects
from ptahk.migrations.lexing import mysql
from ptahk.migrations.lexing.tokens import Statement


def one(text: str) -> Statement:
    (statement,) = mysql.split("f.sql", text)
    return statement


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("CREATE TABLE t (a int)", "table t"),
        ("create table if not exists `a``b` (a int)", "table a`b"),
        ("CREATE TEMPORARY TABLE t (a int)", "table t"),
        ("CREATE TABLE shop.t (a int)", "table t"),
        ("CREATE TABLE other.t (a int)", ""),
        ("CREATE OR REPLACE TABLE t (a int)", ""),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "view v"),
        ("CREATE UNIQUE INDEX i ON t (a)", "table t"),
        ("DROP INDEX i ON t", "table t"),
        ("ALTER TABLE t ADD b int, ADD c int", "table t"),
        ("ALTER TABLE t RENAME TO u", "table t"),
        ("ALTER TABLE t TRUNCATE PARTITION p", ""),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", ""),
        ("DROP TABLE IF EXISTS t", "table t"),
        ("DROP TABLE t, u", ""),
        ("RENAME TABLE t TO u", "table t"),
        ("RENAME TABLE t TO u, v TO t", ""),
        ("TRUNCATE TABLE t", ""),
        ("CREATE DEFINER=`table`@`view` TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
         "trigger g"),
        ("CREATE DEFINER=CURRENT_USER PROCEDURE p() BEGIN END", "procedure p"),
        ("/*!50003 CREATE*/ /*!50003 FUNCTION f() RETURNS int RETURN 1 */", "function f"),
        ("DROP EVENT e", "event e"),
        ("CREATE SEQUENCE s", "sequence s"),
        ("ALTER SEQUENCE s RESTART", ""),
        ("CREATE USER u", ""),
        ("GRANT SELECT ON t TO u", ""),
        ("INSERT INTO t VALUES (1)", ""),
        ("CALL p()", ""),
    ],
)  # fmt: skip
def test_the_object_whose_definition_tells(text: str, named: str) -> None:
    assert effects.object_of(one(text), "shop") == named


@pytest.mark.parametrize(
    ("text", "code", "mysql_", "mariadb"),
    [
        ("CREATE TABLE t (a int)", 1050, True, True),
        ("ALTER TABLE t ADD b int", 1060, True, True),
        ("DROP TABLE t", 1051, True, True),
        ("DROP TABLE t, u", 1051, True, False),
        ("DROP VIEW t, u", 1051, True, False),
        ("CREATE USER a, b", 1396, True, False),
        ("CREATE USER a", 1396, True, True),
        ("GRANT SELECT, INSERT ON t TO a", 1396, True, True),
        ("GRANT SELECT ON t TO a, b", 1396, True, False),
        ("RENAME TABLE a TO b, c TO d", 1146, True, False),
        ("CREATE OR REPLACE TABLE t AS SELECT 1/0", 1365, True, False),
        ("CREATE OR REPLACE VIEW v AS SELECT x", 1054, True, True),
        ("DROP TABLE t, u (", 1064, True, True),
        ("CALL p()", 1064, False, False),
        ("EXECUTE s", 1064, False, False),
        ("DO sleep(1)", 1317, False, False),
        ("BEGIN NOT ATOMIC SELECT 1; END", 1064, False, False),
        ("INSERT INTO t VALUES (1)", 1062, False, False),
        ("ANALYZE TABLE t", 1146, True, True),
        ("ANALYZE UPDATE t SET a = 1", 1146, False, False),
        ("LOCK TABLES t WRITE", 1146, True, True),
        ("LOAD INDEX INTO CACHE t", 1146, False, False),
    ],
)
def test_what_an_error_proves(text: str, code: int, mysql_: bool, mariadb: bool) -> None:
    found = [effects.proves_nothing_done(one(text), code, mariadb=make) for make in (False, True)]
    assert found == [mysql_, mariadb]


def test_what_is_left_in_a_session_is_taken_away() -> None:
    text = (
        "SET @a = 1, @`b c` = @a, @@sql_mode = ''; PREPARE `p` FROM 'SELECT 1';"
        "CREATE TEMPORARY TABLE IF NOT EXISTS x.`t` (a int);"
        "CREATE DEFINER=a@localhost VIEW v AS SELECT 1; GRANT SELECT ON t TO 'a'@'b', c@`d`;"
        "SELECT 1 INTO @z"
    )
    assert effects.leftovers(list(mysql.split("f.sql", text))) == [
        "SET @a = NULL",
        "SET @`b c` = NULL",
        "DEALLOCATE PREPARE `p`",
        "DROP TEMPORARY TABLE IF EXISTS x.`t`",
        "SET @z = NULL",
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("SET @a = 1, time_zone = '+01:00'", None),
        ("SET @saved = @@character_set_client", None),
        ("CREATE TABLE t (a int)", None),
        ("INSERT INTO t VALUES (1)", None),
        ("SET @a = (SELECT max(a) FROM t)", "SET @a = ("),
        ("SET @a = last_insert_id()", "SET @a = last_insert_id"),
        ("CREATE TEMPORARY TABLE t (a int)", "CREATE TEMPORARY TABLE t"),
        ("PREPARE p FROM 'x'", "PREPARE p FROM 'x'"),
        ("SELECT max(a) INTO @m FROM t", "SELECT max ( a"),
        ("SELECT @m := max(a) FROM t", "SELECT @m := max"),
    ],
)
def test_what_a_resume_cannot_make_again(text: str, left: str | None) -> None:
    assert effects.unrepeatable(one(text)) == left
