"""Micro-changes on MySQL and MariaDB: two declarations that differ in one thing.

Each is planned in both directions, with ``rows`` in the live database on the way there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MyCase:
    """One change."""

    name: str
    old: str
    new: str
    rows: str = ""


_T = "create table t (id int primary key, a int, b varchar(20), c text);"
_ROWS = "insert into t (id, a, b, c) values (1, 1, 'x', 'y'), (2, 2, 'z', 'w')"
_KID = "create table k (id int primary key, tid int, foreign key (tid) references t(id){});"
_RANGE = (
    "create table r (a int, b int) partition by range(a)"
    " (partition p0 values less than (10), partition p1 values less than (20){});"
)


def _alter(name: str, change: str, before: str = "", rows: str = _ROWS) -> MyCase:
    first = f"{_T} alter table t {before};" if before else _T
    return MyCase(name, first, f"{_T} alter table t {change};", rows)


def _program(name: str, old: str, new: str) -> MyCase:
    """What needs another delimiter; statements end in ``//``."""
    return MyCase(
        name, *(f"{_T}\ndelimiter //\n{text}\ndelimiter ;\n" for text in (old, new)), _ROWS
    )


BOTH = (
    MyCase("table", "", _T),
    MyCase(
        "quoted names",
        "",
        "create table `T ``t` (`Id x` int primary key, `select` text, key `k, (` (`Id x`));",
    ),
    _alter("add column", "add d int not null default 3 after a"),
    _alter("add column first", "add d int first"),
    _alter("retype", "modify b varchar(40) character set latin1"),
    _alter("reorder", "modify c text first, modify a bigint after c"),
    _alter("default", "alter a set default 5, alter b set default 'it''s; -- /* x'"),
    _alter("comments", "modify a int comment 'it''s\\n two', comment 'a, (b'"),
    _alter("not null", "modify a int not null"),
    _alter("primary key", "drop primary key, add primary key (id, a)", rows=""),
    _alter("auto increment", "modify id int auto_increment"),
    _alter("indexes", "add key k (b(5)), add unique key u (a), add fulltext key f (c)"),
    _alter("descending", "add key k (a desc, b)"),
    _alter("rename index", "add key k2 (a)", "add key k1 (a)"),
    _alter("index comment", "add key k (a) comment 'x'", "add key k (a)"),
    _alter("spatial", "add p point not null, add spatial key sk (p)", rows=""),
    _alter(
        "generated",
        "add g int generated always as (a + 1) virtual,"
        " add h int generated always as (a * 2) stored",
    ),
    _alter(
        "virtual to stored",
        "add g int generated always as (a + 1) stored, add key gk (g)",
        "add g int generated always as (a + 1) virtual, add key gk (g)",
    ),
    _alter(
        "other expression",
        "add g int generated always as (a + 2) virtual, add key gk (g)",
        "add g int generated always as (a + 1) virtual, add key gk (g)",
    ),
    _alter(
        "other stored expression",
        "add g int generated always as (a + 2) stored comment 'x', add key gk (g)",
        "add g int generated always as (a + 1) stored, add key gk (g)",
    ),
    _alter(
        "generated to plain",
        "add g int, add key gk (g)",
        "add g int generated always as (a + 1) stored, add key gk (g)",
    ),
    _alter("invisible", "modify a int invisible"),
    _alter("options", "comment 'it''s', row_format=compressed"),
    _alter("table default charset alone", "default charset latin1"),
    _alter("convert charset", "convert to charset latin1"),
    _alter("engine", "engine=myisam"),
    _alter("checks", "add constraint ck check (a > 0), add check (b <> 'q')"),
    _alter("other check", "add constraint ck check (a > -1)", "add constraint ck check (a > 0)"),
    _alter("enum member", "add e enum('a','c','b')", "add e enum('a','b')"),
    _alter(
        "kinds of types",
        "add ts timestamp(6) not null default current_timestamp(6)"
        " on update current_timestamp(6), add j json, add x bit(3) default b'1',"
        " add s set('p','q r'), add y year, add d decimal(10,3) unsigned, add v varbinary(9)",
        rows="",
    ),
    MyCase(
        "expression default",
        _T,
        "create table t (id int primary key, a int, b varchar(20), c text,"
        " k varchar(36) default (uuid()), l double not null default (rand()));",
        _ROWS,
    ),
    MyCase("foreign key", _T, _T + _KID.format(" on delete cascade"), _ROWS),
    MyCase(
        "foreign key on what is there",
        _T + "create table k (id int primary key, tid int);",
        _T + _KID.format(""),
        _ROWS,
    ),
    MyCase(
        "foreign key rule",
        _T + _KID.format(" on delete cascade"),
        _T + _KID.format(" on delete set null"),
        _ROWS,
    ),
    MyCase(
        "type under a foreign key",
        _T + _KID.format(" on delete cascade"),
        (_T + _KID.format(" on delete cascade")).replace("id int", "id bigint"),
        _ROWS,
    ),
    MyCase(
        "tables that reference each other",
        "create table x (id int primary key, y int, foreign key (y) references y(id));"
        " create table y (id int primary key, x int, foreign key (x) references x(id));",
        _T,
    ),
    MyCase(
        "views",
        _T,
        _T + " create view w as select id, a from t where a > 1; create view v as select * from w;",
        _ROWS,
    ),
    MyCase(
        "views change",
        _T + "create view v as select id, a from t where a > 1; create view w as select * from v;",
        _T + "create view v as select id, b from t where id > 3 with check option;"
        " create sql security invoker view w as select id from v;",
    ),
    MyCase(
        "a view becomes a table",
        _T + "create view v as select id, a from t;",
        _T + "create table v (id int);",
    ),
    _program(
        "programs",
        "",
        "create procedure p(in x int) begin select x; end//\n"
        "create function f(x int) returns int deterministic begin return x + 1; end//\n"
        "create trigger tr before insert on t for each row begin set new.a = 1; end//\n"
        "create trigger tr2 before insert on t for each row begin set new.a = 2; end//\n"
        "create event e on schedule every 1 day do delete from t//\n"
        "create event e2 on schedule at '2035-01-01 00:00:00' on completion preserve disable"
        " comment 'q' do begin delete from t; end//",
    ),
    _program(
        "programs change",
        "create procedure p(in x int) begin select x; end//\n"
        "create function f(x int) returns int deterministic begin return x + 1; end//\n"
        "create trigger tr before insert on t for each row begin set new.a = 1; end//\n"
        "create trigger tr2 before insert on t for each row begin set new.a = 2; end//\n"
        "create trigger tr3 before insert on t for each row begin set new.a = 3; end//\n"
        "create event e on schedule every 1 day do delete from t//\n"
        "create event e2 on schedule at '2035-01-01 00:00:00' on completion preserve disable"
        " comment 'q' do delete from t//",
        "create procedure p(in x bigint) sql security invoker begin select x; end//\n"
        "create function f(x int) returns int no sql begin return x + 2; end//\n"
        "create trigger tr before insert on t for each row begin set new.a = 7; end//\n"
        "create trigger tr3 before insert on t for each row begin set new.a = 3; end//\n"
        "create trigger tr2 before insert on t for each row begin set new.a = 2; end//\n"
        "create event e on schedule every 2 day ends '2037-01-01 00:00:00' do delete from t"
        " where id = 1//\n"
        "create event e2 on schedule at '2036-01-01 00:00:00' on completion preserve enable"
        " do delete from t//",
    ),
    _program(
        "programs under another mode",
        "create procedure p() begin select 1; end//\n"
        "create trigger tr before insert on t for each row begin set new.a = 1; end//",
        "set sql_mode = 'STRICT_ALL_TABLES'//\n"
        "create procedure p() begin select 1; end//\n"
        "create trigger tr before insert on t for each row begin set new.a = 1; end//",
    ),
    MyCase(
        "range partitions",
        _RANGE.format(""),
        _RANGE.format(", partition p2 values less than maxvalue"),
        "insert into r values (1, 1), (12, 2)",
    ),
    MyCase("no partitions", _RANGE.format(""), "create table r (a int, b int);"),
    MyCase(
        "other partitions",
        _RANGE.format(""),
        "create table r (a int, b int, c int) partition by hash(b) partitions 4;",
        "insert into r values (1, 1), (12, 2)",
    ),
    MyCase(
        "list partitions",
        "create table r (a int, b varchar(10)) partition by list columns(b)"
        " (partition p0 values in ('a','b'), partition p1 values in ('c'));",
        "create table r (a int, b varchar(10)) partition by list columns(b)"
        " (partition p1 values in ('c'), partition p2 values in ('d'));",
    ),
    MyCase(
        "zero dates",
        "set sql_mode = ''; create table z (d datetime not null default '0000-00-00 00:00:00');",
        "set sql_mode = ''; create table z (d datetime not null default '0000-00-00 00:00:00',"
        " e date default '0000-00-00');",
    ),
    MyCase(
        "a check's name moves to another table",
        _T + "create table u (a int, constraint ck check (a > 1));",
        _T + "alter table t add constraint ck check (a > 0); create table u (a int);",
        _ROWS,
    ),
)

MYSQL = (
    _alter("functional index", "add key k ((a + 1)), add key k2 (a) invisible"),
    _alter("index visibility", "add key k2 (a) invisible", "add key k2 (a)"),
    _alter(
        "check not enforced",
        "add constraint ck check (a > 0) not enforced",
        "add constraint ck check (a > 0)",
    ),
    _alter("srid", "add p point not null srid 4326, add spatial key sk (p)", rows=""),
)

_SYSTEM = (
    "create table t (id int primary key, a int,{} rs timestamp(6) generated always as row start,"
    " re timestamp(6) generated always as row end, period for system_time(rs, re))"
    " with system versioning;"
)

MARIADB = (
    _alter("ignored index", "add key k2 (a) ignored", "add key k2 (a)"),
    MyCase(
        "sequences",
        _T,
        _T + " create sequence s start with 5 increment by 2;"
        " create table sd (a int default nextval(s));",
    ),
    MyCase(
        "sequence options",
        "create sequence s start with 5 increment by 2;",
        "create sequence s start with 5 increment by 3 maxvalue 1000 cycle comment 'x';",
    ),
    _alter("system versioning", "add system versioning"),
    _alter(
        "column of a versioned table", "add z int, add system versioning", "add system versioning"
    ),
    MyCase("system period", "create table t (id int primary key, a int);", _SYSTEM.format("")),
    MyCase("column beside a period", _SYSTEM.format(""), _SYSTEM.format(" q int,")),
    MyCase(
        "partitions of history",
        "create table h (a int) with system versioning"
        " partition by system_time interval 1 month partitions 3;",
        "create table h (a int, b int) with system versioning"
        " partition by system_time interval 1 month partitions 3;",
    ),
    MyCase(
        "application period",
        "create table ap (id int, s date not null, e date not null);",
        "create table ap (id int, s date not null, e date not null, period for x(s, e),"
        " unique (id, x without overlaps));",
    ),
    _alter(
        "types of its own",
        "add cc varchar(100) character set utf8mb4 compressed, add u uuid, add i inet6",
    ),
    MyCase(
        "engine options",
        "create table z (a varchar(100)) page_compressed=1;",
        "create table z (a varchar(100), b uuid default uuid());",
    ),
)
