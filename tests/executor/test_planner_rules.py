"""What a plan says beside its statements: online forms, checks, renames, scope, refusals, drift."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from ptahk.executor.dialects.postgres import planner
from ptahk.executor.dialects.postgres.declaration import declaration
from ptahk.executor.dialects.postgres.planner import PlanResult
from ptahk.executor.planning.document import plan_bytes
from ptahk.executor.planning.model import ObjectId, Policy, Rename
from ptahk.executor.planning.result import drift
from tests.executor.planning_kit import EVERYTHING, Bench, DataRefused, bench, shared_bench

__all__ = ["bench", "shared_bench"]

pytestmark = pytest.mark.pg(15, 18)

BIG = "insert into public.t select g, g, 'x' || g from generate_series(1, 9000) g;"
T = "create table t (id int, a int, b text);"


def sql(made: PlanResult) -> list[str]:
    return [statement.sql for statement in made.statements if not statement.is_check]


def renames(*pairs: tuple[str, str]) -> Policy:
    made = tuple(Rename(tuple(a.split(".")), tuple(b.split("."))) for a, b in pairs)
    return replace(EVERYTHING, renames=made)


# Online forms


def test_a_new_table_takes_the_plain_forms(bench: Bench) -> None:
    bench.declared.run(T + "create index i on t (a); alter table t add check (a > 0) not valid;")
    assert all(statement.transaction for statement in bench.converge().statements)


def test_a_small_table_takes_the_plain_forms(bench: Bench) -> None:
    bench.live.run(T + "insert into t values (1, 1)")
    bench.declared.run("create table t (id int primary key, a int not null, b text);")
    made = bench.converge()
    assert {statement.transaction for statement in made.statements} == {True}
    assert not any("VALIDATE" in each for each in sql(made))


def test_index_is_built_beside_writers(bench: Bench) -> None:
    bench.live.run(T + BIG + "create index i on t (a); create index gone on t (b);")
    bench.declared.run(T + "create index i on t (a, b); create index j on t (lower(b));")
    made = bench.converge()
    assert sql(made) == [
        "CREATE INDEX CONCURRENTLY i_ptahk ON public.t USING btree (a, b)",
        "DROP INDEX CONCURRENTLY public.i",
        "ALTER INDEX public.i_ptahk RENAME TO i",
        "CREATE INDEX CONCURRENTLY j ON public.t USING btree (lower(b))",
        "DROP INDEX CONCURRENTLY public.gone",
    ]
    for statement in made.statements:
        concurrent = "CONCURRENTLY" in statement.sql
        assert statement.transaction is not concurrent
        assert statement.lock_timeout_s == (0 if concurrent else None)
        assert statement.lock.endswith(" public.t")
    groups = [statement.group for statement in made.statements]
    assert len(set(groups)) == len(groups)


def test_invalid_leftovers_are_cleared_first(bench: Bench) -> None:
    bench.live.run("create table t (a int); insert into t select 1 from generate_series(1, 9000);")
    for name in ("i", "left_over"):
        with pytest.raises(psycopg.errors.UniqueViolation):
            bench.live.conn.execute(
                f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON public.t (a)".encode()
            )
    bench.declared.run("create table t (a int); create index i on t (a);")
    assert sql(bench.converge()) == [
        "DROP INDEX CONCURRENTLY public.i",
        "CREATE INDEX CONCURRENTLY i ON public.t USING btree (a)",
        "DROP INDEX CONCURRENTLY public.left_over",
    ]


def test_constraints_are_validated_apart(bench: Bench) -> None:
    bench.live.run(T + BIG + "create table r (id int primary key); insert into r select id from t;")
    bench.declared.run(
        "create table r (id int primary key);"
        "create table t (id int primary key, a int not null references r, b text,"
        " constraint k check (a > 0), constraint u unique (b));"
    )
    made = bench.converge()
    text = "\n".join(sql(made))
    for expected in (
        "ADD CONSTRAINT a_ptahk CHECK (a IS NOT NULL) NOT VALID",
        "VALIDATE CONSTRAINT a_ptahk",
        "ADD CONSTRAINT k CHECK ((a > 0)) NOT VALID",
        "VALIDATE CONSTRAINT k",
        "CREATE UNIQUE INDEX CONCURRENTLY t_pkey ON public.t (id)",
        "PRIMARY KEY USING INDEX t_pkey",
        "UNIQUE USING INDEX u",
        "REFERENCES public.r(id) NOT VALID",
        "VALIDATE CONSTRAINT t_a_fkey",
    ):
        assert expected in text
    for statement in made.statements:
        if "VALIDATE" in statement.sql:
            assert statement.lock.startswith("ShareUpdateExclusiveLock")


def test_partitioned_tables_never_take_the_online_forms(bench: Bench) -> None:
    table = "create table t (id int, a int, b text) partition by range (id);"
    part = "create table t1 partition of t for values from (0) to (100000);"
    bench.live.run(table + part + BIG)
    bench.declared.run(table + part + "create index i on t (a); alter table t add check (a > 0);")
    assert all(statement.transaction for statement in bench.converge().statements)


# Checks on rows


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (T, "create table t (id int, a int not null, b text);", "public.t.a is to be NOT NULL"),
        (T, "create table t (id int, a int unique, b text);", "more than one row with (a)"),
        (T, "create table t (id int, a int check (a > 5), b text);", "breaks the new constraint"),
        (T, "create table t (id int, a smallint, b text);", "public.t.a holds '70000'"),
        (T, "create table t (id int, a int, b varchar(2));", "public.t.b holds 'long'"),
        (T, "create table t (id int, a int, b int);", "long"),
        (T, "create table t (id int, a int, b text, n int not null);", "without a default"),
        (
            T + "create table r (id int primary key);",
            "create table r (id int primary key);"
            "create table t (id int, a int references r, b text);",
            "a value without a row in public.r: (1)",
        ),
        (T, T + "create unique index i on t (b);", "unique index i"),
        (T, "create type m as enum ('x'); create table t (id int, a int, b m);", "holds 'long'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_first(
    bench: Bench, old: str, new: str, words: str
) -> None:
    bench.live.run(old)
    bench.live.run(
        "insert into t values (1, 1, 'long'), (1, 1, 'long'), (2, 70000, 'x'), (3, null, 'y')"
    )
    bench.declared.run(new)
    before = bench.plan()
    with pytest.raises(DataRefused) as refused:
        bench.converge()
    assert words in str(refused.value)
    assert bench.plan() == before


# Renames


def test_renames_keep_rows_and_move_names_made_of_the_old_one(bench: Bench) -> None:
    old = (
        "create table orders (id serial primary key, a int not null check (a > 0), b text,"
        " unique (a), c int generated always as identity);"
        "create index orders_b_idx on orders (lower(b));"
        "create table r (o int references orders, x int references orders (a));"
        "create view v as select id, a from orders;"
        "create policy p on orders using (a > 1);"
    )
    bench.live.run(old + "insert into orders (a) values (1), (2); insert into r values (1, 2);")
    new = old.replace("orders", "invoices").replace("(a)", "(n)").replace("(a > ", "(n > ")
    new = new.replace(" a int", " n int").replace("id, a from", "id, n as a from")
    bench.declared.run(new)
    policy = renames(("public.orders", "public.invoices"), ("public.orders.a", "public.invoices.n"))
    made = bench.converge(policy)
    assert {statement.severity for statement in made.statements} == {"safe", "warning"}
    assert not any(each.startswith(("DROP", "CREATE TABLE")) for each in sql(made))
    assert bench.live.query("SELECT id, n FROM public.invoices ORDER BY 1") == [(1, 1), (2, 2)]
    assert made.notes == ()


def test_a_rename_takes_no_other_tables_checks_with_it(bench: Bench) -> None:
    bench.live.run(
        "create table a (id int); create table ab (id int); insert into ab values (null);"
    )
    bench.declared.run("create table c (id int); create table ab (id int not null);")
    with pytest.raises(DataRefused) as refused:
        bench.converge(renames(("public.a", "public.c")))
    assert "public.ab.id is to be NOT NULL" in str(refused.value)


def test_a_rename_is_used_only_where_it_is_exactly_so(bench: Bench) -> None:
    bench.live.run("create table x (id int); create table z (id int);")
    bench.declared.run("create table y (id int); create table z (id int); create table q (i text);")
    policy = renames(
        ("public.x", "public.z"), ("public.x", "public.nowhere"), ("public.z", "public.q")
    )
    made = bench.plan(policy)
    assert len(made.notes) == 3
    assert any(each == "DROP TABLE public.x" for each in sql(made))


def test_a_drop_beside_a_like_create_mentions_renames(bench: Bench) -> None:
    bench.live.run("create table x (id int, old text);")
    bench.declared.run("create table x (id int, new text);")
    made = bench.plan(replace(EVERYTHING, allow_destructive=False))
    assert [refusal.reason for refusal in made.refusals] == ["DestructiveNotAllowed"]
    assert "policy.renames: public.x.old to public.x.new" in made.refusals[0].message


# Verdicts


def test_destructive_needs_to_be_allowed(bench: Bench) -> None:
    bench.live.run(T)
    made = bench.plan(Policy(), schemas=["public"])
    assert [refusal.reason for refusal in made.refusals] == ["DestructiveNotAllowed"]
    assert "DropTable table public.t" in made.refusals[0].message
    assert made.statements


@pytest.mark.parametrize("name", ["public.t", "t", "public.*"])
@pytest.mark.parametrize(
    "change",
    ["alter table t add z int;", "create index i on t (a);", "comment on column t.a is 'c';"],
)
def test_protected_tables_have_no_override(bench: Bench, name: str, change: str) -> None:
    bench.live.run(T)
    bench.declared.run(T + change)
    made = bench.plan(replace(EVERYTHING, protected_tables=(name,)))
    assert [refusal.reason for refusal in made.refusals] == ["ProtectedTable"]
    assert made.refusals[0].object == ObjectId("table", ("public", "t"))


def test_a_large_table_wants_a_chosen_deadline(bench: Bench) -> None:
    bench.live.run(T)
    bench.declared.run("create table t (id bigint, a int, b text); create index i on t (a);")
    live = bench.live.catalog(["public"])
    sizes = {ObjectId("table", ("public", "t")): 2 * 1024**3}
    wanted = bench.declared.catalog(["public"])
    made = planner.plan(live, wanted, EVERYTHING, sizes)
    assert {refusal.reason for refusal in made.refusals} == {"DeadlineTooShort"}
    assert set(made.sizes_bytes.values()) == {2 * 1024**3}
    chosen = replace(EVERYTHING, deadline_explicit=True)
    assert planner.plan(live, wanted, chosen, sizes).refusals == ()


def test_sizes_are_not_in_the_plan(bench: Bench) -> None:
    bench.live.run(T + BIG)
    bench.declared.run(T + "create index i on t (a);")
    first = bench.plan()
    bench.live.run("insert into t select g, g, 'y' from generate_series(1, 5000) g")
    second = bench.plan()
    assert first.sizes_bytes != second.sizes_bytes
    assert plan_bytes(first.statements) == plan_bytes(second.statements)


def test_what_is_used_from_outside_is_not_dropped(bench: Bench) -> None:
    bench.live.run("create table t (a int); create schema o; create view o.v as select a from t;")
    bench.declared.run("create table t (a bigint);")
    made = bench.plan(schemas=["public"])
    assert [refusal.reason for refusal in made.refusals] == ["UsedOutOfScope"]
    assert "o.v" in made.refusals[0].message
    assert made.statements == ()


def test_a_table_is_not_given_another_partition_key(bench: Bench) -> None:
    bench.live.run("create table p (a int, b int) partition by range (a);")
    bench.declared.run("create table p (a int, b int) partition by range (b);")
    made = bench.plan()
    assert [refusal.reason for refusal in made.refusals] == ["UnsupportedChange"]
    assert "table public.p" in made.refusals[0].message


def test_too_many_locks_are_cut_and_told(bench: Bench) -> None:
    bench.declared.run("".join(f"create table t{n} (id int primary key);" for n in range(400)))
    made = bench.converge()
    assert any("not atomic" in note for note in made.notes)
    assert {statement.group for statement in made.statements} == {1, 2}


# Scope


def test_excluded_objects_are_not_seen(bench: Bench) -> None:
    bench.live.run("create table audit_1 (id serial primary key); create table t (a int);")
    bench.declared.run("create table t (a int); create table audit_2 (a int);")
    assert bench.plan(exclude=["public.audit_*"]).statements == ()
    assert len(bench.plan().statements) > 1


def test_undeclared_partitions_are_left_alone(bench: Bench) -> None:
    table = "create table p (a int, b text) partition by range (a); create index i on p (b);"
    part = "create table p1 partition of p for values from (0) to (10); create index o on p1 (a);"
    bench.live.run(table + part)
    bench.declared.run(table)
    declared = replace(EVERYTHING, partitions="Declared")
    assert bench.plan(declared).statements == ()
    assert sql(bench.plan()) == ["DROP TABLE public.p1"]


def test_extension_members_are_not_planned(bench: Bench) -> None:
    bench.live.run("create extension citext;")
    bench.declared.run("create extension citext; create table t (c citext);")
    assert [each.split(" (")[0] for each in sql(bench.converge())] == ["CREATE TABLE public.t"]


def test_owners_and_grants_are_kept_where_nobody_states_them(bench: Bench) -> None:
    grants = "grant select on t to ptahk_gen_a; alter table t owner to ptahk_gen_b;"
    view = "create view v as select a from t; grant select on v to ptahk_gen_a;"
    bench.live.run(T + grants + view)
    bench.declared.run(T.replace("a int", "a bigint") + "create view v as select a from t;")
    policy = replace(EVERYTHING, privileges="Declared")
    made = bench.converge(policy)
    assert any("GRANT SELECT ON TABLE public.v TO ptahk_gen_a" in each for each in sql(made))
    assert bench.plan(policy).statements == ()
    assert bench.plan().statements != ()


# Declaration and drift


def test_drift_counts_wholes(bench: Bench) -> None:
    bench.live.run("create table gone (id int primary key, a text); create table t (a int);")
    bench.declared.run("create table fresh (id int primary key); create table t (a int not null);")
    report = drift(bench.plan())
    assert report.counts == {"missing": 1, "undeclared": 1, "changed": 1}
    assert report.highest == "destructive"
    assert {item.object: item.category for item in report.items} == {
        "table public.fresh": "missing",
        "table public.gone": "undeclared",
        "column public.t.a": "changed",
    }


def test_no_drift(bench: Bench) -> None:
    report = drift(bench.plan())
    assert (report.counts, report.highest, report.items) == ({}, None, ())


def test_declaration_lists_what_it_cannot_write(bench: Bench) -> None:
    bench.live.run("create table t (a int, b int); create statistics s on a, b from t;")
    written = declaration(bench.live.catalog(["public"]))
    assert "-- not written, change it by hand: extended statistics public.s" in written
    assert "CREATE TABLE public.t" in written


def test_create_table_reads_as_a_person_would_write_it(bench: Bench) -> None:
    bench.declared.run(
        "create table z (id int primary key); create table t (id bigint generated always as"
        " identity primary key, name text default 'x' not null, z int references z,"
        " check (length(name) > 0));"
    )
    assert (
        "CREATE TABLE public.t (\n"
        "    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,\n"
        "    name text DEFAULT 'x'::text NOT NULL,\n"
        "    z integer,\n"
        "    CONSTRAINT t_name_check CHECK ((length(name) > 0)),\n"
        "    CONSTRAINT t_pkey PRIMARY KEY (id)\n"
        ")"
    ) in sql(bench.converge())
