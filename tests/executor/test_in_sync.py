"""A database that was in sync, looked at again: what is spared, what is noticed all the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ptahk.executor.dialects.postgres.insync import Kept
from ptahk.executor.dialects.postgres.marks import (
    LongMark,
    Mark,
    long_mark,
    mark,
    of_plain,
    unchanged,
)
from ptahk.wire.jobspec import CACHE_DIR, JobPolicy
from tests.kit import databases, servers
from tests.kit.databases import Database
from tests.kit.operations import Done, Operator
from tests.kit.waiting import until

pytestmark = pytest.mark.pg(15, 17, 18)

TEXT = """
CREATE TABLE public.a (id int PRIMARY KEY, n text NOT NULL DEFAULT 'x', m int CHECK (m > 0));
CREATE INDEX a_n ON public.a (n);
CREATE VIEW public.v AS SELECT id FROM public.a;
CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
COMMENT ON TABLE public.a IS 'first';
"""

CHANGES = {
    "default": "ALTER TABLE public.a ALTER n SET DEFAULT 'y'",
    "check": "ALTER TABLE public.a DROP CONSTRAINT a_m_check",
    "comment": "COMMENT ON TABLE public.a IS 'second'",
    "view": "CREATE OR REPLACE VIEW public.v AS SELECT id + 0 AS id FROM public.a",
    "function": "CREATE OR REPLACE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 2'",
    "new column": "ALTER TABLE public.a ADD COLUMN p int",
    "dropped index": "DROP INDEX public.a_n",
    "renamed index": "ALTER INDEX public.a_n RENAME TO a_n2",
    "new trigger": "CREATE TRIGGER t BEFORE INSERT ON public.a FOR EACH ROW"
    " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "row security": "ALTER TABLE public.a ENABLE ROW LEVEL SECURITY",
}


def compared(done: Done) -> bool:
    """Whether facts were made of the answers and compared."""
    assert done.reason is None, done.frame["error"]
    return "plan" in done.result["summary"]["timingsSeconds"]


@pytest.fixture
def kept(one: Operator, tmp_path: Path) -> Operator:
    """In sync, with what was seen kept."""
    one.environment = {CACHE_DIR: str(tmp_path / "cache")}
    one.converge(TEXT)
    first = one.plan(TEXT)
    assert first.statements == []
    return one


def test_the_same_answers_need_no_comparing(kept: Operator, database: Database) -> None:
    database.run("INSERT INTO public.a VALUES (1, 'x', 1)")  # rows, and so sizes, are no facts
    before = kept.plan(TEXT + "-- as it was never kept")
    done = kept.plan(TEXT)
    assert not compared(done) and compared(before)
    assert done.statements == [] and done.result["drift"]["counts"] == {}
    for name in ("observedFingerprint", "desiredFingerprint", "planDigest", "drift"):
        assert done.result[name] == before.result[name]
    seen = kept.observe(TEXT)
    assert seen.result["observedFingerprint"] == done.result["observedFingerprint"]
    assert seen.result["drift"] == done.result["drift"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_noticed(kept: Operator, database: Database, change: str) -> None:
    database.run(change)
    done = kept.plan(TEXT, policy=JobPolicy(allow_destructive=True))
    assert compared(done) and done.statements
    assert kept.observe(TEXT).result["drift"]["counts"] != {}
    kept.converge(TEXT, policy=JobPolicy(allow_destructive=True))
    assert kept.plan(TEXT).statements == []


def test_what_is_not_declared_is_no_drift_and_still_seen(
    kept: Operator, database: Database
) -> None:
    database.run("CREATE SCHEMA beside; CREATE TABLE beside.t (id int)")
    assert kept.plan(TEXT).statements == []
    database.run("DROP SCHEMA beside CASCADE")


def test_a_damaged_memory_is_none(kept: Operator, tmp_path: Path) -> None:
    for file in (tmp_path / "cache").glob("insync-*.json"):
        file.write_bytes(file.read_bytes().replace(b'"answers"', b'"answres"'))
    done = kept.plan(TEXT)
    assert compared(done) and done.statements == []


@contextmanager
def snapshot(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield connection


def taken(database: Database, *, versions: bool = True) -> Mark:
    with snapshot(database) as connection:
        return mark(lambda sql, params=(): connection.execute(sql).fetchall(), versions=versions)


def same(database: Database, before: Mark) -> bool:
    with snapshot(database) as connection:
        return unchanged(lambda sql, params=(): connection.execute(sql).fetchall(), before)


@pytest.mark.parametrize(
    "change",
    [*CHANGES.values(), "GRANT SELECT ON public.a TO PUBLIC", "CREATE SEQUENCE public.s",
     "CREATE TYPE public.e AS ENUM ('x')", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES"
     " TO PUBLIC", "DROP VIEW public.v", "ALTER TABLE public.a SET (fillfactor = 50)"],
)  # fmt: skip
def test_equal_row_versions_mean_equal_catalogs(database: Database, change: str) -> None:
    database.run(TEXT)
    before = taken(database)
    database.run("INSERT INTO public.a VALUES (1, 'x', 1)")
    assert same(database, before), "rows of users are no part of it"
    database.run(change)
    assert not same(database, before)


def test_without_versions_any_write_is_unknown(database: Database) -> None:
    database.run(TEXT)
    before = taken(database, versions=False)
    database.run("INSERT INTO public.a VALUES (1, 'x', 1)")
    assert not same(database, before)


LONG = ("pg_get_expr", "pg_get_indexdef", "pg_get_constraintdef")
"""What makes a reading of many tables long."""


def long_mark_of(database: Database) -> LongMark:
    with snapshot(database) as connection:

        def query(sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            return connection.execute(sql, params).fetchall()

        return long_mark(query, mark(query, versions=True))


def kept_file(tmp_path: Path) -> dict[str, Any]:
    (file,) = (tmp_path / "cache").glob("insync-*.json")
    found: dict[str, Any] = json.loads(file.read_bytes().partition(b"\n")[2])
    return found


def test_equal_row_versions_answer_what_takes_long(
    kept: Operator, database: Database, tmp_path: Path
) -> None:
    kept.plan(TEXT)
    found = kept_file(tmp_path)
    now = long_mark_of(database)
    before = Kept(found["asked"], found["answers"], of_plain(found["long"]))
    again = [found["asked"][i][0] for i in before.beyond(now)]
    assert len(again) < len(found["asked"]) / 2
    spared = [sql for sql, _ in found["asked"] if sql not in again]
    for name in LONG:
        assert any(name in sql for sql in spared)
    for name in ("pg_user_mappings", "pg_subscription", "pg_seclabels"):
        assert any(name in sql for sql in again), "no row versions are known of it"
    database.run("COMMENT ON TABLE public.a IS 'second'")
    assert len(before.beyond(long_mark_of(database))) == len(found["asked"])


def test_another_schema_costs_one_whole_reading(
    kept: Operator, database: Database, tmp_path: Path
) -> None:
    kept.plan(TEXT)
    before = of_plain(kept_file(tmp_path)["long"])
    database.run("CREATE SCHEMA beside; CREATE TABLE beside.t (id int)")
    assert kept.plan(TEXT).statements == []
    now = of_plain(kept_file(tmp_path)["long"])
    assert before is not None and now is not None and not before.same(now)
    assert now.same(long_mark_of(database)), "what was seen is kept for the next"


def answers(database: Database) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(database.url()):
        return True
    return False


def test_a_life_of_a_server_ends_with_a_crash(own_postgres: servers.Server) -> None:
    """Commits that no disk had, and a restored copy, give transaction numbers out again."""
    database = databases.create(own_postgres)
    database.run(TEXT)
    first = long_mark_of(database)
    assert first.same(long_mark_of(database))
    with psycopg.connect(database.url()) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            victim.execute("SELECT pg_sleep(60)")  # ends with its backend
    until(lambda: answers(database), "the recovered server")
    crashed = long_mark_of(database)
    assert crashed.versions == first.versions and not first.same(crashed)


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (LongMark("l", 10, ((1,),)), True),
        (LongMark("l", 10 + 2**31 - 1, ((1,),)), True),
        (LongMark("l", 10 + 2**31, ((1,),)), False),
        (LongMark("l", 9, ((1,),)), False),
        (LongMark("m", 10, ((1,),)), False),
        (LongMark("l", 10, ((2,),)), False),
    ],
)
@pytest.mark.pg(18)
def test_a_long_mark_holds_in_one_life_and_for_so_many_transactions(
    later: LongMark, same: bool
) -> None:
    assert LongMark("l", 10, ((1,),)).same(later) is same
