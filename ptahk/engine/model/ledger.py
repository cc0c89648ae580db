"""What the attempt ledger proves about an Apply, and what a frame says about the database.

A frame is evidence; the row is the verdict (C-5.7, C-6.13). ``judge`` never guesses: what the
row does not prove is ``Unknown`` (invariant 14).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ptahk.engine.model import reasons
from ptahk.engine.model.fields import FieldError, cut
from ptahk.engine.model.outcome import (
    Failed,
    NotStarted,
    Outcome,
    Partial,
    StoredOutcome,
    Succeeded,
    Unknown,
)
from ptahk.engine.model.status import Database, Frozen, Status

TEXT_MAX = 512
REASON_MAX = 64


def judge(row: Mapping[str, Any] | None, reported: StoredOutcome) -> Outcome:
    """The outcome that the fenced ledger proves.

    :param row: the attempt's row as the fence found it; None: it had none.
    :param reported: what the Apply was stored as before; it only explains, except that a report
        of success without a row is a contradiction that proves nothing.
    """
    if row is None or (row["state"] == "fenced" and row.get("startNonce") is None):
        return _without_start(reported)
    done, total = row["statementsDone"], row["statementsTotal"]
    if not (type(done) is int and type(total) is int and 0 <= done <= total):
        return Unknown("OutcomeUnknown", "the ledger's row counts what cannot be")
    if row["state"] == "finished" and row.get("outcome") == "applied":
        return Succeeded()
    why = reported.message or reported.reason
    if row.get("statementRunning") is not None:
        # An error is no proof of no effect here: CREATE INDEX CONCURRENTLY leaves an index.
        number = row["statementRunning"]
        how = "failed" if row["state"] == "finished" else "was interrupted"
        return Unknown(
            "OutcomeUnknown",
            f"statement {number} of {total}, outside a transaction, {how} and may have left "
            f"something; {done} before it took effect: {why}",
        )
    if done == total and total > 0:
        # Every effect is committed; only the last mark is missing.
        return Succeeded(message=f"all {total} statements took effect ({why})")
    if done == 0:
        reason = "StatementFailed" if row["state"] == "finished" else "OperationFailed"
        return Failed(reason, f"nothing was changed: {why}")
    return Partial(done, total, message=f"{done} of {total} statements took effect: {why}")


def _without_start(reported: StoredOutcome) -> Outcome:
    if reported.type == "Succeeded" and reported.reason != "AlreadyConverged":
        return Unknown("OutcomeUnknown", "success was reported, and the ledger has no row of it")
    if reported.type == "NotStarted":
        return NotStarted(reported.reason, reported.message)
    if reported.reason == "AlreadyConverged":
        return NotStarted("AlreadyConverged", reported.message)
    text = f"the ledger proves that nothing ran ({reported.message})"
    if reasons.exit_code(reported.reason, 0) == 3:
        return NotStarted(reported.reason, text)
    return NotStarted(message=text)


def database_of(result: Mapping[str, Any], now: datetime, request: str | None) -> Database | None:
    """What a result document's head says; None before the executor had a connection."""
    ledger = result.get("ledger")
    if ledger is None or result.get("serverIdentity") is None:
        return None
    try:
        unfinished = [_bounded(row["operationId"]) for row in ledger["unfinished"]]
        return Database(
            time=now,
            server_identity=_text(result["serverIdentity"]),
            target_identity=_text(result.get("targetIdentity") or ""),
            ledger_present=bool(ledger["present"]),
            ledger_writable=bool(ledger["writable"]),
            ledger_creatable=bool(ledger["creatable"]),
            highest_number=int(ledger["highestNumber"]),
            clock_offset_seconds=float(result.get("clockOffsetSeconds") or 0.0),
            binding=_bounded(ledger.get("binding")),
            unfinished=unfinished[0] if unfinished else None,
            request=request,
        )
    except (KeyError, TypeError, ValueError):
        return None


def frozen_by(result: Mapping[str, Any], now: datetime, status: Status) -> Frozen | None:
    """The finding that freezes the realm, unless a person acknowledged it (C-6.14).

    A word on another store's attempt is on that attempt: its number is that store's own.
    """
    ledger = result.get("ledger") or {}
    for finding in ledger.get("frozen") or ():
        number, operation = int(finding["number"]), _bounded(finding.get("operationId"))
        known = number <= status.thawed
        if finding["reason"] == "ForeignCluster":
            known = operation in status.thawed_operations
        if not known:
            reason, text = cut(finding["reason"], REASON_MAX), cut(finding["message"], TEXT_MAX)
            return Frozen(reason, text, number, now, operation)
    return None


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > TEXT_MAX:
        raise FieldError(".result", "must be text")
    return value


def _bounded(value: Any) -> str | None:
    """Text of a database that somebody else may have written; too long, it is cut and fits none."""
    if value is not None and type(value) is not str:
        raise FieldError(".result", "must be text")
    return None if value is None else cut(value, TEXT_MAX)
