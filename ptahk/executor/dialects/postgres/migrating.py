"""Runs a sequence's files on PostgreSQL, and records each beside its own work (C-11.11, C-11.12).

``file``: the running row is committed, then the file and its ``applied`` row in one transaction.
``none``: each statement commits together with its progress; one that cannot run in a transaction
stands between an intent mark and its progress.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from ptahk.executor.dialects.postgres import revisions
from ptahk.executor.dialects.postgres.session import (
    CHECK_INTERVAL,
    ConnectionLost,
    Session,
    first_line,
)
from ptahk.executor.filerun import (
    EndedTransaction,
    Failure,
    MigrationFailed,
    Run,
    refuse_changed,
    requirement_not_met,
    resume_refused,
)
from ptahk.migrations import rules, words
from ptahk.migrations.history import RowState
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Migration

__all__ = ["MigrationFailed", "Run"]

SETTLE_S: Final = 10.0
_RESETS: Final = (
    # As DISCARD ALL, but for the advisory locks.
    "SET SESSION AUTHORIZATION DEFAULT", "RESET ROLE", "RESET ALL", "CLOSE ALL", "DEALLOCATE ALL",
    "UNLISTEN *", "DISCARD TEMP",
)  # fmt: skip
_SETTINGS: Final = (
    ("standard_conforming_strings", "on"),
    ("default_transaction_read_only", "off"),
    ("synchronous_commit", "on"),
    ("idle_in_transaction_session_timeout", "0"),
    ("lc_messages", "C"),
    ("client_connection_check_interval", CHECK_INTERVAL),
)
_UNREPEATABLE: Final = frozenset({"PREPARE", "DECLARE", "LISTEN", "LOAD"})


def run(session: Session, migrations: Sequence[Migration], run_: Run) -> int:
    """Run files in order, under the lock that the session holds. :returns: statements run.

    :raises MigrationFailed: a statement failed; its row says what took effect.
    :raises Refused: a file's own precondition does not hold; its row was not begun.
    :raises ConnectionLost: what was sent last may or may not have happened.
    """
    before = 0
    for migration in migrations:
        _File(session, migration, run_, before).run()
        before += len(migration.statements)
    return before


def resume(session: Session, migration: Migration, run_: Run, done: int) -> int:
    """Run the rest of a file that stopped after ``done`` statements (C-11.14).

    :raises Refused: ``ResumeRefused``: a statement that was applied is another now, or left
        something in its session that cannot be made again.
    """
    kept = revisions.applied_digests(session, run_.attempt.stream, migration)
    refuse_changed(migration, kept, done)
    if migration.tx_mode != "none":
        raise resume_refused(migration, "the file is one transaction now, and was not")
    file = _File(session, migration, run_, 0)
    file.replayed = [each for each in migration.statements[:done] if _sets_session(migration, each)]
    file.run(done)
    return len(migration.statements) - done


def _sets_session(migration: Migration, statement: Statement) -> bool:
    """It is a setting with literals, to be made again. :raises Refused: it cannot be."""
    first = words.words(statement, 4)
    temporary = first[0] == "CREATE" and any(each in ("TEMP", "TEMPORARY") for each in first[1:])
    if first[0] in _UNREPEATABLE or temporary:
        raise resume_refused(
            migration, f"'{' '.join(each for each in first if each)}' left something in its session"
        )
    return first[0] in ("SET", "RESET") and first[1:2] != ("LOCAL",)


def reset(session: Session) -> None:
    """The same session state before every file; keeps the advisory lock."""
    for text in _RESETS:
        session.run(text)
    for name, value in _SETTINGS:
        # Some need a superuser, and some servers fix them: the defaults will do.
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege, psycopg.DataError):
            session.query("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))


def copy(session: Session, statement: Statement) -> None:
    """``COPY … FROM stdin`` with the rows that the lexer read.

    :raises ConnectionLost: the session is gone.
    :raises psycopg.Error: the server refused it.
    """
    assert statement.data is not None, "the lexer read its rows"
    text: Any = statement.text  # psycopg's type asks for a literal
    try:
        with session.connection.cursor() as cursor, cursor.copy(text) as copying:
            copying.write(statement.data)
    except psycopg.OperationalError as error:
        if session.lost:
            raise ConnectionLost(f"the database session was lost: {error}") from error
        raise


@dataclass(frozen=True, slots=True)
class Explained:
    """What the server said of a statement, and where in its file."""

    message: str
    line: int
    column: int
    code: str | None = None


def explained(statement: Statement, error: psycopg.Error) -> Explained:
    """The server's message with detail and hint, and the place that it names."""
    diag = error.diag
    line, column = statement.line, statement.column
    if diag.statement_position:
        line, column = statement.place_of(int(diag.statement_position))
    more = [text for text in (diag.message_detail, diag.message_hint) if text]
    message = (diag.message_primary or first_line(error)) + (
        f" ({'; '.join(more)})" if more else ""
    )
    return Explained(message, line, column, error.sqlstate)


class _File:
    def __init__(self, session: Session, migration: Migration, run_: Run, before: int) -> None:
        self.session = session
        self.migration = migration
        self.attempt = run_.attempt
        self.run_ = run_
        self.before = before
        """Statements of earlier files."""
        self.replayed: list[Statement] = []
        self.applied = 0
        self.current = 1
        self.marked = False
        """The statement in hand commits by itself: its error may prove nothing."""

    def run(self, done: int = 0) -> None:
        session, migration = self.session, self.migration
        reset(session)
        self._require()
        revisions.start(session, self.attempt, migration, done=done)
        self.applied, self.current = done, done + 1
        try:
            for statement in self.replayed:
                session.check_still_mine(self._timeout())
                session.run(statement.text)
            if migration.tx_mode == "file":
                self._whole()
            else:
                self._by_units()
                with revisions.recording(session):
                    revisions.applied(session, self.attempt, migration)
        except ConnectionLost:
            raise
        except (psycopg.Error, EndedTransaction) as error:
            raise self._failed(error) from error

    def _require(self) -> None:
        for query in self.migration.header.requires:
            self.session.check_still_mine()
            with self.session.snapshot():
                found = self.session.read_alone(query)
            if not found or found[0][0] is not True:
                raise requirement_not_met(self.migration, query)

    def _timeout(self) -> float:
        own = self.migration.header.lock_timeout_s
        return self.run_.lock_timeout_s if own is None else own

    def _send(self, number: int) -> None:
        """One statement, alone, in the extended protocol, after the proof that the lock is ours."""
        self.current = number
        statement = self.migration.statements[number - 1]
        self.session.check_still_mine(self._timeout())
        limit = self.migration.header.statement_timeout_s
        if limit is not None:
            least = min(limit, self.session.budget.check())
            self.session.query(
                "SELECT pg_catalog.set_config('statement_timeout', %s, false)",
                (str(max(1, int(least * 1000))),),
            )
        if statement.data is None:
            self.session.run(statement.text)
        else:
            copy(self.session, statement)

    def _whole(self) -> None:
        session, total = self.session, len(self.migration.statements)
        with session.transaction():
            for number in range(1, total + 1):
                self._send(number)
                self._still_inside()
            # A deferred constraint fails here, not at a COMMIT that no statement explains.
            session.run("SET CONSTRAINTS ALL IMMEDIATE")
            revisions.own_user(session)
            revisions.applied(session, self.attempt, self.migration)
            self.run_.done(self.before + total)
            session.check_still_mine()
        self.applied = total

    def _still_inside(self) -> None:
        if not self.session.in_transaction:
            raise EndedTransaction("the statement ended the file's transaction")

    def _by_units(self) -> None:
        for unit in rules.units(self.migration.statements, "none", "postgresql"):
            if unit.last <= self.applied:
                continue
            self.marked = unit.kind == "alone"
            if unit.kind == "alone":
                self._alone(unit.first)
            elif unit.kind == "transaction":
                self._block(unit.first, unit.last)
            else:
                with self.session.transaction():
                    self._send(unit.first)
                    self._still_inside()
                    self._record(unit.first)
                self.applied = unit.first
            self.marked = False

    def _record(self, done: int) -> None:
        """Progress, within the transaction that is open."""
        revisions.own_user(self.session)
        for each in range(self.applied + 1, done + 1):
            revisions.progress(self.session, self.attempt, self.migration, each)
        self.run_.done(self.before + done)

    def _alone(self, number: int) -> None:
        self.current = number
        mark = functools.partial(self.run_.intend, self.before + number)
        revisions.intend(self.session, self.attempt, self.migration, number, mark)
        self._send(number)
        self.session.settle(SETTLE_S)
        with self.session.transaction():
            self._record(number)
        self.applied = number

    def _block(self, first: int, last: int) -> None:
        """BEGIN … COMMIT of the file itself, with its progress right before the COMMIT."""
        try:
            for number in range(first, last):
                self._send(number)
                self._still_inside()
            self._record(last)
            self._send(last)
        except BaseException:
            if not self.session.lost and self.session.in_transaction:
                self.session.run("ROLLBACK")
            raise
        self.applied = last

    def _failed(self, error: psycopg.Error | EndedTransaction) -> MigrationFailed:
        """Record what the error proves. A statement is atomic on PostgreSQL, unless it may commit
        within itself."""
        statement = self.migration.statements[self.current - 1]
        state: RowState = "partial" if self.applied else "failed"
        commits = self.marked and words.may_commit_inside(statement)
        if commits or isinstance(error, EndedTransaction):
            state = "unknown"
        said = Explained(str(error), statement.line, statement.column)
        if isinstance(error, psycopg.Error):
            said = explained(statement, error)
        failure = Failure(said.message, said.code, self.current, said.line)
        self.session.settle(SETTLE_S)
        revisions.ended(self.session, self.attempt, self.migration, state, failure)
        return MigrationFailed(
            self.migration, state, failure, f"{self.migration.file}:{said.line}:{said.column}"
        )
