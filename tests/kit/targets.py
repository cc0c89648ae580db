"""One database of any engine, for tests that hold for all of them.

A test says by capability what it needs (``@pytest.mark.needs(...)``), never by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from ptahk.wire import digest
from tests.kit import databases, mydatabases, myservers, servers
from tests.kit.databases import Database, unique
from tests.kit.mydatabases import MyDatabase

TRANSACTIONAL_DDL: Final = "transactional-ddl"
"""What a failed group did is undone as a whole."""
SCHEMAS: Final = "schemas"
"""A database holds several."""
IMPLICIT_COMMIT: Final = "implicit-commit"
"""DDL commits by itself."""
CAPABILITIES: Final[dict[str, frozenset[str]]] = {
    "pg18": frozenset({TRANSACTIONAL_DDL, SCHEMAS}),
    "mysql": frozenset({IMPLICIT_COMMIT}),
    "mariadb": frozenset({IMPLICIT_COMMIT}),
}
"""By the target's name, which is also the parameter's."""


@dataclass(frozen=True)
class Target:
    """A fresh database, with the few questions that these tests ask of every engine."""

    name: str
    database: Database | MyDatabase

    @property
    def engine(self) -> str:
        """The family."""
        return "postgresql" if isinstance(self.database, Database) else "mysql"

    @property
    def settings(self) -> dict[str, Any]:
        """What a JobSpec says of it."""
        return {"engine": self.engine}

    def can(self, capability: str) -> bool:
        """Whether the engine has it."""
        return capability in CAPABILITIES[self.name]

    def url(self) -> str:
        """The superuser's."""
        return self.database.url()

    def table(self, name: str) -> str:
        """A table's name in a declaration."""
        return f"public.{name}" if self.can(SCHEMAS) else name

    def quoted(self, name: str, *, qualified: bool = False) -> str:
        """Any name in a declaration; qualified: of a table or a view."""
        mark = '"' if self.engine == "postgresql" else "`"
        text = mark + name.replace(mark, mark * 2) + mark
        return f"public.{text}" if qualified and self.can(SCHEMAS) else text

    def run(self, *statements: str) -> None:
        """Run statements as the superuser."""
        for text in statements:
            self.database.run(text)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The rows that a query answers."""
        return self.database.rows(text)

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""
        schema = "public" if self.can(SCHEMAS) else self.database.name
        return bool(
            self.rows(
                "SELECT 1 FROM information_schema.tables"
                f" WHERE table_schema = '{schema}' AND table_name = '{name}'"
            )
        )

    def has_column(self, table: str, column: str) -> bool:
        """Whether there is a column of that name."""
        schema = "public" if self.can(SCHEMAS) else self.database.name
        return bool(
            self.rows(
                "SELECT 1 FROM information_schema.columns WHERE"
                f" table_schema = '{schema}' AND table_name = '{table}'"
                f" AND column_name = '{column}'"
            )
        )

    @property
    def attempt(self) -> str:
        """The ledger's table."""
        return "ptahk.attempt" if self.engine == "postgresql" else "ptahk_attempt"

    def has_ledger(self) -> bool:
        """Whether somebody made it."""
        schema, _, table = self.attempt.rpartition(".")
        return bool(
            self.rows(
                "SELECT 1 FROM information_schema.tables WHERE table_schema ="
                f" '{schema or self.database.name}' AND table_name = '{table}'"
            )
        )

    def attempts(self) -> list[tuple[Any, ...]]:
        """State, outcome and statements done of every attempt, oldest first."""
        return self.rows(
            f"SELECT state, outcome, statements_done FROM {self.attempt} ORDER BY number"
        )

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Somebody else holds the database's lock: the server's number of their session."""
        with self.database.connect() as conn, conn.cursor() as cursor:
            if self.engine == "postgresql":
                cursor.execute(f"SELECT pg_advisory_lock({digest.advisory_lock_key()})")
                cursor.execute("SELECT pg_backend_pid()")
            else:
                name = digest.advisory_lock_name(self.database.name)
                cursor.execute(f"SELECT GET_LOCK('{name}', 5)")
                cursor.fetchall()
                cursor.execute("SELECT CONNECTION_ID()")
            found = cursor.fetchone()
            assert found is not None
            yield int(found[0])

    @contextmanager
    def in_use(self, table: str) -> Iterator[None]:
        """Somebody else reads the table inside a transaction."""
        with self.database.connect() as conn, conn.cursor() as opened:
            cursor: Any = opened
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {self.table(table)}")
            yield
            cursor.execute("ROLLBACK")

    def waiting_lock_owner(self) -> int:
        """The one session that both owns the database's lock and waits for a table; else 0.

        By the server's own views alone: the owner of the lock, joined with who waits.
        """
        if self.engine == "postgresql":
            rows = self.rows(
                "SELECT a.pid FROM pg_locks a JOIN pg_locks w USING (pid)"
                " WHERE a.locktype = 'advisory' AND a.granted AND w.locktype = 'relation'"
                " AND NOT w.granted AND a.database = w.database AND a.database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        else:
            name = digest.advisory_lock_name(self.database.name)
            rows = self.rows(
                "SELECT t.processlist_id FROM performance_schema.threads t"
                " JOIN performance_schema.metadata_locks owned"
                " ON owned.owner_thread_id = t.thread_id"
                " JOIN performance_schema.metadata_locks waited"
                " ON waited.owner_thread_id = t.thread_id"
                f" WHERE owned.object_type = 'USER LEVEL LOCK' AND owned.object_name = '{name}'"
                " AND owned.lock_status = 'GRANTED' AND waited.object_type = 'TABLE'"
                f" AND waited.object_schema = '{self.database.name}'"
                " AND waited.lock_status = 'PENDING'"
            )
        return int(rows[0][0]) if rows else 0

    def applying(self) -> list[tuple[Any, ...]]:
        """The sessions of Applies on this database, by the server's own view."""
        if self.engine == "postgresql":
            return self.rows(
                "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'ptahk/apply/%'"
                " AND datname = current_database()"
            )
        return self.rows(
            "SELECT t.processlist_id FROM performance_schema.threads t"
            " JOIN performance_schema.session_connect_attrs a ON"
            " a.processlist_id = t.processlist_id AND a.attr_name = 'program_name'"
            " WHERE a.attr_value LIKE 'ptahk/apply/%'"
            f" AND t.processlist_db = '{self.database.name}'"
        )

    def account(self, password: str) -> str:
        """An ordinary account with this password that may plan and apply here; its name."""
        name = unique("spelled")[-32:]
        if self.engine == "postgresql":
            who, database = sql.Identifier(name), sql.Identifier(self.database.name)
            with self.database.connect() as opened:
                conn: Any = opened
                for text in (
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(who, password),
                    sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, who),
                    sql.SQL("GRANT ALL ON SCHEMA public TO {}").format(who),
                ):
                    conn.execute(text)
            return name
        said = password.replace("\\", "\\\\").replace("'", "''")
        self.run(
            f"CREATE USER '{name}'@'%' IDENTIFIED BY '{said}'",
            f"GRANT ALL ON `{self.database.name}`.* TO '{name}'@'%'",
            f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{name}'@'%'",
        )
        return name

    def lock_out(self, account: str) -> None:
        """The account may not log in any more."""
        if self.engine == "postgresql":
            self.run(f"ALTER ROLE {account} NOLOGIN")
        else:
            self.run(f"ALTER USER '{account}'@'%' ACCOUNT LOCK")

    def forget(self, account: str) -> None:
        """Remove an account with what it owns."""
        if self.engine == "postgresql":
            self.run(f"DROP OWNED BY {account} CASCADE", f"DROP ROLE {account}")
        else:
            self.run(f"DROP USER '{account}'@'%'")

    def activity(self, account: str) -> list[str]:
        """All that the server shows of an account's sessions."""
        if self.engine == "postgresql":
            found = self.rows(f"SELECT a::text FROM pg_stat_activity a WHERE usename = '{account}'")
        else:
            found = self.rows(
                "SELECT * FROM information_schema.processlist p"
                " LEFT JOIN performance_schema.session_connect_attrs a ON a.processlist_id = p.id"
                f" WHERE p.user = '{account}'"
            )
        return [str(row) for row in found]

    def kill(self, session: int) -> None:
        """End a session at the server."""
        if self.engine == "postgresql":
            self.rows(f"SELECT pg_terminate_backend({session})")
        else:
            self.run(f"KILL {session}")


@contextmanager
def open_target(run: servers.Run, name: str) -> Iterator[Target]:
    """A target that is gone with the block."""
    made: Database | MyDatabase
    if name.startswith("pg"):
        made = databases.create(run.server(int(name[2:])))
    else:
        made = mydatabases.create(myservers.shared(run, name))
    try:
        yield Target(name, made)
    finally:
        made.drop()
