"""Schemas that other projects run, on MySQL and MariaDB: apply and plan empty, with rows; dumps."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pymysql
import pytest

from ptahk.executor.dialects.mysql.declaration import declaration
from tests.executor.my_planning_kit import MyBench, my_bench, shared_my_bench
from tests.kit.budget import scaled
from tests.kit.myservers import MyServer

__all__ = ["my_bench", "shared_my_bench"]

RELEASES = ("1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.2.1", "1.3.0", "1.4.0", "1.5.1", "schema")
PROGRAMS = """
create table t (id int auto_increment primary key, a int, b varchar(20)) auto_increment = 50;
delimiter //
create procedure p(in x int) begin select x; end//
create function f(x int) returns int deterministic begin return x + 1; end//
create trigger tr before insert on t for each row begin set new.a = 1; end//
create trigger tr2 before insert on t for each row begin set new.a = 2; end//
delimiter ;
create event e on schedule every 1 day do delete from t;
create event e2 on schedule at '2035-01-01 00:00:00' on completion preserve disable comment 'q'
  do delete from t;
create view v as select f(a) as x, 'é' as y from t;
create view u as select x from v;
create table r (a int, b varchar(10)) partition by list columns(b)
  (partition p0 values in ('a','b'), partition p1 values in ('c'));
"""
HISTORY = """
create sequence s start with 5 increment by 3 maxvalue 1000 cycle comment 'x';
create table h (a int default nextval(s)) with system versioning
  partition by system_time interval 1 month partitions 3;
"""


def icinga(corpora: Path, name: str) -> str:
    folder = corpora / "icingadb" / "mysql"
    path = folder / "schema.sql" if name == "schema" else folder / "releases" / f"{name}.sql"
    return path.read_text()


def text_of(bench: MyBench, corpora: Path, name: str) -> str:
    if name == "programs":
        return PROGRAMS + (HISTORY if bench.mariadb else "")
    return (corpora / "sakila" / "mysql.sql").read_text() if name == "sakila" else icinga(
        corpora, "schema"
    )  # fmt: skip


def fill(bench: MyBench) -> dict[str, int]:
    """A row of made-up values in every table that takes one; how many rows each then has."""
    bench.run(f"USE `{bench.name}`")
    tables = [row[0] for row in bench.query("SHOW TABLES")]
    bench.run("SET SESSION foreign_key_checks = 0, sql_mode = ''")
    for table in tables:
        with suppress(pymysql.MySQLError):  # a check, or the row is there
            bench.run(f"INSERT INTO `{table}` () VALUES ()")
    bench.run("SET SESSION foreign_key_checks = 1, sql_mode = DEFAULT")
    return counts(bench)


def counts(bench: MyBench) -> dict[str, int]:
    tables = [row[0] for row in bench.query("SHOW TABLES")]
    return {table: bench.query(f"SELECT COUNT(*) FROM `{table}`")[0][0] for table in tables}


@pytest.mark.parametrize("name", ["sakila", "icingadb"])
def test_new_database(my_bench: MyBench, corpora: Path, name: str) -> None:
    """One run from nothing, and nothing is left."""
    made = my_bench.converge(text_of(my_bench, corpora, name))
    assert made.refusals == ()
    assert len(made.statements) > 40


def test_releases_keep_rows(my_bench: MyBench, corpora: Path) -> None:
    """Every release to the next, with a row in every table, and the oldest to the current schema;
    with a budget every one to it."""
    wanted = {name: my_bench.declared(icinga(corpora, name)) for name in RELEASES}
    my_bench.build(icinga(corpora, RELEASES[0]))
    for old, new in pairwise(RELEASES):
        leap = (RELEASES[-1],) if old == RELEASES[0] or scaled(1) > 1 else ()
        for target in dict.fromkeys((*leap, new)):
            before = fill(my_bench)
            assert sum(1 for count in before.values() if count) > 55
            assert my_bench.converge(wanted[target]).refusals == ()
            after = counts(my_bench)
            kept = before.keys() & after.keys()
            assert {t: before[t] for t in kept} == {t: after[t] for t in kept}, (old, target)
            if target != new:
                for table in after:
                    my_bench.run(f"DELETE FROM `{table}`")
                assert my_bench.converge(wanted[old]).refusals == ()


def dump(server: MyServer, bench: MyBench, *options: str) -> str:
    """``mysqldump --no-data`` or ``mariadb-dump --no-data``."""
    install = server.install
    own = ["--column-statistics=0"] if server.make == "mysql" else []
    done = subprocess.run(
        [
            *install.dump(), "--no-defaults", f"--socket={server.socket}",
            "--user=admin", f"--character-sets-dir={install.share / 'charsets'}", *own,
            "--no-data", "--routines", "--events", *options, bench.name,
        ],
        capture_output=True, text=True, check=False,
        env={**os.environ, "MYSQL_PWD": server.password},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["sakila", "icingadb", "programs"])
def test_dump_and_declaration_say_the_same(
    my_bench: MyBench, myserver: MyServer, corpora: Path, name: str
) -> None:
    """What the server's own dump and ``observe -o sql`` print, used as the declaration."""
    made = my_bench.converge(text_of(my_bench, corpora, name))
    assert made.refusals == ()
    texts = [declaration(my_bench.live()), dump(myserver, my_bench)]
    if name != "icingadb":
        texts.append(dump(myserver, my_bench, "--databases"))
    for text in texts:
        again = my_bench.plan(text)
        assert [s.sql for s in again.statements] == []
        assert again.refusals == ()
