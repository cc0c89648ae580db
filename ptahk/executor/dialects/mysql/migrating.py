"""Runs a sequence's files on MySQL and MariaDB, and records each beside its own work (C-11.11).

A file of data statements alone is one transaction with its row. In any other, each data statement
commits with its progress, and what commits by itself stands between an intent mark and its
progress. Tables that are not transactional make everything of the second kind.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import pymysql

from ptahk.errors import PtahkError
from ptahk.executor.dialects.mysql import revisions, settling
from ptahk.executor.dialects.mysql.driver import code_of, text_of
from ptahk.executor.dialects.mysql.resetting import Baseline
from ptahk.executor.dialects.mysql.session import ConnectionLost, Session
from ptahk.executor.filerun import (
    EndedTransaction,
    Failure,
    MigrationFailed,
    Run,
    refuse_changed,
    requirement_not_met,
    resume_refused,
)
from ptahk.migrations import effects, rules, words
from ptahk.migrations.history import RowState
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Migration
from ptahk.migrations.rules import Unit

__all__ = ["MigrationFailed", "Run"]

SETTLE_S: Final = 10.0
_KEPT_CHANGES: Final = 1196
"""Warning of a ROLLBACK: tables that are not transactional keep what was done to them."""
_INTERRUPTED: Final = 1317
_LINE: Final = re.compile(r"\bat line (\d+)\Z")
_MEANING: Final = frozenset(
    {
        "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ORACLE",
        "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS",
    }
)  # fmt: skip
"""Modes under which what was split is not what the server reads, or the server leaves out of a
definition what tells whether a statement took effect."""
Phase = Literal["before", "sent", "after"]


class ModeChanged(Exception):
    """A file set a mode or character set that changes how SQL is read, unseen in its text."""


_Ends = pymysql.MySQLError | EndedTransaction | ModeChanged
"""What ends a file with a failed statement."""


def run(session: Session, migrations: Sequence[Migration], run_: Run) -> int:
    """Run files in order, under the lock that the session holds. :returns: statements run.

    :raises MigrationFailed: a statement failed; its row says what took effect.
    :raises Refused: a file's own precondition does not hold; its row was not begun.
    :raises ConnectionLost: what was sent last may or may not have happened.
    """
    before = 0
    with _baseline(session, run_) as baseline:
        for migration in migrations:
            _File(session, migration, run_, baseline, before).run()
            before += len(migration.statements)
    return before


def resume(session: Session, migration: Migration, run_: Run, done: int) -> int:
    """Run the rest of a file that stopped after ``done`` statements (C-11.14).

    :raises Refused: ``ResumeRefused``: a statement that was applied is another now, or left
        something in its session that cannot be made again.
    """
    kept = revisions.applied_digests(session, run_.attempt.stream, migration)[:done]
    refuse_changed(migration, kept, done)
    replayed = []
    for statement in migration.statements[:done]:
        left = effects.unrepeatable(statement)
        if left is not None:
            raise resume_refused(migration, f"'{left}' left something in its session")
        if effects.sets_session(statement):
            replayed.append(statement)
    with _baseline(session, run_) as baseline:
        file = _File(session, migration, run_, baseline, 0)
        file.replayed = replayed
        file.run(done)
    return len(migration.statements) - done


@contextlib.contextmanager
def _baseline(session: Session, run_: Run) -> Iterator[Baseline]:
    baseline = Baseline(session, run_.foreign_key_checks)
    try:
        yield baseline
    finally:
        if not session.lost:
            with contextlib.suppress(pymysql.MySQLError):  # the operation's own error counts
                baseline.leave()


class _File:
    def __init__(
        self, session: Session, migration: Migration, run_: Run, baseline: Baseline, before: int
    ) -> None:
        self.session = session
        self.migration = migration
        self.attempt = run_.attempt
        self.run_ = run_
        self.baseline = baseline
        self.before = before
        """Statements of earlier files."""
        self.replayed: list[Statement] = []
        self.applied = 0
        self.current = 1
        self.marked = 0
        """Number of the statement that stands between its mark and its progress; 0: none does."""
        self.phase: Phase = "before"
        self.as_before = ""
        """Digest of what the marked statement is about, from before it."""
        self._transactional: bool | None = None

    def run(self, done: int = 0) -> None:
        session, migration = self.session, self.migration
        self.baseline.restore()
        self._require()
        whole = migration.tx_mode == "file" and not done and self._is_transactional()
        tx_mode = "file" if whole else "none"
        revisions.start(session, self.attempt, migration, done=done, tx_mode=tx_mode)
        self.applied, self.current = done, done + 1
        self.baseline.use(migration.statements)
        try:
            for statement in self.replayed:
                session.check_still_mine(self._timeout())
                session.run(statement.text)
            if whole:
                self._whole()
            else:
                self._by_units()
                with session.transaction():
                    revisions.applied(session, self.attempt, migration)
        except ConnectionLost:
            raise
        except (pymysql.MySQLError, EndedTransaction, ModeChanged) as error:
            raise self._failed(error) from error
        except PtahkError as error:
            self._unmark(error.message)
            raise

    def _require(self) -> None:
        for query in self.migration.header.requires:
            self.session.check_still_mine()
            self.session.run("START TRANSACTION READ ONLY")
            try:
                found = self.session.query(query)
            finally:
                if not self.session.lost:
                    self.session.run("ROLLBACK")
            if not found or found[0][0] != 1:
                raise requirement_not_met(self.migration, query)

    def _timeout(self) -> float:
        own = self.migration.header.lock_timeout_s
        return self.run_.lock_timeout_s if own is None else own

    def _is_transactional(self) -> bool:
        """Every table of the database takes part in a transaction."""
        if self._transactional is None:
            found = self.session.query(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND"
                " table_type = 'BASE TABLE' AND engine NOT IN (SELECT engine FROM"
                " information_schema.engines WHERE transactions = 'YES') LIMIT 1",
                (self.session.database,),
            )
            self._transactional = not found
        return self._transactional

    def _send(self, number: int) -> None:
        """One statement, alone, after the proof that the lock is ours."""
        self.current, self.phase = number, "before"
        statement = self.migration.statements[number - 1]
        self.session.check_still_mine(self._timeout())
        self.phase = "sent"
        limit = self.migration.header.statement_timeout_s
        if limit is None:
            self.session.run(statement.text)
        else:
            self._send_limited(statement.text, limit)
        self.phase = "after"
        if effects.may_define_tables(statement):
            self._transactional = None
        if effects.sets_session(statement):
            self._refuse_modes()

    def _refuse_modes(self) -> None:
        mode, client, results = self.session.query(
            "SELECT @@SESSION.sql_mode, @@SESSION.character_set_client,"
            " @@SESSION.character_set_results"
        )[0]
        if isinstance(client, bytes):  # whatever they are: results come as they are stored
            client, results = "utf8mb4", "binary"
        # In UTF-16 and UTF-32 every other character is a NUL.
        mode, client, results = (
            str(value or "").replace("\0", "") for value in (mode, client, results)
        )
        refused = sorted(_MEANING.intersection(mode.upper().split(",")))
        if refused:
            raise ModeChanged(f"sql_mode {', '.join(refused)} changes how SQL is read")
        for name, value in (("client", client), ("results", results)):
            if value not in ("", "utf8mb4", "utf8mb3", "utf8"):
                raise ModeChanged(f"character_set_{name} {value}: the session speaks utf8mb4")

    def _send_limited(self, text: str, seconds: float) -> None:
        """Neither make limits every kind of statement itself: it is cancelled from outside."""
        timer = threading.Timer(seconds, self.session.cancel)
        timer.daemon = True
        timer.start()
        try:
            self.session.run(text)
        finally:
            timer.cancel()
            timer.join()
            self._absorb()

    def _absorb(self) -> None:
        """Let a cancel that came too late end nothing of ours."""
        if self.session.lost:
            return
        try:
            self.session.run("DO 1")
        except pymysql.MySQLError as error:
            if code_of(error) != _INTERRUPTED:
                raise

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Work and its record; a failure rolls both back, and that is proven."""
        try:
            with self.session.transaction():
                yield
        except ConnectionLost:
            raise
        except BaseException as error:
            self._refuse_remains(error)
            raise

    def _refuse_remains(self, error: BaseException) -> None:
        """After a ROLLBACK. :raises EndedTransaction: tables kept what it should have undone."""
        warnings = self.session.query("SHOW WARNINGS")
        if any(int(code) == _KEPT_CHANGES for _, code, _ in warnings):
            raise EndedTransaction(
                f"{text_of(error)}; a table that is not transactional kept what was done to it"
            ) from error

    def _whole(self) -> None:
        session, total = self.session, len(self.migration.statements)
        with self._transaction():
            for number in range(1, total + 1):
                self._send(number)
                self._still_inside()
            revisions.applied(session, self.attempt, self.migration)
            self.run_.done(self.before + total)
            session.check_still_mine()
        self.applied = total

    def _still_inside(self) -> None:
        if not self.session.in_transaction:
            raise EndedTransaction("the statement ended the transaction that it ran in")

    def _by_units(self) -> None:
        for unit in rules.units(self.migration.statements, "none", "mysql"):
            if unit.last <= self.applied:
                continue
            if unit.kind == "alone" or (unit.kind == "plain" and not self._is_transactional()):
                self._alone(unit.first)
            elif unit.kind == "locked":
                self._locked(unit)
            elif unit.kind == "transaction":
                self._block(unit)
            else:
                self._plain(unit.first)

    def _plain(self, number: int) -> None:
        with self._transaction():
            self._send(number)
            self._still_inside()
            self._record(number)
        self.applied = number

    def _record(self, done: int) -> None:
        """Progress, within the transaction that is open."""
        revisions.progress(self.session, self.attempt, self.migration, done)
        self.run_.done(self.before + done)

    def _mark(self, number: int) -> None:
        """Commit that a statement is about to run which commits by itself."""
        self.current, self.phase = number, "before"
        self.as_before = self._digest(number)
        with self.session.transaction():
            revisions.intend(self.session, self.attempt, self.migration, number)
            self.run_.intend(self.before + number)
        self.marked = number

    def _digest(self, number: int) -> str:
        statement = self.migration.statements[number - 1]
        named = effects.object_of(statement, self.session.database)
        return settling.digest_of(self.session, named) if named else ""

    def _done(self, number: int) -> None:
        """Commit that what was marked took effect."""
        self.session.settle(SETTLE_S)
        with self.session.transaction():
            self._record(number)
        self.applied, self.marked = number, 0

    def _alone(self, number: int) -> None:
        self._mark(number)
        self._send(number)
        if self.session.in_transaction:
            raise EndedTransaction("the statement left a transaction open")
        self._done(number)

    def _block(self, unit: Unit) -> None:
        """BEGIN … COMMIT of the file itself, with its progress right before the COMMIT."""
        transactional = self._is_transactional()
        if not transactional:
            self._mark(unit.first)
        try:
            for number in range(unit.first, unit.last):
                self._send(number)
                self._still_inside()
            self._record(unit.last)
            self._send(unit.last)
        except ConnectionLost:
            raise
        except BaseException as error:
            self.session.run("ROLLBACK")
            self._refuse_remains(error)
            begun = self.current > unit.first + (self.phase == "before")
            if self.marked and begun:
                raise EndedTransaction(
                    f"{text_of(error)}; tables that are not transactional keep the rest"
                ) from error
            raise
        self.applied, self.marked = unit.last, 0

    def _locked(self, unit: Unit) -> None:
        """LOCK TABLES … UNLOCK TABLES: no record can be written within, so it is written after,
        also of an end before its time. A resume takes the lock again."""
        first = max(unit.first, self.applied + 1)
        self._mark(first)
        numbers = [unit.first] if first > unit.first else []
        reached = self.applied
        try:
            for number in (*numbers, *range(first, unit.last + 1)):
                self._send(number)
                reached = max(reached, number)
        except ConnectionLost:
            raise
        except BaseException:
            self.session.run("UNLOCK TABLES")
            self._went(reached, unit)
            raise
        self._done(unit.last)

    def _went(self, reached: int, unit: Unit) -> None:
        """Commit how far a locked unit came. The lock alone is no effect."""
        self.as_before = ""
        if reached > max(unit.first, self.applied):
            self._done(reached)
            self.marked = self.current

    def _unmark(self, why: str) -> None:
        """What stopped us came before the marked statement was sent."""
        if not self.marked or self.phase != "before" or self.session.lost:
            return
        self.session.settle(SETTLE_S)
        with self.session.transaction():
            revisions.progress(self.session, self.attempt, self.migration, self.applied)
            self.run_.undone(self.before + self.marked, why)
        self.marked = 0

    def _failed(self, error: _Ends) -> MigrationFailed:
        """Record what the error proves."""
        statement = self.migration.statements[self.current - 1]
        self.session.settle(SETTLE_S)
        proven = self._took_no_effect(statement, error)
        state: RowState = "unknown" if not proven else "partial" if self.applied else "failed"
        with contextlib.suppress(pymysql.MySQLError):  # what can be put back, is
            self.baseline.restore()
        text = text_of(error)
        line, column = place_of(statement, text)
        code = str(code_of(error)) if isinstance(error, pymysql.MySQLError) else None
        failure = Failure(text, code, self.current, line)
        if state != "unknown" and self.marked:
            with self.session.transaction():
                self.run_.undone(self.before + self.marked, text)
        revisions.ended(self.session, self.attempt, self.migration, state, failure)
        return MigrationFailed(
            self.migration, state, failure, f"{self.migration.file}:{line}:{column}"
        )

    def _took_no_effect(self, statement: Statement, error: _Ends) -> bool:
        if isinstance(error, ModeChanged):
            return True  # of the session, and put back
        if isinstance(error, EndedTransaction) or (self.phase == "after" and self.marked):
            return False
        if not self.marked or self.phase == "before":
            return True  # rolled back, with its record; or never sent
        data = words.data_only(statement) and self._is_transactional()
        mariadb = self.session.identity.mariadb
        if not data and not effects.proves_nothing_done(statement, code_of(error), mariadb=mariadb):
            return False
        with contextlib.suppress(pymysql.MySQLError, PtahkError):
            return self.as_before in ("", self._digest(self.current))
        return False


def place_of(statement: Statement, message: str) -> tuple[int, int]:
    """Line and column in the file; the server tells lines of a statement, of a syntax error."""
    found = _LINE.search(message)
    if found is None or found[1] == "1":
        return statement.line, statement.column
    return statement.line + int(found[1]) - 1, 1
