"""What is refused or cannot be reached: exit code, reason, and nothing changed."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.kit import servers
from tests.kit.databases import Database

TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY);"

Declare = Callable[..., str]


def test_a_missing_approval(user: Ptahk, declare: Declare, database: Database) -> None:
    answer = user.run("apply", "--schema", declare(TABLE), "-o", "json")
    line = answer.refusal(3, "ApprovalMissing")
    fingerprint = re.search(r"sha256:[0-9a-f]{64}", line)
    assert fingerprint is not None and "--approve" in line
    assert "CREATE TABLE public.orders" in answer.err, "the plan is shown"
    assert database.rows("SELECT to_regclass('public.orders') IS NULL") == [(True,)]
    status = user.run("status", "--local", "-o", "json")
    assert status.code == 1
    (shown,) = status.document("Status")["resources"]
    assert shown["phase"] == "AwaitingApproval"
    assert shown["database"] in user.run("status", "--local").out, "which database"
    assert shown["database"].endswith(f"/{database.name}")

    approved = user.run("approve", "--local", "--plan", fingerprint[0], "-o", "json")
    assert approved.code == 0, approved
    assert approved.document("Approval")["fingerprint"] == fingerprint[0]
    assert "CREATE TABLE public.orders" in approved.err, "the plan is shown first"
    other = "sha256:" + "0" * 64
    user.run("approve", "--local", "--plan", other, "-o", "json").refusal(3, "PlanSuperseded")
    applied = user.run("apply", "--schema", declare(TABLE), "-o", "json")
    assert applied.document("ApplyResult")["outcome"] == "Applied", applied


def test_destructive_and_protected(user: Ptahk, declare: Declare, database: Database) -> None:
    database.run("CREATE TABLE public.orders (id bigint PRIMARY KEY, note text)")
    schema = declare(TABLE)
    refused = user.run("apply", "--schema", schema, "--auto-approve", "-o", "json")
    assert "note" in refused.refusal(3, "DestructiveNotAllowed")
    protected = user.run(
        "plan",
        "--schema",
        schema,
        "--allow-destructive",
        "--protect",
        "public.orders",
        "-o",
        "json",
    )
    protected.refusal(3, "ProtectedTable")
    allowed = user.run("apply", "--schema", schema, "--allow-destructive", "--auto-approve")
    assert allowed.code == 0, allowed
    assert "[destructive]" in allowed.err


def test_a_schema_that_does_not_parse(user: Ptahk, declare: Declare) -> None:
    schema = declare("CREATE TABLE t (id int);\n\nCREATE TABEL u (id int);\n")
    answer = user.run("plan", "--schema", schema, "-o", "json")
    assert answer.code == 2, answer
    line = answer.refusal(2)
    assert "schema.sql:3" in line and "syntax error" in line


def test_a_database_that_cannot_be_reached(user_of: MakeUser, declare: Declare) -> None:
    port = servers.free_port()
    user = user_of(f"postgresql://u:hunter2@127.0.0.1:{port}/d")
    answer = user.run("plan", "--schema", declare(TABLE), "-o", "json")
    answer.refusal(6)
    status = user.run("status", "--local", "-o", "json").document("Status")
    assert [item["activeOperation"] for item in status["resources"]] == [None], "nothing claimed"
    wrong = user_of(f"postgresql://u:hunter2@127.0.0.1:{port}/d?connect_timeout=1")
    wrong.run("apply", "--schema", declare(TABLE), "--auto-approve").refusal(6)


def test_a_wrong_password(user_of: MakeUser, declare: Declare, database: Database) -> None:
    role = database.role()
    url = database.url(role).replace(role.password, "wrong-password")
    user_of(url).run("plan", "--schema", declare(TABLE)).refusal(2)


def test_through_a_transaction_pooler(
    user_of: MakeUser, declare: Declare, database: Database, pgbouncer: servers.Pooler
) -> None:
    user = user_of(pgbouncer.url(database.name))
    for command in (("plan",), ("apply", "--auto-approve")):
        answer = user.run(*command, "--schema", declare(TABLE), "-o", "json")
        line = answer.refusal(3, "TransactionPooler")
        assert "direct endpoint" in line
    assert database.rows("SELECT to_regnamespace('ptahk') IS NULL") == [(True,)]


def test_two_explicit_keys_for_one_database(
    user_of: MakeUser, declare: Declare, database: Database
) -> None:
    first, second = user_of(database.url()), user_of(database.url())
    schema = declare(TABLE)
    done = first.run("apply", "--schema", schema, "--key", "a/orders", "--auto-approve", "-q")
    assert done.code == 0, done
    digest = first.run("digest", "realm", "--engine", "postgresql", "--key", "a/orders").out
    recorded = re.search(r"sha256:[0-9a-f]{64}", digest)
    assert recorded is not None
    more = declare(TABLE + "CREATE TABLE more (id int);", "more.sql")
    answer = second.run(
        "apply", "--schema", more, "--key", "b/orders", "--auto-approve", "-o", "json"
    )
    assert recorded[0] in answer.refusal(3, "BindingMismatch"), "names the recorded digest"
    implicit = second.run("apply", "--schema", more, "--auto-approve", "-q")
    assert implicit.code == 0, "a run without a key names no realm"


def test_an_ordinary_role(user_of: MakeUser, declare: Declare, database: Database) -> None:
    schema = declare("CREATE TABLE app.orders (id bigint PRIMARY KEY);")
    owner = database.role(owns=("app",), create_database=True, create_schema=True)
    user = user_of(database.url(owner))
    declared = declare("CREATE SCHEMA app; CREATE TABLE app.orders (id int);", "with_schema.sql")
    answer = user.run("apply", "--schema", declared, "--auto-approve", "-o", "json")
    assert answer.code == 0, (answer, schema)
    assert answer.document("ApplyResult")["outcome"] == "Applied"


def test_without_a_ledger_or_a_scratch_database(
    user_of: MakeUser, declare: Declare, database: Database
) -> None:
    schema = declare("CREATE SCHEMA app; CREATE TABLE app.orders (id int);")
    no_scratch = user_of(database.url(database.role(owns=("app",), create_schema=True)))
    line = no_scratch.run("plan", "--schema", schema, "-o", "json").refusal(3, "ScratchUnavailable")
    assert "--dev-url-env" in line or "CREATEDB" in line
    no_ledger = user_of(database.url(database.role(owns=("app",), create_database=True)))
    answer = no_ledger.run("apply", "--schema", schema, "--auto-approve", "-o", "json")
    assert "ledger-sql" in answer.refusal(3, "LedgerMissing")


def test_a_read_only_role_observes(user_of: MakeUser, declare: Declare, database: Database) -> None:
    database.run("CREATE SCHEMA app; CREATE TABLE app.orders (id int)")
    reader = database.role(reads=("app",))
    user = user_of(database.url(reader), DEV_URL=database.server.url())
    schema = declare("CREATE SCHEMA app; CREATE TABLE app.orders (id bigint);")
    answer = user.run(
        "observe", "--schema", schema, "--dev-url-env", "DEV_URL", "-o", "json", "--exit-code"
    )
    assert answer.code == 1, answer
    assert not answer.document("DriftReport")["inSync"]
    adopted = user.run("observe", "--local", "-o", "sql")
    assert adopted.code == 0 and "CREATE TABLE app.orders" in adopted.out


def test_an_unwritable_state_directory(user: Ptahk, declare: Declare) -> None:
    nowhere = {"PTAHK_STATE": "/proc/nowhere"}
    schema = declare(TABLE)
    planned = user.run("plan", "--schema", schema, "-o", "json", **nowhere)
    assert planned.code == 0, planned
    assert "Nothing is kept" in planned.err
    assert planned.document("Plan")["changes"]
    assert user.run("observe", "--schema", schema, **nowhere).code == 0
    assert user.run("status", "--local", **nowhere).code == 0
    saved = user.run("plan", "--schema", schema, "--out", "p.plan", **nowhere)
    assert saved.code == 0, saved
    refused = user.run("apply", "--schema", schema, "--auto-approve", "-o", "json", **nowhere)
    refused.refusal(6, "StoreNotWritable")


def test_a_state_directory_of_a_newer_ptahk(user: Ptahk, declare: Declare) -> None:
    assert user.run("status", "--local").code == 0
    with sqlite3.connect(user.state / "store.db") as store:
        store.execute("PRAGMA user_version = 1000")
    for command in ("plan", "apply"):
        answer = user.run(command, "--schema", declare(TABLE), "-o", "json")
        answer.refusal(2, "StoreTooNew")


def test_a_damaged_state_file(user: Ptahk, declare: Declare) -> None:
    assert user.run("status", "--local").code == 0
    (user.state / "store.db").write_bytes(b"not a database at all" * 500)
    for name in ("store.db-wal", "store.db-shm"):
        (user.state / name).unlink(missing_ok=True)
    for command in ("plan", "apply"):
        answer = user.run(command, "--schema", declare(TABLE), "-o", "json")
        answer.refusal(6, "StoreDamaged")


def test_the_place_is_named_once_and_the_next_step_is_a_sentence(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare("CREATE TABLE a (id int);\nCREATE TABEL b ();\n")
    line = user.run("plan", "--schema", schema).refusal(2)
    assert line.count(".sql:2:") == 1
    assert 'syntax error at or near "TABEL"' in line
    roles = declare("CREATE TABLE a (id int);\nGRANT SELECT ON a TO nobody_here;\n")
    line = user.run("plan", "--schema", roles).refusal(2)
    assert "nobody_here" in line and ". Create them first" in line and line.endswith(".")


def test_a_state_directory_of_others_is_not_an_empty_one(user: Ptahk, database: Database) -> None:
    user.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    user.state.chmod(0o777)
    for command in ("status", "history"):
        user.run(command, "--local", "-o", "json").refusal(2, "StoreNotPrivate")


def test_a_function_is_named_with_its_arguments(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    body = "LANGUAGE sql AS 'SELECT 1'"
    schema = declare(
        f"CREATE FUNCTION f() RETURNS int {body}; CREATE FUNCTION f(int, text) RETURNS int {body};"
    )
    plan = user.run("plan", "--schema", schema, "-o", "json").document("Plan")
    named = [statement["object"] for statement in plan["statements"]]
    assert named == ["function public.f()", "function public.f(integer, text)"]
