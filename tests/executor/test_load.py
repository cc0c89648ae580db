"""Declarations in a scratch database: what loads, what is refused and where, what is stated."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.databases import Database
from tests.kit.operations import Done, Operator, operator

pytestmark = pytest.mark.pg(15, 17, 18)


def refused(done: Done, place: str, *words: str) -> None:
    assert (done.exit_code, done.reason) == (2, "InvalidSource"), done.frame["error"]
    assert done.frame["error"]["field"] == place
    assert done.message.startswith(place + ": ")
    for word in words:
        assert word in done.message


def test_a_syntax_error_has_the_servers_message_file_and_line(one: Operator) -> None:
    files = [("one.sql", "CREATE TABLE public.a ();\n"), ("two.sql", "\n\nCREATE TABEL x ();")]
    done = one.plan(files)
    refused(done, "two.sql:3", "syntax error")
    assert done.frame["error"]["sqlstate"] == "42601"


def test_an_error_inside_a_statement_has_its_own_line(one: Operator) -> None:
    text = "CREATE TABLE public.a (\n  id int,\n  n nosuchtype\n);"
    refused(one.plan(text), "schema.sql:3", "nosuchtype")


def test_an_error_in_a_batch_is_found_again(one: Operator) -> None:
    lines = [f"CREATE TABLE public.t{i} (id int);" for i in range(100)]
    lines[70] = "CREATE TABLE public.t3 (id int);"
    refused(one.plan("\n".join(lines)), "schema.sql:71", "already exists")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("CREATE ROLE somebody;", "ROLE"),
        ("CREATE DATABASE other;", "DATABASE"),
        ("ALTER SYSTEM SET work_mem = '1MB';", "SYSTEM"),
        ("CREATE TABLESPACE t LOCATION '/tmp';", "TABLESPACE"),
        ("CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p;", "SUBSCRIPTION"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER w;", "SERVER"),
        ("CREATE USER MAPPING FOR u SERVER s;", "USER MAPPING"),
        ("CREATE EXTENSION dblink;", "dblink"),
        ("DO $$ begin execute 'copy t from program ''id'''; end $$;", "beyond"),
        ("DO $$ begin perform pg_terminate_backend(1); end $$;", "beyond"),
        ("DO $$ begin create\n  role x; end $$;", "beyond"),
        ("CREATE MATERIALIZED VIEW m AS SELECT pg_terminate_backend(1);", "act on the server"),
        ("CREATE TABLE t AS SELECT pg_read_file('x');", "act on the server"),
        ("SELECT set_config('search_path', '', false), pg_reload_conf();", "alone"),
        ("COPY t FROM stdin;\n1\n\\.", "COPY"),
        ("COPY t TO PROGRAM 'id';", "COPY"),
        ("GRANT a TO b;", "role"),
        ("GRANT CONNECT ON DATABASE d TO b;", "DATABASE"),
        ("SET ROLE postgres;", "role"),
        ("SET SESSION AUTHORIZATION postgres;", "role"),
        ("SELECT pg_sleep(9);", "SELECT"),
        ("CALL p();", "CALL"),
        ("\\i other.sql", "psql"),
        ("LOAD 'x';", "library"),
        ("DROP OWNED BY postgres;", "OWNED"),
        ("DO LANGUAGE plpython3u $$ x $$;", "language"),
        ("SECURITY LABEL ON ROLE r IS 'x';", "LABEL"),
        ("CREATE TABLE public.a (n text DEFAULT 'x);", "unterminated"),
    ],
)
def test_what_reaches_beyond_is_refused_by_its_line(one: Operator, text: str, word: str) -> None:
    refused(one.plan("CREATE TABLE public.ok ();\n" + text), "schema.sql:2", word)


def test_backslashes_without_standard_strings(one: Operator) -> None:
    text = "SET standard_conforming_strings = off;\n{}CREATE TABLE public.a (n text DEFAULT {});"
    refused(one.plan(text.format("", "'a\\n'")), "schema.sql:2", "E'")
    assert one.plan(text.format("", "E'a\\n'")).reason is None
    back = "SET standard_conforming_strings = on;\n"
    assert one.plan(text.format(back, "'a\\n'")).reason is None


def test_missing_roles_are_listed(one: Operator) -> None:
    text = (
        "CREATE TABLE public.a ();\nALTER TABLE public.a OWNER TO nobody_one;\n"
        'GRANT SELECT ON public.a TO "Nobody two", nobody_one;'
    )
    done = one.plan(text)
    assert (done.exit_code, done.reason) == (2, "MissingRoles")
    assert "nobody_one (schema.sql:2)" in done.message
    assert "Nobody two (schema.sql:3)" in done.message


@pytest.fixture
def dev(database: Database, server_run: object, postgres: object) -> Iterator[str]:
    """A second route to the same server stands for a development server."""
    yield database.server.socket_url()


def test_a_development_server_makes_missing_roles(
    database: Database, dev: str, tmp_path: Path
) -> None:
    role = database.role(owns=("app",))
    name = f"missing_{role.name}"
    text = f"CREATE SCHEMA app; CREATE TABLE app.a (); GRANT SELECT ON app.a TO {name};"
    with operator(
        database.url(role), tmp_path, environment={"PTAHK_DEV_DATABASE_URL": dev}
    ) as theirs:
        done = theirs.plan(text)
    database.run(f"DROP ROLE {name}")
    assert done.reason in (None, "LedgerMissing")
    assert any(name in note for note in done.result["summary"]["notes"])


def test_an_ordinary_role_without_scratch_is_told_three_ways_out(
    database: Database, tmp_path: Path
) -> None:
    role = database.role(owns=("app",))
    with operator(database.url(role), tmp_path) as theirs:
        done = theirs.plan("CREATE TABLE app.a ()")
    assert (done.exit_code, done.reason) == (3, "ScratchUnavailable")
    hint = done.frame["error"]["hint"]
    assert all(way in hint for way in ("CREATEDB", "--dev-url-env", "--dev-template"))


def test_an_ordinary_role_plans_and_applies(database: Database, tmp_path: Path) -> None:
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    with operator(database.url(role), tmp_path) as theirs:
        theirs.converge(
            "CREATE SCHEMA app; CREATE TABLE app.a (id int PRIMARY KEY);"
            "CREATE VIEW app.v AS SELECT id FROM app.a;"
            f"ALTER TABLE app.a OWNER TO {role.name}; GRANT SELECT ON app.a TO PUBLIC;"
        )
    left = "SELECT datname FROM pg_database d JOIN pg_roles r ON r.oid = datdba WHERE rolname = %s"
    assert database.rows(left, role.name) == []


def test_a_read_only_role_observes(database: Database, tmp_path: Path) -> None:
    database.run("CREATE SCHEMA app; CREATE TABLE app.a (id int)")
    role = database.role(reads=("app",))
    with operator(database.url(role), tmp_path) as theirs:
        done = theirs.observe(declaration=True)
    assert done.reason is None
    assert "CREATE TABLE app.a" in done.result["declaration"]


def test_an_owner_that_this_role_may_not_give_is_a_fact(database: Database, tmp_path: Path) -> None:
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    other = database.role()
    text = f"CREATE TABLE app.a (id int);\nALTER TABLE app.a OWNER TO {other.name};"
    declared = "CREATE SCHEMA app;" + text
    with operator(database.url(role), tmp_path) as theirs:
        planned = theirs.plan(declared)
        assert planned.reason is None, planned.frame["error"]
        assert any("OWNER" in each["sql"] for each in planned.statements)
        database.run(text)
        left = theirs.plan(declared)
        assert left.statements == []


def test_owners_and_privileges_are_compared_only_where_stated(
    database: Database, one: Operator
) -> None:
    role = database.role()
    database.run(
        "CREATE TABLE public.a (id int); CREATE TABLE public.b (id int);"
        f"GRANT SELECT ON public.a, public.b TO {role.name};"
        f"ALTER TABLE public.b OWNER TO {role.name}"
    )
    plain = "CREATE TABLE public.a (id int); CREATE TABLE public.b (id int);"
    assert one.plan(plain).statements == []
    stated = plain + f"REVOKE ALL ON public.a FROM {role.name};"
    (only,) = one.plan(stated).statements
    assert (only["severity"], only["object"]) == ("privilege", "table public.a")


def test_bare_names_resolve_by_the_targets_search_path(database: Database, one: Operator) -> None:
    database.run("CREATE SCHEMA app")
    name = database.name
    database.run(f'ALTER DATABASE "{name}" SET search_path = app, public')
    planned = one.plan("CREATE SCHEMA app; CREATE TABLE a (id int);")
    assert [each["object"] for each in planned.statements] == ["table app.a"]


def test_a_dump_as_a_declaration_plans_empty(database: Database, one: Operator) -> None:
    database.run(
        "CREATE TYPE public.mood AS ENUM ('sad', 'ok'); CREATE TABLE public.a (id int"
        " GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m public.mood DEFAULT 'ok', n text CHECK"
        " (n <> '')); CREATE FUNCTION public.f(x int) RETURNS int LANGUAGE sql AS 'SELECT x';"
        " COMMENT ON TABLE public.a IS 'semi; colon'; GRANT SELECT ON public.a TO PUBLIC"
    )
    server = database.server
    dumped = subprocess.run(
        [server.tool("pg_dump"), "--schema-only", server.socket_url(database.name)],
        env=server.process_env(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    done = one.plan(dumped)
    assert done.reason is None, done.frame["error"]
    assert done.statements == []


def test_the_desired_facts_are_kept_and_damage_is_noticed(
    database: Database, one: Operator, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    one.environment = {"PTAHK_CACHE_DIR": str(cache)}
    text = "CREATE TABLE public.a (id int PRIMARY KEY, n text);"
    first = one.plan(text)
    assert "load" in first.result["summary"]["timingsSeconds"]
    second = one.plan(text)
    assert "load" not in second.result["summary"]["timingsSeconds"]
    assert second.plan_bytes == first.plan_bytes
    assert second.result["desiredFingerprint"] == first.result["desiredFingerprint"]
    (kept,) = cache.glob("desired-*.json")
    kept.write_bytes(kept.read_bytes()[:-9] + b"something")
    third = one.plan(text)
    assert "load" in third.result["summary"]["timingsSeconds"]
    one.converge(text)
    assert "load" in one.plan(text + "-- moved").result["summary"]["timingsSeconds"]


def test_strays_past_their_deadline_are_swept_and_no_others(
    database: Database, tmp_path: Path
) -> None:
    """The deadline stands in the comment; before that is written, in the name.

    A role of its own: nobody else sweeps what it owns.
    """
    role = database.role(create_database=True)
    unique = secrets.token_hex(12)
    old, young, past, coming, foreign = names = [
        *(f"ptahk_scratch_{first}{unique}" for first in ("00000000", "00000001")),
        *(f"ptahk_scratch_{first}{unique}" for first in ("00000002", "ffffffff")),
        f"ptahk_scratch_mine_{unique}",
    ]
    for each in names:
        database.run(f"CREATE DATABASE {each}", role)
    for each, deadline in ((old, 1), (young, 9999999999)):
        note = f'{{"ptahk": "scratch/1", "deadline": {deadline}}}'
        database.run(f"COMMENT ON DATABASE {each} IS '{note}'", role)
    with operator(database.url(role), tmp_path) as theirs:
        theirs.plan("")
    left = database.rows("SELECT datname FROM pg_database WHERE datname = ANY(%s)", names)
    for (each,) in left:
        database.run(f"DROP DATABASE {each}")
    assert past not in [each for (each,) in left]
    assert sorted(left) == sorted([(young,), (coming,), (foreign,)])
