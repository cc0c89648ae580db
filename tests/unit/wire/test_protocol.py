"""Result documents: the head is checked, and the page names every field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from ptahk.wire import protocol
from ptahk.wire.protocol import ProtocolError

PAGE = Path(__file__).parents[3] / "docs" / "executor-protocol.md"


def document(**changes: Any) -> bytes:
    return json.dumps({"version": 1, "command": "plan", "ok": True} | changes).encode()


def test_a_good_head_is_read() -> None:
    assert protocol.decode_result(document(), "plan")["ok"] is True
    error = {"reason": "X", "message": "y", "exitCode": 3}
    read = protocol.decode_result(document(ok=False, error=error), "plan")
    assert read["error"] == error


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}{}",
        document(version=2),
        document(command="apply"),
        document(ok="yes"),
        document(ok=False),
        document(ok=True, error={"reason": "X", "message": "y", "exitCode": 3}),
        document(ok=False, error={"reason": "", "message": "y", "exitCode": 3}),
        document(ok=False, error={"reason": "X", "message": "y"}),
        document(ok=False, error="X"),
        document(ok=False, error={"reason": "X", "message": "y", "exitCode": 0}),
        document(ok=False, error={"reason": "X", "message": "y", "exitCode": 256}),
        document(ok=False, error={"reason": "X", "message": "y", "exitCode": True}),
        document(ok=True, clockOffsetSeconds=float("nan")),
        b"[" * 200_000,
    ],
)
def test_anything_else_is_no_result(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_result(data, "plan")


@pytest.mark.parametrize(
    "kind",
    [
        protocol.Result,
        protocol.ObserveResult,
        protocol.PlanResult,
        protocol.ApplyResult,
        protocol.ProveResult,
        protocol.HistoryResult,
        protocol.SequenceHistory,
        protocol.SequenceChosen,
        protocol.LedgerReport,
        protocol.PlanSummary,
        protocol.CommandDocument,
    ],
    ids=lambda kind: kind.__name__,
)
def test_the_page_names_every_field(kind: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in get_type_hints(kind) if name not in text] == []
