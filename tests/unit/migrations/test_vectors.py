"""The vectors of splitting, each checked against the server or the client: ``‖`` is the terminator
that splits, ``¶`` a newline, ``␍`` a carriage return; every other ``;`` is content."""

from __future__ import annotations

import pytest

from ptahk.migrations.lexing import mysql, postgres
from ptahk.migrations.lexing.tokens import LexError

POSTGRESQL = [
    """SELECT 'a;b'‖ SELECT 1 AS "q"";x"‖""",
    r"SELECT E'a\'; b'‖ SELECT 'C:\'‖ SELECT name'dir\'‖ SELECT 2",
    r"SELECT E'x'¶ 'y\'; z'‖ SELECT 2",
    "DO $a$ BEGIN EXECUTE $b$SELECT 1; SELECT '$a'$b$; END $a$‖ SELECT 2",
    "PREPARE p(int) AS SELECT $1‖ EXECUTE p(1)",
    "DO $ü$ BEGIN PERFORM 1; END $ü$‖ SELECT 2",
    "SELECT 1 /* a /* b; */ c; */ + 1‖ SELECT 2",
    "-- don't¶SELECT 1‖ /* it's; */ SELECT 2",
    "SELECT 1 -- x;␍+ 1‖ SELECT 2",
    "CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2)‖ SELECT 3",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1;"
    " SELECT CASE WHEN true THEN 2 END; END‖ SELECT 3",
    "CREATE OR REPLACE PROCEDURE f() BEGIN ATOMIC SELECT 1 AS pending; SELECT 1 AS \"end\";"
    " SELECT 2 AS end; END‖ SELECT 3",
    "CREATE FUNCTION atomic() RETURNS int LANGUAGE sql AS $$SELECT 1;$$‖ SELECT 2",
    'CREATE TABLE b(begin int, "end" int)‖ SELECT begin FROM b‖',
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1‖ SELECT 2",
    "SELECT (array[1,2])[1:2]‖ SELECT U&'\\0041\\0027;' UESCAPE '\\'‖",
    "SELECT E'a' -- b¶ -- c¶ 'd\\'; e'‖ SELECT 1",
    "CREATE VIEW v AS SELECT t.end FROM t‖ SELECT 1",
]  # fmt: skip

MYSQL = [
    r"""SELECT 'a\'; b'‖ SELECT "x\"; y"‖""",
    r"SELECT 1 AS `a\`‖ SELECT 1 AS `a``;b`‖",
    "# it's;¶SELECT 1 # ;¶+1‖ --¶SELECT 2",
    "/* a /* b; */ SELECT 1‖ SELECT 2",
    "/*!40101 SET @a=1 */‖ /*M!100100 SET @b=1 */‖ SELECT /*! 1+ */ 1‖",
    "SELECT '¶DELIMITER //¶'‖ SELECT 2",
    "CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT IF(1,2,3); END IF;"
    " SELECT CASE WHEN 1 THEN 2 END; END‖ SELECT 9",
    "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW IF NEW.a IS NULL THEN SET NEW.a=1;"
    " END IF‖ SELECT 2",
    "CREATE PROCEDURE p() x: BEGIN DECLARE i INT DEFAULT 0; y: LOOP SET i=i+1; IF i>3 THEN"
    " LEAVE y; END IF; END LOOP y; REPEAT SET i=i-1; UNTIL i<1 END REPEAT;"
    " SELECT REPEAT('x',2); END x‖ SELECT 9",
    "CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR SQLSTATE VALUE '23000', 1062, NOT FOUND"
    " BEGIN SET @a=1; END; SELECT 1; END‖ SELECT 2",
    "CREATE PROCEDURE p(x INT) BEGIN CASE x WHEN 1 THEN SELECT 1; ELSE BEGIN END; END CASE; END‖",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM t; DELETE FROM t; END‖ SELECT 2",
    "BEGIN‖ INSERT INTO t VALUES (1)‖ COMMIT‖",
    "BEGIN NOT ATOMIC SELECT 1; SELECT 2; END‖ SELECT 3",
    "CREATE PROCEDURE p() SELECT 1‖"
    " CREATE PROCEDURE IF NOT EXISTS q() BEGIN DROP TABLE IF EXISTS z; END‖",
    "CREATE DEFINER=`a`@`%` FUNCTION f() RETURNS INT DETERMINISTIC"
    " RETURN CASE 1 WHEN 1 THEN 2 END‖ SELECT 2",
    "CREATE OR REPLACE PROCEDURE p() COMMENT 'begin; end' BEGIN SELECT 1 /* end; */; -- end;¶"
    "END‖ SELECT 2",
    "CREATE PROCEDURE p() BEGIN WHILE 1 DO SET @a=1; END WHILE; w: WHILE 0 DO BEGIN END;"
    " END WHILE w; END‖ SELECT 1",
    "CREATE FUNCTION f() RETURNS VARCHAR(9) CHARACTER SET utf8mb4 READS SQL DATA"
    " BEGIN RETURN (SELECT CASE a WHEN 1 THEN 2 END FROM t); END‖ SELECT 1",
    "CREATE FUNCTION f() RETURNS SET('a','b') NO SQL BEGIN RETURN 'a'; END‖ SELECT 1",
    "CREATE PROCEDURE p() BEGIN FOR r IN (SELECT 1 AS a) DO SELECT r.a; END FOR; END‖ SELECT 1",
    "CREATE TRIGGER g AFTER UPDATE ON t FOR EACH ROW FOLLOWS h BEGIN SET @a=1; END‖ SELECT 1",
    "CREATE DEFINER = CURRENT_USER() PROCEDURE p() BEGIN END‖ SELECT 1",
    "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR SQLWARNING SET @a=1;"
    " DECLARE c CURSOR FOR SELECT 1; IF 1 THEN SET @a=2; ELSEIF 2 THEN SET @b=CASE WHEN 1 THEN 2"
    " ELSE 3 END; ELSE SET @c=1; END IF; END‖ SELECT 1",
]  # fmt: skip


def written(vector: str) -> str:
    return vector.replace("‖", ";").replace("¶", "\n").replace("␍", "\r")


def wanted(vector: str) -> list[str]:
    plain = vector.replace("¶", "\n").replace("␍", "\r")
    return [piece.strip() for piece in plain.split("‖") if piece.strip()]


def _without_leading_comments(text: str) -> str:
    """A statement's text begins with its first token."""
    import re

    return re.sub(r"\A(?:\s+|(?:--(?=\s)|#)[^\n]*\n|/\*(?![!M]).*?\*/)+", "", text, flags=re.S)


@pytest.mark.parametrize("vector", POSTGRESQL)
def test_postgresql(vector: str) -> None:
    found = [each.text for each in postgres.split("f.sql", written(vector))]
    assert found == [_without_leading_comments(piece) for piece in wanted(vector)]


@pytest.mark.parametrize("vector", MYSQL)
def test_mysql_and_mariadb(vector: str) -> None:
    found = [each.text for each in mysql.split("f.sql", written(vector))]
    assert found == [_without_leading_comments(piece) for piece in wanted(vector)]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (";; ; SELECT 1;; -- end;\n", 1),
        ("-- nothing\n", 0),
        ("\\restrict k\nSELECT 1;\n\\unrestrict k\n", 1),
        ("\ufeffSELECT 1;", 1),
    ],
)
def test_what_is_no_statement_on_postgresql(source: str, count: int) -> None:
    assert [each.text for each in postgres.split("f.sql", source)] == ["SELECT 1"] * count


def test_copy_carries_its_rows() -> None:
    for end in ("\n", "\r\n"):
        text = f"COPY t FROM stdin;{end}a;'b{end}\\.{end}SELECT 1"
        copy, select = postgres.split("f.sql", text)
        assert (copy.text, copy.data) == ("COPY t FROM stdin", f"a;'b{end}")
        assert (select.text, select.line) == ("SELECT 1", 4)


@pytest.mark.parametrize(
    ("source", "number", "at"),
    [
        ("SELECT 'open", "MG301", 7),
        ("SELECT $a$ x", "MG301", 7),
        ("SELECT 1 /* /* */", "MG301", 9),
        ("\\connect x", "MG302", 0),
        ("SELECT 1 \\gexec", "MG302", 9),
        ("SELECT 1; \\restrict k", "MG302", 10),
        ("COPY t FROM stdin; a\n\\.\n", "MG303", 18),
        ("COPY t FROM stdin;\na\n", "MG303", 0),
        ("SELECT 1\0", "MG106", 8),
    ],
)
def test_refusals_on_postgresql(source: str, number: str, at: int) -> None:
    with pytest.raises(LexError) as refused:
        list(postgres.split("f.sql", source))
    assert (refused.value.number, refused.value.at) == (number, at)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("/*M!999999\\- enable the sandbox mode */\nSELECT 1", ["SELECT 1"]),
        ("/*!99999999 SELECT 1; */ SELECT 2", ["SELECT 2"]),
        ("DELIMITER //\nSELECT 1; SELECT 2//\ndelimiter ;\nSELECT 3;", ["SELECT 1; SELECT 2",
                                                                        "SELECT 3"]),
        ("  delimiter '$$' and the rest\nSELECT 1 $$", ["SELECT 1"]),
        ("DELIMITER go\nSELECT 1 GO\nSELECT 2 go", ["SELECT 1", "SELECT 2"]),
        ("DELIMITER --\nSELECT 1 --\nSELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT a,\n delimiter FROM t", ["SELECT a,\n delimiter FROM t"]),
        ("DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER g BEFORE"
         " INSERT ON t FOR EACH ROW BEGIN SET @a=1; END */;;\nDELIMITER ;\nSELECT 1;",
         ["/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER g BEFORE"
          " INSERT ON t FOR EACH ROW BEGIN SET @a=1; END */", "SELECT 1"]),
        ("/* nothing */ # here\n;", []),
    ],
)  # fmt: skip
def test_delimiters_and_executable_comments(source: str, found: list[str]) -> None:
    assert [each.text for each in mysql.split("f.sql", source)] == found


@pytest.mark.parametrize(
    ("source", "number", "at"),
    [
        ("SELECT 1; DELIMITER //", "MG304", 10),
        ("DELIMITER", "MG304", 0),
        ("DELIMITER \\\\", "MG304", 0),
        ("SELECT 1 \\G", "MG302", 9),
        ("source x.sql", "MG302", 0),
        ("\\. x.sql", "MG302", 0),
        ("SELECT `open", "MG301", 7),
        ("/*!40101 SELECT 1; SELECT 2 */", "MG304", 0),
        ("/*!40101 SELECT 1", "MG301", 0),
        ("CREATE PROCEDURE p() BEGIN SELECT 1;", "MG305", 0),
        ("CREATE PACKAGE p AS a INT; END;", "MG305", 0),
    ],
)
def test_refusals_on_mysql(source: str, number: str, at: int) -> None:
    with pytest.raises(LexError) as refused:
        list(mysql.split("f.sql", source))
    assert (refused.value.number, refused.value.at) == (number, at)


def test_places_are_lines_and_columns_of_the_file() -> None:
    (one, two) = postgres.split("f.sql", "-- a\n  SELECT 1,\n  x; SELECT 2")
    assert (one.line, one.column) == (2, 3)
    assert one.place_of(11) == (3, 1)
    assert one.place_of(1) == (2, 3)
    assert (two.line, two.column) == (3, 6)
