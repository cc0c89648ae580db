"""``plan --out`` and ``apply --plan``: one runner plans, another applies exactly that."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.kit import databases
from tests.kit.databases import Database

SCHEMA = "CREATE TABLE orders (id bigint PRIMARY KEY);"

Declare = Callable[..., str]


def saved(user: Ptahk, declare: Declare, *more: str) -> str:
    """A plan file of the schema above. :returns: the plan's fingerprint."""
    answer = user.run("plan", "--schema", declare(SCHEMA), "--out", "p.plan", "-o", "json", *more)
    assert answer.code == 0, answer
    fingerprint: str = answer.document("Plan")["fingerprint"]
    return fingerprint


def started(database: Database) -> int:
    """Rows of the ledger, 0 where there is none."""
    ((there,),) = database.rows("SELECT to_regclass('ptahk.attempt') IS NOT NULL")
    return database.rows("SELECT count(*)::int FROM ptahk.attempt")[0][0] if there else 0


def jobs(user: Ptahk) -> list[str]:
    """Job directories that ever stood in the user's state and still do."""
    directory = user.state / "jobs"
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_one_plans_and_another_applies(
    user_of: MakeUser, declare: Declare, database: Database
) -> None:
    planner, applier = user_of(database.url()), user_of(database.url())
    fingerprint = saved(planner, declare)
    digest = planner.run("digest", "plan", "p.plan", "-o", "json").document("Digest")
    assert digest["digest"] == fingerprint
    arguments = ("apply", "--local", "--plan", "p.plan", "--approve", fingerprint, "-o", "json")
    first = applier.run(*arguments)
    assert first.code == 0, first
    assert first.document("ApplyResult")["outcome"] == "Applied"
    for again in (applier.run(*arguments), user_of(database.url()).run(*arguments)):
        assert again.code == 0, again
        assert again.document("ApplyResult")["outcome"] == "AlreadyConverged"
    assert started(database) >= 1
    rows = database.rows("SELECT count(*)::int FROM ptahk.attempt WHERE statements_done > 0")
    assert rows == [(1,)], "it ran once"


def test_one_byte_edited_is_refused(user: Ptahk, declare: Declare, database: Database) -> None:
    saved(user, declare)
    path = user.cwd / "p.plan"
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 7)):
        byte = whole[position]
        other = b"0" if byte != ord("0") else b"1"
        path.write_bytes(whole[:position] + other + whole[position + 1 :])
        answer = user.run("apply", "--local", "--plan", "p.plan", "--auto-approve", "-o", "json")
        answer.refusal(2, "InvalidPlanFile")
    path.write_bytes(whole[:-5])
    user.run("apply", "--local", "--plan", "p.plan", "--auto-approve").refusal(2)
    assert started(database) == 0


def test_a_database_that_changed_is_refused_before_anything_runs(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    saved(user, declare)
    database.run("CREATE TABLE public.other (id int)")
    answer = user.run("apply", "--local", "--plan", "p.plan", "--auto-approve", "-o", "json")
    answer.refusal(3, "StalePlan")
    rows = database.rows("SELECT to_regclass('public.orders') IS NULL")
    assert rows == [(True,)]
    ((there,),) = database.rows("SELECT to_regclass('ptahk.attempt') IS NOT NULL")
    if there:
        found = database.rows(
            "SELECT count(*)::int FROM ptahk.attempt WHERE started_at IS NOT NULL"
        )
        assert found == [(0,)], "no started row"


@pytest.mark.parametrize("change", ["database", "role", "route"])
def test_another_url_is_refused_before_the_child(
    user_of: MakeUser, declare: Declare, database: Database, change: str
) -> None:
    fingerprint = saved(user_of(database.url()), declare)
    other = databases.create(database.server)
    try:
        urls = {
            "database": other.url(),
            "role": database.url(database.role()),
            "route": database.url().replace("127.0.0.1", "localhost"),
        }
        applier = user_of(urls[change])
        answer = applier.run(
            "apply", "--local", "--plan", "p.plan", "--approve", fingerprint, "-o", "json"
        )
        answer.refusal(3, "TargetMismatch")
        assert jobs(applier) == [] and not applier.state.exists(), "nothing was claimed"
        assert started(database) == 0
    finally:
        other.drop()


def test_the_same_url_to_another_database_is_refused_by_the_executor(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    saved(user, declare)
    with psycopg.connect(database.server.socket_url(), autocommit=True) as conn:
        conn.execute(f'DROP DATABASE "{database.name}" (FORCE)'.encode())
        conn.execute(f'CREATE DATABASE "{database.name}" TEMPLATE template0'.encode())
    answer = user.run("apply", "--local", "--plan", "p.plan", "--auto-approve", "-o", "json")
    answer.refusal(3, "ServerIdentityMismatch")
    assert started(database) == 0


def test_the_plan_holds_its_policy(user: Ptahk, declare: Declare) -> None:
    fingerprint = saved(user, declare, "--exclude", "public.x*", "--deadline", "120")
    answer = user.run("apply", "--local", "--plan", "p.plan", "--allow-destructive")
    assert "--allow-destructive" in answer.refusal(2)
    wrong = user.run("apply", "--local", "--plan", "p.plan", "--approve", "sha256:" + "0" * 64)
    assert "another plan was approved" in wrong.refusal(3)
    right = user.run("apply", "--local", "--plan", "p.plan", "--approve", fingerprint, "-q")
    assert right.code == 0, right


def test_a_plan_is_of_its_key_and_name(
    user_of: MakeUser, declare: Declare, database: Database
) -> None:
    fingerprint = saved(
        user_of(database.url()), declare, "--key", "production/orders", "--name", "orders"
    )
    applier = user_of(database.url())
    arguments = ("apply", "--local", "--plan", "p.plan", "--approve", fingerprint)
    applier.run(*arguments, "-o", "json").refusal(3, "CoordinationMismatch")
    applier.run(*arguments, "--key", "other", "-o", "json").refusal(3, "CoordinationMismatch")
    answer = applier.run(*arguments, "--key", "production/orders", "-o", "json")
    assert answer.document("ApplyResult")["resource"]["name"] == "orders"


def test_what_is_no_plan_file(user: Ptahk, declare: Declare) -> None:
    declare("{}", "x.json")
    for name in ("x.json", "missing.json"):
        user.run("apply", "--local", "--plan", name, "--auto-approve").refusal(2)


def test_a_plan_file_that_cannot_be_written(user: Ptahk, declare: Declare) -> None:
    answer = user.run("plan", "--schema", declare(SCHEMA), "--out", "missing/p.plan", "-o", "json")
    answer.refusal(2, "UnwritableFile")
