"""Loading declarations on MySQL and MariaDB: what is run, what is left out, what is refused."""

from __future__ import annotations

import pytest

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql import scratch
from ptahk.executor.planning.model import ObjectId
from tests.executor.my_planning_kit import MyBench, my_bench, shared_my_bench

__all__ = ["my_bench", "shared_my_bench"]

_OWN = """
drop schema if exists Shop;
create schema Shop default character set latin1;
use Shop;
create table t (id int primary key, b varchar(10));
create table Shop.k (id int primary key, tid int, foreign key (tid) references Shop.t (id));
create view v as select t.id from Shop.t join Shop.k on k.tid = t.id;
delimiter //
create trigger Shop.tr before insert on Shop.t for each row begin
  insert into Shop.k values (1, new.id);
end//
create procedure p() begin select count(*) from Shop.k, Shop.t; end//
delimiter ;
insert into t values (1, 'x');
"""


def test_the_declarations_own_database(my_bench: MyBench) -> None:
    """Its name is the target's, everywhere; its default character set counts."""
    found = my_bench.declared(_OWN)
    table = found.objects[ObjectId("table", ("t",))]
    assert table["charset"] == "latin1"
    for text in (
        found.objects[ObjectId("trigger", ("tr",))]["statement"],
        found.objects[ObjectId("procedure", ("p",))]["text"],
    ):
        assert f"`{my_bench.name}`.k" in text
        assert "Shop" not in text
        assert my_bench.scratch not in text
    assert my_bench.converge(_OWN).refusals == ()
    assert my_bench.query(f"SELECT COUNT(*) FROM `{my_bench.name}`.t")[0][0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create table other.t (id int);", "other.t is in another database"),
        ("create view v as select 1 from mysql.user;", "mysql.user is in another"),
        ("create view v as select mysql.user.host from mysql.user;", "mysql.user is in another"),
        ("create table t (id int);\ncreate view v as select 1 from t,\nmysql.user;", ":4: mysql"),
        ("create table k (a int, foreign key (a) references other.t (id));", "other.t"),
        ("create table k (a int);\ncreate index i on other.t (a);", ":3: other.t"),
        ("create trigger tr before insert on other.t for each row set new.a = 1;", "other.t"),
        ("create view v as select other.f(1);", "other.f"),
        ("create table t (id int); use other;", "one database"),
        ("create database a; create database b;", "one database"),
        ("create temporary table t (id int);", "temporary"),
        ("create user u@localhost;", "no builder"),
        ("grant select on *.* to u;", "GRANT is not part"),
        ("select 1;", "SELECT is not part"),
        ("prepare s from 'drop database mysql';", "PREPARE is not part"),
        ("create function f returns string soname 'x.so';", "loadable"),
        ("set global max_connections = 5;", "beyond this database"),
        ("set @@global.max_connections = 5;", "beyond this database"),
        ("set session max_join_size = 5;", "max_join_size is not part"),
        ("set sql_mode = 'ANSI_QUOTES';", "ANSI_QUOTES changes"),
        ("source other.sql", "command of the client"),
        ("\\. other.sql", "command of the client"),
        ("create table t (a varchar(5) default 'x);", "unterminated quote"),
        ("create table t (a int) /* x", "unterminated comment"),
        ("create table t (a int);\ncreate table t (a int);", ":3: Table 't' already exists"),
        ("create table t (a int);\ncreate table t (a int);\nselect 1;", ":3: Table 't' already"),
        ("create table t (a int);\nselect 1;\ncreate table t (a int);", ":3: SELECT is not"),
        ("create table t (a int); create table u (a int)", None),
        ("create table k (a int, foreign key (a) references nowhere (id));", "not declared"),
    ],
)
def test_what_is_refused(my_bench: MyBench, text: str, words: str | None) -> None:
    """By file, line and name, before it is sent; nothing else is touched."""
    if words is None:
        assert len(my_bench.declared(text).objects) == 2
        return
    with pytest.raises(UsageError) as refused:
        my_bench.declared("\n" + text)
    assert words in str(refused.value)
    assert str(refused.value).startswith("schema.sql:")
    assert my_bench.query(f"SHOW TABLES FROM `{my_bench.name}`") == ()


def test_the_sessions_settings_are_put_back(my_bench: MyBench) -> None:
    """Also where the load fails."""
    asked = "SELECT @@sql_mode, @@time_zone, @@foreign_key_checks, @@character_set_client"
    before = my_bench.query(asked)
    with pytest.raises(UsageError):
        my_bench.declared("set sql_mode = 'STRICT_ALL_TABLES', time_zone = '+03:00'; nonsense;")
    assert my_bench.query(asked) == before


def test_an_event_never_runs_in_scratch(my_bench: MyBench) -> None:
    """It is there disabled, and declared as it was."""
    text = "create event e on schedule every 1 second comment 'DO' do drop database nowhere;"
    found = my_bench.declared(text)
    status = (
        f"SELECT status FROM information_schema.events WHERE event_schema = '{my_bench.scratch}'"
    )
    assert my_bench.query(status)[0][0] == "DISABLED"
    made = my_bench.plan(found)
    assert " ENABLE" in made.statements[0].sql


def test_a_definer_is_kept_unless_stated(my_bench: MyBench) -> None:
    """Absent in the declaration, it stays; stated, it is compared, and is a matter of rights."""
    view = "create {}view v as select 1 as one;"
    my_bench.run("CREATE USER IF NOT EXISTS ptahk_other@localhost")
    try:
        my_bench.run("CREATE DEFINER=ptahk_other@localhost VIEW v AS SELECT 1 AS one")
        assert my_bench.plan(view.format("")).statements == ()
        assert my_bench.plan(view.format("definer=ptahk_other@localhost ")).statements == ()
        made = my_bench.converge(view.format("definer=`admin`@`%` "))
        assert [s.severity for s in made.statements] == ["privilege"]
        kept = my_bench.converge(view.format("").replace("one", "uno"))
        assert "DEFINER=" not in kept.statements[0].sql
    finally:
        my_bench.run("DROP USER ptahk_other@localhost")


def test_scratch_databases_go_and_strays_are_swept(my_bench: MyBench) -> None:
    """Whatever happens in one; a stray only past its deadline."""

    def there() -> list[str]:
        return [row[0] for row in my_bench.query("SHOW DATABASES LIKE 'ptahk\\_scratch\\_%%'")]

    before = there()
    with pytest.raises(ZeroDivisionError), scratch.database(
        my_bench.run, my_bench.query, target=my_bench.name, charset="utf8mb4",
        collation="utf8mb4_bin", seconds=60,
    ) as name:  # fmt: skip
        assert my_bench.query("SELECT DATABASE(), @@collation_database")[0] == (name, "utf8mb4_bin")
        raise ZeroDivisionError
    assert there() == before
    assert my_bench.query("SELECT DATABASE()")[0][0] == my_bench.name
    old = f"ptahk_scratch_{'0' * 8}{'a' * 24}"
    young = f"ptahk_scratch_{'f' * 8}{'a' * 24}"
    for name in (old, young):
        my_bench.run(f"CREATE DATABASE `{name}`")
    try:
        assert scratch.sweep(my_bench.run, my_bench.query) >= 1
        assert young in there()
        assert old not in there()
    finally:
        my_bench.run(f"DROP DATABASE `{young}`")
