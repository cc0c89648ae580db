"""From a declaration to a proof on a real PostgreSQL, as a person does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
import yaml

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.kit import databases
from tests.kit.databases import Database

ORDERS = """\
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    customer text NOT NULL
);
CREATE INDEX orders_customer ON orders (customer);
"""
PLAN = """\
-- 1/2  CreateTable  table public.orders  [safe]
CREATE TABLE public.orders (
    id bigint NOT NULL,
    customer text NOT NULL,
    CONSTRAINT orders_pkey PRIMARY KEY (id)
);

-- 2/2  CreateIndex  index public.orders_customer  [safe]
CREATE INDEX orders_customer ON public.orders USING btree (customer);

2 statements in 1 transaction: 2 safe.
Set-up before the first statement: create the attempt ledger (schema ptahk)
"""

Declare = Callable[..., str]


def test_plan_apply_prove(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(ORDERS)
    planned = user.run("plan", "--schema", schema)
    assert planned.code == 0, planned
    assert planned.out.startswith(PLAN)
    assert planned.err == "", "plan says nothing but its result"
    document = user.run("plan", "--schema", schema, "-o", "json").document("Plan")
    assert document["fingerprint"] in planned.out, "equal inputs, equal plan"
    assert document["approval"] == {"required": True, "reasons": ["policy"]}
    assert [item["severity"] for item in document["statements"]] == ["safe", "safe"]

    applied = user.run(
        "apply", "--schema", schema, "--approve", document["fingerprint"], "-o", "json"
    )
    assert applied.code == 0, applied
    result = applied.document("ApplyResult")
    assert (result["outcome"], result["converged"]) == ("Applied", True)
    assert (result["statements"], result["statementsDone"]) == (2, 2)
    for step in ("claim stored: Apply", "approval consumed", "dispatch marked", "realm released"):
        assert step in applied.err
    assert database.rows("SELECT to_regclass('public.orders') IS NOT NULL") == [(True,)]

    again = user.run("apply", "--schema", schema, "--auto-approve", "-o", "json")
    assert again.document("ApplyResult")["outcome"] == "NoChanges"
    status = user.run("status", "--local", "-o", "json")
    assert status.code == 0
    (entry,) = status.document("Status")["resources"]
    assert (entry["phase"], entry["activeOperation"], entry["owed"]) == ("InSync", None, [])

    history = user.run("history", "--url-env", "DATABASE_URL", "-o", "json").document("History")
    types = [item["type"] for item in history["operations"]]
    assert types.count("Apply") == 1 and "Prove" in types and "Plan" in types
    (row,) = history["ledger"]
    assert (row["operationId"], row["state"]) == (result["operationId"], "finished")
    assert (row["statementsTotal"], row["statementsDone"]) == (2, 2)
    plain = user.run("history", "--local")
    assert "ledger" not in plain.out and result["operationId"] in plain.out
    free = user.run("release-lock", "--local", "-o", "json")
    assert free.code == 0 and free.document("LockReport")["verdict"] == "Free"


def test_exit_code_says_whether_there_are_changes(user: Ptahk, declare: Declare) -> None:
    schema = declare("CREATE TABLE t (id int);")
    assert user.run("plan", "--schema", schema, "--exit-code").code == 1
    assert user.run("apply", "--schema", schema, "--auto-approve", "-q").code == 0
    same = user.run("plan", "--schema", schema, "--exit-code")
    assert same.code == 0
    assert same.out.startswith("schema/default: nothing to change.\n")
    assert user.run("plan", "--schema", schema, "-o", "sql").out == ""


def test_the_other_outputs_of_a_plan(user: Ptahk, declare: Declare) -> None:
    schema = declare("CREATE TABLE t (id int);")
    sql = user.run("plan", "--schema", schema, "-o", "sql")
    assert sql.out == "CREATE TABLE public.t (\n    id integer\n);\n"
    as_yaml = yaml.safe_load(user.run("plan", "--schema", schema, "-o", "yaml").out)
    as_json = json.loads(user.run("plan", "--schema", schema, "-o", "json").out)
    for document in (as_yaml, as_json):
        document.pop("createdAt")
        document["summary"].pop("timingsSeconds")
    assert as_yaml == as_json


def test_drift(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare("CREATE TABLE t (id int);")
    assert user.run("apply", "--schema", schema, "--auto-approve", "-q").code == 0
    calm = user.run("observe", "--schema", schema, "--exit-code")
    assert (calm.code, calm.out) == (0, "schema/default: the database is as declared.\n")
    database.run("ALTER TABLE public.t ADD COLUMN extra int")
    report = user.run("observe", "--schema", schema, "--exit-code", "-o", "json")
    assert report.code == 1, report
    document = report.document("DriftReport")
    assert not document["inSync"] and sum(document["counts"].values()) >= 1
    assert any("extra" in item["object"] for item in document["items"])
    assert user.run("observe", "--schema", schema).code == 0, "asked for with --exit-code only"
    status = user.run("status", "--local")
    assert status.code == 1 and "Drifted" in status.out


def test_drift_below_a_severity_is_left_out(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    database.run("CREATE TABLE public.t (id int)")
    schema = declare("CREATE TABLE t (id int, more int);")
    arguments = ("observe", "--schema", schema, "--exit-code", "-o", "json")
    assert user.run(*arguments).code == 1
    calm = user.run(*arguments, "--severity", "destructive")
    assert calm.code == 0, calm
    document = calm.document("DriftReport")
    assert document["inSync"] and document["items"] == [] and document["highest"] is None


def test_an_existing_database_can_be_adopted(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    database.run("CREATE TABLE public.kept (id int PRIMARY KEY, note text DEFAULT 'x')")
    adopted = user.run("observe", "--local", "-o", "sql")
    assert adopted.code == 0, adopted
    assert "CREATE TABLE public.kept" in adopted.out
    schema = declare(adopted.out, "adopted.sql")
    assert user.run("plan", "--schema", schema, "--exit-code").code == 0


def test_files_and_directories(user: Ptahk, declare: Declare) -> None:
    (user.cwd / "tables").mkdir()
    declare("CREATE TABLE b (id int REFERENCES a (id));", "tables/2.sql")
    declare("CREATE TABLE a (id int PRIMARY KEY);", "tables/1.sql")
    answer = user.run("plan", "--schema-dir", "tables", "-o", "json")
    assert answer.code == 0, answer
    assert len(answer.document("Plan")["statements"]) >= 2
    piped = user.run("plan", "--schema", "-", "-o", "sql", stdin="CREATE TABLE c (id int);")
    assert "CREATE TABLE public.c" in piped.out


def test_a_manifest_run_locally(user: Ptahk, declare: Declare) -> None:
    manifest = declare(
        "apiVersion: ptahk.dev/v1alpha1\n"
        "kind: PtahSchema\n"
        "metadata: {name: orders}\n"
        "spec:\n"
        "  target: {engine: postgresql, coordinationKey: test/orders}\n"
        "  desired: {configMapRef: {name: orders-schema}}\n"
        "  policy: {apply: Always}\n"
        "---\n"
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        "metadata: {name: orders-schema}\n"
        "data: {schema.sql: 'CREATE TABLE m (id int);'}\n",
        "orders.yaml",
    )
    answer = user.run("apply", "-f", manifest, "--local", "-o", "json")
    assert answer.code == 0, answer
    result = answer.document("ApplyResult")
    assert (result["outcome"], result["resource"]["name"]) == ("Applied", "orders")
    assert result["approver"] is None, "policy.apply: Always needs none"
    assert user.run("status", "schema/orders", "--local").code == 0
    (user.cwd / manifest).write_text(
        (user.cwd / manifest).read_text().replace("Always", "Never").replace("m (id", "n (id")
    )
    never = user.run("apply", "-f", manifest, "--local", "--allow-destructive", "-o", "json")
    never.refusal(3, "ApplyNever")


def test_two_names_are_two_resources(user: Ptahk, declare: Declare) -> None:
    one = declare("CREATE SCHEMA one; CREATE TABLE one.t (id int);", "one.sql")
    two = declare("CREATE SCHEMA two; CREATE TABLE two.t (id int);", "two.sql")
    for name, schema in (("one", one), ("two", two)):
        answer = user.run("apply", "--schema", schema, "--name", name, "--auto-approve", "-q")
        assert answer.code == 0, answer
    resources = user.run("status", "--local", "-o", "json").document("Status")["resources"]
    assert [item["name"] for item in resources] == ["one", "two"]


def test_each_statement_in_a_transaction_of_its_own(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    """With ``--transaction-mode none`` what came before a failure stays, and is accounted for."""
    database.run(
        "CREATE SCHEMA aside;"
        " CREATE FUNCTION aside.no() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF to_regclass('public.second') IS NOT NULL THEN RAISE 'not this one'; END IF; END $$;"
        " CREATE EVENT TRIGGER no_second ON ddl_command_end EXECUTE FUNCTION aside.no()"
    )
    schema = declare("CREATE TABLE first (id int); CREATE TABLE second (id int);")
    options = ("--schema", schema, "--transaction-mode", "none")
    planned = user.run("plan", *options)
    assert "2 statements in 2 transactions" in planned.out, planned
    failed = user.run("apply", *options, "--auto-approve", "-o", "json")
    assert "table public.second" in failed.refusal(5, "Partial")
    tables = "SELECT to_regclass('public.first') IS NULL, to_regclass('public.second') IS NULL"
    assert database.rows(tables) == [(False, True)]
    database.run("DROP EVENT TRIGGER no_second")
    done = user.run("apply", *options, "--auto-approve", "-o", "json")
    assert done.code == 0, done
    assert done.document("ApplyResult")["statements"] == 1
    assert database.rows(tables) == [(False, False)]


@pytest.fixture
def template(database: Database) -> Iterator[str]:
    """A database that holds an extension which only a superuser can make."""
    made = databases.create(database.server)
    made.run("CREATE EXTENSION pageinspect")
    admin(database, f"ALTER DATABASE {made.name} IS_TEMPLATE true")
    yield made.name
    admin(database, f"ALTER DATABASE {made.name} IS_TEMPLATE false")
    made.drop()


def admin(database: Database, statement: str) -> None:
    """One statement of the server's superuser."""
    with psycopg.connect(database.server.socket_url(), autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_scratch_database_from_a_template(
    user_of: MakeUser, declare: Declare, database: Database, template: str
) -> None:
    """An ordinary role declares what it may not make itself, where a template holds it."""
    database.run("CREATE EXTENSION pageinspect")
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    user = user_of(database.url(role))
    schema = declare(
        "CREATE EXTENSION IF NOT EXISTS pageinspect; CREATE SCHEMA app;CREATE TABLE app.t (id int)"
    )
    refused = user.run("plan", "--schema", schema, "-o", "json")
    assert "--dev-template" in refused.refusal(2, "InvalidSource")
    options = ("--schema", schema, "--dev-template", template)
    applied = user.run("apply", *options, "--auto-approve", "-o", "json")
    assert applied.code == 0, applied
    assert applied.document("ApplyResult")["statements"] == 1
    assert user.run("plan", *options, "--exit-code").code == 0
