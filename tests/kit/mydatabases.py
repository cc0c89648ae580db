"""Fresh databases and accounts on a MySQL or MariaDB test server, which leave nothing behind."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql.connections
import pymysql.cursors

from tests.kit.databases import unique
from tests.kit.myservers import MyServer


@dataclass(frozen=True)
class Account:
    """A login account of one test."""

    name: str
    password: str = field(repr=False)


def ident(name: str) -> str:
    """A quoted identifier."""
    return "`" + name.replace("`", "``") + "`"


@dataclass
class MyDatabase:
    """A database of one test, with the accounts made for it."""

    server: MyServer
    name: str
    accounts: list[Account] = field(default_factory=list)

    def url(self, account: Account | None = None, **parameters: str) -> str:
        """Its URL over TCP, as the superuser or as an account."""
        if account is None:
            return self.server.url(self.name, **parameters)
        return self.server.url(self.name, account.name, account.password, **parameters)

    @contextmanager
    def connect(self) -> "Iterator[pymysql.connections.Connection[pymysql.cursors.Cursor]]":
        """The superuser's connection, in autocommit mode."""
        with closing(self.server.connect(self.name)) as made:
            yield made

    def run(self, *statements: str) -> None:
        """Run statements, each by itself."""
        with self.connect() as conn, conn.cursor() as cursor:
            for text in statements:
                cursor.execute(text)

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a query answers."""
        with self.connect() as conn, conn.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    def account(self, *grants: str) -> Account:
        """An account with these privileges on this database (``ALL``, ``SELECT, INSERT`` …)."""
        made = Account(unique("u")[-32:], secrets.token_urlsafe(9))
        self.accounts.append(made)
        self.run(f"CREATE USER '{made.name}'@'%' IDENTIFIED BY '{made.password}'")
        for grant in grants:
            # An underscore in a database's name is a wildcard in a grant.
            pattern = ident(self.name.replace("_", "\\_"))
            self.run(f"GRANT {grant} ON {pattern}.* TO '{made.name}'@'%'")
        return made

    def drop(self) -> None:
        """Remove the database and its accounts."""
        with closing(self.server.connect()) as conn, conn.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {ident(self.name)}")
            for account in self.accounts:
                cursor.execute(f"DROP USER IF EXISTS '{account.name}'@'%'")


def create(server: MyServer, name: str | None = None) -> MyDatabase:
    """Make a fresh database on a server."""
    database = MyDatabase(server, name or unique("db"))
    with closing(server.connect()) as conn, conn.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {ident(database.name)}")
    return database


@contextmanager
def mode_of_new_sessions(database: MyDatabase, mode: str) -> Iterator[Account]:
    """An account of any right here, whose new sessions have this sql_mode besides."""
    account = database.account("ALL")
    test = f"IF(CURRENT_USER() LIKE '{account.name}@%', CONCAT(@@sql_mode, ',{mode}'), @@sql_mode)"
    database.run(f'SET GLOBAL init_connect = "SET sql_mode = {test}"')
    try:
        yield account
    finally:
        database.run("SET GLOBAL init_connect = ''")
