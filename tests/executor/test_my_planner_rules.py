"""What a plan for MySQL or MariaDB says beside its statements: severities, ways, verdicts."""

from __future__ import annotations

import pytest

from ptahk.executor.dialects.mysql import planner
from ptahk.executor.dialects.mysql.catalog import read_catalog
from ptahk.executor.planning.model import ObjectId, Policy, Rename
from ptahk.executor.planning.result import drift
from tests.executor.my_planning_kit import (
    EVERYTHING,
    DataRefused,
    MyBench,
    alters,
    my_bench,
    shared_my_bench,
)

__all__ = ["my_bench", "shared_my_bench"]

_CHANGES = (
    ("varchar(20)", "varchar(10)", "destructive", "shrinks"),
    ("varchar(10)", "varchar(20)", "safe", ""),
    ("int", "bigint", "warning", "rewritten"),
    ("bigint", "int", "destructive", "shrinks"),
    ("int", "int unsigned", "destructive", "sign"),
    ("int unsigned", "int", "destructive", "sign"),
    ("int unsigned", "bigint", "warning", "rewritten"),
    ("decimal(10,2)", "decimal(8,2)", "destructive", "precision"),
    ("decimal(10,2)", "decimal(12,1)", "destructive", "precision"),
    ("double", "float", "destructive", "precision"),
    ("datetime(3)", "datetime", "destructive", "fractions"),
    ("datetime", "date", "destructive", "converted"),
    ("enum('a','b')", "enum('a','b','c')", "safe", ""),
    ("enum('a','b')", "enum('b','a')", "destructive", "order"),
    ("enum('a','b')", "enum('a')", "destructive", "loses the members b"),
    ("set('a','b')", "set('b','a')", "destructive", "order"),
    ("varchar(9) character set utf8mb4", "varchar(9) character set latin1", "destructive", "set"),
    ("varchar(9) character set latin1", "varchar(9) character set utf8mb4", "warning", "convert"),
    ("varchar(9) collate utf8mb4_bin", "varchar(9) collate utf8mb4_general_ci", "warning", "sorts"),
    ("varchar(9) collate utf8mb4_bin, unique key u (x)",
     "varchar(9) collate utf8mb4_general_ci, unique key u (x)", "destructive", "unique key"),
    ("int", "int not null", "warning", "NULL"),
    ("int generated always as (1) virtual", "", "safe", ""),
    ("int", "", "destructive", "dropped with its values"),
    ("text", "varchar(100)", "destructive", "shrinks"),
    ("varchar(100)", "text", "safe", ""),
    ("varchar(20)", "int", "destructive", "converted"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new", "severity", "words"), _CHANGES)
def test_what_a_change_does_to_values(
    my_bench: MyBench, old: str, new: str, severity: str, words: str
) -> None:
    """Each clause by itself, with its reason; refused by policy where it loses something."""
    table = "create table t (id int primary key{}) default charset=utf8mb4;"
    my_bench.build(table.format(f", x {old}"))
    text = table.format(f", x {new}" if new else "")
    made = my_bench.plan(text, Policy())
    step = next(step for step in made.steps if step.kind == "AlterTable")
    assert step.severity == severity
    assert words in step.reason
    assert [r.reason for r in made.refusals] == (
        ["DestructiveNotAllowed"] if severity == "destructive" else []
    )
    assert my_bench.converge(text).refusals == ()


def test_engine_and_tables(my_bench: MyBench) -> None:
    my_bench.build("create table t (id int primary key); create table u (id int);")
    made = my_bench.plan("create table t (id int primary key) engine=myisam;", Policy())
    reasons = {step.kind: (step.severity, step.reason) for step in made.steps}
    assert reasons["AlterTable"] == ("destructive", "the engine changes from InnoDB to MyISAM")
    assert reasons["DropTable"][0] == "destructive"
    assert drift(made).highest == "destructive"
    assert dict(drift(made).counts) == {"undeclared": 1, "changed": 1}


def test_ways_are_those_that_the_server_has(my_bench: MyBench) -> None:
    """At once, in place or by a copy: said in the statement, and what it locks."""
    base = "create table t (id int primary key, a int, b varchar(10)){};"
    my_bench.build(base.format(""))
    for text, way in (
        (base.format("").replace("b varchar(10)", "b varchar(10), c int"), planner.INSTANT),
        (base.format("").replace("a int", "a int, key k (a)"), planner.INPLACE),
        (base.format("").replace("a int", "a char(9)"), planner.COPY),
    ):
        made = my_bench.plan(text)
        step = alters(made)[0]
        assert step.lock == planner.LOCKS[way]
        assert (way in step.sql) == (way != planner.COPY)
        assert ("ALGORITHM" in step.sql) == (way != planner.COPY)


def test_a_large_table_wants_a_deadline(my_bench: MyBench) -> None:
    """A copy or an index build of more than a GiB is refused by name; what is instant is not."""
    base = "create table t (id int primary key, a int{});"
    my_bench.build(base.format(""))
    large = {ObjectId("table", ("t",)): 3 * 1024**3}
    live = my_bench.live()
    for change, refused in ((", c int", False), (", key k (a)", True), (", unique (a)", True)):
        desired = my_bench.declared(base.format(change))
        ways = {
            step.sql: planner.INSTANT if change == ", c int" else planner.INPLACE
            for step in planner.plan(live, desired, EVERYTHING).steps
        }
        made = planner.plan(live, desired, EVERYTHING, large, ways)
        assert [r.reason for r in made.refusals] == (["DeadlineTooShort"] if refused else [])
        blind = planner.plan(live, desired, EVERYTHING, large)
        assert [r.reason for r in blind.refusals] == ["DeadlineTooShort"]
        chosen = Policy(allow_destructive=True, deadline_explicit=True)
        assert planner.plan(live, desired, chosen, large, ways).refusals == ()
    made = planner.plan(live, desired, EVERYTHING, large)
    assert "3072 MiB" in made.refusals[0].message
    assert set(made.sizes_bytes.values()) == {3 * 1024**3}


def test_protected_tables(my_bench: MyBench) -> None:
    my_bench.build("create table t (id int primary key); create table other (id int);")
    text = "create table t (id int primary key, a int); create table other (id int, b int);"
    for glob in ("t", f"{my_bench.name}.t"):
        made = my_bench.plan(text, Policy(protected_tables=(glob,)))
        assert [r.reason for r in made.refusals] == ["ProtectedTable"]
        assert "table t " in made.refusals[0].message


def test_renames_are_declared_never_guessed(my_bench: MyBench) -> None:
    old = "create table a (id int primary key, x int, y int, key k (x));"
    new = "create table b (id int primary key, z int, y int, key k (z));"
    my_bench.build(old)
    my_bench.run("insert into a values (1, 2, 3)")
    hinted = my_bench.plan(old.replace("table a", "table b"), Policy())
    assert [r.reason for r in hinted.refusals] == ["DestructiveNotAllowed"]
    assert "policy.renames: a to b" in hinted.refusals[0].message
    policy = Policy(renames=(Rename(("a",), ("b",)), Rename(("b", "x"), ("b", "z"))))
    made = my_bench.plan(new, policy)
    assert [s.kind for s in made.statements] == ["RenameTable", "RenameColumn"]
    my_bench.apply(made)
    assert my_bench.query(f"SELECT id, z, y FROM `{my_bench.name}`.b") == ((1, 2, 3),)
    assert my_bench.plan(new, policy).statements == ()


_ROWS = (
    ("a int", "a int not null", "insert into t values (1, null)", "NULL"),
    ("a enum('x','y')", "a enum('x')", "insert into t values (1, 'y')", "y"),
    ("a int", "a tinyint", "insert into t values (1, 300)", "300"),
    ("a varchar(9)", "a varchar(2)", "insert into t values (1, 'long')", "longer than 2"),
    ("a int", "a int, unique key u (a)", "insert into t values (1, 1), (2, 1)", "equal in key u"),
    ("a int", "a int, d date not null", "insert into t values (1, 1)", "t.d is NOT NULL"),
)


@pytest.mark.parametrize(("old", "new", "rows", "words"), _ROWS)
def test_rows_that_do_not_fit_are_named_first(
    my_bench: MyBench, old: str, new: str, rows: str, words: str
) -> None:
    """Before any statement; the table is as it was."""
    my_bench.build(f"create table t (id int primary key, {old});")
    my_bench.run(rows)
    before = my_bench.plan("").observed_fingerprint
    with pytest.raises(DataRefused, match=words):
        my_bench.converge(f"create table t (id int primary key, {new});")
    assert my_bench.plan("").observed_fingerprint == before


def test_orphans_are_named_first(my_bench: MyBench) -> None:
    tables = "create table p (id int primary key); create table k (id int primary key, pid int{});"
    my_bench.build(tables.format(""))
    my_bench.run("insert into k values (1, 7)")
    with pytest.raises(DataRefused, match="finds no p for"):
        my_bench.converge(tables.format(", foreign key (pid) references p (id)"))


def test_undeclared_partitions_stay(my_bench: MyBench) -> None:
    """Unless they are managed; the plan foresees them."""
    text = (
        "create table r (a int, b int{}) partition by range (a)"
        " (partition p0 values less than (10));"
    )
    my_bench.build(text.format(""))
    my_bench.run("alter table r add partition (partition p1 values less than (20))")
    declared = Policy(allow_destructive=True)
    assert my_bench.plan(text.format(""), declared).statements == ()
    assert my_bench.converge(text.format(", c int"), declared).refusals == ()
    dropped = my_bench.converge(text.format(", c int"))
    assert [(s.kind, s.severity) for s in dropped.statements] == [("DropPartition", "destructive")]


def test_the_counter_is_no_part_of_a_schema(my_bench: MyBench) -> None:
    text = "create table t (id int auto_increment primary key, a int) auto_increment={};"
    my_bench.converge(text.format(500))
    my_bench.run("insert into t values ()")
    assert my_bench.query("SELECT id FROM t")[0][0] == 500
    assert my_bench.plan(text.format(7)).statements == ()


def test_excluded_objects_are_not_there(my_bench: MyBench) -> None:
    my_bench.run("create table keep_me (id int)")
    my_bench.run("create table t (id int)")
    found = read_catalog(my_bench.query, my_bench.name, exclude=("keep_*",))
    assert [str(oid) for oid in found.objects] == ["table t"]
    full = read_catalog(my_bench.query, my_bench.name, exclude=(f"{my_bench.name}.t",))
    assert [str(oid) for oid in full.objects] == ["table keep_me"]


def test_what_was_read_before_is_not_asked_again(my_bench: MyBench) -> None:
    """On MySQL by the dictionary's mark, once it is old enough; a change is seen all the same."""
    my_bench.build("create table t (id int primary key); create table u (id int);")
    first = my_bench.live()
    asked: list[str] = []

    def query(sql: str, params: object = ()) -> object:
        asked.append(sql)
        return my_bench.query(sql, params)  # type: ignore[arg-type]

    for _ in range(60):
        asked.clear()
        again = read_catalog(query, my_bench.name, known=first.context["known"])  # type: ignore[arg-type]
        assert again.objects == first.objects
        if my_bench.mariadb or not any(sql.startswith("SHOW CREATE") for sql in asked):
            break
        my_bench.query("SELECT SLEEP(0.1)")  # the mark has whole seconds
        first = again
    else:
        raise AssertionError("every table is asked for again")
    my_bench.run("alter table t add a int")
    changed = read_catalog(my_bench.query, my_bench.name, known=again.context["known"])
    assert changed.objects != first.objects
    assert changed.objects == my_bench.live().objects


def test_what_has_no_builder_is_refused_by_name(my_bench: MyBench) -> None:
    """Never silently: here an object that the session may not read."""
    live = my_bench.live()
    unread = ObjectId("unreadable", ("table odd",))
    from dataclasses import replace

    odd = replace(live, objects={unread: {"clause": "a clause of tomorrow"}})
    made = planner.plan(odd, live, EVERYTHING)
    assert [r.reason for r in made.refusals] == ["UnsupportedObject"]
    assert "table odd" in made.refusals[0].message
    assert "a clause of tomorrow" in made.refusals[0].message
    assert made.statements == ()
