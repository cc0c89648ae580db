"""Micro-changes of tables and what belongs to them: two declarations that differ in one thing.

Each is planned in both directions, with ``rows`` in the live database.
"""

from __future__ import annotations

from tests.executor.kinds_cases import Case

_T = "create table t (id int primary key, a int, b text, c varchar(10));"
_ROWS = "insert into public.t (id, a, b, c) values (1, 1, 'x', 'y'), (2, 2, 'z', 'w');"


def _alter(name: str, change: str, rows: str = _ROWS, **refused: str) -> Case:
    return Case(name, _T, f"{_T} {change}", rows, **refused)


TABLES = (
    Case("table", "", "create table t (id int);"),
    Case("table without columns", "", "create table t ();"),
    Case("quoted names", "", 'create table "T t" ("Id x" int primary key, "select" text);'),
    Case("unlogged", "create table t (id int);", "create unlogged table t (id int);"),
    _alter("fillfactor", "alter table t set (fillfactor = 70, autovacuum_enabled = off);"),
    _alter("toast option", "alter table t set (toast.autovacuum_enabled = off);"),
    _alter("replica identity full", "alter table t replica identity full;"),
    _alter("replica identity nothing", "alter table t replica identity nothing;"),
    _alter(
        "replica identity index",
        "alter table t alter a set not null; create unique index ti on t (a);"
        " alter table t replica identity using index ti;",
    ),
    _alter("replica identity key", "alter table t replica identity using index t_pkey;"),
    _alter("cluster", "create index ti on t (a); alter table t cluster on ti;"),
    _alter("row security", "alter table t enable row level security;"),
    _alter("forced row security", "alter table t force row level security;"),
    _alter("comments", "comment on table t is 'it''s'; comment on column t.a is E'x\\ny';"),
    Case(
        "inheritance",
        "create table p (id int);",
        "create table p (id int default 1 not null check (id > 0));"
        " create table k (x int) inherits (p);",
    ),
    Case(
        "inherit later",
        "create table p (id int); create table k (id int, x int);",
        "create table p (id int); create table k (id int, x int); alter table k inherit p;",
    ),
    Case(
        "column of a parent",
        "create table p (id int); create table k (x int) inherits (p);",
        "create table p (id int, n text default 'a' not null); create table k (x int) inherits (p);",
        "insert into public.k values (1, 2)",
    ),
    Case(
        "type of a parent's column",
        "create table p (id int); create table k (x int) inherits (p);",
        "create table p (id bigint); create table k (x int) inherits (p);",
        "insert into public.k values (1, 2)",
    ),
    Case(
        "child's own default",
        "create table p (id int default 1); create table k (x int) inherits (p);",
        "create table p (id int default 1); create table k (x int) inherits (p);"
        " alter table k alter id set default 2;",
    ),
    Case(
        "child without the default",
        "create table p (id int default 1); create table k (x int) inherits (p);",
        "create table p (id int default 1); create table k (x int) inherits (p);"
        " alter table k alter id drop default;",
    ),
    Case(
        "two parents",
        "",
        "create table p (id int); create table o (id int, z int);"
        " create table k (x int) inherits (p, o);",
    ),
    Case(
        "local column that is inherited too",
        "",
        "create table p (id int); create table k (id int, x int) inherits (p);",
    ),
    Case(
        "tables in a ring",
        "",
        "create table x (id int primary key, y int); create table y (id int primary key,"
        " x int references x); alter table x add foreign key (y) references y;",
    ),
    Case("table to view", "create table r (id int);", "create view r as select 1 as id;"),
    Case("table to sequence", "create table r (id int);", "create sequence r;"),
)

COLUMNS = (
    _alter("add column", "alter table t add n int;"),
    _alter("add with default", "alter table t add n int not null default 7;"),
    _alter(
        "add with volatile default", "alter table t add n timestamptz default clock_timestamp();"
    ),
    _alter("add serial", "alter table t add n serial;"),
    _alter("add bigserial", "alter table t add n bigserial not null;"),
    _alter("add identity", "alter table t add n int generated always as identity;"),
    _alter("add generated", "alter table t add n int generated always as (id * 2) stored;"),
    _alter(
        "add two generated",
        "alter table t add n int generated always as (id * 2) stored;"
        " alter table t add m text generated always as (b || 'x') stored; create index ti on t (n);",
    ),
    _alter("drop column", "alter table t drop a;", rows="insert into public.t (id) values (1);"),
    _alter("set not null", "alter table t alter a set not null;"),
    _alter("set default", "alter table t alter a set default 5;"),
    _alter("default of text", "alter table t alter b set default 'it''s';"),
    _alter(
        "default of function",
        "create function f() returns int language sql as 'select 1';"
        " alter table t alter a set default f();",
    ),
    _alter(
        "default of sequence", "create sequence s; alter table t alter a set default nextval('s');"
    ),
    _alter(
        "owned sequence",
        "create sequence s owned by t.a; alter table t alter a set default nextval('s');",
    ),
    _alter("int to bigint", "alter table t alter a type bigint;"),
    _alter("int to text", "alter table t alter a type text;"),
    _alter("int to numeric", "alter table t alter a type numeric(12,2);"),
    _alter("varchar longer", "alter table t alter c type varchar(20);"),
    _alter("varchar unbounded", "alter table t alter c type varchar;"),
    _alter("varchar to text", "alter table t alter c type text;"),
    _alter("varchar to char", "alter table t alter c type char(10);"),
    _alter("text to bytea", "alter table t alter b type bytea using b::bytea;"),
    _alter("int to array", "alter table t alter a type int[] using array[a];", rows=""),
    _alter("collation", 'alter table t alter b type text collate "C";'),
    _alter("storage", "alter table t alter b set storage external;"),
    _alter("compression", "alter table t alter b set compression pglz;"),
    _alter("statistics", "alter table t alter a set statistics 500;"),
    _alter("column options", "alter table t alter a set (n_distinct = 5);"),
    _alter(
        "identity by default",
        "alter table t alter a set not null;"
        " alter table t alter a add generated by default as identity;",
    ),
    _alter(
        "identity with options",
        "alter table t alter a set not null; alter table t alter a add generated always as identity"
        " (start with 10 increment by 5 minvalue 5 maxvalue 1000 cycle cache 3);",
        rows="",
    ),
    Case(
        "identity mode",
        "create table t (id int generated always as identity);",
        "create table t (id int generated by default as identity (increment by 2));",
    ),
    Case(
        "serial to identity",
        "create table t (id serial primary key, x int);",
        "create table t (id int generated always as identity primary key, x int);",
        "insert into public.t (x) select 1 from generate_series(1, 5)",
    ),
    Case(
        "serial to bigserial",
        "create table t (id serial primary key, x int);",
        "create table t (id bigserial primary key, x int);",
        "insert into public.t (x) values (1), (2)",
    ),
    Case(
        "named identity sequence",
        "create table t (id int generated always as identity);",
        "create table t (id int generated always as identity (sequence name sq));",
    ),
    Case(
        "generated expression",
        "create table t (a int, g int generated always as (a + 1) stored);",
        "create table t (a int, g int generated always as (a + 2) stored);",
        "insert into public.t values (1)",
    ),
    Case(
        "generated with users",
        "create table t (a int, g int generated always as (a + 1) stored); create index gi on t (g);"
        " create view v as select g from t;",
        "create table t (a bigint, g int generated always as (a + 1) stored); create index gi on t (g);"
        " create view v as select g from t;",
        "insert into public.t values (1)",
    ),
    Case(
        "plain to generated",
        "create table t (a int, g int);",
        "create table t (a int, g int generated always as (a + 1) stored);",
        "insert into public.t values (1)",
    ),
    Case(
        "type with everything on it",
        "create table t (id int primary key, a int not null default 3 unique check (a > 0));"
        " create table r (id int primary key, t int references t (a));"
        " create index ti on t ((a + 1)) where a > 5;"
        " create view v as select a, count(*) from t group by a; create view w as select * from v;"
        " create materialized view m as select a from t; create unique index mi on m (a);"
        " create function tf() returns trigger language plpgsql as 'begin return new; end';"
        " create trigger tg before update of a on t for each row execute function tf();"
        " create policy po on t using (a > 0); create rule ru as on delete to t where old.a = 1"
        " do instead nothing;"
        " comment on view v is 'v'; comment on trigger tg on t is 'tg'; comment on constraint"
        " t_a_key on t is 'key';",
        "create table t (id int primary key, a bigint not null default 3 unique check (a > 0));"
        " create table r (id int primary key, t bigint references t (a));"
        " create index ti on t ((a + 1)) where a > 5;"
        " create view v as select a, count(*) from t group by a; create view w as select * from v;"
        " create materialized view m as select a from t; create unique index mi on m (a);"
        " create function tf() returns trigger language plpgsql as 'begin return new; end';"
        " create trigger tg before update of a on t for each row execute function tf();"
        " create policy po on t using (a > 0); create rule ru as on delete to t where old.a = 1"
        " do instead nothing;"
        " comment on view v is 'v'; comment on trigger tg on t is 'tg'; comment on constraint"
        " t_a_key on t is 'key';",
        "insert into public.t values (1, 7); insert into public.r values (1, 7)",
    ),
    Case(
        "text keys to uuid",
        "create table t (id text primary key); create table r (t text references t);",
        "create table t (id uuid primary key); create table r (t uuid references t);",
        "insert into public.t values ('00000000-0000-0000-0000-000000000001');"
        " insert into public.r select id from public.t",
    ),
    Case(
        "column used by dropped view",
        "create table t (id int, a int); create view v as select a from t;",
        "create table t (id int);",
    ),
    Case(
        "column let go by a view",
        "create table t (id int, a int); create view v as select id, a from t;",
        "create table t (id int); create view v as select id, 1 as a from t;",
    ),
)

CONSTRAINTS = (
    Case(
        "primary key",
        "create table t (id int not null);",
        "create table t (id int primary key);",
        "insert into public.t values (1), (2)",
    ),
    Case(
        "primary key on nullable",
        "create table t (id int);",
        "create table t (id int primary key);",
        "insert into public.t values (1), (2)",
    ),
    Case(
        "other primary key",
        "create table t (id int primary key, a int not null);",
        "create table t (id int not null, a int primary key);",
        "insert into public.t values (1, 2)",
    ),
    Case(
        "primary key with referrer",
        "create table t (id int primary key, a int not null unique); create table r (t int references t);",
        "create table t (id int unique not null, a int primary key); create table r (t int"
        " references t (id));",
        "insert into public.t values (1, 2); insert into public.r values (1)",
    ),
    _alter("unique", "alter table t add unique (a);"),
    _alter("unique nulls not distinct", "alter table t add unique nulls not distinct (a);"),
    _alter(
        "unique include",
        "alter table t add constraint u unique (a) include (b) with (fillfactor=70);",
    ),
    _alter("unique deferrable", "alter table t add unique (a) deferrable initially deferred;"),
    _alter("check", "alter table t add constraint k check (a > 0);"),
    _alter("check not valid", "alter table t add constraint k check (a > 0) not valid;"),
    _alter("check no inherit", "alter table t add constraint k check (a > 0) no inherit;"),
    Case(
        "validate",
        "create table t (a int); alter table t add constraint k check (a > 0) not valid;",
        "create table t (a int); alter table t add constraint k check (a > 0);",
    ),
    Case(
        "check changes",
        "create table t (a int, constraint k check (a > 0));",
        "create table t (a int, constraint k check (a > 1));",
        "insert into public.t values (2)",
    ),
    _alter(
        "check with function",
        "create function f(int) returns bool language sql immutable as"
        " 'select $1 > 0'; alter table t add constraint k check (f(a));",
    ),
    _alter(
        "check on the row",
        "create function f(t) returns bool language sql immutable as"
        " 'select $1.a > 0'; alter table t add constraint k check (f(t));",
    ),
    Case(
        "check on the row of a new table",
        "",
        "create table t (a int);"
        " create function f(t) returns bool language sql immutable as 'select $1.a > 0';"
        " alter table t add constraint k check (f(t));",
    ),
    _alter(
        "exclusion", "alter table t add constraint x exclude using btree (a with =) where (a > 0);"
    ),
    _alter("foreign key", "create table r (t int references t);"),
    _alter("self reference", "alter table t add foreign key (a) references t;"),
    Case(
        "foreign key added",
        "create table t (id int primary key); create table r (t int);",
        "create table t (id int primary key); create table r (t int references t on delete cascade);",
        "insert into public.t values (1); insert into public.r values (1)",
    ),
    Case(
        "foreign key action",
        "create table t (id int primary key); create table r (t int references t);",
        "create table t (id int primary key); create table r (t int references t on delete set null);",
    ),
    Case(
        "foreign key deferrable",
        "create table t (id int primary key); create table r (t int references t);",
        "create table t (id int primary key); create table r (t int references t deferrable"
        " initially deferred);",
    ),
    Case(
        "foreign key not valid",
        "create table t (id int primary key); create table r (t int);",
        "create table t (id int primary key); create table r (t int); alter table r add constraint f"
        " foreign key (t) references t not valid;",
    ),
    Case(
        "foreign key match full",
        "create table t (a int, b int, primary key (a, b)); create table r (a int, b int);",
        "create table t (a int, b int, primary key (a, b));"
        " create table r (a int, b int, foreign key (a, b) references t match full);",
    ),
    Case(
        "constraint comment",
        "create table t (a int constraint k check (a > 0));",
        "create table t (a int constraint k check (a > 0)); comment on constraint k on t is 'k';",
    ),
)

INDEXES = (
    _alter("index", "create index i on t (a);"),
    _alter("unique index", "create unique index i on t (a);"),
    _alter("partial index", "create index i on t (a) where b is not null;"),
    _alter("expression index", "create index i on t (lower(b), (a + 1));"),
    _alter("include", "create index i on t (a) include (b);"),
    _alter("opclass", "create index i on t (b text_pattern_ops);"),
    _alter("order", "create index i on t (a desc nulls last, b);"),
    _alter("nulls not distinct", "create unique index i on t (a) nulls not distinct;"),
    _alter("hash", "create index i on t using hash (a);"),
    _alter("brin", "create index i on t using brin (a) with (pages_per_range = 32);"),
    _alter("gin", "alter table t add j jsonb; create index i on t using gin (j jsonb_path_ops);"),
    _alter("collated", 'create index i on t (b collate "C");'),
    _alter(
        "index statistics",
        "create index i on t ((a + 1)); alter index i alter column 1 set statistics 9;",
    ),
    _alter("index comment", "create index i on t (a); comment on index i is 'i';"),
    Case(
        "index changes",
        "create table t (a int, b int); create index i on t (a);",
        "create table t (a int, b int); create index i on t (b);",
    ),
    Case(
        "index option",
        "create table t (a int); create index i on t (a);",
        "create table t (a int); create index i on t (a) with (fillfactor = 50);",
    ),
    Case(
        "index moves",
        "create table t (a int); create table u (a int); create index i on t (a);",
        "create table t (a int); create table u (a int); create index i on u (a);",
    ),
    Case(
        "index to constraint",
        "create table t (a int); create unique index i on t (a);",
        "create table t (a int); alter table t add constraint i unique (a);",
    ),
)

SEQUENCES = (
    Case("sequence", "", "create sequence s;"),
    Case(
        "sequence options",
        "create sequence s;",
        "create sequence s as int increment by -2 minvalue -100 maxvalue 50 start with 7 cache 4 cycle;",
    ),
    Case("sequence type", "create sequence s;", "create sequence s as smallint;"),
    Case(
        "sequence owner",
        "create table t (a int); create sequence s;",
        "create table t (a int); create sequence s owned by t.a;",
    ),
    Case(
        "owner moves",
        "create table t (a int, b int); create sequence s owned by t.a;",
        "create table t (a int, b int); create sequence s owned by t.b;",
    ),
    Case("owned sequence with its table", "create table t (id serial);", ""),
    Case(
        "sequence outlives its table",
        "create table t (a int); create sequence s owned by t.a;",
        "create sequence s;",
    ),
    Case(
        "sequence for a serial", "create table t (id serial);", "create table t (id int not null);"
    ),
)

PARTITIONS = (
    Case(
        "range",
        "",
        "create table p (id int, d date not null, primary key (id, d)) partition by range (d);"
        " create table p1 partition of p for values from ('2020-01-01') to ('2021-01-01');"
        " create table pd partition of p default; create index pi on p (d);",
    ),
    Case(
        "list and hash",
        "",
        "create table p (a int, b text) partition by list (b);"
        " create table p1 partition of p for values in ('x', 'y') partition by hash (a);"
        " create table p11 partition of p1 for values with (modulus 2, remainder 0);"
        " create table p12 partition of p1 for values with (modulus 2, remainder 1);",
    ),
    Case(
        "partition added",
        "create table p (a int) partition by range (a);",
        "create table p (a int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
    ),
    Case(
        "attach",
        "create table p (a int primary key) partition by range (a);"
        " create table p1 (a int primary key);",
        "create table p (a int primary key) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "insert into public.p1 values (1)",
    ),
    Case(
        "bounds",
        "create table p (a int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table p (a int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (20);",
        "insert into public.p values (1)",
    ),
    Case(
        "column of a partitioned table",
        "create table p (a int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table p (a int, n text not null default 'x', m int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "insert into public.p values (1)",
    ),
    Case(
        "not null of a partitioned table",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table p (a int, b int not null) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "insert into public.p values (1, 2)",
    ),
    Case(
        "type in a partitioned table",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table p (a int, b bigint) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "insert into public.p values (1, 2)",
    ),
    Case(
        "partition's own default and key",
        "",
        "create table p (a int default 1, b int) partition by"
        " range (a); create table p1 partition of p (a default 5, b not null,"
        " constraint k check (b > 0)) for values from (0) to (10); create unique index i on p1 (b);",
    ),
    Case(
        "key of a partitioned table",
        "create table p (a int not null, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table p (a int primary key, b int, check (b > 0)) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10); create index pi on p (b);"
        " create table r (a int references p);",
        "insert into public.p values (1, 2)",
    ),
    Case(
        "foreign key of a partitioned table",
        "create table t (id int primary key);"
        " create table p (a int, t int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
        "create table t (id int primary key);"
        " create table p (a int, t int references t) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);",
    ),
    Case(
        "table to partitioned",
        "create table p (a int);",
        "create table p (a int) partition by range (a);",
        refused="UnsupportedChange",
        back_refused="UnsupportedChange",
    ),
)

LINEAGE = (
    Case(
        "check of a parent and its own",
        "create table p (a int, constraint k check (a > 0));"
        " create table c (a int, constraint k check (a > 0)) inherits (p);",
        "create table p (a int); create table c (a int) inherits (p);",
    ),
    Case(
        "check of a parent goes",
        "create table p (a int, constraint k check (a > 0));"
        " create table c (a int, constraint k check (a > 0)) inherits (p);",
        "create table p (a int); create table c (a int, constraint k check (a > 0)) inherits (p);",
    ),
    Case(
        "column of one of two parents",
        "create table p (a int, b int); create table q (a int, z int);"
        " create table c (x int) inherits (p, q);",
        "create table p (b int); create table q (a int, z int);"
        " create table c (x int) inherits (p, q);",
    ),
    Case(
        "grandchildren",
        "create table p (a int, b int); create table q () inherits (p);"
        " create table c (x int) inherits (q);",
        "create table p (a bigint default 4, d int not null default 3);"
        " create table q () inherits (p); create table c (x int) inherits (q);",
        "insert into public.c (a) values (1)",
    ),
    Case(
        "other parent",
        "create table p (a int check (a > 0), b text not null); create table q (a int, z date);"
        " create table c (x int) inherits (p);",
        "create table p (a int check (a > 0), b text not null); create table q (a int, z date);"
        " create table c (x int) inherits (q);",
    ),
    Case(
        "partitions of partitions",
        "create table p (a int, b int) partition by range (a); create table p1 partition of p for"
        " values from (0) to (10) partition by list (b); create table p11 partition of p1 for"
        " values in (1); create table p12 partition of p1 default",
        "create table p (a int, b int, c text collate \"C\" default 'x' not null, primary key (a, b))"
        " partition by range (a); create table p1 partition of p for values from (0) to (10)"
        " partition by list (b); create table p11 partition of p1 for values in (1);"
        " create table p13 partition of p1 for values in (2, 3)",
        "insert into public.p values (1, 1)",
    ),
    Case(
        "default partition",
        "create table p (a int) partition by list (a); create table pd partition of p default",
        "create table p (a int) partition by list (a); create table pd partition of p for values in"
        " (1); create table pe partition of p default",
        "insert into public.p values (1)",
    ),
    Case(
        "bounds swapped",
        "create table p (a int) partition by list (a); create table p1 partition of p for values in"
        " (1); create table p2 partition of p for values in (2)",
        "create table p (a int) partition by list (a); create table p1 partition of p for values in"
        " (2); create table p2 partition of p for values in (1)",
    ),
    Case(
        "names swapped",
        "create table a (x int); create view b as select 1 as x",
        "create view a as select 1 as x; create table b (x int)",
    ),
    Case(
        "index attached by hand",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10)",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10); create index i on only p (b);"
        " create index i1 on p1 (b); alter index i attach partition i1",
    ),
    Case(
        "index on the parent only",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10)",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10); create index i on only p (b)",
    ),
    Case(
        "type of a partition key",
        "create table p (a int, b int) partition by range (a)",
        "create table p (a bigint, b int) partition by range (a)",
        refused="UnsupportedChange",
        back_refused="UnsupportedChange",
    ),
    Case(
        "exclusion over a range",
        "create table p (a int, b int4range)",
        "create table p (a int, b int4range, exclude using gist (b with &&))",
    ),
)

_R = "create table r (id int primary key);"
FROM_18 = (
    Case(
        "virtual column",
        "create table t (a int)",
        "create table t (a int, b int generated always as (a + 1) virtual)",
        "insert into public.t values (1)",
    ),
    Case(
        "virtual expression",
        "create table t (a int, b int generated always as (a + 2) virtual)",
        "create table t (a int, b int generated always as (a + 1) virtual)",
        "insert into public.t values (1)",
    ),
    Case(
        "virtual to stored",
        "create table t (a int, b int generated always as (a + 2) stored)",
        "create table t (a int, b int generated always as (a + 2) virtual)",
        "insert into public.t values (1)",
    ),
    Case(
        "not null not valid",
        "create table t (a int)",
        "create table t (a int); alter table t add constraint nn not null a not valid",
    ),
    Case(
        "not null validated",
        "create table t (a int); alter table t add constraint nn not null a not valid",
        "create table t (a int constraint nn not null)",
    ),
    Case(
        "not null named",
        "create table t (a int constraint foo not null)",
        "create table t (a int not null)",
    ),
    Case(
        "not null no inherit",
        "create table t (a int not null)",
        "create table t (a int constraint x not null no inherit)",
    ),
    Case(
        "not enforced",
        f"{_R} create table t (a int)",
        f"{_R} create table t (a int, constraint f foreign key (a) references r not enforced,"
        " constraint c check (a > 0) not enforced)",
        "insert into public.t values (-1)",
    ),
    Case(
        "enforced",
        f"{_R} create table t (a int, constraint f foreign key (a) references r not enforced,"
        " constraint c check (a > 0) not enforced)",
        f"{_R} create table t (a int, constraint f foreign key (a) references r,"
        " constraint c check (a > 0))",
    ),
    Case(
        "temporal keys",
        "create extension btree_gist; create table t (a int, d daterange)",
        "create extension btree_gist; create table t (a int, d daterange, primary key"
        " (a, d without overlaps)); create table f (a int, d daterange, foreign key (a, period d)"
        " references t (a, period d))",
    ),
    Case(
        "foreign key of partitions not valid",
        f"{_R} create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10)",
        f"{_R} create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10);"
        " alter table p add constraint f foreign key (b) references r not valid",
    ),
    Case(
        "identity of partitions",
        "create table p (a int, b int) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10)",
        "create table p (a int, b int generated always as identity) partition by range (a);"
        " create table p1 partition of p for values from (0) to (10)",
    ),
)

CASES = (*TABLES, *COLUMNS, *CONSTRAINTS, *INDEXES, *SEQUENCES, *PARTITIONS, *LINEAGE)
