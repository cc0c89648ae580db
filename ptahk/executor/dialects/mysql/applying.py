"""Apply: exactly the published bytes, on the one session, once (C-10.3).

Order: lock, identity, re-inspection, data checks, ledger commit, statements. Each statement commits
by itself, between a row that says it is about to run and one that says how it ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pymysql

from ptahk.errors import OperationFailed, PtahkError, Refused
from ptahk.executor.attempt import (
    SETTLE_S,
    StatementFailed,
    after_start,
    is_settled,
    lock_timeout,
    refuse_rows,
    result_digest,
)
from ptahk.executor.budget import Stopped
from ptahk.executor.dialects.mysql import ledger
from ptahk.executor.dialects.mysql.catalog import fingerprint
from ptahk.executor.dialects.mysql.driver import code_of, text_of
from ptahk.executor.dialects.mysql.inspecting import read_live
from ptahk.executor.dialects.mysql.session import ConnectionLost, Session
from ptahk.executor.planning.document import Statement, data_checks
from ptahk.executor.publishing import read_plan
from ptahk.wire.jobspec import JobSpec

RETRY_FIRST_S: Final = 0.2
RETRY_LAST_S: Final = 5.0
CANCELS_MAX: Final = 4
"""Tries: one more than somebody may ask us to stop while an end is written."""
_LOCK_WAIT: Final = 1205
_INTERRUPTED: Final = 1317
_DENIED: Final = frozenset({1044, 1142, 1143})


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
            session.run("START TRANSACTION READ ONLY")
            try:
                messages += [str(row[0]) for row in session.query(check.sql)]
            finally:
                if not session.lost:
                    session.run("ROLLBACK")
        except (pymysql.err.DataError, pymysql.err.IntegrityError) as error:
            messages.append(f"{check.object}: {text_of(error)}")
        except pymysql.MySQLError as error:
            if code_of(error) not in _DENIED:
                raise
            raise Refused(
                f"this account may not see every row that the plan must look at ({check.object}): "
                f"{text_of(error)}",
                reason="DataNotReadable",
                hint="grant SELECT on the whole table",
            ) from None
    refuse_rows(messages)


def apply(session: Session, spec: JobSpec, plan: bytes, nonce: str, out: dict[str, Any]) -> None:
    """Run a plan under the lock that the session holds; fills the result document.

    :raises PtahkError: what ended it; ``out`` then says how certain and how far.
    """
    statements = read_plan(plan)
    out["statementsTotal"] = len(statements)
    # First: after a part of this very operation the state has moved, and that is not staleness.
    ledger.refuse_repeat(session, spec)
    if is_settled(fingerprint(read_live(session, spec)), spec, out):
        return
    check_data(session, statements)
    begin(session, spec, nonce, len(statements), out)
    _run_all(session, spec, statements, out)


def rebind(session: Session, spec: JobSpec, nonce: str, out: dict[str, Any]) -> None:
    """Accept another coordination digest for this database (C-6.15, C-11.17); runs nothing else."""
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
    except (PtahkError, pymysql.MySQLError) as error:
        out["result"] = "refused"
        out["mutationStarted"] = False
        if isinstance(error, pymysql.MySQLError):
            raise Refused(
                f"the attempt ledger cannot be written: {text_of(error)}",
                reason="LedgerMissing",
            ) from None
        raise


def _run_all(
    session: Session, spec: JobSpec, statements: Sequence[Statement], out: dict[str, Any]
) -> None:
    total = len(statements)
    try:
        for statement in statements:
            if statement.is_check:
                continue
            out["statement"] = statement.index
            _run_one(session, spec, statement, total, out)
            out["statementsDone"] = statement.index
        ledger.finish(session, spec, "applied", result_digest(spec, "applied", total))
        out["statementsDone"] = total
        out["result"] = "applied"
        out.pop("statement", None)
    except ConnectionLost:
        raise
    except (PtahkError, pymysql.MySQLError) as error:
        record_failure(session, spec, out, error)
        if isinstance(error, PtahkError):
            raise after_start(error) from error
        raise OperationFailed(text_of(error), reason="StatementFailed") from error
    finally:
        if not session.lost and not session.in_transaction:
            with contextlib.suppress(PtahkError, pymysql.MySQLError):
                out["row"] = ledger.row_of(session, spec.operation_id)


def _run_one(
    session: Session, spec: JobSpec, statement: Statement, total: int, out: dict[str, Any]
) -> None:
    """One statement, between its two rows."""
    session.check_still_mine()
    ledger.intend(session, spec, statement)
    delay, retries = RETRY_FIRST_S, 0
    while True:
        session.check_still_mine(lock_timeout(spec, statement))
        try:
            session.run(statement.sql)
            break
        except pymysql.MySQLError as error:
            if code_of(error) != _LOCK_WAIT or session.budget.stopping:
                note = partial(_note_end, session, spec, text_of(error))
                _despite_a_late_cancel(session, note)
                raise _failed(session, statement, total, error) from error
            # It waited for a metadata lock and did nothing, so a busy moment burns no approval.
            retries += 1
            if retries == 1:
                out["notes"].append(
                    f"statement {statement.index} waited for a lock and was retried"
                )
            session.budget.pause(delay)
            delay = min(RETRY_LAST_S, delay * 2)
    _despite_a_late_cancel(session, partial(ledger.done, session, spec, statement))


def _despite_a_late_cancel(session: Session, work: Callable[[], None]) -> None:
    """A KILL QUERY that was meant for the statement may reach what is written of its end: that is
    written again, or the row would not say what the server has already answered."""
    for left in reversed(range(CANCELS_MAX)):
        try:
            session.settle(SETTLE_S)
            work()
            return
        except pymysql.MySQLError as error:
            if code_of(error) != _INTERRUPTED or not left:
                raise


def _note_end(session: Session, spec: JobSpec, error: str) -> None:
    """A statement that was refused, or never sent, took no effect, where what it works on is as it
    was before."""
    open_ = ledger.running(session, spec.operation_id)
    if open_ is not None and ledger.is_as_before(session, open_):
        ledger.undone(session, spec, open_[0], error)


def _failed(
    session: Session, statement: Statement, total: int, error: pymysql.MySQLError
) -> PtahkError:
    if session.budget.stopping:
        return Stopped(f"stopped on request during statement {statement.index} of {total}")
    return StatementFailed(statement, total, text_of(error), (), f"{code_of(error)}")


def record_failure(
    session: Session, spec: JobSpec, out: dict[str, Any], error: Exception | None = None
) -> None:
    """Close the row as failed: it names what is done. Without that the outcome is unknown.

    :param error: of a statement whose end may not be noted yet; None: it is.
    """
    if session.lost:
        return
    done = int(out["statementsDone"])
    digest = result_digest(spec, "failed", done)
    try:
        if error is not None:
            _despite_a_late_cancel(session, partial(_note_end, session, spec, str(error)))
        _despite_a_late_cancel(session, partial(ledger.finish, session, spec, "failed", digest))
    except (PtahkError, pymysql.MySQLError):
        return
    out["result"] = "failed"
