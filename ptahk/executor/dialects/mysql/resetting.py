"""The same session state before every file, by means that keep the lock (C-11.12).

``COM_RESET_CONNECTION`` would end the lock. So what the session had before the first file is kept,
and what a file set, assigned, prepared or made for itself is put back or taken away.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Final

import pymysql

from ptahk.executor.dialects.mysql.driver import code_of
from ptahk.executor.dialects.mysql.quote import ident, literal
from ptahk.executor.dialects.mysql.session import Session
from ptahk.migrations import effects
from ptahk.migrations.lexing.tokens import Statement

_MOVING: Final = frozenset(
    {
        "timestamp", "rand_seed1", "rand_seed2", "insert_id", "last_insert_id", "identity",
        "warning_count", "error_count", "pseudo_thread_id", "in_transaction", "last_gtid",
        "gtid_current_pos", "gtid_binlog_pos", "gtid_binlog_state", "gtid_executed", "gtid_owned",
        "gtid_purged", "statement_id",
        # The session's own, for each statement anew.
        "lock_wait_timeout", "innodb_lock_wait_timeout", "max_statement_time",
        # The database's.
        "character_set_database", "collation_database",
    }
)  # fmt: skip
_NOT_OF_A_SESSION: Final = frozenset({1193, 1229, 1238})
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?\Z")


class Baseline:
    """What a session is before each file.

    :param foreign_key_checks: ``session.foreignKeyChecks``.
    :param database: where the files run; "": in the session's own.
    """

    def __init__(self, session: Session, foreign_key_checks: bool, database: str = "") -> None:
        self.session = session
        self.database = database or session.database
        session.run(f"SET SESSION foreign_key_checks = {int(foreign_key_checks)}")
        self._used: list[Statement] = []
        self._variables = self._read()
        self._role = self._current_role()

    def _read(self) -> dict[str, str]:
        rows = self.session.query("SHOW SESSION VARIABLES")
        return {str(name): str(value) for name, value in rows if str(name) not in _MOVING}

    def _current_role(self) -> str:
        return str(self.session.query("SELECT CURRENT_ROLE()")[0][0] or "NONE")

    def use(self, statements: Sequence[Statement]) -> None:
        """These may run from here on."""
        self._used += statements

    def restore(self) -> None:
        """Put everything back. :raises pymysql.MySQLError: something cannot be put back."""
        session = self.session
        if session.in_transaction:
            session.run("ROLLBACK")
        session.run("UNLOCK TABLES")
        self._put_back()
        session.run("SET SESSION timestamp = DEFAULT")
        used, self._used = self._used, []
        for text in effects.leftovers(used):
            with contextlib.suppress(pymysql.MySQLError):  # it may not have come that far
                session.run(text)
        if session.query("SELECT DATABASE()")[0][0] != self.database:
            session.run(f"USE {ident(self.database)}")
        if self._current_role() != self._role:
            role = self._role
            named = ident(role) if session.identity.mariadb and role != "NONE" else role
            session.run(f"SET ROLE {named}")

    def _put_back(self) -> None:
        """Only what changed: some of these need a right to be set at all."""
        self.session.run("SET SESSION character_set_results = utf8mb4")  # what we read
        now = self._read()
        for name, value in sorted(self._variables.items()):
            if now.get(name, value) == value:
                continue
            plain = _NUMBER.match(value) or value in ("ON", "OFF")
            text = value if plain else literal(value)
            try:
                self.session.run(f"SET SESSION {name} = {text}")
            except pymysql.MySQLError as error:
                if code_of(error) not in _NOT_OF_A_SESSION:
                    raise

    def leave(self) -> None:
        """After the last file: what the rest of the operation works with."""
        self.restore()
        self.session.run("SET SESSION foreign_key_checks = 1")
