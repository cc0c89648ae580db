"""Every kind beside tables: one case per micro-change, and what a plan says of its statements."""

from __future__ import annotations

import pytest

from ptahk.executor.dialects.postgres import planner
from ptahk.executor.dialects.postgres.kinds import KINDS
from ptahk.executor.dialects.postgres.kinds.unsupported import NAMES
from ptahk.executor.dialects.postgres.planner import PlanResult
from ptahk.executor.planning.model import Policy
from tests.executor.kinds_cases import BASE, CASES, Case
from tests.executor.planning_kit import Bench, DataRefused, bench, shared_bench

__all__ = ["bench", "shared_bench"]

DECLARED = Policy(allow_destructive=True)
"""Owners and grants only where they are stated."""

ONE_OF_EACH = """
create statistics app.st on id, v from app.q;
create text search configuration app.tc (copy = simple);
create text search dictionary app.td (template = simple, accept = false);
create type app.pair as (a int, b int);
create cast (app.pair as int) with inout;
create publication pub for table t where (id > 3);
create foreign data wrapper fdw;
create server srv foreign data wrapper fdw options (host 'x');
create user mapping for ptahk_a server srv options (password 'not-to-be-read');
create foreign table app.ft (id int not null, x text default 'a') server srv options (a 'b');
create type app.shell;
create function et() returns event_trigger language plpgsql as $$begin end$$;
create event trigger ev on ddl_command_end execute function et();
create operator family app.of using btree;
create operator class app.oc for type int using btree family app.of as
  operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,
  function 1 btint4cmp(int, int);
create conversion app.cv for 'UTF8' to 'LATIN1' from utf8_to_iso8859_1;
create access method am type table handler heap_tableam_handler;
"""


def _between(bench: Bench, old: str, new: str, policy: Policy = DECLARED) -> PlanResult:
    bench.live.run(BASE + old)
    bench.declared.run(BASE + new)
    return bench.converge(policy)


@pytest.mark.pg(15, 18)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_case(bench: Bench, case: Case, back: bool) -> None:
    """Plan, apply, plan empty; or the refusal that the case names."""
    old, new = (case.new, case.old) if back else (case.old, case.new)
    refused = case.back_refused if back else case.refused
    bench.live.run(BASE + old)
    bench.live.run(case.rows)
    bench.declared.run(BASE + new)
    made = bench.converge()
    assert [refusal.reason for refusal in made.refusals][:1] == ([refused] if refused else [])
    for statement in made.statements:
        assert statement.severity == "safe" or statement.reason


@pytest.mark.pg(15, 17, 18)
def test_an_ordinary_role_reads_the_same(bench: Bench) -> None:
    """Nothing that is read needs more than a login."""
    for case in CASES[::7]:
        bench.live.empty()
        bench.live.run(BASE + case.new + ONE_OF_EACH)
        scope = sorted(bench.live.schemas())
        whole = bench.live.catalog(scope)
        bench.live.conn.execute("SET ROLE ptahk_a")
        seen = bench.live.catalog(scope)
        bench.live.conn.execute("RESET ROLE")
        assert seen.objects == whole.objects
        assert seen.depends == whole.depends


@pytest.mark.pg(15, 18)
def test_the_number_of_queries_does_not_grow(bench: Bench) -> None:
    """Queries are set-based: never one per object."""
    asked: list[str] = []

    def count() -> int:
        asked.clear()
        real = bench.live.query
        bench.live.query = lambda *a: (asked.append(a[0]), real(*a))[1]  # type: ignore[method-assign]
        try:
            bench.live.catalog(sorted(bench.live.schemas()))
        finally:
            del bench.live.query  # type: ignore[method-assign]
        return len(asked)

    bench.live.run(BASE)
    few = count()
    bench.live.run(
        "".join(
            f"create type e{i} as enum ('a'); create view v{i} as select 1 as x;"
            f"create function f{i}() returns int language sql as 'select 1';"
            for i in range(40)
        )
    )
    assert count() == few <= 40


@pytest.mark.pg(15, 17, 18)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_kinds_without_a_builder_are_refused_by_name(bench: Bench, back: bool) -> None:
    """What differs and cannot be planned is named; what is the same is no obstacle."""
    made = _between(bench, *(("", ONE_OF_EACH) if not back else (ONE_OF_EACH, "")))
    assert made.statements == ()
    named = {refusal.object.kind for refusal in made.refusals if refusal.object}
    local = {
        "extended statistics",
        "text search configuration",
        "text search dictionary",
        "foreign table",
        "shell type",
        "operator family",
        "operator class",
        "conversion",
    }
    wide = {
        "cast",
        "publication",
        "foreign data wrapper",
        "foreign server",
        "user mapping",
        "event trigger",
        "access method",
    }
    # What belongs to the database is left alone where nobody declares it.
    assert named == (local if back else local | wide)
    assert all(refusal.reason == "UnsupportedObject" for refusal in made.refusals)
    assert "not-to-be-read" not in repr(made.refusals)
    assert named <= set(NAMES) < {kind.name for kind in KINDS}


def test_kinds_without_a_builder_that_are_equal_do_no_harm(bench: Bench) -> None:
    assert _between(bench, ONE_OF_EACH, ONE_OF_EACH).statements == ()


def test_extension_versions(bench: Bench) -> None:
    """An older live version is updated by the extension's own script."""
    old, new = ("create extension pg_trgm version '1.5';", "create extension pg_trgm;")
    made = _between(bench, old, new)
    assert [s.kind for s in made.statements] == ["UpdateExtension"]
    assert made.statements[0].severity == "warning"


def test_extension_out_of_scope_is_left_alone(bench: Bench) -> None:
    bench.live.run("create schema other; create extension citext schema other;")
    bench.live.run(BASE)
    bench.declared.run(BASE)
    assert bench.plan(DECLARED, ["public", "app"]).statements == ()


def test_a_stored_value_that_the_new_type_lacks(bench: Bench) -> None:
    """Refused with table, column and value; nothing changes."""
    old = "create type ack as enum ('no', 'yes', 'sticky'); create domain dack as ack;"
    use = "create table state (id int, acked ack, past ack[], other dack);"
    bench.live.run(old + use)
    bench.declared.run("create type ack as enum ('no', 'yes'); create domain dack as ack;" + use)
    for column, value in (("acked", "'sticky'"), ("past", "'{no,sticky}'"), ("other", "'sticky'")):
        bench.live.run(f"truncate state; insert into state (id, {column}) values (1, {value})")
        made = bench.plan(DECLARED)
        assert made.refusals == ()
        with pytest.raises(DataRefused, match=rf"public\.state\.{column}.*sticky"):
            bench.apply(made.statements)
    bench.live.run("truncate state; insert into state values (1, 'yes', '{yes,no}', 'no')")
    bench.converge(DECLARED)
    assert bench.live.query("select acked::text, past::text, other::text from public.state") == [
        ("yes", "{yes,no}", "no")
    ]


def test_values_that_a_domain_does_not_let_in(bench: Bench) -> None:
    """Named before anything runs, whether the domain comes or only gets stricter."""
    new = "create domain d as int check (value < 100); create table x (value text, d d);"
    bench.live.run("create table x (value text, d text);")
    bench.declared.run(new)
    bench.live.run("insert into x values ('7', '7'), (null, null)")
    made = bench.plan(DECLARED)
    for wrong, said in (("500", r"public\.x\.d.*500"), ("seven", "seven")):
        bench.live.run(f"insert into x (d) values ('{wrong}')")
        with pytest.raises(DataRefused, match=said):
            bench.apply(made.statements)
        bench.live.run(f"delete from x where d = '{wrong}'")
    bench.converge(DECLARED)
    bench.declared.run("alter domain d add constraint more check (value > 8)")
    with pytest.raises(DataRefused, match=r"public\.x\.d.*7.*more"):
        bench.apply(bench.plan(DECLARED).statements)


def test_values_are_used_only_after_a_commit(bench: Bench) -> None:
    made = _between(
        bench,
        "create type e as enum ('a'); create table x (e e);",
        "create type e as enum ('a', 'b'); create table x (e e default 'b');",
    )
    groups = {s.kind: s.group for s in made.statements}
    assert groups["AddEnumValue"] < groups["SetDefault"]


def test_rows_of_rebuilt_types_are_kept(bench: Bench) -> None:
    types = "create type c as (a int, b text); create domain d as int; create type e as enum ({});"
    use = "create table x (id int, c c, d d, e e, ee e[]);"
    bench.live.run(types.format("'p', 'q'") + use)
    bench.live.run("insert into x values (1, row(1, 'it''s, (x)'), 7, 'p', '{q,p}')")
    bench.live.run("insert into x (id) values (2)")
    bench.declared.run(
        "create type c as (b text, z int, a bigint); create domain d as bigint;"
        "create type e as enum ('q', 'p');" + use
    )
    bench.converge(DECLARED)
    rows = bench.live.query(
        "select id, (c).a, (c).b, (c).z, d::int8, e::text, ee::text from public.x order by id"
    )
    assert rows == [
        (1, 1, "it's, (x)", None, 7, "p", "{q,p}"),
        (2, None, None, None, None, None, None),
    ]


VIEW = "create view v as select {} from t; "


def test_unstated_owner_and_grants_survive_a_rebuild(bench: Bench) -> None:
    """Nobody states them, so they are kept, and carried over (C-10.6)."""
    rights = "grant select on v to ptahk_b; grant update (id) on v to ptahk_a;"
    live = VIEW.format("id, n") + rights + "alter view v owner to ptahk_a;"
    made = _between(bench, live, VIEW.format("n, id"))
    assert {s.severity for s in made.statements} == {"warning", "safe", "privilege"}
    assert bench.live.query(
        "select relowner::regrole::text, relacl::text like '%ptahk_b=r/ptahk_a%'"
        " from pg_class where oid = 'public.v'::regclass"
    ) == [("ptahk_a", True)]
    assert bench.live.query(
        "select count(*) from pg_attribute where attrelid = 'public.v'::regclass"
        " and attacl is not null"
    ) == [(1,)]


def test_unstated_grants_are_no_difference(bench: Bench) -> None:
    rights = (
        "grant select on t to ptahk_a; grant update (name) on t to ptahk_b;"
        "alter table t owner to ptahk_a; alter default privileges in schema app"
        " grant select on tables to ptahk_b;"
    )
    assert _between(bench, rights, "").statements == ()


def test_only_stated_attributes_are_compared(bench: Bench) -> None:
    bench.live.run(BASE + "alter table t owner to ptahk_a; grant select on app.q to ptahk_a;")
    bench.declared.run(BASE + "grant insert on t to ptahk_b;")
    scope = ["app", "public"]
    live, declared = bench.live.catalog(scope), bench.declared.catalog(scope)
    declared.context["stated"] = {"table public.t": ["acl"]}  # type: ignore[index]
    made = planner.plan(live, declared, DECLARED)
    assert [s.sql for s in made.statements] == ["GRANT INSERT ON TABLE public.t TO ptahk_b"]
    assert made.statements[0].severity == "privilege"


def test_live_default_privileges_are_foreseen(bench: Bench) -> None:
    """They give rights to what the plan creates; the plan's fingerprint knows that."""
    rights = (
        "alter default privileges in schema app grant select on tables to ptahk_a;"
        "alter default privileges revoke execute on functions from public;"
        "alter default privileges grant usage on types to ptahk_b with grant option;"
    )
    new = (
        "create table app.z (id int); create view app.zv as select * from app.z;"
        "create function app.zf() returns int language sql as 'select 1';"
        "create type app.ze as enum ('a'); create sequence app.zs;"
    )
    made = _between(bench, rights, new)
    assert {s.severity for s in made.statements} == {"safe"}


def test_severities(bench: Bench) -> None:
    """Losing an object is destructive; rights and policies are privilege; a body is a warning."""
    body = "create or replace function f() returns int language sql as 'select {}';"
    old = (
        "create view v as select 1 as x; create type e as enum ('a');"
        + body.format(1)
        + "create policy p on t using (true);"
    )
    new = body.format(2) + "create policy p on t using (false); grant select on t to ptahk_a;"
    bench.live.run(BASE + old)
    bench.declared.run(BASE + new)
    found = {s.kind: s.severity for s in bench.plan().statements}
    assert found == {
        "ReplaceFunction": "warning",
        "AlterPolicy": "privilege",
        "Grant": "privilege",
        "DropView": "destructive",
        "DropEnum": "destructive",
    }
    refused = bench.plan(Policy(privileges="Managed"))
    assert [refusal.reason for refusal in refused.refusals] == ["DestructiveNotAllowed"]


def test_an_unfilled_materialized_view_is_no_difference(bench: Bench) -> None:
    view = "create materialized view m as select id from t"
    assert _between(bench, view + ";", view + " with no data;").statements == ()
    assert bench.live.query("select relispopulated from pg_class where relname = 'm'") == [(True,)]


def test_a_range_with_a_canonical_function_is_refused(bench: Bench) -> None:
    canonical = (
        "create type r; create function canon(r) returns r language internal immutable strict"
        " as 'int4range_canonical';"
        "create type r as range (subtype = int, canonical = canon);"
    )
    made = _between(bench, "", canonical)
    assert made.statements == ()
    assert all("range public.r" in refusal.message for refusal in made.refusals)
    assert made.refusals
