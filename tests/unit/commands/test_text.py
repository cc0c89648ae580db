"""What a person reads of each document."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.commands import _text as text

RESOURCE = {"kind": "PtahSchema", "namespace": "local", "name": "orders", "uid": "u"}
DIGEST = "sha256:" + "a" * 64


def statement(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "index": index + 1,
        "sql": "CREATE TABLE public.orders (id bigint)",
        "kind": "CreateTable",
        "object": "table public.orders",
        "severity": "safe",
        "lock": "",
        "reason": "",
        "group": {"number": 1, "transaction": True},
        "timeouts": {"lockSeconds": None},
        "sizeBytes": None,
        **changes,
    }


def plan(*statements: dict[str, Any], **changes: Any) -> dict[str, Any]:
    severities: dict[str, int] = {}
    for item in statements:
        severities[item["severity"]] = severities.get(item["severity"], 0) + 1
    return {
        "resource": RESOURCE,
        "fingerprint": DIGEST,
        "changes": bool(statements),
        "approval": {"required": bool(statements), "reasons": ["policy"]},
        "statements": list(statements),
        "summary": {
            "statements": len(statements),
            "severities": severities,
            "setup": [],
            "notes": [],
        },
        **changes,
    }


def words(lines: Any) -> str:
    return "\n".join(line for line, _ in lines)


def test_a_plan_shows_each_statement_and_a_summary() -> None:
    document = plan(
        statement(0),
        statement(
            1,
            sql="DROP TABLE public.old;",
            kind="DropTable",
            object="table public.old",
            severity="destructive",
            lock="AccessExclusiveLock public.old",
            reason="its rows are lost",
            sizeBytes=1_610_612_736,
        ),
        statement(
            2,
            sql="CREATE INDEX CONCURRENTLY i ON public.t (a)",
            kind="CreateIndex",
            object="index public.i",
            group={"number": 2, "transaction": False},
        ),
    )
    assert words(text.plan(document)) == (
        "-- 1/3  CreateTable  table public.orders  [safe]\n"
        "CREATE TABLE public.orders (id bigint);\n"
        "\n"
        "-- 2/3  DropTable  table public.old  [destructive]\n"
        "--   lock: AccessExclusiveLock public.old   size: 1.5 GiB\n"
        "--   reason: its rows are lost\n"
        "DROP TABLE public.old;\n"
        "\n"
        "-- 3/3  CreateIndex  index public.i  [safe]\n"
        "--   outside a transaction\n"
        "CREATE INDEX CONCURRENTLY i ON public.t (a);\n"
        "\n"
        "3 statements in 1 transaction and 1 outside a transaction: 2 safe, 1 destructive.\n"
        "Not atomic: what a transaction committed stays when a later one fails.\n"
        f"Plan fingerprint: {DIGEST}\n"
        "An approval is needed (policy)."
    )


def test_a_plan_without_changes_says_so() -> None:
    assert words(text.plan(plan())) == (
        f"schema/orders: nothing to change.\nPlan fingerprint: {DIGEST}"
    )


def test_sql_output_holds_only_sql() -> None:
    document = plan(statement(0), statement(1, sql="SELECT 1;\n"))
    assert words(text.plan_sql(document)) == "CREATE TABLE public.orders (id bigint);\nSELECT 1;"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\n\ttext é", "plain\n\ttext é"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb", "a\\x0db"),
        ("a\x9bb", "a\\x9bb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
    ],
)
def test_no_name_drives_the_terminal(raw: str, shown: str) -> None:
    assert text.visible(raw) == shown
    document = plan(statement(0, object=f"table {raw}", sql=raw, reason=raw))
    printed = words(text.plan(document))
    assert all(c in "\n\t" or not text._hidden(c) for c in printed)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (20_480, "20 KiB"),
        (5 * 1024**4, "5.0 TiB"),
    ],
)
def test_sizes(size: int, shown: str) -> None:
    assert text.size(size) == shown


def test_drift_by_category() -> None:
    document = {
        "resource": RESOURCE,
        "inSync": False,
        "highest": "destructive",
        "counts": {"unexpected": 1, "missing": 2},
        "itemsDropped": 1,
        "items": [
            {"category": "missing", "object": "table public.a", "severity": "safe"},
            {
                "category": "unexpected",
                "object": "column public.b.c",
                "severity": "destructive",
                "detail": "integer",
            },
        ],
    }
    assert words(text.drift(document)) == (
        "schema/orders: 3 differences, highest severity destructive.\n"
        "  missing: 2\n"
        "    table public.a  [safe]\n"
        "  unexpected: 1\n"
        "    column public.b.c: integer  [destructive]\n"
        "  … and 1 more"
    )


def test_no_drift() -> None:
    document = {"resource": RESOURCE, "inSync": True}
    assert words(text.drift(document)) == "schema/orders: the database is as declared."


@pytest.mark.parametrize("outcome", sorted(text._OUTCOMES))
def test_every_outcome_of_an_apply_has_words(outcome: str) -> None:
    document = {
        "resource": RESOURCE,
        "outcome": outcome,
        "statements": 3,
        "statementsDone": 2,
        "plan": DIGEST,
        "operationId": "0" * 32,
        "message": "why",
        "nextStep": "do this",
    }
    printed = words(text.apply_result(document))
    assert printed.startswith("schema/orders: ") and "  next: do this" in printed
    assert ("(2 statements)" in printed) == (outcome == "Applied")


def test_a_table_without_rows() -> None:
    assert list(text.table(("a", "b"), ())) == [("  (none)", "dim")]
    assert words(text.table(("a", "bb"), [("long", "x")])) == "  a     bb\n  long  x"


def test_census_shows_conflicts() -> None:
    claimant = {
        "kind": "PtahSchema",
        "namespace": "a",
        "name": "x",
        "uid": None,
        "sharedRealm": False,
        "suspended": True,
        "claims": False,
        "activeOperation": None,
        "pendingObservation": False,
    }
    document = {
        "realms": [
            {
                "digest": DIGEST,
                "engine": "postgresql",
                "conflict": True,
                "reason": "RealmConflict",
                "lease": None,
                "claimants": [claimant],
            }
        ],
        "summary": {"realms": 1, "claimants": 1, "conflicts": 1},
    }
    assert words(text.census(document)) == (
        f"{DIGEST}  postgresql  CONFLICT (RealmConflict)\n"
        "  PtahSchema a/x  (suspended, claims nothing)\n"
        "1 realm, 1 claimant, 1 conflict."
    )
