"""Indexes that are sent with their table: the server keeps what it keeps of each by itself.

The oracle is the server: ``SHOW CREATE TABLE`` of what was loaded as ptahk loads it, against that
of the declaration's own statements one after the other. What it refuses it refuses either way, for
the same reason and at the same line. ``--budget 10`` tries ten times as many declarations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pymysql
import pytest

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql.declared import Prepared, Reader
from ptahk.executor.dialects.mysql.joining import Batch, joined
from ptahk.executor.dialects.mysql.lexer import Server, split
from ptahk.executor.dialects.mysql.load import SourceError
from tests.executor.my_planning_kit import MyBench, my_bench, shared_my_bench
from tests.kit.budget import scaled

__all__ = ["my_bench", "shared_my_bench"]

SERVER = Server(is_mariadb=True, version=101118)
SEEDS = 120
BATCH = 20
TYPES = (
    "int", "bigint unsigned", "varchar(40)", "varchar(900)", "decimal(9,2)", "datetime(3)", "date",
    "enum('a','b')", "set('x','y')", "char(10) character set latin1", "text", "blob", "json",
    "varchar(20) collate utf8mb4_bin", "float", "bit(3)", "timestamp null", "binary(16)",
)  # fmt: skip
LONG = ("text", "blob", "varchar(900)")
TAILS = ("", "", "", " ENGINE=InnoDB", " COMMENT 'a) b'", " ENGINE=MyISAM", " ROW_FORMAT=COMPACT")


def statements(text: str, server: Server = SERVER) -> Iterator[Prepared]:
    """As a load prepares them, of a declaration without a database of its own."""
    reader = Reader("scratch", "target")
    for each in split("a.sql", text, server):
        prepared = reader.prepare(each)
        if prepared is not None:
            yield prepared


def batches(text: str) -> list[Batch]:
    return list(joined(statements(text)))


def test_what_is_sent_at_once() -> None:
    """Text between them may be anything; what the statements stand for is kept."""
    text = (
        "create table t (\n  a int, -- of the first)\n  `b c` varchar(9) default '),('\n"
        ") comment ')';\n# between\ncreate index `i``1` on t (a /* x */, `b c`(3) desc);\n"
        "create unique index j on t (a);\ncreate index k on other (a);"
    )
    first, second = batches(text)
    assert first.sql == (
        "create table t (\n  a int, -- of the first)\n  `b c` varchar(9) default '),('\n"
        ", INDEX `i``1` (a /* x */, `b c`(3) desc), UNIQUE INDEX j (a)) comment ')'"
    )
    assert [part.source.line for part in first.parts] == [1, 6, 7]
    assert (second.sql, len(second.parts)) == ("create index k on other (a)", 1)


@pytest.mark.parametrize(
    "text",
    [
        "create table if not exists t (a int); create index i on t (a);",
        "create or replace table t (a int); create index i on t (a);",
        "create table t (a int) select 1 as a; create index i on t (a);",
        "create table t (a int) as values (1); create index i on t (a);",
        "create table t like u; create index i on t (a);",
        "create table t (like u); create index i on t (a);",
        "create table t (a int) partition by hash (a); create unique index i on t (a);",
        "create table t (a int) with system versioning; create index i on t (a);",
        "create table t (a int auto_increment); create index i on t (a);",
        "create table t (a int auto_increment, b int primary key); create index i on t (a);",
        "create table t (a int auto_increment, b int, key (b, a)); create index i on t (a);",
        "create table t (a int, b int, foreign key (b) references t (a)); create index i on t (a);",
        "create table t (a int, foreign key (a) references `T` (b)); create index i on t (a);",
        "create table t (a int /*!50000 , b int */); create index i on t (a);",
        "create table t (a int); create index i on t (a) using btree;",
        "create table t (a int); create index i using btree on t (a);",
        "create table t (a int); create index i on t (a) comment 'x';",
        "create table t (a int); create index if not exists i on t (a);",
        "create table t (a text); create fulltext index i on t (a);",
        "create table t (a int); create index i on T (a);",
        "create table t (a int); create index i on target.t (a);",
        "create table t (a int); set sql_mode = ''; create index i on t (a);",
        "create table t (a int); create table u (a int); create index i on t (a);",
        "create table t (a int); create index i on t (a) /*M!100100 comment 'x' */;",
    ],
)
def test_what_is_not(text: str) -> None:
    """Wherever it might mean something else, it is sent as it stands."""
    alone = [each.sql for each in statements(text)]
    assert [each.sql for each in batches(text)] == alone


@pytest.mark.parametrize(
    "keyed", ["a int auto_increment primary key, b int", "a int auto_increment, primary key (a)"]
)
def test_a_table_that_counts_by_its_own_key_takes_indexes(keyed: str) -> None:
    (only,) = batches(f"create table t ({keyed}); create index i on t (a);")
    assert only.sql == f"create table t ({keyed}, INDEX i (a))"


def test_what_may_not_be_sent_comes_after_what_stands_before_it() -> None:
    found = joined(statements("create table t (a int); create index i on t (a); select 1;"))
    assert len(next(found).parts) == 2
    with pytest.raises(UsageError, match="SELECT is not part"):
        next(found)


def test_a_refusal_is_that_of_its_own_statement(my_bench: MyBench) -> None:
    """And what may not be sent behind it is not forgotten where they do load one by one."""
    text = "create table t (a int);\ncreate index i on t (a);\ncreate index j on t (b);\nselect 1;"
    with pytest.raises(SourceError, match=r"schema.sql:3: .*'b'"):
        my_bench.declared(text)
    with pytest.raises(UsageError, match=r"schema.sql:4: SELECT is not"):
        my_bench.declared(text.replace("(b)", "(a)"))


@pytest.mark.parametrize("batch", range(scaled(SEEDS) // BATCH or 1))
def test_the_server_keeps_the_same(my_bench: MyBench, batch: int) -> None:
    sent_at_once = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        text = declaration(random.Random(seed), mariadb=my_bench.mariadb)
        prepared = list(statements(text, my_bench.server))
        sent_at_once += len(prepared) - len(list(joined(iter(prepared))))
        wanted, kept = alone(my_bench, prepared), together(my_bench, text)
        assert kept == wanted, f"seed {seed} on {my_bench.make}:\n{text}"
    assert sent_at_once > BATCH, "they are joined, mostly"


def alone(bench: MyBench, prepared: list[Prepared]) -> list[str]:
    """What is kept of each statement by itself, or where the first is refused, and why."""
    bench.fresh_scratch()
    bench.run("SET SESSION foreign_key_checks = 0")
    try:
        for each in prepared:
            try:
                bench.run(each.sql)
            except pymysql.MySQLError as error:
                return [f"{each.source.line}: {error.args[0]}"]
        return shown(bench)
    finally:
        bench.run("SET SESSION foreign_key_checks = 1")


def together(bench: MyBench, text: str) -> list[str]:
    """The same of the product's own load."""
    bench.fresh_scratch()
    try:
        bench.load(text, bench.scratch)
    except SourceError as error:
        return [f"{error.line}: {error.code}"]
    return shown(bench)


def shown(bench: MyBench) -> list[str]:
    """Every table as the server tells it; the order of its keys is nobody's fact."""
    found = []
    for (name,) in bench.query("SHOW TABLES"):
        lines = bench.query(f"SHOW CREATE TABLE `{name}`")[0][1].splitlines()
        found += [f"{name}: {line.rstrip(',')}" for line in sorted(lines)]
    return found


def declaration(chance: random.Random, *, mariadb: bool) -> str:
    """Some tables, each with indexes behind it; now and then one that the server refuses."""
    made: list[str] = []
    for number in range(chance.randint(1, 4)):
        columns = [f"c{at}" for at in range(chance.randint(1, 5))]
        types = {name: chance.choice(TYPES) for name in columns}
        parts = [f"`id` bigint{chance.choice(('', ' auto_increment'))}"]
        parts += [
            f"{name} {kind}{chance.choice(('', ' not null'))}" for name, kind in types.items()
        ]
        parts += chance.choice(([], ["primary key (id)"], ["unique key (id)"], ["key u (id)"]))
        if number and chance.random() < 0.5:
            parts += ["p bigint", f"constraint f{number} foreign key (p) references t0 (id)"]
            columns.append("p")
        if chance.random() < 0.1:
            parts += ["q bigint", f"foreign key (q) references t{number} (id)"]
        if chance.random() < 0.2:
            parts.append(f"constraint k{number} check (id > 0)")
        made.append(f"create table t{number} ({', '.join(parts)}\n){chance.choice(TAILS)};")
        for at in range(chance.randint(0, 3)):
            named = chance.sample(["id", *columns], chance.randint(1, min(3, len(columns) + 1)))
            listed = [_key_part(chance, name, types.get(name, "int"), mariadb) for name in named]
            unique = chance.choice(("", "", "unique "))
            name = f"i{at if chance.random() < 0.95 else 0}"
            made.append(f"create {unique}index {name} on t{number} ({', '.join(listed)});")
    return "\n".join(made)


def _key_part(chance: random.Random, name: str, kind: str, mariadb: bool) -> str:
    if kind in LONG and chance.random() < 0.9:
        name += "(9)"
    elif not mariadb and kind == "int" and chance.random() < 0.2:
        return f"(({name} + 1))"
    if chance.random() < 0.02:
        name = "nowhere"
    return name + chance.choice(("", "", " desc"))
