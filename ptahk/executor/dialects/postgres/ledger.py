"""The attempt ledger in schema ``ptahk`` of the target database (C-6.11 to C-6.16).

Every function here runs on the operation's one session, under its advisory lock. The ledger is
never part of any fact, plan or fingerprint: the catalog reader leaves schema ``ptahk`` out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres.custody import presence
from ptahk.executor.dialects.postgres.quote import ident
from ptahk.executor.dialects.postgres.session import Session
from ptahk.wire import ledgersql
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from ptahk.wire.protocol import FrozenFinding, LedgerReport, LedgerRow

UNFINISHED_MAX: Final = 16
SETUP_STEP: Final = "create the attempt ledger (schema ptahk)"
RECENT_MAX: Final = 200
"""Most rows of the account that one result carries."""
_COLUMNS: Final = (
    "operation_id, store_uid, store_kind, server_identity, coordination_digest, number, epoch,"
    " start_nonce, plan_digest, not_after, state, statements_total, statements_done,"
    " statement_running, outcome, result_digest, started_at, finished_at, fenced_at"
)
_TIMES: Final = frozenset({"notAfter", "startedAt", "finishedAt", "fencedAt"})
_KEYS: Final = (
    "operationId", "storeUid", "storeKind", "serverIdentity", "coordinationDigest", "number",
    "epoch", "startNonce", "planDigest", "notAfter", "state", "statementsTotal",
    "statementsDone", "statementRunning", "outcome", "resultDigest", "startedAt", "finishedAt",
    "fencedAt",
)  # fmt: skip


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
    out["highestNumber"] = int(
        session.query(
            "SELECT coalesce(max(number), 0) FROM ptahk.attempt WHERE server_identity = %s",
            (here,),
        )[0][0]
    )
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

    :raises Refused: ``LedgerMissing``: neither there and writable nor creatable by this role.
    """
    found = presence(session)
    if found.writable:
        return []
    if not found.present and found.creatable:
        return [SETUP_STEP]
    role = session.identity.role
    why = "this role may not write it" if found.present else "this role may not create it"
    raise Refused(
        f"no attempt ledger can be kept in this database (role={role}): {why}",
        reason="LedgerMissing",
        hint=f"let a DBA run `ptahk ledger-sql --engine postgresql --grant-to {ident(role)}`",
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
    return _rows(
        session,
        "true ORDER BY coalesce(started_at, fenced_at) DESC, operation_id LIMIT %s",
        (RECENT_MAX,),
    )


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
    :raises Refused: by a rule of C-6.11, C-6.14 or C-6.15; nothing was written.
    :raises ConnectionLost: the row may or may not be there; no statement was sent.
    """
    notes: list[str] = []
    setup = require(session)
    session.check_still_mine()
    with session.transaction():
        if setup:
            notes += [SETUP_STEP]
            _create(session)
        check_binding(session, spec)
        _refuse_start(session, spec)
        notes += _settle_others(session, spec)
        _bind(session, spec)
        left_s = _insert_started(session, spec, start_nonce, statements)
    # The database's clock ends what the database's clock began (A16, invariant 7).
    session.budget.shorten(left_s)
    return notes


def _create(session: Session) -> None:
    """Make the ledger, and look again: a stranger may have made a part of it just before us."""
    for text in ledgersql.POSTGRESQL:
        session.run(text)
    if not presence(session).writable:
        raise Refused("the attempt ledger was made and cannot be written", reason="LedgerMissing")


def _insert_started(session: Session, spec: JobSpec, start_nonce: str, statements: int) -> float:
    """The ``started`` row, if the deadline has not passed at this very moment (I12).

    :returns: seconds left by the database's clock.
    :raises Refused: ``DeadlineExceeded``.
    """
    rows = session.query(
        "INSERT INTO ptahk.attempt (operation_id, store_uid, store_kind, server_identity,"
        " coordination_digest, shared_realm, number, epoch, start_nonce, plan_digest,"
        " not_after, state, statements_total, timeline, started_at)"
        " SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, t.not_after, 'started', %s, %s,"
        " clock_timestamp() FROM (SELECT %s::timestamptz AS not_after) t"
        " WHERE clock_timestamp() < t.not_after"
        " RETURNING extract(epoch FROM not_after - clock_timestamp())::float8",
        (
            spec.operation_id, spec.store_uid, spec.store_kind, str(session.identity),
            spec.coordination_digest, spec.shared_realm, spec.number, spec.epoch,
            start_nonce, spec.plan_digest or "none", statements, session.identity.timeline,
            spec.execution_not_after,
        ),
    )  # fmt: skip
    if not rows:
        raise _late(spec)
    return float(rows[0][0])


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
        "SELECT operation_id, number FROM ptahk.attempt WHERE store_uid = %s"
        " AND server_identity = %s AND number >= %s ORDER BY number DESC LIMIT 1",
        (spec.store_uid, str(session.identity), spec.number),
    )
    if newer:
        raise Refused(
            f"the ledger holds number {newer[0][1]} of operation {newer[0][0]} of this store "
            f"(number={spec.number}): this attempt is out of date",
            reason="StaleEpoch",
        )
    late = session.query("SELECT clock_timestamp() >= %s::timestamptz", (spec.execution_not_after,))
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
    # This very attempt's number is known: the claim carries it. Under another epoch it is not:
    # no number is given twice. Numbers are kept by realm: those that the same store gave under
    # another key of this database are no sign of an older copy.
    known = max(spec.known_number, spec.number or 0)
    for row in _rows(
        session,
        "server_identity = %s AND store_uid = %s AND coordination_digest = %s"
        " AND (number > %s OR (number = %s AND epoch <> %s)) ORDER BY number DESC LIMIT 1",
        (here, spec.store_uid, spec.coordination_digest, known, spec.number, spec.epoch),
    ):
        out.append(
            _finding(
                "UnknownNumber",
                row,
                f"the ledger holds number {row['number']} of this store, which knows only "
                f"{spec.known_number}: the store was restored from an older copy",
            )
        )
    if spec.shared_realm:
        return out
    for row in _rows(
        session,
        "server_identity = %s AND store_uid <> %s AND store_kind = 'cluster'"
        " AND state = 'started' AND NOT shared_realm AND NOT operation_id = ANY(%s)"
        " ORDER BY number DESC LIMIT 1",
        (here, spec.store_uid, list(spec.thawed)),
    ):
        out.append(
            _finding(
                "ForeignCluster",
                row,
                f"another cluster (store={row['storeUid']}) has an unfinished attempt on this "
                f"database (operation={row['operationId']}, number={row['number']})",
            )
        )
    return out


def _finding(reason: Any, row: LedgerRow, message: str) -> FrozenFinding:
    return {
        "reason": reason,
        "message": message,
        "number": row["number"],
        "storeUid": row["storeUid"],
        "operationId": row["operationId"],
    }


def _settle_others(session: Session, spec: JobSpec) -> list[str]:
    """Fence open attempts of local stores that nobody will finish (C-6.14).

    The advisory lock is ours, so their sessions have ended. Until their not-after has passed a
    late process of theirs may still come, and its own store may still prove it: refuse.
    """
    rows = _rows(
        session,
        "server_identity = %s AND state = 'started' AND store_kind = 'local' FOR UPDATE",
        (str(session.identity),),
    )
    notes = []
    for row in rows:
        open_ = session.query("SELECT clock_timestamp() < %s::timestamptz", (row["notAfter"],))
        if open_[0][0]:
            raise Refused(
                f"an attempt of {_whose(row, spec)} has not been settled (operation="
                f"{row['operationId']}, started {row['startedAt']}): its deadline is "
                f"{row['notAfter']}",
                reason="UnfinishedAttempt",
                hint="let its own command finish the proof, or try again after that time",
            )
        session.query(
            "UPDATE ptahk.attempt SET state = 'fenced', fenced_at = clock_timestamp()"
            " WHERE operation_id = %s AND state = 'started' RETURNING 1",
            (row["operationId"],),
        )
        notes.append(
            f"fenced the unfinished attempt {row['operationId']} of {_whose(row, spec)}: "
            f"{row['statementsDone']} of {row['statementsTotal']} statements were done"
        )
    return notes


def _whose(row: LedgerRow, spec: JobSpec) -> str:
    return "this store" if row["storeUid"] == spec.store_uid else f"another store {row['storeUid']}"


def _binding(session: Session) -> str | None:
    rows = session.query(
        "SELECT coordination_digest FROM ptahk.binding WHERE server_identity = %s",
        (str(session.identity),),
    )
    return str(rows[0][0]) if rows else None


def _bind(session: Session, spec: JobSpec) -> None:
    """Keep the first explicit key; a row that came with a copy of another server is replaced."""
    if not spec.explicit_key:
        return
    session.query(
        "INSERT INTO ptahk.binding AS b (server_identity, coordination_digest, operation_id)"
        " VALUES (%s, %s, %s) ON CONFLICT (one) DO UPDATE SET"
        " server_identity = excluded.server_identity,"
        " coordination_digest = excluded.coordination_digest,"
        " operation_id = excluded.operation_id, bound_at = clock_timestamp()"
        " WHERE b.server_identity <> excluded.server_identity OR %s RETURNING 1",
        (str(session.identity), spec.coordination_digest, spec.operation_id, spec.rebind),
    )


def intend(session: Session, spec: JobSpec, index: int) -> None:
    """Commit that statement ``index`` (from 1) is about to run outside a transaction."""
    _update(session, spec, "statement_running = %s", (index,))


def done(session: Session, spec: JobSpec, index: int) -> None:
    """Statements up to ``index`` took effect; in the same transaction as they, where possible."""
    _update(session, spec, "statements_done = %s, statement_running = NULL", (index,))


def finish(session: Session, spec: JobSpec, outcome: str, result_digest: str) -> None:
    """Close the attempt; in the last statement's own transaction where possible (P8).

    ``statement_running`` of a failed row stays: that statement may have left remains.
    """
    _update(
        session,
        spec,
        "state = 'finished', outcome = %s, result_digest = %s, finished_at = clock_timestamp()",
        (outcome, result_digest),
    )


def _update(session: Session, spec: JobSpec, change: str, params: Sequence[Any]) -> None:
    rows = session.query(
        f"UPDATE ptahk.attempt SET {change} WHERE operation_id = %s AND state = 'started'"
        " RETURNING 1",
        (*params, spec.operation_id),
    )
    if len(rows) != 1:
        raise Refused(
            f"the ledger's row of this operation is gone or fenced (operation="
            f"{spec.operation_id}): nothing more is sent",
            reason="Fenced",
        )


def fence(session: Session, spec: JobSpec, attempt: FencedAttempt) -> LedgerRow | None:
    """Commit the tombstone under the Apply's own number (C-6.9); idempotent.

    :returns: the row as it was found, None where the attempt never reached the database.
    :raises Refused: ``LedgerMissing`` where no tombstone can be written.
    """
    setup = require(session)
    session.check_still_mine()
    with session.transaction():
        if setup:
            _create(session)
        found = _rows(session, "operation_id = %s FOR UPDATE", (attempt.operation_id,))
        if not found:
            _tombstone(session, spec, attempt)
        elif found[0]["state"] == "started":
            session.query(
                "UPDATE ptahk.attempt SET state = 'fenced', fenced_at = clock_timestamp()"
                " WHERE operation_id = %s RETURNING 1",
                (attempt.operation_id,),
            )
        if attempt.note:
            session.query(
                "UPDATE ptahk.attempt SET note = %s WHERE operation_id = %s RETURNING 1",
                (attempt.note, attempt.operation_id),
            )
    return found[0] if found else None


def _tombstone(session: Session, spec: JobSpec, attempt: FencedAttempt) -> None:
    session.query(
        "INSERT INTO ptahk.attempt (operation_id, store_uid, store_kind, server_identity,"
        " coordination_digest, shared_realm, number, epoch, plan_digest, not_after, state,"
        " timeline, fenced_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'fenced', %s, clock_timestamp())"
        " RETURNING 1",
        (
            attempt.operation_id, spec.store_uid, spec.store_kind, str(session.identity),
            spec.coordination_digest, spec.shared_realm, int(attempt.epoch.split(".")[0]),
            attempt.epoch, attempt.plan_digest, attempt.not_after, session.identity.timeline,
        ),
    )  # fmt: skip


def _rows(session: Session, where: str, params: Sequence[Any]) -> list[LedgerRow]:
    rows = session.query(f"SELECT {_COLUMNS} FROM ptahk.attempt WHERE {where}", params)
    return [_row(row) for row in rows]


def _row(values: tuple[Any, ...]) -> LedgerRow:
    out: dict[str, Any] = {}
    for key, value in zip(_KEYS, values, strict=True):
        is_time = key in _TIMES and value is not None
        out[key] = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if is_time else value
    return cast("LedgerRow", out)
