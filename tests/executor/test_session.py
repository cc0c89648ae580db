"""The one session: lock, holder, pooler, standby, identity, settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ptahk.errors import Refused, Unreachable, UsageError
from ptahk.executor.dialects.postgres.session import (
    LOCK_KEY,
    LockHeld,
    refuse_pooler,
)
from ptahk.wire.jobspec import JobPolicy
from tests.kit import servers
from tests.kit.databases import Database
from tests.kit.operations import Operator, operator
from tests.kit.sessions import session

pytestmark = pytest.mark.pg(15, 17, 18)


def test_identity_is_read_by_an_ordinary_role(database: Database) -> None:
    role = database.role()
    with session(database.url()) as mine, session(database.url(role)) as theirs:
        assert str(mine.identity) == str(theirs.identity)
        assert theirs.identity.role == role.name
        assert mine.identity.timeline == 1
    found = database.rows("SELECT oid::bigint FROM pg_database WHERE datname = current_database()")
    assert str(mine.identity).endswith(f"/{found[0][0]}")


def test_the_lock_is_polled_and_its_holder_is_named(database: Database) -> None:
    with session(database.url(), locked=True) as first, session(database.url()) as second:
        with pytest.raises(LockHeld) as held:
            second.lock(0.3)
        assert f"backend {first.pid}" in held.value.message
        assert "ptahk/test/" in held.value.message
        first.close()
        second.lock(5)
        second.check_still_mine()


def test_a_lock_that_is_gone_is_noticed(database: Database) -> None:
    with session(database.url(), locked=True) as mine:
        mine.query("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))
        with pytest.raises(Refused) as changed:
            mine.check_still_mine()
    assert changed.value.reason == "SessionChanged"


def test_settings_of_the_session(database: Database) -> None:
    with session(database.url()) as mine:
        mine.check_still_mine(lock_timeout_s=2)
        rows = dict(
            mine.query(
                "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)",
                (
                    [
                        "client_connection_check_interval",
                        "idle_session_timeout",
                        "lock_timeout",
                        "search_path",
                        "statement_timeout",
                    ],
                ),
            )
        )
    assert rows["client_connection_check_interval"] == "1000"
    assert rows["idle_session_timeout"] == "0"
    assert rows["lock_timeout"] == "2000"
    assert rows["search_path"] in ("", '""')
    assert 50_000 < int(rows["statement_timeout"]) <= 60_000


def test_two_statements_in_one_text_are_refused(database: Database) -> None:
    with session(database.url()) as mine, pytest.raises(Exception, match="multiple commands"):
        mine.run("SELECT 1; SELECT 2")


def test_a_direct_endpoint_passes_the_pooler_check(database: Database) -> None:
    with session(database.url(), locked=True) as mine:
        refuse_pooler(mine, database.url(), 10)


def test_a_transaction_pooler_is_refused_and_keeps_no_lock(
    database: Database, pgbouncer: servers.Pooler, tmp_path: Path
) -> None:
    url = pgbouncer.url(database.name, password=database.server.password)
    with operator(url, tmp_path) as through:
        for done in (through.plan("CREATE TABLE public.a ()"), through.observe()):
            assert (done.exit_code, done.reason) == (3, "TransactionPooler")
            assert "direct endpoint" in done.frame["error"]["hint"]
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert database.rows(held + " AND database = (SELECT oid FROM pg_database"
                         " WHERE datname = current_database())") == [(0,)]  # fmt: skip


def test_nobody_listens(database: Database, tmp_path: Path) -> None:
    url = f"postgresql://u:s3cr3t@127.0.0.1:{servers.free_port()}/{database.name}"
    with pytest.raises(Unreachable), session(url):
        pass
    with operator(url, tmp_path, policy=JobPolicy(connect_timeout_seconds=2)) as nobody:
        done = nobody.plan("CREATE TABLE public.a ()")
    assert (done.exit_code, done.reason) == (6, "Unreachable")
    assert b"s3cr3t" not in done.output


def test_a_wrong_password_is_the_callers_mistake(database: Database, tmp_path: Path) -> None:
    url = database.server.url(database.name, "postgres", "wr0ng-Passw0rd")
    with pytest.raises(UsageError) as denied, session(url):
        pass
    assert denied.value.reason == "Denied"
    assert "wr0ng" not in str(denied.value)


def control(server: servers.Server, *action: str) -> None:
    """``pg_ctl``, as the account that the server runs as."""
    who = servers.account()
    folder = Path(server.folder)
    subprocess.run(
        [server.tool("pg_ctl"), "-D", folder / "data", "-l", server.log, "-w", *action],
        env={**os.environ, **server.env}, cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
        **(who.popen() if who else {}),
    )  # fmt: skip


@pytest.mark.pg(18)
def test_a_standby_is_refused(
    server_run: servers.Run, postgres_version: int, tmp_path: Path
) -> None:
    standby = server_run.own_server(postgres_version, {"wal_level": "replica"})
    try:
        control(standby, "stop", "-m", "fast")
        (Path(standby.folder) / "data" / "standby.signal").touch()
        control(standby, "start")
        with operator(standby.url("postgres"), tmp_path) as one:
            for done in (one.observe(), one.plan("CREATE TABLE public.a ()")):
                assert (done.exit_code, done.reason) == (3, "StandbyServer")
                assert "primary" in done.frame["error"]["hint"]
        control(standby, "stop", "-m", "immediate")
    finally:
        servers.stop(standby)


def test_a_read_only_database_is_refused_for_apply(database: Database, one: Operator) -> None:
    planned = one.plan("CREATE TABLE public.a ()")
    name = database.name
    database.run(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    refused = one.apply(planned)
    assert (refused.exit_code, refused.reason) == (3, "ReadOnlyServer")
