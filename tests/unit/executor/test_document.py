"""Plan bytes that must not be run: what is approved is what is sent, to the last character."""

from __future__ import annotations

import pytest

from ptahk.executor.planning.document import PlanDocumentError, Statement, parse_plan, plan_bytes


def statement(sql: str) -> Statement:
    return Statement(1, sql, "Test", "table public.a", "safe", "", "", 1, True, None)


def test_a_plan_comes_back() -> None:
    made = (statement('CREATE TABLE public."a\n☃" ()'),)
    assert parse_plan(plan_bytes(made)) == made


def test_a_nul_character_would_cut_the_text_and_is_refused() -> None:
    with pytest.raises(PlanDocumentError, match="sql holds a NUL"):
        parse_plan(plan_bytes([statement("DROP TABLE public.a\0_old")]))


def test_a_lone_surrogate_is_refused() -> None:
    data = plan_bytes([statement("x")]).replace(b'"x"', b'"\\ud800"')
    with pytest.raises(PlanDocumentError, match="surrogate"):
        parse_plan(data)
