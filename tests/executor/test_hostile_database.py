"""A database that an ordinary role has prepared against whoever plans and applies there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import ledger, revisions
from ptahk.wire import ledgersql, revisionsql
from tests.kit.databases import Database, Role
from tests.kit.operations import Operator, operator
from tests.kit.sessions import session

BASE = "CREATE TABLE public.a (id int PRIMARY KEY);"


def make_ledger(database: Database, role: Role) -> None:
    """The ledger, made by this role and open to everybody."""
    for text in ledgersql.POSTGRESQL:
        database.run(text, role)
    database.run("GRANT ALL ON SCHEMA ptahk TO public", role)
    database.run("GRANT ALL ON ALL TABLES IN SCHEMA ptahk TO public", role)


def set_trap(database: Database, table: str, role: Role | None = None) -> None:
    """Whoever writes the table makes the role a superuser, if able to."""
    owner = database.roles[0].name
    database.run(
        "CREATE FUNCTION ptahk.trap() RETURNS trigger LANGUAGE plpgsql AS $$ begin"
        f" execute 'ALTER ROLE {owner} SUPERUSER'; return new; end $$",
        role,
    )
    database.run(
        f"CREATE TRIGGER trap BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION ptahk.trap()",
        role,
    )


def is_superuser(database: Database, role: Role) -> bool:
    rows = database.rows("SELECT rolsuper FROM pg_roles WHERE rolname = %s", role.name)
    return bool(rows[0][0])


@contextmanager
def owned_by(database: Database, role: Role) -> Iterator[None]:
    """The database belongs to the role for a while."""
    database.run(f'ALTER DATABASE "{database.name}" OWNER TO {role.name}')
    try:
        yield
    finally:
        database.run(f'ALTER DATABASE "{database.name}" OWNER TO postgres')


@pytest.mark.pg(15, 18)
def test_a_ledger_of_a_stranger_is_never_written(database: Database, one: Operator) -> None:
    mallory = database.role(create_schema=True)
    make_ledger(database, mallory)
    set_trap(database, "ptahk.attempt", mallory)
    planned = one.plan(BASE)
    assert (planned.exit_code, planned.reason) == (3, "LedgerUntrusted")
    assert mallory.name in planned.message
    assert "planBytes" in planned.result
    applied = one.apply(planned)
    assert (applied.exit_code, applied.reason) == (3, "LedgerUntrusted")
    assert applied.frame["mutationStarted"] is False
    assert not is_superuser(database, mallory)
    assert database.rows("SELECT to_regclass('public.a') IS NULL") == [(True,)]


@pytest.mark.parametrize("with_table", [False, True], ids=["schema", "half"])
def test_half_a_ledger_of_a_stranger_is_not_completed(
    database: Database, one: Operator, with_table: bool
) -> None:
    mallory = database.role(create_schema=True)
    database.run("CREATE SCHEMA ptahk", mallory)
    if with_table:
        database.run(ledgersql.POSTGRESQL[1], mallory)
    planned = one.plan(BASE)
    assert (planned.exit_code, planned.reason) == (3, "LedgerUntrusted")


def test_a_trap_on_the_ledger_of_the_databases_owner_is_not_sprung(
    database: Database, one: Operator
) -> None:
    owner = database.role(create_schema=True)
    with owned_by(database, owner):
        make_ledger(database, owner)
        assert one.plan(BASE).reason is None
        set_trap(database, "ptahk.attempt", owner)
        planned = one.plan(BASE)
        assert planned.reason == "LedgerUntrusted"
        applied = one.apply(planned)
        assert applied.reason == "LedgerUntrusted"
    assert not is_superuser(database, owner)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE RULE r AS ON INSERT TO ptahk.attempt DO INSTEAD NOTHING",
        "ALTER TABLE ptahk.attempt ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE ptahk.attempt DROP COLUMN start_nonce",
        "ALTER TABLE ptahk.binding DROP COLUMN bound_at",
        "ALTER TABLE ptahk.attempt DROP CONSTRAINT attempt_pkey",
        "ALTER TABLE ptahk.attempt SET UNLOGGED",
        "DROP TABLE ptahk.binding; CREATE VIEW ptahk.binding AS SELECT 1 AS one",
    ],
)
def test_a_ledger_of_another_shape_is_not_used(
    database: Database, one: Operator, change: str
) -> None:
    with session(database.url(), locked=True) as mine:
        for text in ledgersql.POSTGRESQL:
            mine.run(text)
    assert one.plan(BASE).reason is None
    database.run(change)
    planned = one.plan(BASE)
    assert (planned.exit_code, planned.reason) == (3, "LedgerUntrusted")


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER trap BEFORE INSERT ON ptahk.revisions FOR EACH ROW"
        " EXECUTE FUNCTION ptahk.trap()",
        "CREATE RULE r AS ON INSERT TO ptahk.revisions DO INSTEAD NOTHING",
        "ALTER TABLE ptahk.revisions ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE ptahk.revisions RENAME error TO other",
        "ALTER TABLE ptahk.revisions DROP CONSTRAINT revisions_pkey",
        "DROP TABLE ptahk.revisions; CREATE VIEW ptahk.revisions AS SELECT 'default' AS stream",
    ],
)
def test_revision_rows_of_another_shape_are_neither_read_nor_written(
    database: Database, change: str
) -> None:
    """A view's functions and a table's triggers run as whoever reads or writes it."""
    owner = database.role(create_schema=True)
    with owned_by(database, owner):
        make_ledger(database, owner)
        set_trap(database, "ptahk.binding", owner)
        for text in revisionsql.POSTGRESQL:
            database.run(text, owner)
        with session(database.url(), locked=True) as mine:
            assert revisions.rows(mine, "default") == []
            database.run(change, owner)
            for ask in (revisions.rows, revisions.entries):
                with pytest.raises(Refused) as refused:
                    ask(mine, "default")
                assert refused.value.reason == "LedgerUntrusted"
                assert "ptahk.revisions" in refused.value.message


def test_revision_rows_of_a_stranger_are_not_read(database: Database) -> None:
    mallory = database.role(create_schema=True)
    database.run("CREATE SCHEMA ptahk", mallory)
    for text in revisionsql.POSTGRESQL:
        database.run(text, mallory)
    with session(database.url(), locked=True) as mine, pytest.raises(Refused) as refused:
        revisions.rows(mine, "default")
    assert refused.value.reason == "LedgerUntrusted"
    assert mallory.name in refused.value.message


def test_a_ledger_that_this_role_may_not_use_is_missing_by_name(
    database: Database, one: Operator, tmp_path: Path
) -> None:
    one.converge("CREATE SCHEMA app;")
    role = database.role(owns=("app",), create_database=True)
    with operator(database.url(role), tmp_path) as theirs:
        planned = theirs.plan("CREATE SCHEMA app; CREATE TABLE app.a ();", explicit_key=True)
        assert (planned.exit_code, planned.reason) == (3, "LedgerMissing"), planned.message
        assert f"--grant-to {role.name}" in planned.frame["error"]["hint"]
        seen = planned.result["ledger"]
        assert (seen["present"], seen["writable"]) == (True, False)
        assert theirs.observe().reason is None


def test_a_search_path_with_the_system_schema_last_catches_nobody(
    database: Database, one: Operator
) -> None:
    mallory = database.role(create_schema=True)
    with owned_by(database, mallory):
        database.run("CREATE SCHEMA evil", mallory)
        for head in (
            "current_setting(text) RETURNS text",
            "set_config(text, text, boolean) RETURNS text",
            "pg_backend_pid() RETURNS int",
        ):
            database.run(
                f"CREATE FUNCTION evil.{head} LANGUAGE plpgsql AS $$ begin"
                f" execute 'ALTER ROLE {mallory.name} SUPERUSER'; return null; end $$",
                mallory,
            )
        name = f'ALTER DATABASE "{database.name}" SET search_path = evil, pg_catalog'
        database.run(name, mallory)
        done = one.observe()
    assert not is_superuser(database, mallory)
    assert done.reason is None


def test_strangers_stay_out_of_scratch_databases(database: Database, one: Operator) -> None:
    stranger = database.role()
    with session(database.url()) as mine:
        from ptahk.executor.dialects.postgres.scratch import workshop
        from tests.kit.sessions import apply_spec

        with (
            workshop(mine, database.url(), None, apply_spec()) as shop,
            shop.database() as scratch,
        ):
            name = scratch.identity.database
            with pytest.raises(psycopg.OperationalError, match="permission denied"):
                psycopg.connect(database.server.url(name, stranger.name, stranger.password))


def test_a_ledger_made_by_an_ordinary_role_serves_that_role(
    database: Database, tmp_path: Path
) -> None:
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    with operator(database.url(role), tmp_path) as theirs:
        theirs.converge("CREATE SCHEMA app; CREATE TABLE app.a (id int);")
        theirs.converge("CREATE SCHEMA app; CREATE TABLE app.a (id int, n int);")
    with session(database.url(role), locked=True) as mine:
        assert ledger.require(mine) == []
