"""Two inspections that differ, a plan too large to keep, a URL that libpq reads otherwise."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import psycopg.conninfo
import pytest

from ptahk.errors import Refused, UsageError
from ptahk.executor.__main__ import _url
from ptahk.executor.dialects.postgres import planner
from ptahk.executor.dialects.postgres.planning_operation import _confirm
from ptahk.executor.planning.model import Catalog, ObjectId, Policy
from ptahk.executor.publishing import publish_bytes
from ptahk.wire.jobspec import DATABASE_URL
from tests.kit.sessions import apply_spec

POLICY = Policy()
EMPTY = Catalog(
    objects={},
    depends=frozenset(),
    sizes_bytes={},
    context={"server_version": 180000, "user": "u", "lock_capacity": 6400},
)


def with_schema(name: str) -> Catalog:
    objects = {ObjectId("schema", (name,)): {"owner": "u"}}
    return Catalog(objects, EMPTY.depends, {}, EMPTY.context)


def confirm(live: Catalog, declared: Catalog, live_then: Catalog, declared_then: Catalog) -> bytes:
    """What ``_confirm`` says where the second reading gives the last two."""
    first = planner.plan(live, declared, POLICY)
    bench = SimpleNamespace(
        live_again=lambda _: live_then, timed=lambda _: contextlib.nullcontext()
    )
    again = SimpleNamespace(again=lambda: declared_then)
    seen = SimpleNamespace(catalog=live)
    return _confirm(cast(Any, bench), cast(Any, again), cast(Any, seen), live, POLICY, first)


def test_the_same_answers_confirm_the_plan() -> None:
    app = with_schema("app")
    assert b"CREATE SCHEMA app" in confirm(EMPTY, app, EMPTY, app)


@pytest.mark.parametrize(
    ("live_then", "declared_then"),
    [(with_schema("app"), with_schema("app")), (EMPTY, with_schema("other"))],
    ids=["live moved", "scratch moved"],
)
def test_a_second_reading_that_differs_refuses(live_then: Catalog, declared_then: Catalog) -> None:
    with pytest.raises(Refused) as refused:
        confirm(EMPTY, with_schema("app"), live_then, declared_then)
    assert refused.value.reason == "UnstablePlan"


def test_a_plan_too_large_to_keep_is_not_given_out() -> None:
    out: dict[str, Any] = {}
    with pytest.raises(Refused) as refused:
        publish_bytes(b"x" * (8 * 1024 * 1024 + 1), out)
    assert refused.value.reason == "PlanTooLarge"
    assert out == {}


@pytest.mark.parametrize(
    ("part", "value"),
    [("host", "elsewhere"), ("port", "6543"), ("dbname", "x"), ("user", "y"), ("password", "z")],
)
def test_a_url_that_libpq_reads_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, part: str, value: str
) -> None:
    url = "postgresql://user:S3cr3t@db.example:6432/orders"
    theirs = psycopg.conninfo.conninfo_to_dict(url)
    monkeypatch.setenv(DATABASE_URL, url)
    assert _url(apply_spec(), DATABASE_URL) == url
    monkeypatch.setenv(DATABASE_URL, url)
    monkeypatch.setattr(psycopg.conninfo, "conninfo_to_dict", lambda _: {**theirs, part: value})
    with pytest.raises(UsageError) as refused:
        _url(apply_spec(), DATABASE_URL)
    assert refused.value.reason == "InvalidUrl"
    assert part in refused.value.message
    assert "S3cr3t" not in refused.value.message
