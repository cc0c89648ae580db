"""The MySQL and MariaDB test servers: real, separate, killable, and gone afterwards."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from tests.kit import guard, myservers
from tests.kit.mydatabases import MyDatabase


def test_a_server_is_of_the_make_and_version_it_says(
    myserver: myservers.MyServer, mydatabase: MyDatabase
) -> None:
    [(version, data)] = mydatabase.rows("SELECT version(), @@datadir")
    assert version.startswith(myserver.version)
    assert ("MariaDB" in version) == (myserver.make == "mariadb")
    assert Path(data).is_relative_to(myserver.folder)
    assert Path(myserver.folder).parent == Path(os.environ["PTAHK_TEST_RUN"])


def test_accounts_are_ordinary(mydatabase: MyDatabase) -> None:
    reader = mydatabase.account("SELECT")
    mydatabase.run("CREATE TABLE t (x int)")
    with closing(
        mydatabase.server.connect(mydatabase.name, reader.name, reader.password)
    ) as conn, conn.cursor() as cursor:  # fmt: skip
        cursor.execute("SELECT * FROM t")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("CREATE TABLE u (x int)")
    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        mydatabase.server.connect(mydatabase.name, reader.name, "wrong")


def test_what_was_committed_survives_the_servers_death(own_myserver: myservers.MyServer) -> None:
    with closing(own_myserver.connect()) as conn, conn.cursor() as cursor:
        cursor.execute("CREATE DATABASE kept")
        cursor.execute("CREATE TABLE kept.t (x int)")
        cursor.execute("INSERT INTO kept.t VALUES (7)")
    myservers.end(own_myserver)
    assert guard.wait_gone(own_myserver.pid, 0)
    again = myservers.restart(own_myserver)
    try:
        with closing(again.connect("kept")) as conn, conn.cursor() as cursor:
            cursor.execute("SELECT x FROM t")
            assert cursor.fetchall() == ((7,),)
    finally:
        myservers.end(again)


_CRASHING_RUN = """
import os, sys
from tests.kit import myservers, servers
run, keeper = servers.begin()
server = myservers.start(run, sys.argv[1])
print(run.folder, server.pid, keeper.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_run_leaves_nothing_behind(my_make: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PTAHK_TEST_RUN"}
    killed = subprocess.run(
        [sys.executable, "-c", _CRASHING_RUN, my_make], capture_output=True, text=True,
        check=False, env=environment,
    )  # fmt: skip
    folder, server, keeper = killed.stdout.split()
    assert guard.wait_gone(int(keeper), 30)
    assert guard.wait_gone(int(server), 0)
    assert not Path(folder).exists()
