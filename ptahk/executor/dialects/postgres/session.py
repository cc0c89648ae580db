"""The only way to a PostgreSQL connection.

One target session per operation (C-9.6): the advisory lock, the inspection, the ledger and the
statements all use it. Nothing here reconnects; a lost connection ends the operation.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import pq

from ptahk.errors import PtahkError, Refused, Unreachable, UsageError
from ptahk.executor.budget import Budget
from ptahk.executor.budget import ConnectionLost as ConnectionLost
from ptahk.executor.planning.model import Query
from ptahk.wire import digest

LOCK_KEY: Final = digest.advisory_lock_key()
_CLASS_ID: Final = (LOCK_KEY >> 32) & 0xFFFFFFFF
_OBJECT_ID: Final = LOCK_KEY & 0xFFFFFFFF
VERSION_MIN: Final = 140000
POLL_FIRST_S: Final = 0.1
POLL_LAST_S: Final = 1.0
CHECK_INTERVAL: Final = "1s"
"""How soon the server notices that its client is gone (C-9.7)."""

_DENIED: Final = (
    "password authentication failed",
    "authentication failed for user",
    "no pg_hba.conf entry",
    "does not exist",
    "no password supplied",
    "is not permitted to log in",
    "permission denied for database",
)
"""How a server says that the URL's role, password or database is not welcome."""

SETTINGS: Final[tuple[tuple[str, str], ...]] = (
    ("search_path", ""),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_deferrable", "off"),
    ("synchronous_commit", "on"),
    ("standard_conforming_strings", "on"),
    ("check_function_bodies", "off"),
    ("row_security", "on"),
    ("quote_all_identifiers", "off"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("xmloption", "content"),
    ("default_tablespace", ""),
    ("default_toast_compression", "pglz"),
    ("client_min_messages", "warning"),
    # A catalog query looks dear to the optimizer and is not: compiling it takes longer.
    ("jit", "off"),
)
"""The same on both sides, so that the server's deparsers print the same text for the same thing."""


class LockHeld(Refused):
    """Another session holds the database's advisory lock (C-9.8)."""

    default_reason = "LockHeld"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server and database this session talks to (C-6.14)."""

    system_identifier: int
    database_oid: int
    timeline: int
    version: int
    """As ``server_version_num``."""
    database: str
    role: str
    notes: tuple[str, ...] = ()
    """Nothing: any account sees all that is looked at."""

    def __str__(self) -> str:
        return f"postgresql/{self.system_identifier}/{self.database_oid}"


class Session:
    """One physical session with its settings made; see ``connect``."""

    def __init__(self, connection: psycopg.Connection[Any], budget: Budget) -> None:
        self.connection = connection
        self.budget = budget
        self.pid = 0
        self.locked = False
        self.search_path = ""
        """What it was before the settings: the one that a declaration's bare names resolve by."""
        self._identity: Identity | None = None
        budget.cancels.append(self.cancel)

    @property
    def identity(self) -> Identity:
        assert self._identity is not None, "read at connect"
        return self._identity

    @property
    def lost(self) -> bool:
        return self.connection.closed or self.connection.broken

    def query(self, sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        """Rows of one read. The planner's ``Query``.

        :raises ConnectionLost: the session is gone.
        :raises psycopg.Error: the server refused the statement.
        """
        return self._execute(sql, params).fetchall()

    def read_alone(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of one query from a plan; as in ``run`` the server refuses a second statement."""
        return self._execute(sql, (), binary=True).fetchall()

    def run(self, sql: str) -> None:
        """One statement whose rows, if any, nobody wants; sent alone, never as a batch.

        :raises ConnectionLost: the session is gone.
        :raises psycopg.Error: the server refused the statement.
        """
        # Binary results mean the extended protocol, where the server itself refuses two
        # statements in one text.
        self._execute(sql, (), binary=True)

    def _execute(
        self, sql: str, params: Sequence[Any], binary: bool = False
    ) -> psycopg.Cursor[Any]:
        try:
            # Never prepared under a name: nothing of ours outlives the statement.
            return self.connection.execute(_text(sql), params or None, prepare=False, binary=binary)
        except psycopg.OperationalError as error:
            if self.lost:
                raise lost(error) from error
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """``BEGIN`` … ``COMMIT``; a failure rolls back. A lost COMMIT is ``ConnectionLost``."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            if not self.lost:
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    @property
    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != pq.TransactionStatus.IDLE

    def lock(self, wait_s: float) -> None:
        """Take the advisory lock of C-9.8 by polling, and prove that it is ours.

        Polled on purpose: a waiter inside ``pg_advisory_lock`` holds a snapshot that a
        ``CREATE INDEX CONCURRENTLY`` elsewhere waits for (P3).

        :param wait_s: ``policy.coordinationTimeout``.
        :raises LockHeld: somebody else had it all that time; names the holder.
        """
        waited, delay = Budget(wait_s), POLL_FIRST_S
        while True:
            self.budget.check()
            if self.query("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,))[0][0] is True:
                break
            if waited.remaining() <= 0:
                raise self._held(wait_s)
            self.budget.pause(min(delay, max(waited.remaining(), 0.001)))
            delay = min(POLL_LAST_S, delay * 1.5)
        self.locked = True
        self.check_still_mine()

    def _held(self, wait_s: float) -> LockHeld:
        rows = self.query(
            "SELECT l.pid, a.application_name, a.backend_start"
            " FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)"
            " WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s"
            " AND l.objsubid = 1 AND l.database ="
            " (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())",
            (_CLASS_ID, _OBJECT_ID),
        )
        who = "a session that has just ended"
        if rows:
            pid, name, since = rows[0]
            at = "" if since is None else f" since {since:%Y-%m-%dT%H:%M:%SZ}"
            who = f"{name or 'an unnamed session'} (backend {pid}{at})"
        return LockHeld(
            f"the database is held by {who} (coordinationTimeout={wait_s:g}s): "
            "another operation is at work on it",
            hint="wait for it, or look at it with `ptahk status` and `ptahk release-lock`",
        )

    def check_still_mine(self, lock_timeout_s: float = 0.0) -> None:
        """The cheap part of C-9.7, before every statement; also sets what time is left.

        :param lock_timeout_s: for the statement that follows; 0: bounded by the deadline alone.
        :raises Refused: another backend answers, or the lock is not this session's.
        """
        left = self.budget.check()
        row = self.query(
            "SELECT pg_backend_pid(), set_config('statement_timeout', %s, false),"
            " pg_is_in_recovery(), set_config('lock_timeout', %s, false),"
            " EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted"
            " AND pid = pg_backend_pid() AND classid = %s AND objid = %s AND objsubid = 1)",
            (
                str(max(1, int(left * 1000))),
                str(int(lock_timeout_s * 1000)),
                _CLASS_ID,
                _OBJECT_ID,
            ),
        )[0]
        if row[0] != self.pid:
            raise pooled()
        if row[2] or (self.locked and not row[4]):
            raise Refused(
                "this session no longer holds the database's lock, or the server became a standby",
                reason="SessionChanged",
            )

    def settle(self, seconds: float) -> None:
        """Give the last writes of an ended operation the time that its deadline no longer has."""
        self.query(
            "SELECT set_config('statement_timeout', %s, false),"
            " set_config('lock_timeout', '0', false)",
            (str(int(seconds * 1000)),),
        )

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """One repeatable-read, read-only snapshot for a whole inspection."""
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            if not self.lost:
                self.run("ROLLBACK")

    @contextlib.contextmanager
    def ahead(self, asked: Sequence[tuple[str, Sequence[Any]]]) -> Iterator[Query]:
        """Send reads all at once; the server works on the next while we take an answer.

        :param asked: (SQL, parameters) in the order in which they will be asked for.
        :returns: what to ask by; a read that is not the next one of ``asked`` is sent then.
        :raises ConnectionLost: the session is gone.
        :raises psycopg.Error: the server refused a statement.
        """
        waiting: deque[tuple[str, tuple[Any, ...], psycopg.Cursor[Any]]] = deque()

        def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
            if waiting and waiting[0][:2] == (sql, tuple(params)):
                return waiting.popleft()[2].fetchall()
            return self.query(sql, params)

        try:
            with self.connection.pipeline():
                for sql, params in asked:
                    waiting.append((sql, tuple(params), self._execute(sql, params)))
                    self.connection.pgconn.send_flush_request()
                yield query
        except psycopg.OperationalError as error:
            if self.lost:
                raise lost(error) from error
            raise

    def cancel(self) -> None:
        """Ask the server to cancel what runs; the statement's own answer then decides (I3)."""
        if not self.lost:
            self.connection.cancel_safe(timeout=5.0)

    def close(self) -> None:
        """End the session, which is the unlock (P7)."""
        if self.cancel in self.budget.cancels:
            self.budget.cancels.remove(self.cancel)
        if self.locked and not self.lost and not self.in_transaction:
            with contextlib.suppress(psycopg.Error, PtahkError):
                self.query("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))
        self.connection.close()


def lost(error: BaseException) -> ConnectionLost:
    """The session is gone; the driver's text names the cause, never a secret."""
    cause = str(error).strip().splitlines()
    return ConnectionLost(
        f"the database session was lost: {cause[0] if cause else 'no answer'}",
        hint="run the same command again: it finds the claim and asks the database what happened",
    )


def pooled() -> Refused:
    return Refused(
        "the database URL leads through a connection pooler in transaction mode: "
        "two statements of one client reached different or shared server sessions",
        reason="TransactionPooler",
        hint="use a direct endpoint of the server, or a pool in session mode",
    )


def _text(sql: str) -> Any:
    # psycopg's type asks for a literal string; every text here is ours, a plan's or quoted by us.
    return sql


def connect(
    url: str,
    *,
    application_name: str,
    connect_timeout_s: float,
    budget: Budget,
    database: str | None = None,
) -> Session:
    """Open one session and make its settings.

    :param url: an ``postgresql://`` URL that ``wire.dsn`` accepted.
    :param database: another database on the same server (a scratch database of ours).
    :raises Unreachable: no session can be had (exit 6).
    :raises UsageError: libpq reads the URL otherwise, or the server refuses who we are.
    :raises Refused: a standby, or a server that is too old.
    """
    budget.check()
    seconds = max(2, round(min(connect_timeout_s, budget.remaining())))  # libpq's least is 2
    other: dict[str, Any] = {} if database is None else {"dbname": database}
    session = Session(_open(url, application_name, seconds, other), budget)
    try:
        _prepare(session)
    except psycopg.Error as error:
        session.close()
        raise Unreachable(f"the server refused the session: {first_line(error)}") from None
    except BaseException:
        session.close()
        raise
    return session


def _open(url: str, application_name: str, seconds: int, other: dict[str, Any]) -> Any:
    try:
        return psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            application_name=application_name,
            connect_timeout=seconds,
            client_encoding="UTF8",
            keepalives=1,
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
            **other,
        )
    except psycopg.OperationalError as error:
        message = first_line(error)
        # libpq gives no SQLSTATE here. In another language the same refusal is Unreachable.
        if any(text in message for text in _DENIED):
            raise UsageError(f"the server refuses this URL: {message}", reason="Denied") from None
        raise Unreachable(f"the database cannot be reached: {message}") from None
    except psycopg.ProgrammingError:
        # libpq quotes the option it does not understand, which may hold a secret.
        raise UsageError("libpq cannot read the database URL", reason="InvalidUrl") from None


def first_line(error: BaseException) -> str:
    """The first line of a driver's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _prepare(session: Session) -> None:
    connection = session.connection
    version = connection.info.server_version
    if version < VERSION_MIN:
        raise Refused(
            f"PostgreSQL {version // 10000} is too old (server_version_num={version}): "
            "14 is the oldest supported",
            reason="UnsupportedServer",
        )
    session.search_path = session.query("SELECT pg_catalog.current_setting('search_path')")[0][0]
    # Qualified: a database's owner may have put a schema of theirs before the system's.
    calls = ", ".join("pg_catalog.set_config(%s, %s, false)" for _ in SETTINGS)
    session.query(f"SELECT {calls}", [text for pair in SETTINGS for text in pair])
    optional = [("client_connection_check_interval", CHECK_INTERVAL), ("lc_messages", "C")]
    if version >= 170000:
        optional.append(("transaction_timeout", "0"))
    for name, value in optional:
        # Some clouds fix the first, only a superuser may set the second: both are best effort.
        with contextlib.suppress(psycopg.DatabaseError):
            session.query("SELECT set_config(%s, %s, false)", (name, value))
    row = session.query(
        "SELECT pg_backend_pid(), s.system_identifier, c.timeline_id, d.oid::bigint,"
        " current_database(), current_user, pg_is_in_recovery()"
        " FROM pg_control_system() s, pg_control_checkpoint() c, pg_catalog.pg_database d"
        " WHERE d.datname = current_database()"
    )[0]
    if row[6]:
        raise Refused(
            "the server is a standby (pg_is_in_recovery)",
            reason="StandbyServer",
            hint="point the URL at the primary",
        )
    session.pid = row[0]
    session._identity = Identity(row[1], row[3], row[2], version, row[4], row[5])


def refuse_pooler(session: Session, url: str, connect_timeout_s: float) -> None:
    """Find a transaction pooler before and after the lock is taken (C-9.7, P2).

    Before: while a second client is inside a transaction, it must be on another backend, and the
    first must stay on its own. After: the second client must fail to get the lock.

    :raises Refused: ``TransactionPooler``; no lock is left behind.
    """
    direct = session.connection.info.backend_pid == session.pid
    name = f"ptahk/probe/{secrets.token_hex(6)}"
    try:
        probe = connect(
            url,
            application_name=name,
            connect_timeout_s=connect_timeout_s,
            budget=Budget(session.budget.remaining()),
        )
    except (Unreachable, UsageError):
        if direct:  # the server's own key says so; a connection limit may forbid a second session
            return
        raise
    try:
        _probe(session, probe)
    finally:
        probe.close()


def _probe(session: Session, probe: Session) -> None:
    probe.run("BEGIN")
    other = probe.query("SELECT pg_backend_pid()")[0][0]
    mine = session.query("SELECT pg_backend_pid()")[0][0]
    if other == session.pid or mine != session.pid:
        raise pooled()
    if session.locked:
        taken = probe.query("SELECT pg_try_advisory_lock(%s)", (LOCK_KEY,))[0][0]
        if taken:
            probe.query("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))
            raise pooled()
    probe.run("ROLLBACK")
