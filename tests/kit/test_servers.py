"""The test servers themselves: real, separate, and gone afterwards."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.kit import guard, servers
from tests.kit.databases import Database
from tests.kit.installs import VERSIONS


@pytest.mark.pg(*VERSIONS)
def test_a_server_is_of_the_version_it_says(postgres: servers.Server, database: Database) -> None:
    [(number,)] = database.rows("SELECT current_setting('server_version_num')::int / 10000")
    assert number == postgres.version
    [(data,)] = database.rows("SELECT current_setting('data_directory')")
    assert Path(data).is_relative_to(postgres.folder)


def test_tcp_asks_for_the_password_and_the_socket_does_not(postgres: servers.Server) -> None:
    with psycopg.connect(postgres.url()) as over_tcp, psycopg.connect(postgres.socket_url()) as s:
        assert over_tcp.execute("SELECT 1").fetchone() == s.execute("SELECT 1").fetchone()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.url(password="wrong"))


def test_roles_are_ordinary(database: Database) -> None:
    owner = database.role(owns=("public", "app"), create_database=True)
    reader = database.role(reads=("app",))
    with psycopg.connect(database.url(owner), autocommit=True) as conn:
        conn.execute("CREATE TABLE app.t (x int)")
        conn.execute(f"CREATE DATABASE {owner.name}_left")
    database.run(f"GRANT SELECT ON app.t TO {reader.name}")
    with psycopg.connect(database.url(reader), autocommit=True) as conn:
        assert conn.execute("SELECT * FROM app.t").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("CREATE TABLE app.u (x int)")
    roles = database.rows("SELECT rolname FROM pg_roles WHERE rolsuper")
    assert roles == [(servers.SUPERUSER,)]


def test_the_pooler_gives_one_session_several_backends(
    pgbouncer: servers.Pooler, database: Database
) -> None:
    role = database.role()
    url = pgbouncer.url(database.name, role.name, role.password)
    pid = "SELECT pg_backend_pid()"
    with psycopg.connect(url) as one, psycopg.connect(url) as two:
        # Both hold a transaction, so the pooler needs two backends; then it hands out either.
        assert one.execute(pid).fetchone() != two.execute(pid).fetchone()


_CRASHING_RUN = """
import os, sys
from tests.kit import servers
run, keeper = servers.begin()
server = run.own_server(18)
print(run.folder, server.pid, keeper.pid, flush=True)
sys.stdin.read()
"""


def _begin_run() -> tuple["subprocess.Popen[str]", Path, int, int]:
    env = {k: v for k, v in os.environ.items() if k != servers.RUN_ENV}
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", _CRASHING_RUN], cwd=root, env={**env, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    folder, server, keeper = child.stdout.readline().split()
    return child, Path(folder), int(server), int(keeper)


def _reap(child: "subprocess.Popen[str]") -> None:
    child.kill()
    child.communicate()


def test_a_killed_run_leaves_no_server() -> None:
    child, folder, server, keeper = _begin_run()
    _reap(child)
    assert guard.wait_gone(keeper, 20)
    assert guard.wait_gone(server, 0)
    assert not folder.exists()


def test_the_next_run_sweeps_after_a_killed_guard() -> None:
    child, folder, server, keeper = _begin_run()
    os.kill(keeper, signal.SIGKILL)
    _reap(child)
    assert guard.wait_gone(keeper, 20)
    assert not guard.wait_gone(server, 0)
    guard.sweep(folder.parent, servers.current().folder)
    assert guard.wait_gone(server, 0)
    assert not folder.exists()
