"""A MySQL or MariaDB database that somebody has prepared against whoever works there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from ptahk.errors import Refused
from ptahk.wire import ledgersql
from tests.kit import mydatabases
from tests.kit.mydatabases import Account, MyDatabase, mode_of_new_sessions
from tests.kit.myservers import MyServer
from tests.kit.operations import Operator, operator
from tests.kit.sessions import my_session

BASE = "CREATE TABLE a (id int PRIMARY KEY);"


@pytest.fixture
def here(mydatabase: MyDatabase, tmp_path: Path) -> Iterator[Operator]:
    """The superuser's operations on a fresh database, from one store."""
    with operator(mydatabase.url(), tmp_path, defaults={"engine": "mysql"}) as made:
        yield made


def worker(database: MyDatabase) -> Account:
    """An account that may do what a plan needs, and sees no triggers."""
    account = database.account(
        "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES"
    )
    database.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
    return account


def refuses(here: Operator, database: MyDatabase) -> str:
    """A plan and an Apply of an earlier one are refused, and nothing is made."""
    planned = here.plan(BASE)
    assert (planned.exit_code, planned.reason) == (3, "LedgerUntrusted"), planned.frame["error"]
    applied = here.apply(planned)
    assert (applied.exit_code, applied.reason) == (3, "LedgerUntrusted"), applied.frame["error"]
    assert applied.frame["mutationStarted"] is False
    assert database.rows("SHOW TABLES LIKE 'a'") == []
    return planned.message


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE ptahk_attempt DROP COLUMN start_nonce",
        "ALTER TABLE ptahk_binding DROP COLUMN bound_at",
        "ALTER TABLE ptahk_attempt DROP PRIMARY KEY",
        "ALTER TABLE ptahk_statement DROP PRIMARY KEY",
        "ALTER TABLE ptahk_attempt MODIFY operation_id varchar(4)",
        "ALTER TABLE ptahk_attempt ENGINE = MyISAM",
        "ALTER TABLE ptahk_attempt ADD more int NOT NULL",
        "CREATE TRIGGER trap BEFORE INSERT ON ptahk_attempt FOR EACH ROW SET NEW.number = 7",
        "CREATE TRIGGER trap AFTER UPDATE ON ptahk_statement FOR EACH ROW SET @a = 1",
    ],
)
def test_a_ledger_of_another_shape_is_not_used(
    here: Operator, mydatabase: MyDatabase, change: str
) -> None:
    mydatabase.run(*ledgersql.MYSQL)
    assert here.plan(BASE).reason is None
    mydatabase.run(change)
    refuses(here, mydatabase)


@pytest.mark.parametrize("table", ledgersql.MYSQL_TABLES)
def test_a_view_under_a_ledgers_name_is_not_used(
    here: Operator, mydatabase: MyDatabase, table: str
) -> None:
    mydatabase.run(*ledgersql.MYSQL)
    mydatabase.run(f"RENAME TABLE {table} TO other", f"CREATE VIEW {table} AS SELECT * FROM other")
    assert table in refuses(here, mydatabase)


@pytest.mark.parametrize(
    "change", ["number = 7", "shared_realm = 1", "store_kind = 'cluster'", "statements_total = 0"]
)
def test_a_trigger_that_this_account_does_not_see_changes_no_row_of_ours(
    mydatabase: MyDatabase, tmp_path: Path, change: str
) -> None:
    mydatabase.run(*ledgersql.MYSQL)
    mydatabase.run(
        f"CREATE TRIGGER trap BEFORE INSERT ON ptahk_attempt FOR EACH ROW SET NEW.{change}"
    )
    account = worker(mydatabase)
    with operator(mydatabase.url(account), tmp_path, defaults={"engine": "mysql"}) as theirs:
        planned = theirs.plan(BASE)
        applied = theirs.apply(planned)
    assert (applied.exit_code, applied.reason) == (3, "LedgerUntrusted"), applied.frame
    assert applied.frame["mutationStarted"] is False
    assert mydatabase.rows("SHOW TABLES LIKE 'a'") == []
    assert mydatabase.rows("SELECT * FROM ptahk_attempt") == []


def test_a_mode_under_which_the_server_says_less_is_refused(mydatabase: MyDatabase) -> None:
    """MariaDB leaves engine and character set out of SHOW CREATE TABLE: nobody would see them
    change. MySQL has no such mode."""
    if mydatabase.server.make == "mysql":
        with pytest.raises(pymysql.err.OperationalError, match="1231"):
            mydatabase.run("SET sql_mode = 'NO_TABLE_OPTIONS'")
        return
    for mode in ("NO_TABLE_OPTIONS", "NO_KEY_OPTIONS", "NO_FIELD_OPTIONS"):
        with (
            mode_of_new_sessions(mydatabase, mode) as account,
            pytest.raises(Refused) as caught,
            my_session(mydatabase.url(account)),
        ):
            pass
        assert (caught.value.reason, mode in caught.value.message) == ("SqlModeRefused", True)


SET_UP = (
    "SET NAMES latin1", "SET autocommit = 0", "SET sql_select_limit = 1",
    "SET foreign_key_checks = 0", "SET unique_checks = 0", "SET sql_quote_show_create = 0",
    "SET time_zone = '+05:00'", "SET group_concat_max_len = 8",
)  # fmt: skip


def test_what_new_sessions_are_set_to_changes_nothing(
    own_myserver: MyServer, tmp_path: Path
) -> None:
    """``init_connect`` comes before us in every session of an ordinary account."""
    text = (
        "CREATE TABLE `tä` (id int PRIMARY KEY, `ö` varchar(9) DEFAULT 'é');"
        " CREATE TABLE b (id int PRIMARY KEY, FOREIGN KEY f (id) REFERENCES `tä` (id));"
        " CREATE TABLE c (id int PRIMARY KEY, at timestamp DEFAULT '2024-01-01 00:00:00');"
    )
    database = mydatabases.create(own_myserver)
    account = worker(database)
    database.run(f'SET GLOBAL init_connect = "{"; ".join(SET_UP)}"')
    with operator(database.url(account), tmp_path, defaults={"engine": "mysql"}) as theirs:
        theirs.converge(text)
        database.run("SET GLOBAL init_connect = ''")
        planned = theirs.plan(text)
    assert planned.reason is None, planned.frame["error"]
    assert planned.statements == [], planned.statements


def test_names_and_functions_of_the_database_catch_nobody(
    here: Operator, mydatabase: MyDatabase
) -> None:
    """Stored functions named as the server's own that we call, and objects of any name."""
    for name in ("is_used_lock", "connection_id", "utc_timestamp", "coalesce", "count", "version"):
        with contextlib.suppress(pymysql.MySQLError):  # some names are the server's alone
            mydatabase.run(f"CREATE FUNCTION `{name}`() RETURNS int DETERMINISTIC RETURN 1/0")
    mydatabase.run(
        "CREATE TABLE `x``; DROP TABLE y; -- %s {0} \\` (`a``b'c\"%` int, g int AS (1 / 0))",
        "CREATE TABLE `information_schema` (`schema` int)",
        "CREATE VIEW broken AS SELECT * FROM `information_schema`",
        "ALTER TABLE `information_schema` RENAME `mysql.user`",
    )
    here.policy = here.policy_with(allow_destructive=True)
    here.converge(BASE)
    assert [row[0] for row in mydatabase.rows("SHOW TABLES") if row[0][:6] != "ptahk_"] == ["a"]
