"""Parts of a fake result: statements as the planner writes them (C-7.3), findings of a ledger."""

from __future__ import annotations

from typing import Any


def whole(index: int, sql: str) -> dict[str, Any]:
    """A statement as a plan's bytes hold it."""
    word, _, line = sql.partition(" ")
    drops = word == "drop"
    return {
        "index": index,
        "sql": sql,
        "kind": "line",
        "object": line,
        "severity": "destructive" if drops else "safe",
        "lock": "",
        "reason": "it is not declared" if drops else "it is declared",
        "group": {"number": 1, "transaction": not line.startswith("!")},
        "timeouts": {"lockSeconds": None},
    }


def finding(reason: str, row: dict[str, Any], message: str) -> dict[str, Any]:
    """Why a realm is frozen, as a ledger's report has it."""
    return {
        "reason": reason, "message": message, "number": row["number"],
        "storeUid": row["storeUid"], "operationId": row["operationId"],
    }  # fmt: skip
