"""The attempt ledger in tables ``ptahk_…`` of the target database (C-6.11 to C-6.16).

DDL commits by itself, so no row of ours can commit together with it. Each statement therefore has a
row of its own, written before it and after it, with a digest of what it works on: where the second
write is missing, that digest tells afterwards whether the statement took effect (H9, H10).

Every function here runs on the operation's one session, under its lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql import settling
from ptahk.executor.dialects.mysql.custody import kept_for, name, presence
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.planning.document import Statement
from ptahk.wire import digest, ledgersql
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from ptahk.wire.protocol import FrozenFinding, LedgerReport, LedgerRow

UNFINISHED_MAX: Final = 16
RECENT_MAX: Final = 200
"""Most rows of the account that one result carries."""
SETUP_STEP: Final = f"create the attempt ledger (tables {', '.join(ledgersql.MYSQL_TABLES)})"
_COLUMNS: Final = (
    "operation_id, store_uid, store_kind, server_identity, coordination_digest, number, epoch,"
    " start_nonce, plan_digest, not_after, state, statements_total, statements_done,"
    " statement_running, outcome, result_digest, started_at, finished_at, fenced_at"
)
_KEYS: Final = (
    "operationId", "storeUid", "storeKind", "serverIdentity", "coordinationDigest", "number",
    "epoch", "startNonce", "planDigest", "notAfter", "state", "statementsTotal",
    "statementsDone", "statementRunning", "outcome", "resultDigest", "startedAt", "finishedAt",
    "fencedAt",
)  # fmt: skip


def _attempt(session: Session) -> str:
    return name(session, "ptahk_attempt")


def report(session: Session, spec: JobSpec) -> LedgerReport:
    """What the ledger says to the engine; reads only (C-6.16)."""
    found = presence(session)
    out: LedgerReport = {
        "present": found.present,
        "writable": found.writable,
        "creatable": found.creatable,
        "highestNumber": 0,
        "binding": None,
        "unfinished": [],
        "frozen": [],
    }
    if not found.readable:
        return out
    here = str(session.identity)
    rows = session.query(
        f"SELECT coalesce(max(number), 0) FROM {_attempt(session)} WHERE server_identity = %s",
        (here,),
    )
    out["highestNumber"] = int(rows[0][0])
    out["binding"] = _binding(session)
    out["unfinished"] = _rows(
        session,
        "server_identity = %s AND state = 'started' ORDER BY number DESC LIMIT %s",
        (here, UNFINISHED_MAX),
    )
    out["frozen"] = _frozen(session, spec)
    return out


def require(session: Session) -> list[str]:
    """The set-up steps an Apply would take (C-6.16).

    :raises Refused: ``LedgerMissing``: neither there and writable nor creatable by this account.
    """
    found = presence(session)
    if found.writable:
        return []
    if not found.present and found.creatable:
        return [SETUP_STEP]
    account = session.identity.account
    why = "it may not write it" if found.present else "it may not create it"
    raise Refused(
        f"no attempt ledger can be kept in this database (account={account}): {why}",
        reason="LedgerMissing",
        hint=f"let a DBA run `ptahk ledger-sql --engine mysql --grant-to '{account}'` in it",
    )


def row_of(session: Session, operation_id: str) -> LedgerRow | None:
    """The row of one operation; None where there is none, or no ledger."""
    if not presence(session).readable:
        return None
    rows = _rows(session, "operation_id = %s", (operation_id,))
    return rows[0] if rows else None


def recent(session: Session) -> list[LedgerRow]:
    """The newest rows, newest first; reads only, empty where there is no ledger to read."""
    if not presence(session).readable:
        return []
    order = "coalesce(started_at, fenced_at) DESC, operation_id LIMIT %s"
    return _rows(session, f"1 = 1 ORDER BY {order}", (RECENT_MAX,))


def check_binding(session: Session, spec: JobSpec) -> None:
    """C-6.15. :raises Refused: ``BindingMismatch``, naming the recorded digest."""
    if not spec.explicit_key or spec.rebind or not presence(session).readable:
        return
    recorded = _binding(session)
    if recorded is not None and recorded != spec.coordination_digest:
        raise Refused(
            f"this database is bound to another coordination key (digest={recorded}): "
            f"this run names {spec.coordination_digest}",
            reason="BindingMismatch",
            field="coordinationKey",
            hint="use the key that was used first, or accept the new one with "
            "`ptahk acknowledge --rebind`",
        )


def begin(session: Session, spec: JobSpec, start_nonce: str, statements: int) -> list[str]:
    """Refuse, or commit this attempt's ``started`` row; before the first statement (C-6.11).

    :returns: what a person should know: ledger created, foreign attempts fenced.
    :raises Refused: by a rule of C-6.11, C-6.14 or C-6.15; no row was written.
    :raises ConnectionLost: the row may or may not be there; no statement was sent.
    """
    notes: list[str] = []
    setup = require(session)
    session.check_still_mine()
    if setup:
        notes += [SETUP_STEP]
        create(session)
    with session.transaction():
        check_binding(session, spec)
        _refuse_start(session, spec)
        notes += _settle_others(session, spec)
        _bind(session, spec)
        left_s = _insert_started(session, spec, start_nonce, statements)
    # The database's clock ends what the database's clock began (A16, invariant 7).
    session.budget.shorten(left_s)
    return notes


def create(session: Session) -> None:
    """Make the ledger, outside any transaction, and look again.

    :raises Refused: ``LedgerMissing``.
    """
    for text in ledgersql.MYSQL:
        session.run(text.replace("EXISTS ptahk_", f"EXISTS {name(session, 'ptahk_')}", 1))
    if not presence(session).writable:
        raise Refused("the attempt ledger was made and cannot be written", reason="LedgerMissing")


def _insert_started(session: Session, spec: JobSpec, start_nonce: str, statements: int) -> float:
    """The ``started`` row, if the deadline has not passed at this very moment (I12).

    :returns: seconds left by the database's clock.
    :raises Refused: ``DeadlineExceeded``, or ``LedgerUntrusted``: the row is another one.
    """
    not_after = _moment(spec.execution_not_after)
    made = session.change(
        f"INSERT INTO {_attempt(session)} (operation_id, store_uid, store_kind, server_identity,"
        " coordination_digest, shared_realm, number, epoch, start_nonce, plan_digest,"
        " not_after, state, statements_total, account, thread, started_at)"
        " SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'started', %s, %s, %s,"
        " UTC_TIMESTAMP(6) FROM DUAL WHERE UTC_TIMESTAMP(6) < %s",
        (
            spec.operation_id, spec.store_uid, spec.store_kind, str(session.identity),
            spec.coordination_digest, spec.shared_realm, spec.number, spec.epoch,
            start_nonce, spec.plan_digest or "none", not_after, statements,
            session.identity.account, session.thread, not_after,
        ),
    )  # fmt: skip
    if made != 1:
        raise _late(spec)
    return kept_for(session, spec, start_nonce, not_after, statements)


def _moment(text: str) -> str:
    """RFC 3339 in UTC as the server's ``datetime(6)``."""
    return text.removesuffix("Z").replace("T", " ")


def _late(spec: JobSpec) -> Refused:
    return Refused(
        f"the database's clock is past the deadline (executionNotAfter={spec.execution_not_after})",
        reason="DeadlineExceeded",
    )


def refuse_repeat(session: Session, spec: JobSpec) -> None:
    """An operation that has a row or a tombstone never runs again, whatever the schema is now.

    :raises Refused: ``AttemptExists``; also what ``presence`` raises.
    """
    row = row_of(session, spec.operation_id)
    if row is not None:
        raise Refused(
            f"this operation has already been started or fenced (state={row['state']}, "
            f"operation={spec.operation_id}): it never runs twice",
            reason="AttemptExists",
        )


def _refuse_start(session: Session, spec: JobSpec) -> None:
    refuse_repeat(session, spec)
    newer = session.query(
        f"SELECT operation_id, number FROM {_attempt(session)} WHERE store_uid = %s"
        " AND server_identity = %s AND number >= %s ORDER BY number DESC LIMIT 1",
        (spec.store_uid, str(session.identity), spec.number),
    )
    if newer:
        raise Refused(
            f"the ledger holds number {newer[0][1]} of operation {newer[0][0]} of this store "
            f"(number={spec.number}): this attempt is out of date",
            reason="StaleEpoch",
        )
    late = session.query("SELECT UTC_TIMESTAMP(6) >= %s", (_moment(spec.execution_not_after),))
    if late[0][0]:
        raise _late(spec)
    frozen = _frozen(session, spec)
    if frozen:
        raise Refused(
            frozen[0]["message"],
            reason="Frozen",
            hint="find out why, then `ptahk acknowledge --frozen`",
        )


def _frozen(session: Session, spec: JobSpec) -> list[FrozenFinding]:
    """C-6.14: a number of this store that it does not know, or another cluster's open attempt."""
    here = str(session.identity)
    out: list[FrozenFinding] = []
    # This very attempt's number is known: the claim carries it. Under another epoch it is not.
    known = max(spec.known_number, spec.number or 0)
    for row in _rows(
        session,
        "server_identity = %s AND store_uid = %s AND coordination_digest = %s"
        " AND (number > %s OR (number = %s AND epoch <> %s)) ORDER BY number DESC LIMIT 1",
        (here, spec.store_uid, spec.coordination_digest, known, spec.number, spec.epoch),
    ):
        message = (
            f"the ledger holds number {row['number']} of this store, which knows only "
            f"{spec.known_number}: the store was restored from an older copy"
        )
        out.append(_finding("UnknownNumber", row, message))
    if spec.shared_realm:
        return out
    for row in _rows(
        session,
        "server_identity = %s AND store_uid <> %s AND store_kind = 'cluster'"
        " AND state = 'started' AND NOT shared_realm ORDER BY number DESC",
        (here, spec.store_uid),
    ):
        if row["operationId"] not in spec.thawed:
            message = (
                f"another cluster (store={row['storeUid']}) has an unfinished attempt on this "
                f"database (operation={row['operationId']}, number={row['number']})"
            )
            return [*out, _finding("ForeignCluster", row, message)]
    return out


def _finding(reason: Any, row: LedgerRow, message: str) -> FrozenFinding:
    return {
        "reason": reason, "message": message, "number": row["number"],
        "storeUid": row["storeUid"], "operationId": row["operationId"],
    }  # fmt: skip


def _settle_others(session: Session, spec: JobSpec) -> list[str]:
    """Fence open attempts of local stores that nobody will finish (C-6.14).

    The lock is ours, so their sessions have ended. Until their not-after has passed a late process
    of theirs may still come, and its own store may still prove it: refuse.
    """
    notes = []
    for row in _rows(
        session,
        "server_identity = %s AND state = 'started' AND store_kind = 'local' FOR UPDATE",
        (str(session.identity),),
    ):
        whose = "this store" if row["storeUid"] == spec.store_uid else f"store {row['storeUid']}"
        open_ = session.query("SELECT UTC_TIMESTAMP(6) < %s", (_moment(row["notAfter"]),))
        if open_[0][0]:
            raise Refused(
                f"an attempt of {whose} has not been settled (operation="
                f"{row['operationId']}, started {row['startedAt']}): its deadline is "
                f"{row['notAfter']}",
                reason="UnfinishedAttempt",
                hint="let its own command finish the proof, or try again after that time",
            )
        _close(session, row["operationId"])
        notes.append(
            f"fenced the unfinished attempt {row['operationId']} of {whose}: "
            f"{row['statementsDone']} of {row['statementsTotal']} statements were done"
        )
    return notes


def _close(session: Session, operation_id: str) -> None:
    session.change(
        f"UPDATE {_attempt(session)} SET state = 'fenced', fenced_at = UTC_TIMESTAMP(6)"
        " WHERE operation_id = %s AND state = 'started'",
        (operation_id,),
    )


def _binding(session: Session) -> str | None:
    rows = session.query(
        f"SELECT coordination_digest FROM {name(session, 'ptahk_binding')}"
        " WHERE server_identity = %s",
        (str(session.identity),),
    )
    return str(rows[0][0]) if rows else None


def _bind(session: Session, spec: JobSpec) -> None:
    """Keep the first explicit key; a row that came with a copy of another server is replaced."""
    if not spec.explicit_key or (_binding(session) is not None and not spec.rebind):
        return
    session.change(
        f"REPLACE INTO {name(session, 'ptahk_binding')}"
        " (one, server_identity, coordination_digest, operation_id, bound_at)"
        " VALUES (true, %s, %s, %s, UTC_TIMESTAMP(6))",
        (str(session.identity), spec.coordination_digest, spec.operation_id),
    )


def intend(session: Session, spec: JobSpec, statement: Statement) -> None:
    """Commit that a statement is about to run, with a digest of what it works on."""
    before = settling.digest_of(session, statement.object)
    with session.transaction():
        update(session, spec, "statement_running = %s", (statement.index,))
        session.change(
            f"INSERT INTO {name(session, 'ptahk_statement')} (operation_id, number, state, object,"
            " sql_digest, before_digest, started_at)"
            " VALUES (%s, %s, 'started', %s, %s, %s, UTC_TIMESTAMP(6))",
            (
                spec.operation_id, statement.index, statement.object[:512],
                digest.result_digest(statement.sql), before,
            ),
        )  # fmt: skip


def done(session: Session, spec: JobSpec, statement: Statement) -> None:
    """Commit that a statement took effect."""
    after = settling.digest_of(session, statement.object)
    with session.transaction():
        update(session, spec, "statements_done = %s, statement_running = NULL", (statement.index,))
        end(session, spec.operation_id, statement.index, "done", after, "")


def undone(session: Session, spec: JobSpec, index: int, error: str) -> None:
    """Commit that the server refused a statement and it took no effect."""
    with session.transaction():
        update(session, spec, "statement_running = NULL", ())
        end(session, spec.operation_id, index, "none", None, error)


def end(
    session: Session, operation_id: str, index: int, state: str, after: str | None, error: str
) -> None:
    """Close a statement's row, ``done`` or ``none``; within the transaction that is open."""
    session.change(
        f"UPDATE {name(session, 'ptahk_statement')} SET state = %s, after_digest = %s,"
        " error = nullif(%s, ''), ended_at = UTC_TIMESTAMP(6)"
        " WHERE operation_id = %s AND number = %s AND state = 'started'",
        (state, after, error, operation_id, index),
    )


def running(session: Session, operation_id: str) -> tuple[int, str, str] | None:
    """Number, object and earlier digest of the statement without an end whose object tells."""
    rows = session.query(
        f"SELECT number, object, before_digest FROM {name(session, 'ptahk_statement')}"
        " WHERE operation_id = %s AND state = 'started' AND object <> ''"
        " ORDER BY number DESC LIMIT 1",
        (operation_id,),
    )
    return (int(rows[0][0]), str(rows[0][1]), str(rows[0][2])) if rows else None


def is_as_before(session: Session, open_: tuple[int, str, str]) -> bool:
    """Whether what a running statement works on is as it was before it."""
    return settling.digest_of(session, open_[1]) == open_[2]


def finish(session: Session, spec: JobSpec, outcome: str, result_digest: str) -> None:
    """Close the attempt. ``statement_running`` of a failed row stays: it may have left remains."""
    update(
        session,
        spec,
        "state = 'finished', outcome = %s, result_digest = %s, finished_at = UTC_TIMESTAMP(6)",
        (outcome, result_digest),
    )


def update(session: Session, spec: JobSpec, change: str, params: Sequence[Any]) -> None:
    """Change the attempt's row. :raises Refused: ``Fenced``."""
    # The row is asked for, not counted: the server counts no row that it need not change.
    rows = session.query(
        f"SELECT state FROM {_attempt(session)} WHERE operation_id = %s FOR UPDATE",
        (spec.operation_id,),
    )
    if not rows or rows[0][0] != "started":
        raise Refused(
            f"the ledger's row of this operation is gone or fenced (operation="
            f"{spec.operation_id}): nothing more is sent",
            reason="Fenced",
        )
    session.change(
        f"UPDATE {_attempt(session)} SET {change} WHERE operation_id = %s",
        (*params, spec.operation_id),
    )


def fence(session: Session, spec: JobSpec, attempt: FencedAttempt) -> LedgerRow | None:
    """Commit the tombstone under the Apply's own number (C-6.9); idempotent.

    The lock is ours, so the old session has ended and its last statement with it. A statement whose
    end was not written is settled here: what it works on is either as it was before, or it is not.

    :returns: the row as it was found, but for what this settled; None where the attempt never
        reached the database.
    :raises Refused: ``LedgerMissing`` where no tombstone can be written.
    """
    if require(session):
        create(session)
    session.check_still_mine()
    open_ = running(session, attempt.operation_id)
    now = None if open_ is None else settling.digest_of(session, open_[1])
    with session.transaction():
        found = _rows(session, "operation_id = %s FOR UPDATE", (attempt.operation_id,))
        if not found:
            _tombstone(session, spec, attempt)
        elif found[0]["state"] == "started":
            if open_ is not None and now is not None:
                _settle(session, found[0], open_, now)
            _close(session, attempt.operation_id)
        if attempt.note:
            session.change(
                f"UPDATE {_attempt(session)} SET note = %s WHERE operation_id = %s",
                (attempt.note, attempt.operation_id),
            )
    return found[0] if found else None


def _settle(session: Session, row: LedgerRow, open_: tuple[int, str, str], now: str) -> None:
    """Write whether the statement that was running took effect, and say so in the row."""
    index, _, before = open_
    operation_id = row["operationId"]
    row["statementRunning"] = None
    if now == before:
        end(session, operation_id, index, "none", now, "")
    else:
        row["statementsDone"] = index
        end(session, operation_id, index, "done", now, "")
    session.change(
        f"UPDATE {_attempt(session)} SET statements_done = %s, statement_running = NULL"
        " WHERE operation_id = %s",
        (row["statementsDone"], operation_id),
    )


def _tombstone(session: Session, spec: JobSpec, attempt: FencedAttempt) -> None:
    session.change(
        f"INSERT INTO {_attempt(session)} (operation_id, store_uid, store_kind, server_identity,"
        " coordination_digest, shared_realm, number, epoch, plan_digest, not_after, state,"
        " account, thread, fenced_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'fenced', %s, %s, UTC_TIMESTAMP(6))",
        (
            attempt.operation_id, spec.store_uid, spec.store_kind, str(session.identity),
            spec.coordination_digest, spec.shared_realm, int(attempt.epoch.split(".")[0]),
            attempt.epoch, attempt.plan_digest, _moment(attempt.not_after),
            session.identity.account, session.thread,
        ),
    )  # fmt: skip


def _rows(session: Session, where: str, params: Sequence[Any]) -> list[LedgerRow]:
    rows = session.query(f"SELECT {_COLUMNS} FROM {_attempt(session)} WHERE {where}", params)
    return [_row(row) for row in rows]


def _row(values: tuple[Any, ...]) -> LedgerRow:
    out: dict[str, Any] = {}
    for key, value in zip(_KEYS, values, strict=True):
        is_time = isinstance(value, datetime)
        out[key] = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if is_time else value
    return cast("LedgerRow", out)
