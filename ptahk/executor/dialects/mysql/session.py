"""The only way to a MySQL or MariaDB connection.

One session per operation (C-9.6): the lock, the inspection, the scratch database, the ledger and
the statements all use it. Nothing here reconnects; a lost connection ends the operation.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.constants import FLAG
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS

from ptahk.errors import OperationFailed, PtahkError, Refused, Unreachable, UsageError
from ptahk.executor.budget import Budget, ConnectionLost
from ptahk.executor.dialects.mysql import pipeline
from ptahk.executor.dialects.mysql.driver import (
    Connection,
    code_of,
    ends_the_session,
    lost,
    open_,
    text_of,
)
from ptahk.executor.dialects.mysql.server import Identity, identify
from ptahk.wire import digest

__all__ = ["Column", "ConnectionLost", "LockHeld", "Session", "connect", "refuse_pooler"]

IDLE_S: Final = 31_536_000
"""Longest ``wait_timeout`` that a server takes: nobody but us ends the session (H4)."""
_DEADLOCK: Final = 3058
_SETTINGS: Final = (
    f"SET SESSION wait_timeout = {IDLE_S}, net_read_timeout = 600, net_write_timeout = 600,"
    " time_zone = '+00:00', foreign_key_checks = 1, unique_checks = 1, sql_safe_updates = 0,"
    " sql_quote_show_create = 1, sql_select_limit = DEFAULT, group_concat_max_len = 1048576"
)


class Column(NamedTuple):
    """A column of an answer, as the server describes it."""

    name: str
    type: int
    """``FIELD_TYPE`` of the protocol."""
    length: int
    """Bytes at most, in the session's character set."""
    in_key: bool
    """Part of its table's primary key."""


class LockHeld(Refused):
    """Another session holds the database's lock (C-9.8)."""

    default_reason = "LockHeld"


class Session:
    """One physical session with its settings made; see ``connect``."""

    def __init__(self, connection: Connection, url: str, budget: Budget) -> None:
        self.connection = connection
        self.budget = budget
        self.thread = 0
        """The server's number of this session."""
        self.locked = False
        self.lock_name = ""
        self.sql_mode = ""
        """What the server gave the session."""
        self._url = url
        self._identity: Identity | None = None
        budget.cancels.append(self.cancel)

    @property
    def identity(self) -> Identity:
        assert self._identity is not None, "read at connect"
        return self._identity

    @property
    def database(self) -> str:
        """The target's name, as the server reports it."""
        return self.identity.database

    @property
    def lost(self) -> bool:
        return not self.connection.open

    @property
    def in_transaction(self) -> bool:
        driver: Any = self.connection  # its published types leave this out
        return bool(driver.server_status & SERVER_STATUS_IN_TRANS)

    def query(self, sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        """Rows of one read. The planner's ``Query``.

        :raises ConnectionLost: the session is gone.
        :raises pymysql.MySQLError: the server refused the statement.
        """
        cursor = self._execute(sql, params)
        return cursor.fetchall()

    def columns(self, sql: str) -> list[Column]:
        """The columns that a read answers, in order.

        :raises ConnectionLost: the session is gone.
        :raises pymysql.MySQLError: the server refused the statement.
        """
        answered: Any = self._execute(sql, ())  # its published types leave the rest out
        return [
            Column(field.name, field.type_code, field.length, bool(field.flags & FLAG.PRI_KEY))
            for field in answered._result.fields
        ]

    def change(self, sql: str, params: Sequence[Any] = ()) -> int:
        """One statement that writes rows of ours.

        :returns: how many it changed.
        """
        return int(self._execute(sql, params).rowcount)

    def run(self, sql: str) -> None:
        """One statement whose rows, if any, nobody wants. The session was opened without
        ``CLIENT_MULTI_STATEMENTS``, so the server itself refuses two in one text.

        :raises ConnectionLost: the session is gone.
        :raises pymysql.MySQLError: the server refused the statement.
        """
        self._execute(sql, ())

    @contextlib.contextmanager
    def begun(self, sql: str) -> Iterator[None]:
        """``run``, with what the block does done while the server works; nothing else may be sent
        in it.

        :raises ConnectionLost: the session is gone.
        :raises pymysql.MySQLError: the server refused the statement.
        """
        with self._told():
            pipeline.begin(self.connection, sql)
        try:
            yield
        finally:
            with self._told():
                pipeline.finish(self.connection)

    def answers(self, asked: Sequence[pipeline.Question]) -> Sequence[pipeline.Answer]:
        """Several short reads, in order; sent ahead where the server itself is at the other end
        and is one that is known to allow it.

        :raises ConnectionLost: the session is gone.
        :raises pymysql.MySQLError: the server refused one.
        """
        if not (self.identity.mariadb and is_direct(self)):
            return [self.query(sql, params) for sql, params in asked]
        with self._told():
            return pipeline.answers(self.connection, asked)

    def _execute(self, sql: str, params: Sequence[Any]) -> pymysql.cursors.Cursor:
        with self._told():
            cursor = self.connection.cursor()
            cursor.execute(sql, tuple(params) or None)
            while cursor.nextset():  # a procedure's: all of them belong to this statement
                continue
            return cursor

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """An error that ends the session closes it and is told as such."""
        try:
            yield
        except pymysql.MySQLError as error:
            if self.lost or ends_the_session(error):
                self._drop()
                raise lost(error) from error
            raise
        except OSError as error:
            self._drop()
            raise lost(error) from error

    def _drop(self) -> None:
        """Close the socket, so that nothing more can be sent."""
        with contextlib.suppress(Exception):
            driver: Any = self.connection
            driver._force_close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """``START TRANSACTION`` … ``COMMIT``, for rows of ours; a failure rolls back."""
        self.run("START TRANSACTION")
        try:
            yield
        except BaseException:
            if not self.lost:
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def lock(self, wait_s: float) -> None:
        """Take the lock of C-9.8 and prove that it is ours.

        Asked for in whole seconds, and never for long: so a stop is heard.

        :param wait_s: ``policy.coordinationTimeout``.
        :raises LockHeld: somebody else had it all that time; names the holder.
        """
        waited, seconds = Budget(wait_s), 0
        while not self._try_lock(seconds):
            self.budget.check()
            if waited.remaining() <= 0:
                raise self._held(wait_s)
            seconds = 1 if waited.remaining() >= 1 else 0
            if not seconds:
                self.budget.pause(max(0.001, waited.remaining()))
        self.locked = True
        self.check_still_mine()

    def _try_lock(self, seconds: int) -> bool:
        try:
            answer = self.query("SELECT GET_LOCK(%s, %s)", (self.lock_name, seconds))[0][0]
        except pymysql.MySQLError as error:
            if code_of(error) != _DEADLOCK:
                raise
            return False
        if answer is None:  # an error inside the server; neither taken nor held
            raise OperationFailed("the server cannot say who holds its lock", reason="QueryFailed")
        return bool(answer == 1)

    def _held(self, wait_s: float) -> LockHeld:
        thread = self.query("SELECT IS_USED_LOCK(%s)", (self.lock_name,))[0][0]
        who = "a session that has just ended" if thread is None else self.describe(int(thread))
        return LockHeld(
            f"the database is held by {who} (coordinationTimeout={wait_s:g}s): "
            "another operation is at work on it",
            hint="wait for it, or look at it with `ptahk status` and `ptahk release-lock`",
        )

    def describe(self, thread: int) -> str:
        """Who a session is, as far as this account may see."""
        name = self._attribute(thread)
        seen = f"{name or 'a session'} (thread {thread}"
        for user, host, seconds, state in self.query(
            "SELECT user, host, time, state FROM information_schema.processlist WHERE id = %s",
            (thread,),
        ):
            seen += f", {user}@{host}, for {seconds} s" + (f", {state}" if state else "")
        return seen + ")"

    def _attribute(self, thread: int) -> str:
        with contextlib.suppress(pymysql.MySQLError):  # wants a right that few accounts have
            for (name,) in self.query(
                "SELECT attr_value FROM performance_schema.session_connect_attrs"
                " WHERE processlist_id = %s AND attr_name = 'program_name'",
                (thread,),
            ):
                return str(name)
        return ""

    def check_still_mine(self, lock_timeout_s: float = 0.0) -> None:
        """The cheap part of C-9.7, before every statement; also sets what time is left.

        :param lock_timeout_s: for the statement that follows; 0: bounded by the deadline alone.
        :raises Refused: another thread answers, the lock is not this session's, or the server
            takes no writes any more.
        """
        left = self.budget.check()
        thread, holder, read_only = self.query(
            "SELECT CONNECTION_ID(), IS_USED_LOCK(%s), @@GLOBAL.read_only", (self.lock_name,)
        )[0]
        if thread != self.thread:
            raise pooled()
        if self.locked and holder != thread:
            raise Refused(
                "this session no longer holds the database's lock", reason="SessionChanged"
            )
        if self.locked and int(read_only):
            raise Refused("the server became read-only", reason="SessionChanged")
        self._bound(lock_timeout_s or left, left)

    def _bound(self, lock_s: float, left_s: float) -> None:
        """How long a statement may wait for a lock, and where the server can, run at all."""
        seconds = max(1, min(math.ceil(lock_s), IDLE_S))
        names = ["lock_wait_timeout", "innodb_lock_wait_timeout"]
        text = ", ".join(f"{name} = {seconds}" for name in names)
        if self.identity.mariadb:
            text += f", max_statement_time = {max(0.001, left_s):.3f}"
        self.run(f"SET SESSION {text}")

    def reset_modes(self) -> None:
        """The session's own modes again, whatever a plan's statements had set."""
        if not self.lost:
            self.run(f"SET SESSION sql_mode = '{self.sql_mode}', time_zone = '+00:00'")

    def settle(self, seconds: float) -> None:
        """Give the last writes of an ended operation the time that its deadline no longer has."""
        self._bound(seconds, seconds)

    def cancel(self) -> None:
        """Ask the server to end what runs, from a session of its own; the statement's own answer
        then decides (I3)."""
        if self.lost or not self.thread:
            return
        other = open_(self._url, "ptahk/cancel", 5)
        try:
            with other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {self.thread:d}")
        finally:
            other.close()

    def close(self) -> None:
        """End the session, which is the unlock (H15)."""
        if self.cancel in self.budget.cancels:
            self.budget.cancels.remove(self.cancel)
        if self.lost:
            return
        if self.locked:
            with contextlib.suppress(pymysql.MySQLError, PtahkError):
                self.query("SELECT RELEASE_LOCK(%s)", (self.lock_name,))
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self.connection.close()


def pooled() -> Refused:
    return Refused(
        "the database URL leads through a proxy that shares server sessions: "
        "two statements of one client reached different ones, or two clients the same",
        reason="TransactionPooler",
        hint="use a direct endpoint of the server, or a proxy without multiplexing",
    )


def connect(
    url: str, *, application_name: str, connect_timeout_s: float, budget: Budget, make: str = ""
) -> Session:
    """Open one session and make its settings.

    :param url: a URL that ``wire.dsn`` accepts for this engine.
    :param make: ``mysql`` or ``mariadb``, where the target says which; "": either.
    :raises Unreachable: no session can be had (exit 6).
    :raises UsageError: the driver reads the URL otherwise, or the server refuses who we are.
    :raises Refused: a server that may not be used; see ``server.identify``.
    """
    budget.check()
    seconds = max(1, round(min(connect_timeout_s, budget.remaining())))
    session = Session(open_(url, application_name, seconds), url, budget)
    try:
        session._identity = identify(session.query, make)
        session.thread = session.identity.thread
        session.lock_name = digest.advisory_lock_name(session.identity.database)
        session.sql_mode = str(session.query("SELECT @@SESSION.sql_mode")[0][0])
        session.run(_SETTINGS)
        session._bound(budget.remaining(), budget.remaining())
    except pymysql.MySQLError as error:
        session.close()
        raise Unreachable(f"the server refused the session: {text_of(error)}") from None
    except BaseException:
        session.close()
        raise
    return session


def is_direct(session: Session) -> bool:
    """The server's greeting named the thread that answers now."""
    driver: Any = session.connection  # its published types leave this out
    return bool(driver.thread_id() == session.thread & 0xFFFFFFFF)


def refuse_pooler(session: Session, url: str, connect_timeout_s: float) -> None:
    """Find a proxy that multiplexes, before and after the lock is taken (C-9.7, H8).

    Before: while a second client is inside a transaction it must be on another thread, and the
    first must stay on its own. After: the second client must fail to get the lock.

    :raises Refused: ``TransactionPooler``; no lock is left behind.
    """
    name = f"ptahk/probe/{secrets.token_hex(6)}"
    try:
        probe = connect(
            url,
            application_name=name,
            connect_timeout_s=connect_timeout_s,
            budget=Budget(session.budget.remaining()),
        )
    except (Unreachable, UsageError):
        if is_direct(session):  # a connection limit may forbid a second session
            return
        raise
    try:
        _probe(session, probe)
    finally:
        probe.close()


def _probe(session: Session, probe: Session) -> None:
    probe.run("START TRANSACTION")
    ask = "SELECT CONNECTION_ID(), IS_USED_LOCK(%s)"
    other = probe.query(ask, (session.lock_name,))[0][0]
    mine = session.query(ask, (session.lock_name,))[0][0]
    if other == session.thread or mine != session.thread:
        raise pooled()
    if session.locked and probe.query("SELECT GET_LOCK(%s, 0)", (session.lock_name,))[0][0] != 0:
        probe.query("SELECT RELEASE_LOCK(%s)", (session.lock_name,))
        raise pooled()
    probe.run("ROLLBACK")
