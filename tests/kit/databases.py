"""Fresh databases and roles on a test server, which leave nothing behind."""

import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from tests.kit.servers import SUPERUSER, Server

_number = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that no other worker of the run uses."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{prefix}_{worker}_{os.getpid()}_{next(_number)}"


@dataclass(frozen=True)
class Role:
    """A login role of one test."""

    name: str
    password: str = field(repr=False)


@dataclass
class Database:
    """A database of one test, with the roles made for it."""

    server: Server
    name: str
    roles: list[Role] = field(default_factory=list)

    def url(self, role: Role | None = None, **parameters: str) -> str:
        """Its URL over TCP, as the superuser or as a role."""
        if role is None:
            return self.server.url(self.name, **parameters)
        return self.server.url(self.name, role.name, role.password, **parameters)

    @contextmanager
    def connect(self, role: Role | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit mode."""
        user = role.name if role else SUPERUSER
        with psycopg.connect(self.server.socket_url(self.name, user), autocommit=True) as conn:
            yield conn

    def run(self, text: str, role: Role | None = None) -> None:
        """Run a script of statements, each by itself as psql would."""
        with self.connect(role) as conn:
            conn.execute(text.encode())

    def rows(self, text: str, *values: object, role: Role | None = None) -> list[tuple[Any, ...]]:
        """The rows that a query answers."""
        with self.connect(role) as conn:
            return conn.execute(text.encode(), values or None).fetchall()

    def role(
        self,
        *,
        owns: tuple[str, ...] = (),
        reads: tuple[str, ...] = (),
        create_database: bool = False,
        create_schema: bool = False,
    ) -> Role:
        """Make an ordinary login role, never a superuser.

        :param owns: schemas that it owns; made where they are missing.
        :param reads: schemas of which it may read every present and future table, no more.
        :param create_database: may make databases, so that it can have a scratch one.
        :param create_schema: may make schemas in this database.
        """
        role = Role(unique("role"), secrets.token_urlsafe(12))
        name = sql.Identifier(role.name)
        with self.connect() as conn:
            conn.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} {}").format(
                    name,
                    sql.Literal(role.password),
                    sql.SQL("CREATEDB" if create_database else "NOCREATEDB"),
                )
            )
            self.roles.append(role)
            if create_schema:
                conn.execute(
                    sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                        sql.Identifier(self.name), name
                    )
                )
            for schema in map(sql.Identifier, owns):
                conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
                conn.execute(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(schema, name))
            for schema in map(sql.Identifier, reads):
                for grant in _READ:
                    conn.execute(sql.SQL(grant).format(schema, name))
        return role

    def drop(self) -> None:
        """Remove the database, its roles, and whatever databases the roles left behind."""
        with psycopg.connect(self.server.socket_url(), autocommit=True) as conn:
            left = [self.name]
            for role in self.roles:
                left += _owned(conn, role)
            for name in left:
                conn.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(sql.Identifier(name))
                )
            for role in self.roles:
                conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role.name)))
                conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role.name)))


_READ = (
    "GRANT USAGE ON SCHEMA {} TO {}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO {}",
)


def _owned(conn: psycopg.Connection[Any], role: Role) -> list[str]:
    rows = conn.execute(
        "SELECT datname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE rolname = %s",
        [role.name],
    )
    return [name for (name,) in rows]


def create(server: Server, *, template: str = "template0") -> Database:
    """Make a fresh database on a server."""
    database = Database(server, unique("db"))
    with psycopg.connect(server.socket_url(), autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(database.name), sql.Identifier(template)
            )
        )
    return database
