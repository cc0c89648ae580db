"""The one session on MySQL and MariaDB: who may be used, who is refused and what then helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ptahk.errors import PtahkError, Refused, Unreachable, UsageError
from ptahk.executor.dialects.mysql import pipeline
from ptahk.executor.dialects.mysql import server as servers
from ptahk.executor.dialects.mysql.pipeline import BATCH_BYTES
from ptahk.executor.dialects.mysql.session import (
    IDLE_S,
    ConnectionLost,
    LockHeld,
    refuse_pooler,
)
from tests.kit import mydatabases, myservers
from tests.kit.mydatabases import MyDatabase, mode_of_new_sessions
from tests.kit.myproxy import Proxy
from tests.kit.operations import operator
from tests.kit.sessions import my_session
from tests.kit.waiting import until

TEXT = "CREATE TABLE a (id int PRIMARY KEY);"


@pytest.fixture
def own(own_myserver: myservers.MyServer) -> MyDatabase:
    """A database on a server that this test alone uses, and may set up otherwise."""
    return mydatabases.create(own_myserver)


def refused(url: str, **options: Any) -> PtahkError:
    """How a session is refused."""
    with pytest.raises(PtahkError) as caught, my_session(url, **options):
        pass
    return caught.value


def says(error: PtahkError, reason: str, *words: str) -> None:
    """The reason is that, and message and hint name these."""
    text = f"{error.message} {error.hint}"
    assert error.reason == reason, text
    for word in words:
        assert word in text, text


# Who we are, and what the session is set to.


def test_identity_is_read_by_an_ordinary_account(mydatabase: MyDatabase) -> None:
    account = mydatabase.account("SELECT")
    with my_session(mydatabase.url()) as mine, my_session(mydatabase.url(account)) as theirs:
        assert str(mine.identity) == str(theirs.identity)
        assert theirs.identity.account == f"{account.name}@%"
    assert str(mine.identity).endswith(f"/{mydatabase.name}")


def test_identity_outlives_the_servers_process(own: MyDatabase) -> None:
    with my_session(own.url()) as before:
        pass
    myservers.end(own.server)
    own.server = myservers.restart(own.server, same_port=True)
    with my_session(own.url()) as after:
        assert str(after.identity) == str(before.identity)
    myservers.end(own.server)


def test_settings_of_the_session(mydatabase: MyDatabase) -> None:
    with my_session(mydatabase.url()) as mine:
        mine.check_still_mine(lock_timeout_s=2)
        names = ("wait_timeout", "lock_wait_timeout", "innodb_lock_wait_timeout",
                 "max_statement_time", "autocommit")  # fmt: skip
        found = dict(mine.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN {names!r}"))
    assert int(found["wait_timeout"]) == IDLE_S
    assert (found["lock_wait_timeout"], found["innodb_lock_wait_timeout"]) == ("2", "2")
    assert found["autocommit"] == "ON"
    if mydatabase.server.make == "mariadb":
        assert 50 < float(found["max_statement_time"]) <= 60


def test_the_lock_is_polled_and_its_holder_is_named(mydatabase: MyDatabase) -> None:
    url = mydatabase.url()
    with my_session(url, locked=True) as first, my_session(url) as second:
        with pytest.raises(LockHeld) as held:
            second.lock(0.3)
        assert f"thread {first.thread}" in held.value.message
        assert "ptahk/test/" in held.value.message
        first.close()
        second.lock(5)
        second.check_still_mine()


def test_a_lock_that_is_gone_is_noticed(mydatabase: MyDatabase) -> None:
    with my_session(mydatabase.url(), locked=True) as mine:
        mine.query("SELECT RELEASE_LOCK(%s)", (mine.lock_name,))
        with pytest.raises(Refused) as changed:
            mine.check_still_mine()
    assert changed.value.reason == "SessionChanged"


# Servers that may not be written to.


def test_a_read_only_server_is_refused(own: MyDatabase, tmp_path: Path) -> None:
    modes = ["read_only"] + ["super_read_only"] * (own.server.make == "mysql")
    with operator(own.url(), tmp_path, defaults={"engine": "mysql"}) as here:
        planned = here.plan(TEXT)
        for mode in modes:
            own.run(f"SET GLOBAL {mode} = ON")
            says(refused(own.url()), "StandbyServer", mode, "primary")
            late = here.apply(planned)
            assert (late.exit_code, late.reason) == (3, "StandbyServer")
        own.run(*(f"SET GLOBAL {mode} = OFF" for mode in reversed(modes)))
        assert own.rows("SHOW TABLES") == []
        assert here.apply(planned).exit_code == 0


def test_a_server_that_becomes_read_only_gets_no_further_statement(own: MyDatabase) -> None:
    with my_session(own.url(), locked=True) as mine:
        own.run("SET GLOBAL read_only = ON")
        with pytest.raises(Refused) as changed:
            mine.check_still_mine()
        own.run("SET GLOBAL read_only = OFF")
    says(changed.value, "SessionChanged", "read-only")


CHANNELS = {
    # make: begin, start, stop, end; of the channel that has no name, and of one that has.
    "mysql": (
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1,"
        " SOURCE_USER = 'r' FOR CHANNEL '{}'",
        "START REPLICA SQL_THREAD FOR CHANNEL '{}'",
        "STOP REPLICA FOR CHANNEL '{}'",
        "RESET REPLICA ALL FOR CHANNEL '{}'",
    ),
    "mariadb": (
        "CHANGE MASTER '{}' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'r'",
        "START SLAVE '{}' SQL_THREAD",
        "STOP SLAVE '{}'",
        "RESET SLAVE '{}' ALL",
    ),
}
MONITOR = {"mysql": "REPLICATION CLIENT", "mariadb": "SLAVE MONITOR"}


def test_a_replica_is_refused(own: MyDatabase) -> None:
    """One with a channel to a source that takes writes. Whether it is at work any account sees;
    one that was stopped, only an account that may."""
    begin, start, stop, end = CHANNELS[own.server.make]
    plain, seeing = own.account("ALL"), own.account("ALL")
    own.run(f"GRANT {MONITOR[own.server.make]} ON *.* TO '{seeing.name}'@'%'")
    with my_session(own.url(plain)) as mine, my_session(own.url(seeing)) as theirs:
        assert [MONITOR[own.server.make] in note for note in mine.identity.notes] == [True]
        assert theirs.identity.notes == ()
    for channel in ("", "one"):
        own.run(begin.format(channel))
        says(refused(own.url()), "StandbyServer", "replica", "primary")
        says(refused(own.url(seeing)), "StandbyServer", "replica", "primary")
        own.run(start.format(channel))
        says(refused(own.url(plain)), "StandbyServer", "replica", "primary")
        own.run(stop.format(channel))
        says(refused(own.url()), "StandbyServer", "replica", "primary")
        own.run(end.format(channel))
        with my_session(own.url()), my_session(own.url(plain)), my_session(own.url(seeing)):
            pass


def test_a_plan_says_what_its_account_cannot_see(mydatabase: MyDatabase, tmp_path: Path) -> None:
    """Where there is something to apply."""
    account = mydatabase.account("ALL")
    mydatabase.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
    with operator(mydatabase.url(account), tmp_path, defaults={"engine": "mysql"}) as here:
        planned = here.plan(TEXT)
        assert MONITOR[mydatabase.server.make] in str(planned.result["summary"]["notes"])
        assert here.apply(planned).exit_code == 0
        assert MONITOR[mydatabase.server.make] not in str(here.plan(TEXT).result["summary"])


def test_a_group_of_several_primaries_is_refused(own: MyDatabase) -> None:
    if own.server.make == "mariadb":
        _answered(own, group_replication_group_name="aaaa", refusal="Group Replication")
        return
    own.run(
        "INSTALL PLUGIN group_replication SONAME 'group_replication.so'",
        "SET GLOBAL group_replication_group_name = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'",
    )
    with my_session(own.url()), my_session(own.url(own.account("ALL"))):
        pass  # of one primary, which this is: it takes writes
    own.run(
        "SET GLOBAL group_replication_single_primary_mode = OFF",
        "SET GLOBAL group_replication_enforce_update_everywhere_checks = ON",
    )
    says(refused(own.url()), "MultiWriterServer", "Group Replication", "one writer")


def test_a_member_of_galera_is_refused(mydatabase: MyDatabase) -> None:
    """The answers are ours: Debian's servers come without Galera's library, so none can be one."""
    _answered(mydatabase, wsrep_on="ON", wsrep_provider="/usr/lib/galera/libgalera_smm.so",
              refusal="Galera")  # fmt: skip


def _answered(database: MyDatabase, *, refusal: str, **variables: str) -> None:
    """A real server's answers, with these variables beside its own."""
    variables.setdefault("group_replication_single_primary_mode", "OFF")
    with my_session(database.url()) as mine:

        def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
            rows = mine.query(sql, params)
            if not sql.startswith("SHOW GLOBAL VARIABLES"):
                return rows
            return [*(row for row in rows if row[0] not in variables), *variables.items()]

        with pytest.raises(Refused) as caught:
            servers.identify(query)
    says(caught.value, "MultiWriterServer", refusal, "one writer")


# Servers on which the same text means something else.


@pytest.mark.parametrize(
    "mode",
    ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "IGNORE_SPACE", "REAL_AS_FLOAT",
     "HIGH_NOT_PRECEDENCE", "ANSI"],
)  # fmt: skip
def test_a_mode_that_changes_meaning_is_refused(mydatabase: MyDatabase, mode: str) -> None:
    """As it reaches one account, so that nobody else's session on the shared server has it."""
    with mode_of_new_sessions(mydatabase, mode) as account:
        says(refused(mydatabase.url(account)), "SqlModeRefused", mode, "sql_mode")


@pytest.mark.parametrize(
    ("said", "reason", "word"),
    [
        ("8.0.43", "UnsupportedServer", "8.4"),
        ("5.7.44-log", "UnsupportedServer", "8.4"),
        ("10.6.22-MariaDB", "UnsupportedServer", "10.11"),
        ("5.5.5-10.5.29-MariaDB-log", "UnsupportedServer", "10.11"),
        ("8.0.11-TiDB-v7.5.0", "UnsupportedServer", "neither"),
        ("what", "UnsupportedServer", "unknown"),
    ],
)
def test_servers_of_other_versions_are_refused(
    mydatabase: MyDatabase, said: str, reason: str, word: str
) -> None:
    """The version is ours: one server of each make is installed here."""
    with my_session(mydatabase.url()) as mine:

        def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
            rows = mine.query(sql, params)
            return [(said, *rows[0][1:])] if sql.startswith("SELECT VERSION()") else rows

        with pytest.raises(Refused) as caught:
            servers.identify(query)
    says(caught.value, reason, word)


def test_a_server_of_the_other_make_is_refused(mydatabase: MyDatabase) -> None:
    make = mydatabase.server.make
    other = {"mysql": "mariadb", "mariadb": "mysql"}[make]
    with my_session(mydatabase.url(), make=make):
        pass
    says(refused(mydatabase.url(), make=other), "WrongServer", f"target.engine={other}", make)


# What the account or the URL cannot do.


def test_a_database_that_does_not_exist_is_refused(mydatabase: MyDatabase) -> None:
    error = refused(mydatabase.server.url("nosuchdatabase"))
    assert isinstance(error, UsageError)
    says(error, "Denied", "nosuchdatabase", "create it first")


def test_a_wrong_password_is_refused(mydatabase: MyDatabase) -> None:
    account = mydatabase.account("ALL")
    error = refused(mydatabase.server.url(mydatabase.name, account.name, "wrong"))
    says(error, "Denied", account.name)
    assert "wrong" not in error.message.replace(account.name, "")


def test_nobody_listens(mydatabase: MyDatabase) -> None:
    assert isinstance(refused(mydatabase.url(port="1")), Unreachable)


@pytest.mark.parametrize(
    ("grants", "reason", "words"),
    [
        (("SELECT",), "ScratchUnavailable", ("ptahk\\_scratch\\_%", "CREATE", "DROP")),
        (("SELECT", "SCRATCH"), "LedgerMissing", ("ptahk ledger-sql", "--grant-to")),
    ],
)
def test_an_account_without_the_rights_is_told_what_to_grant(
    mydatabase: MyDatabase, tmp_path: Path, grants: tuple[str, ...], reason: str,
    words: tuple[str, ...],
) -> None:  # fmt: skip
    account = mydatabase.account(*(grant for grant in grants if grant != "SCRATCH"))
    if "SCRATCH" in grants:
        mydatabase.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
    with operator(mydatabase.url(account), tmp_path, defaults={"engine": "mysql"}) as here:
        done = here.plan(TEXT)
    assert (done.exit_code, done.reason) == (3, reason), done.frame["error"]
    told = f"{done.message} {done.frame['error'].get('hint')}"
    for word in words:
        assert word in told
    assert mydatabase.rows("SHOW TABLES") == []


def test_an_account_that_may_not_alter_leaves_nothing_half_done(
    mydatabase: MyDatabase, tmp_path: Path
) -> None:
    mydatabase.run("CREATE TABLE a (id int PRIMARY KEY)")
    account = mydatabase.account("SELECT, CREATE, INSERT, UPDATE, DELETE, REFERENCES")
    mydatabase.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
    text = "CREATE TABLE a (id int PRIMARY KEY, n int); CREATE TABLE b (id int PRIMARY KEY);"
    with operator(mydatabase.url(account), tmp_path, defaults={"engine": "mysql"}) as here:
        planned = here.plan(text)
        failed = here.apply(planned)
    assert (failed.exit_code, failed.reason) == (5, "StatementFailed"), failed.frame["error"]
    assert "ALTER command denied" in failed.message
    done = int(failed.result["statementsDone"])
    assert failed.frame["outcomeCertain"] is True
    assert [row[0] for row in mydatabase.rows("SHOW TABLES LIKE 'b'")] == ["b"] * done
    assert mydatabase.rows("SHOW COLUMNS FROM a LIKE 'n'") == []


# Proxies.


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_proxy_that_multiplexes_is_refused(
    mydatabase: MyDatabase, tmp_path: Path, sessions: int
) -> None:
    """One session for everybody, or one after the other for each: nothing is taken or written."""
    proxy = Proxy(mydatabase, sessions)
    with proxy.running(), operator(proxy.url(), tmp_path, defaults={"engine": "mysql"}) as here:
        done = here.plan(TEXT)
    assert (done.exit_code, done.reason) == (3, "TransactionPooler"), done.frame["error"]
    assert mydatabase.rows("SHOW TABLES") == []
    with my_session(mydatabase.url(), locked=True):  # no session of the proxy's has the lock
        pass


def test_a_direct_session_is_no_proxy(mydatabase: MyDatabase) -> None:
    with my_session(mydatabase.url(), locked=True) as mine:
        refuse_pooler(mine, mydatabase.url(), 5)
        mine.check_still_mine()


# Sending before reading.


def numbers(count: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Reads of some 60 bytes with their number in the answer; every tenth has many rows."""
    sql = "SELECT table_name, {} FROM information_schema.tables LIMIT %s"
    return [(sql.format(n), (1 if n % 10 else 100,)) for n in range(count)]


def test_several_reads_are_answered_in_order(mydatabase: MyDatabase) -> None:
    """Far more than is ever under way at once."""
    asked = numbers(400)
    assert sum(len(sql) for sql, _ in asked) > 5 * BATCH_BYTES
    with my_session(mydatabase.url()) as mine:
        for found in (mine.answers(asked), pipeline.answers(mine.connection, asked)):
            assert [{int(row[1]) for row in rows} for rows in found] == [{n} for n in range(400)]
            assert len(found[0]) > 50 > len(found[1])
        assert mine.query("SELECT 'next'") == (("next",),)
        assert list(mine.answers([])) == []


def test_a_refused_read_leaves_the_session_in_order(mydatabase: MyDatabase) -> None:
    asked = numbers(300)
    asked[70] = ("SELECT nothing", ())
    with my_session(mydatabase.url()) as mine:
        with pytest.raises(pymysql.MySQLError, match="nothing"):
            pipeline.answers(mine.connection, asked)
        assert mine.query("SELECT 'next'") == (("next",),)
        assert [rows[0][1] for rows in pipeline.answers(mine.connection, numbers(3))] == [0, 1, 2]


def test_a_session_that_was_ended_is_lost(mydatabase: MyDatabase) -> None:
    with my_session(mydatabase.url()) as mine:
        mydatabase.run(f"KILL {mine.thread}")
        with pytest.raises(ConnectionLost):
            mine.answers(numbers(300))
        assert mine.lost
        with pytest.raises(ConnectionLost), mine.begun("SELECT 1"):
            pass


def test_nothing_is_sent_ahead_through_a_proxy(
    mydatabase: MyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor to MySQL, which nobody says takes it."""

    def never(*_: object) -> None:
        raise AssertionError("sent ahead")

    with my_session(mydatabase.url()) as mine:
        monkeypatch.setattr(pipeline, "answers", never)
        if mine.identity.mariadb:
            with pytest.raises(AssertionError, match="sent ahead"):
                mine.answers(numbers(2))
            monkeypatch.setattr(mine, "thread", mine.thread + 1)
        assert [rows[0][1] for rows in mine.answers(numbers(2))] == [0, 1]


def test_a_statement_runs_beside_the_block(mydatabase: MyDatabase) -> None:
    with my_session(mydatabase.url()) as mine, my_session(mydatabase.url()) as other:
        with mine.begun("CREATE TABLE a (id int)"):
            until(lambda: other.query("SHOW TABLES LIKE 'a'"), "the table")
        assert mine.query("SELECT 'next'") == (("next",),)
        exists = pytest.raises(pymysql.MySQLError, match="already exists")
        with exists, mine.begun("CREATE TABLE a (id int)"):
            raise ValueError("what the block raises comes second")
        assert mine.query("SELECT 'next'") == (("next",),)


def test_the_password_is_in_no_message(mydatabase: MyDatabase, tmp_path: Path) -> None:
    account = mydatabase.account()  # without any right to the database
    with operator(mydatabase.url(account), tmp_path, defaults={"engine": "mysql"}) as here:
        done = here.plan(TEXT)
    assert done.exit_code == 2, done.frame["error"]
    assert account.password not in str(done.frame)
