"""What tells whether a statement took effect whose end was never seen: of every kind of object."""

from __future__ import annotations

import pytest

from ptahk.executor.dialects.mysql.settling import digest_of
from ptahk.executor.planning.model import ObjectId
from tests.kit.mydatabases import MyDatabase
from tests.kit.sessions import my_session

BASE = (
    "CREATE TABLE a (id int PRIMARY KEY, b int, KEY b (b))",
    "CREATE TABLE c (b int PRIMARY KEY)",
)
KINDS = {
    ObjectId("table", ("t",)): ("CREATE TABLE t (id int)", "ALTER TABLE t ADD COLUMN n int"),
    ObjectId("table", ("a.b",)): ("CREATE TABLE `a.b` (id int)", "ALTER TABLE `a.b` COMMENT 'x'"),
    ObjectId("column", ("a", "n")): (
        "ALTER TABLE a ADD COLUMN n int", "ALTER TABLE a ALTER n SET DEFAULT 1",
    ),
    ObjectId("foreign key", ("a", "f")): (
        "ALTER TABLE a ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES c (b)",
        "ALTER TABLE a DROP FOREIGN KEY f",
    ),
    ObjectId("view", ("v",)): ("CREATE VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW v AS SELECT 2"),
    ObjectId("procedure", ("p",)): ("CREATE PROCEDURE p () SELECT 1", "DROP PROCEDURE p"),
    ObjectId("procedure", ("p()",)): ("CREATE PROCEDURE `p()` () SELECT 1", "DROP PROCEDURE `p()`"),
    ObjectId("function", ("f",)): (
        "CREATE FUNCTION f () RETURNS int DETERMINISTIC RETURN 1", "DROP FUNCTION f",
    ),
    ObjectId("trigger", ("g",)): (
        "CREATE TRIGGER g BEFORE INSERT ON a FOR EACH ROW SET NEW.b = 1", "DROP TRIGGER g",
    ),
    ObjectId("event", ("e",)): (
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM a", "ALTER EVENT e DISABLE",
    ),
}  # fmt: skip


@pytest.mark.parametrize("oid", KINDS, ids=str)
def test_each_statement_leaves_another_digest(mydatabase: MyDatabase, oid: ObjectId) -> None:
    mydatabase.run(*BASE)
    with my_session(mydatabase.url()) as mine:
        seen = [digest_of(mine, str(oid))]
        for text in KINDS[oid]:
            mydatabase.run(text)
            seen.append(digest_of(mine, str(oid)))
        assert seen[0] != seen[1] != seen[2]
        mydatabase.run("INSERT INTO c VALUES (1)", "INSERT INTO a (id, b) VALUES (1, 1)")
        assert digest_of(mine, str(oid)) == seen[2], "rows are no part of it"
