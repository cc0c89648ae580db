"""Facts that are kept, and a database that was in sync, looked at again, on MySQL and MariaDB."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.executor.dialects.mysql.catalog import KNOWN, MARKS
from ptahk.executor.dialects.mysql.reading import Inspection, inspect
from ptahk.wire.jobspec import CACHE_DIR, JobPolicy
from tests.kit import mydatabases
from tests.kit.mydatabases import MyDatabase
from tests.kit.operations import Done, Operator, operator
from tests.kit.sessions import apply_spec, my_session
from tests.kit.waiting import until

TEXT = """
CREATE TABLE a (id int PRIMARY KEY, n varchar(20) NOT NULL DEFAULT 'x', m int CHECK (m > 0),
  KEY a_n (n)) COMMENT 'first';
CREATE TABLE b (id int PRIMARY KEY, a int, CONSTRAINT b_a FOREIGN KEY (a) REFERENCES a (id));
CREATE VIEW v AS SELECT id FROM a;
CREATE FUNCTION f () RETURNS int DETERMINISTIC RETURN 1;
CREATE PROCEDURE p () SELECT 1;
CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.m = coalesce(NEW.m, 1);
CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2026-01-01 00:00:00' DO DELETE FROM b;
"""
LENIENT = JobPolicy(allow_destructive=True)
CHANGES = {
    "default": "ALTER TABLE a ALTER n SET DEFAULT 'y'",
    "comment": "ALTER TABLE a COMMENT 'second'",
    "view": "CREATE OR REPLACE VIEW v AS SELECT id + 0 AS id FROM a",
    "new column": "ALTER TABLE a ADD COLUMN p int",
    "dropped index": "ALTER TABLE a DROP KEY a_n",
    "renamed index": "ALTER TABLE a RENAME INDEX a_n TO a_n2",
    "character set": "ALTER TABLE b DEFAULT CHARACTER SET latin2",
    "dropped table": "DROP TABLE b",
    "dropped routine": "DROP FUNCTION f",
    "dropped trigger": "DROP TRIGGER t",
    "event": "ALTER EVENT e DISABLE",
}


def loaded(done: Done) -> bool:
    """Whether the declaration was loaded into a scratch database."""
    assert done.reason is None, done.frame["error"]
    return "load" in done.result["summary"]["timingsSeconds"]


def compared(done: Done) -> bool:
    """Whether the two sides' facts were compared."""
    assert done.reason is None, done.frame["error"]
    return "plan" in done.result["summary"]["timingsSeconds"]


@pytest.fixture
def one(mydatabase: MyDatabase, tmp_path: Path) -> Iterator[Operator]:
    """The superuser's operations, with a folder for what is kept."""
    with operator(mydatabase.url(), tmp_path, defaults={"engine": "mysql"}) as made:
        made.environment = {CACHE_DIR: str(tmp_path / "cache")}
        yield made


@pytest.fixture
def kept(one: Operator, mydatabase: MyDatabase) -> Operator:
    """In sync, with what was seen kept; its tables are old enough, which is an answer too."""
    one.converge(TEXT)
    assert one.plan(TEXT).statements == []
    marks = MARKS.replace("%s", f"'{mydatabase.name}'")
    until(lambda: all(row[1] for row in mydatabase.rows(marks)), "tables that are old enough", 30)
    until(lambda: not compared(one.plan(TEXT)), "the tables' marks", 30)
    return one


def test_a_declaration_is_loaded_once(one: Operator, mydatabase: MyDatabase) -> None:
    first = one.plan(TEXT)
    again = one.plan(TEXT)
    assert loaded(first) and not loaded(again)
    for name in ("observedFingerprint", "desiredFingerprint", "planDigest", "drift"):
        assert again.result[name] == first.result[name]
    assert again.statements == first.statements
    assert one.apply(again).exit_code == 0
    assert mydatabase.rows("SHOW TABLES LIKE 'a'")


@pytest.mark.parametrize(
    "change",
    ["SET GLOBAL explicit_defaults_for_timestamp = NOT @@GLOBAL.explicit_defaults_for_timestamp",
     "ALTER DATABASE CHARACTER SET latin2"],
)  # fmt: skip
def test_other_settings_are_another_declaration(
    one: Operator, mydatabase: MyDatabase, change: str
) -> None:
    assert loaded(one.plan(TEXT)) and not loaded(one.plan(TEXT))
    mydatabase.run(change)
    try:
        assert loaded(one.plan(TEXT))
    finally:
        if "GLOBAL" in change:
            mydatabase.run(change)


def test_strays_are_swept_by_whatever_makes_a_scratch_database(
    one: Operator, mydatabase: MyDatabase
) -> None:
    assert loaded(one.plan(TEXT))
    old, new = (f"ptahk_scratch_{int(time.time() + s):08x}{'ab' * 12}" for s in (-60, 3600))
    mydatabase.run(f"CREATE DATABASE {old}", f"CREATE DATABASE {new}")
    try:
        done = one.plan(TEXT)
        assert not loaded(done) and done.statements
        left = [name for (name,) in mydatabase.rows("SHOW DATABASES LIKE 'ptahk%'")]
        assert old not in left and new in left
    finally:
        mydatabase.run(f"DROP DATABASE IF EXISTS {old}", f"DROP DATABASE {new}")


def test_damaged_facts_are_none(one: Operator, tmp_path: Path) -> None:
    assert loaded(one.plan(TEXT))
    for file in (tmp_path / "cache").glob("desired-*.json"):
        file.write_bytes(file.read_bytes().replace(b'"a_n"', b'"a_m"'))
    assert loaded(one.plan(TEXT))


def test_the_same_answers_need_no_comparing(kept: Operator, mydatabase: MyDatabase) -> None:
    mydatabase.run("INSERT INTO a VALUES (1, 'x', 1)")  # rows are no facts
    before = kept.plan(TEXT + "-- as it was never kept")
    done = kept.plan(TEXT)
    assert not compared(done) and compared(before)
    assert done.statements == [] and done.result["drift"]["counts"] == {}
    for name in ("observedFingerprint", "desiredFingerprint", "planDigest", "drift"):
        assert done.result[name] == before.result[name]
    seen = kept.observe(TEXT)
    assert seen.result["observedFingerprint"] == done.result["observedFingerprint"]
    assert seen.result["drift"] == done.result["drift"]


def test_a_change_is_noticed(kept: Operator, mydatabase: MyDatabase) -> None:
    """Each of them, from the same memory of a database in sync."""
    for name, change in CHANGES.items():
        mydatabase.run(change)
        done = kept.plan(TEXT, policy=LENIENT)
        assert compared(done) and done.statements, name
        assert kept.observe(TEXT).result["drift"]["counts"] != {}, name
        kept.converge(TEXT, policy=LENIENT)
        assert kept.plan(TEXT).statements == [], name


def test_a_damaged_memory_is_none(kept: Operator, tmp_path: Path) -> None:
    for file in (tmp_path / "cache").glob("insync-*.json"):
        file.write_bytes(file.read_bytes().replace(b'"answers"', b'"answres"'))
    done = kept.plan(TEXT)
    assert compared(done) and done.statements == []


# What spares the second look at MySQL's tables, and what it must not miss.

MARKED = """
CREATE TABLE one (id int PRIMARY KEY, n int, KEY k (n));
CREATE TABLE two (id int PRIMARY KEY, n int, KEY k (n), other int);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, p int, CONSTRAINT c FOREIGN KEY (p) REFERENCES parent (id));
"""
ALTERED = (
    "RENAME TABLE one TO x, two TO one, x TO two",
    "ALTER TABLE parent RENAME COLUMN id TO key_of",
    "RENAME TABLE parent TO progenitor",
    "ALTER TABLE one ADD COLUMN added int",
    "ALTER TABLE one ALTER n SET DEFAULT 3",
    "ALTER TABLE one RENAME INDEX k TO k2",
    "ALTER TABLE one COMMENT 'said'",
    "ALTER TABLE one ADD CHECK (n > 0)",
    "ALTER TABLE child DROP FOREIGN KEY c",
)


def test_a_known_table_is_read_as_it_is_now(mydatabase: MyDatabase) -> None:
    mydatabase.run(*filter(str.strip, MARKED.split(";\n")))
    spec = apply_spec(engine="mysql")
    is_mysql = mydatabase.server.make == "mysql"
    with my_session(mydatabase.url()) as mine:

        def all_marked() -> Inspection | None:
            seen = inspect(mine, spec)
            marked = all(each["mark"] for each in seen.catalog.context[KNOWN].values())
            return seen if marked or not is_mysql else None

        for change in ALTERED:
            before: Any = until(all_marked, "marks of every table", 30)
            spared = inspect(mine, spec, known=before.catalog)
            assert any("SHOW CREATE" in sql for sql, _ in spared.asked) is not is_mysql
            mydatabase.run(change)
            after = inspect(mine, spec, known=before.catalog).catalog
            assert after.objects == inspect(mine, spec).catalog.objects, change
            assert after.objects != before.catalog.objects, change


def test_a_table_has_a_mark_while_others_are_too_young(mydatabase: MyDatabase) -> None:
    """Only where all that its text is made of has one: here columns of what it references."""
    elsewhere = mydatabases.create(mydatabase.server)
    elsewhere.run("CREATE TABLE far (id int PRIMARY KEY)")
    mydatabase.run(
        *filter(str.strip, MARKED.split(";\n")),
        f"CREATE TABLE abroad (id int, FOREIGN KEY (id) REFERENCES {elsewhere.name}.far (id))",
    )
    spec = apply_spec(engine="mysql")
    with my_session(mydatabase.url()) as mine:

        def marked() -> set[str]:
            known = inspect(mine, spec).catalog.context[KNOWN]
            return {name for name in known if known[name]["mark"]}

        if mydatabase.server.make == "mariadb":
            assert marked() == set()
            return
        old = {"one", "two", "parent", "child"}
        until(lambda: marked() == old, "marks", 30)
        mydatabase.run("CREATE TABLE young (id int)", "ALTER TABLE parent ADD COLUMN n int")
        before = inspect(mine, spec)
        assert marked() == old - {"parent", "child"}
        mydatabase.run("DROP TABLE young")
        mydatabase.run("CREATE TABLE young (id int, n int)")
        after = inspect(mine, spec, known=before.catalog).catalog
        assert after.objects == inspect(mine, spec).catalog.objects != before.catalog.objects


def test_without_the_right_to_see_innodbs_tables_every_table_is_read(
    mydatabase: MyDatabase,
) -> None:
    mydatabase.run(*filter(str.strip, MARKED.split(";\n")))
    with my_session(mydatabase.url(mydatabase.account("ALL"))) as mine:
        first = inspect(mine, apply_spec(engine="mysql"))
        again = inspect(mine, apply_spec(engine="mysql"), known=first.catalog)
    assert MARKS not in [sql for sql, _ in again.asked]
    assert len([sql for sql, _ in again.asked if "SHOW CREATE TABLE" in sql]) == 4
    assert again.catalog.objects == first.catalog.objects
