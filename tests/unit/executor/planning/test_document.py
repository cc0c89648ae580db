"""Plan bytes: canonical, and read back strictly."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ptahk.executor.planning.document import (
    PlanDocumentError,
    Statement,
    data_checks,
    parse_plan,
    plan_bytes,
)

ONE = Statement(
    index=1,
    sql="ALTER TABLE t ADD x int",
    kind="AddColumn",
    object="column public.t.x",
    severity="safe",
    lock="AccessExclusiveLock public.t",
    reason="",
    group=1,
    transaction=True,
    lock_timeout_s=None,
)
TWO = replace(ONE, index=2, group=2, transaction=False, lock_timeout_s=0, severity="warning")
CHECK = replace(ONE, kind="CheckData", sql="SELECT 'x' LIMIT 0")


def changed(**top: object) -> bytes:
    document = json.loads(plan_bytes([ONE, TWO]))
    return json.dumps({**document, **top}, sort_keys=True, separators=(",", ":")).encode()


def statement(**facts: object) -> bytes:
    document = json.loads(plan_bytes([ONE]))
    document["statements"][0] |= facts
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def test_bytes_are_the_contract_s() -> None:
    """C-7.3, byte for byte."""
    assert plan_bytes([ONE]) == (
        b'{"statements":[{"group":{"number":1,"transaction":true},"index":1,"kind":"AddColumn",'
        b'"lock":"AccessExclusiveLock public.t","object":"column public.t.x","reason":"",'
        b'"severity":"safe","sql":"ALTER TABLE t ADD x int","timeouts":{"lockSeconds":null}}],'
        b'"version":1}'
    )


@pytest.mark.parametrize("statements", [(), (ONE,), (ONE, TWO)])
def test_round_trip(statements: tuple[Statement, ...]) -> None:
    assert parse_plan(plan_bytes(statements)) == statements


def test_checks_are_told_apart() -> None:
    assert data_checks([CHECK, TWO]) == (CHECK,)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        plan_bytes([ONE]) + b" ",
        plan_bytes([ONE])[:-1],
        changed(version=2),
        changed(version=True),
        changed(more=1),
        changed(statements={}),
        plan_bytes([TWO]),
        plan_bytes([replace(ONE, group=2)]),
        plan_bytes([ONE, replace(TWO, group=3)]),
        statement(index=2),
        statement(index=True),
        statement(sql=None),
        statement(severity="grave"),
        statement(extra=""),
        statement(group={"number": 0, "transaction": True}),
        statement(group={"number": 1, "transaction": 1}),
        statement(group={"number": 1}),
        statement(timeouts={"lockSeconds": -1}),
        statement(timeouts={"lockSeconds": 1.5}),
        statement(timeouts={}),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(PlanDocumentError):
        parse_plan(data)


def test_one_changed_byte_is_refused_or_another_plan() -> None:
    data = plan_bytes([ONE, TWO])
    for place in range(len(data)):
        edited = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            assert plan_bytes(parse_plan(edited)) == edited
        except PlanDocumentError:
            continue
