"""Plan bytes: the statements that are approved, and that exactly are run (C-7.3). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ptahk.executor.planning.model import SEVERITIES, Severity
from ptahk.executor.planning.plan import CHECK
from ptahk.wire import canonical

VERSION = 1
STATEMENTS_MAX = 100_000
BYTES_MAX = 8 * 1024 * 1024
"""Largest plan, raw (C-7.3)."""


class PlanDocumentError(ValueError):
    """The bytes are not a plan; the message names the place."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One numbered statement of a plan."""

    index: int
    """From 1."""
    sql: str
    kind: str
    object: str
    severity: Severity
    lock: str
    reason: str
    group: int
    """From 1; neighbours of one group share a transaction where ``transaction`` is set."""
    transaction: bool
    lock_timeout_s: int | None
    """None: ``policy.lockTimeout``; 0: bounded only by the execution deadline."""

    @property
    def is_check(self) -> bool:
        """A read-only query for rows that the plan cannot keep: any row, or a data error (SQLSTATE
        class 22 or 23), refuses. Run on the live state when planned, and again under the lock
        before the first statement and before the ledger's row."""
        return self.kind == CHECK


def data_checks(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The checks of a plan; each answers rows of one text column, a message for a person."""
    return tuple(statement for statement in statements if statement.is_check)


def plan_bytes(statements: Sequence[Statement]) -> bytes:
    """Canonical JSON; equal plans are equal bytes."""
    return canonical.encode(
        {
            "version": VERSION,
            "statements": [
                {
                    "index": s.index,
                    "sql": s.sql,
                    "kind": s.kind,
                    "object": s.object,
                    "severity": s.severity,
                    "lock": s.lock,
                    "reason": s.reason,
                    "group": {"number": s.group, "transaction": s.transaction},
                    "timeouts": {"lockSeconds": s.lock_timeout_s},
                }
                for s in statements
            ],
        }
    )


def parse_plan(data: bytes) -> tuple[Statement, ...]:
    """The statements of plan bytes, which must be exactly what ``plan_bytes`` would write.

    :raises PlanDocumentError: unknown or missing keys, wrong types, gaps in numbers, not canonical.
    """
    try:
        document = canonical.decode(data, bytes_max=BYTES_MAX)
    except canonical.CanonicalError as error:
        raise PlanDocumentError(str(error)) from None
    top = _keys(document, {"version", "statements"}, "plan")
    if top["version"] != VERSION or isinstance(top["version"], bool):
        raise PlanDocumentError(f"plan: version is not {VERSION}")
    listed = top["statements"]
    if not isinstance(listed, list) or len(listed) > STATEMENTS_MAX:
        raise PlanDocumentError("plan: statements is not a list within bounds")
    statements = tuple(_statement(each, number) for number, each in enumerate(listed, start=1))
    last = 0
    for statement in statements:
        if statement.group not in (last, last + 1):
            raise PlanDocumentError(f"statement {statement.index}: group numbers leave a gap")
        last = statement.group
    if plan_bytes(statements) != data:
        raise PlanDocumentError("plan: not in canonical form")
    return statements


_TEXTS = ("sql", "kind", "object", "severity", "lock", "reason")


def _statement(value: Any, number: int) -> Statement:
    where = f"statement {number}"
    found = _keys(value, {"index", *_TEXTS, "group", "timeouts"}, where)
    group = _keys(found["group"], {"number", "transaction"}, f"{where}: group")
    timeouts = _keys(found["timeouts"], {"lockSeconds"}, f"{where}: timeouts")
    for key in _TEXTS:
        if not isinstance(found[key], str):
            raise PlanDocumentError(f"{where}: {key} is not text")
        if "\0" in found[key]:
            # The driver's text ends at the first one: less would run than was approved.
            raise PlanDocumentError(f"{where}: {key} holds a NUL character")
    if not _is_count(found["index"]) or found["index"] != number:
        raise PlanDocumentError(f"{where}: index is not {number}")
    if not _is_count(group["number"]) or group["number"] < 1:
        raise PlanDocumentError(f"{where}: group number is not a positive integer")
    if not isinstance(group["transaction"], bool):
        raise PlanDocumentError(f"{where}: transaction is not true or false")
    seconds = timeouts["lockSeconds"]
    if seconds is not None and not _is_count(seconds):
        raise PlanDocumentError(f"{where}: lockSeconds is neither null nor a whole number")
    if found["severity"] not in SEVERITIES:
        raise PlanDocumentError(f"{where}: unknown severity")
    return Statement(
        index=number,
        sql=found["sql"],
        kind=found["kind"],
        object=found["object"],
        severity=cast(Severity, found["severity"]),
        lock=found["lock"],
        reason=found["reason"],
        group=group["number"],
        transaction=group["transaction"],
        lock_timeout_s=seconds,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _keys(value: Any, keys: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanDocumentError(f"{where}: not an object")
    for key in sorted(keys ^ value.keys()):
        what = "missing" if key in keys else "unknown"
        raise PlanDocumentError(f"{where}: {what} key {key}")
    return value
