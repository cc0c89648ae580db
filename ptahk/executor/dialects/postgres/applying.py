"""Apply: exactly the published bytes, on the one session, once (C-10.3).

Order: lock, identity, re-inspection, data checks, ledger commit, statements. Whatever ends it
before the ledger's row leaves nothing; after that the row says how far it came.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import psycopg

from ptahk.errors import OperationFailed, PtahkError, Refused
from ptahk.executor.attempt import (
    MESSAGES_MAX,
    SETTLE_S,
    StatementFailed,
    after_start,
    is_settled,
    lock_timeout,
    refuse_rows,
    result_digest,
)
from ptahk.executor.budget import Stopped
from ptahk.executor.dialects.postgres import ledger
from ptahk.executor.dialects.postgres.catalog import fingerprint, read_catalog
from ptahk.executor.dialects.postgres.session import ConnectionLost, Session, first_line
from ptahk.executor.planning.document import Statement, data_checks
from ptahk.executor.planning.model import Scope
from ptahk.executor.publishing import read_plan
from ptahk.wire.jobspec import JobSpec

RETRY_FIRST_S: Final = 0.2
RETRY_LAST_S: Final = 5.0
OLD_SNAPSHOT_S: Final = 5.0
_LOCK_NOT_AVAILABLE: Final = "55P03"


def check_data(session: Session, statements: Sequence[Statement]) -> None:
    """Run the plan's read-only checks on the live state.

    :raises Refused: ``DataNotReadable``, or ``DataDoesNotFit``, with table, column and value as
        the checks word them.
    """
    messages: list[str] = []
    for check in data_checks(statements):
        session.check_still_mine()
        try:
            # Nothing may change before the ledger's row, whatever the text of a check says.
            with session.snapshot():
                # Rows that a policy hides are rows all the same: then the server answers an error.
                session.query("SELECT set_config('row_security', 'off', true)")
                messages += [str(row[0]) for row in session.read_alone(check.sql)]
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            messages.append(f"{check.object}: {first_line(error)}")
        except psycopg.errors.InsufficientPrivilege as error:
            raise Refused(
                f"this role may not see every row that the plan must look at ({check.object}): "
                f"{first_line(error)}",
                reason="DataNotReadable",
                hint="plan as a role that may read the whole table",
            ) from None
    refuse_rows(messages)


def apply(session: Session, spec: JobSpec, plan: bytes, nonce: str, out: dict[str, Any]) -> None:
    """Run a plan under the lock that the session holds; fills the result document.

    :raises PtahkError: what ended it; ``out`` then says how certain and how far.
    """
    statements = read_plan(plan)
    out["statementsTotal"] = len(statements)
    refuse_read_only(session)
    # First: after a part of this very operation the state has moved, and that is not staleness.
    ledger.refuse_repeat(session, spec)
    if _settled_already(session, spec, out):
        return
    check_data(session, statements)
    begin(session, spec, nonce, len(statements), out)
    _run_all(session, spec, statements, out)


def rebind(session: Session, spec: JobSpec, nonce: str, out: dict[str, Any]) -> None:
    """Accept another coordination digest for this database (C-6.15, C-11.17); runs nothing else."""
    refuse_read_only(session)
    begin(session, spec, nonce, 0, out)
    _run_all(session, spec, (), out)


def begin(session: Session, spec: JobSpec, nonce: str, total: int, out: dict[str, Any]) -> None:
    """Commit the ledger's row. A refusal that the server answered left nothing behind."""
    out["result"] = "unknown"  # the row may be committed from here on
    out["mutationStarted"] = True
    try:
        out["notes"] += ledger.begin(session, spec, nonce, total)
    except ConnectionLost:
        raise
    except (PtahkError, psycopg.Error) as error:
        out["result"] = "refused"
        out["mutationStarted"] = False
        if isinstance(error, psycopg.Error):
            raise Refused(
                f"the attempt ledger cannot be written: {first_line(error)}",
                reason="LedgerMissing",
            ) from None
        raise


def refuse_read_only(session: Session) -> None:
    """:raises Refused: ``ReadOnlyServer``."""
    if session.query("SELECT current_setting('transaction_read_only')")[0][0] == "on":
        raise Refused(
            "the server gives this session read-only transactions (transaction_read_only=on)",
            reason="ReadOnlyServer",
        )


def _settled_already(session: Session, spec: JobSpec, out: dict[str, Any]) -> bool:
    """Re-inspect (C-10.3). :raises Refused: ``StalePlan``."""
    with session.snapshot():
        found = fingerprint(
            read_catalog(session.query, Scope(tuple(spec.scope), tuple(spec.policy.exclude)))
        )
    return is_settled(found, spec, out)


def groups_of(statements: Sequence[Statement]) -> Iterator[tuple[bool, list[Statement]]]:
    """(in a transaction, its statements) in order; checks have run already."""
    work = [statement for statement in statements if not statement.is_check]
    for _, members in groupby(work, key=lambda statement: statement.group):
        group = list(members)
        if group[0].transaction:
            yield True, group
        else:
            yield from ((False, [statement]) for statement in group)


def _run_all(
    session: Session, spec: JobSpec, statements: Sequence[Statement], out: dict[str, Any]
) -> None:
    groups = list(groups_of(statements))
    total = len(statements)
    try:
        for number, (transaction, group) in enumerate(groups, start=1):
            last = number == len(groups)
            out["statement"] = group[0].index
            if transaction:
                _run_transaction(session, spec, group, last, total, out)
            else:
                out["notes"] += _old_snapshots(session, group[0])
                _run_alone(session, spec, group[0], last, total)
            out["statementsDone"] = group[-1].index
        if not groups:
            ledger.finish(session, spec, "applied", result_digest(spec, "applied", total))
        out["statementsDone"] = total
        out["result"] = "applied"
        out.pop("statement", None)
    except ConnectionLost:
        raise
    except (PtahkError, psycopg.Error) as error:
        record_failure(session, spec, out)
        raise _after_start(error) from error
    finally:
        if not session.lost and not session.in_transaction:
            with contextlib.suppress(PtahkError, psycopg.Error):
                out["row"] = ledger.row_of(session, spec.operation_id)


def _run_transaction(
    session: Session,
    spec: JobSpec,
    group: Sequence[Statement],
    last: bool,
    total: int,
    out: dict[str, Any],
) -> None:
    """One group, its progress and, of the last one, the ``finished`` row: all or nothing (P8)."""
    delay, retries = RETRY_FIRST_S, 0
    while True:
        running = group[0]
        try:
            with session.transaction():
                for running in group:
                    out["statement"] = running.index
                    session.check_still_mine(lock_timeout(spec, running))
                    session.run(running.sql)
                    if not session.in_transaction:
                        raise _transaction_ended(running)
                # A deferred constraint fails here, not at a COMMIT that no statement explains.
                session.run("SET CONSTRAINTS ALL IMMEDIATE")
                ledger.done(session, spec, group[-1].index)
                if last:
                    ledger.finish(session, spec, "applied", result_digest(spec, "applied", total))
                session.check_still_mine()
            return
        except psycopg.Error as error:
            if error.sqlstate != _LOCK_NOT_AVAILABLE:
                raise _failed(session, running, total, error) from error
            # Rolled back as a whole, so a busy moment does not burn an approval (P10).
            retries += 1
            if retries == 1:
                out["notes"].append(f"statement {running.index} waited for a lock and was retried")
            session.budget.pause(delay)
            delay = min(RETRY_LAST_S, delay * 2)


def _old_snapshots(session: Session, statement: Statement) -> list[str]:
    """Whom a statement outside a transaction waits for (CREATE INDEX CONCURRENTLY and its kind)."""
    rows = session.query(
        "SELECT pid, application_name, xact_start FROM pg_catalog.pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)"
        " AND coalesce(xact_start, '-infinity') < clock_timestamp() - %s * interval '1 second'"
        " ORDER BY xact_start LIMIT %s",
        (OLD_SNAPSHOT_S, MESSAGES_MAX),
    )
    return [
        f"statement {statement.index} waits for an old transaction: backend {pid} ({name or '?'})"
        + ("" if since is None else f" since {since:%Y-%m-%dT%H:%M:%SZ}")
        for pid, name, since in rows
    ]


def _run_alone(
    session: Session, spec: JobSpec, statement: Statement, last: bool, total: int
) -> None:
    """A statement that cannot be in a transaction, between its intent mark and its progress."""
    session.check_still_mine()
    ledger.intend(session, spec, statement.index)
    session.check_still_mine(lock_timeout(spec, statement))
    try:
        session.run(statement.sql)
    except psycopg.Error as error:
        raise _failed(session, statement, total, error) from error
    session.settle(SETTLE_S)
    with session.transaction():
        ledger.done(session, spec, statement.index)
        if last:
            ledger.finish(session, spec, "applied", result_digest(spec, "applied", total))


def _transaction_ended(statement: Statement) -> PtahkError:
    # What it ended was committed or undone; which, and how far, only the database can say.
    return ConnectionLost(
        f"statement {statement.index} ended its group's transaction ({statement.object}): "
        "nothing more is sent"
    )


def _failed(session: Session, statement: Statement, total: int, error: psycopg.Error) -> PtahkError:
    if session.budget.stopping:
        return Stopped(f"stopped on request during statement {statement.index} of {total}")
    detail = [text for text in (error.diag.message_detail, error.diag.message_hint) if text]
    message = error.diag.message_primary or first_line(error)
    return StatementFailed(statement, total, message, detail, error.sqlstate)


def _after_start(error: PtahkError | psycopg.Error) -> PtahkError:
    """An error of an attempt that had started: it ran and failed, whatever the cause (exit 5)."""
    if isinstance(error, PtahkError):
        return after_start(error)
    return OperationFailed(first_line(error), reason="StatementFailed")


def record_failure(session: Session, spec: JobSpec, out: dict[str, Any]) -> None:
    """Close the row as failed: it names what is committed. Without that the outcome is unknown."""
    if session.lost:
        return
    try:
        session.settle(SETTLE_S)
        ledger.finish(
            session, spec, "failed", result_digest(spec, "failed", int(out["statementsDone"]))
        )
    except (PtahkError, psycopg.Error):
        return
    out["result"] = "failed"
