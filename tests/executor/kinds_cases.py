"""Micro-changes of every kind beside tables: two declarations that differ in one thing.

Each is planned in both directions. ``BASE`` stands before either side. Roles ``ptahk_a`` and
``ptahk_b`` exist.
"""

from __future__ import annotations

from typing import NamedTuple

BASE = """
create schema app;
create table public.t (id int primary key, name text, n int);
create table app.q (id int, v text);
"""


class Case(NamedTuple):
    """One change; ``rows`` is run in the live database before planning.

    ``refused`` and ``back_refused`` name the reason where a direction has no plan.
    """

    name: str
    old: str
    new: str
    rows: str = ""
    refused: str = ""
    back_refused: str = ""


_MOOD = "create type mood as enum ('sad', 'ok', 'happy');"
_MOOD_MORE = "create type mood as enum ('low', 'sad', 'so', 'ok', 'happy', 'high');"
_MOOD_ORDER = "create type mood as enum ('happy', 'ok', 'sad');"
_MOOD_USERS = """
create domain dmood as mood default 'ok';
create type pair as (a mood, b mood[]);
create table tm (id int primary key, m mood default 'sad' not null, ms mood[] default '{ok}',
    d dmood, check (m <> 'happy' or id > 0));
create index tm_m on tm (m);
create index tm_p on tm (id) where m = 'ok';
create view vm as select id, m, ms from tm where m = 'ok'::mood;
create view vvm as select * from vm;
create function fm(x mood) returns mood language sql immutable as 'select x';
create index tm_f on tm (fm(m));
create materialized view mm as select m, count(*) as c from tm group by m;
create index mm_m on mm (m);
create function tmf() returns trigger language plpgsql as $$begin return new; end$$;
create trigger tmt before update of m on tm for each row when (new.m = 'ok') execute function tmf();
create policy tmp on tm using (m <> 'happy');
comment on column tm.m is 'mood';
comment on view vm is 'moods';
grant select on vm to ptahk_a;
"""
_MOOD_ROWS = "insert into public.tm (id, m, ms, d) values (1, 'sad', '{ok,happy}', 'ok')"

_FUNCTION_USERS = """
create table tf (id int default f(1) check (f(id) > 0), g int, x text);
create index tf_i on tf (f(g));
create view vf as select f(id) as y from tf;
create view vvf as select y from vf;
create policy pf on tf using (f(id) > 1);
create domain df as int check (f(value) > 0);
create table td (d df);
create function tgf() returns trigger language plpgsql as $$begin return new; end$$;
create trigger tgt before insert on tf for each row when (f(new.id) > 2) execute function tgf();
create function calls() returns int begin atomic select f(3); end;
comment on view vvf is 'v';
"""


def _function(body: str, arguments: str = "a int", returns: str = "int", more: str = "") -> str:
    return (
        f"create function f({arguments}) returns {returns} language sql immutable {more}"
        f" as $${body}$$;"
    )


_TF = "create function tf() returns trigger language plpgsql as $$begin return new; end$$;"
_TF2 = "create function tf2() returns trigger language plpgsql as $$begin return new; end$$;"
_SFN = "create function sfn(int, int) returns int language sql immutable as 'select $1 + $2';"
_OPF = (
    "create function opf(int, text) returns bool language sql immutable as 'select true';"
    "create function opf2(int, text) returns bool language sql immutable as 'select false';"
    "create function opr(text, int) returns bool language sql immutable as 'select true';"
)
_ADDR_USER = "create table ta (id int, a addr);"
_ADDR_ROWS = "insert into public.ta values (1, row('x', 1))"

_ODD = """
create schema "we""ird.S";
create type "we""ird.S"."E %s" as enum ('a''b', 'c"d', E'e\\\\f', '%s');
comment on type "we""ird.S"."E %s" is E'back\\\\slash '' quote';
create domain "we""ird.S"."D d" as int constraint "c ""k" check (value > 0);
comment on constraint "c ""k" on domain "we""ird.S"."D d" is 'x';
create type "we""ird.S"."C c" as ("A ""t" int, "select" text);
comment on column "we""ird.S"."C c"."A ""t" is 'x';
create type "we""ird.S"."R x" as range (subtype = float8, multirange_type_name = "M ""r");
create function "we""ird.S"."F o"("X y" "we""ird.S"."E %s", b text default E'it''s \\\\') returns int
  language sql immutable as $$select 1 -- '%s' $$;
create function "we""ird.S"."o.p"("we""ird.S"."C c", "we""ird.S"."C c") returns bool
  language sql immutable as 'select true';
create operator "we""ird.S".%%= (leftarg = "we""ird.S"."C c", rightarg = "we""ird.S"."C c",
  function = "we""ird.S"."o.p", commutator = operator("we""ird.S".%%=));
comment on operator "we""ird.S".%%= ("we""ird.S"."C c", "we""ird.S"."C c") is 'x';
create aggregate "we""ird.S"."A gg"(int) (sfunc = int4pl, stype = int, initcond = '0');
create table "we""ird.S"."T.t" ("I d" int, "e" "we""ird.S"."E %s" default 'a''b');
create view "we""ird.S"."V.1" as select "I d", "e" as "%s" from "we""ird.S"."T.t";
comment on column "we""ird.S"."V.1"."%s" is 'x';
create materialized view "we""ird.S"."M v" as select "I d" from "we""ird.S"."T.t";
create rule "R u" as on delete to "we""ird.S"."T.t" do instead nothing;
create function "we""ird.S"."t f"() returns trigger language plpgsql as 'begin return new; end';
create trigger "T g" before update of "I d" on "we""ird.S"."T.t" for each row
  execute function "we""ird.S"."t f"('a''b');
alter table "we""ird.S"."T.t" disable trigger "T g";
create policy "p ""q" on "we""ird.S"."T.t" using ("I d" > 0);
grant select ("%s") on "we""ird.S"."V.1" to ptahk_a;
grant usage on schema "we""ird.S" to ptahk_b;
grant execute on function "we""ird.S"."F o" to ptahk_a with grant option;
alter default privileges in schema "we""ird.S" grant select on tables to ptahk_a;
"""

CASES = (
    Case("odd names", "", _ODD),
    Case("odd enum values", _ODD, _ODD.replace("'c\"d'", "'c\"d', 'more %', 'x''y'")),
    Case("odd enum order", _ODD, _ODD.replace("'a''b', 'c\"d'", "'c\"d', 'a''b'")),
    # schemas
    Case("schema", "", "create schema other; create table other.x (id int);"),
    Case("schema comment", "", "comment on schema app is 'it''s';"),
    # extensions
    Case("extension", "", "create extension citext;"),
    Case(
        "extension with users",
        "",
        "create extension citext schema app; create table c (x app.citext);",
    ),
    Case(
        "extension moves",
        "create extension pg_trgm;",
        "create extension pg_trgm schema app;",
    ),
    Case(
        "extension comment",
        "create extension citext;",
        "create extension citext;comment on extension citext is 'ours';",
    ),
    # enums
    Case("enum", "", _MOOD),
    Case("enum values", _MOOD, _MOOD_MORE),
    Case("enum value first", _MOOD, "create type mood as enum ('a', 'sad', 'ok', 'happy');"),
    Case("enum order", _MOOD, _MOOD_ORDER),
    Case("enum empty", "create type mood as enum ();", _MOOD),
    Case("enum comment", _MOOD, _MOOD + "comment on type mood is 'm';"),
    Case("enum values with users", _MOOD + _MOOD_USERS, _MOOD_MORE + _MOOD_USERS, _MOOD_ROWS),
    Case("enum order with users", _MOOD + _MOOD_USERS, _MOOD_ORDER + _MOOD_USERS, _MOOD_ROWS),
    Case(
        "enum value used at once",
        _MOOD + "create table tm (id int, m mood);",
        _MOOD_MORE + "create table tm (id int, m mood default 'low' check (m <> 'high'));"
        "create view vm as select * from tm where m = 'so';",
    ),
    Case(
        "enum becomes text",
        _MOOD + "create table tm (id int, m mood);",
        "create table tm (id int, m text);",
        "insert into public.tm values (1, 'ok')",
    ),
    Case("enum becomes domain", "create type x as enum ('a');", "create domain x as text;"),
    # domains
    Case("domain", "", "create domain d as int default 3 not null check (value > 0);"),
    Case("domain default", "create domain d as int;", "create domain d as int default 7;"),
    Case(
        "domain other default",
        "create domain d as int default 1;",
        "create domain d as int default 2;",
    ),
    Case("domain not null", "create domain d as int;", "create domain d as int not null;"),
    Case(
        "domain check",
        "create domain d as int;",
        "create domain d as int constraint c check (value > 1);",
    ),
    Case(
        "domain other check",
        "create domain d as int constraint c check (value > 2);",
        "create domain d as int constraint c check (value > 1);",
    ),
    Case(
        "domain not valid",
        "create domain d as int; create table dt (x d);",
        "create domain d as int; create table dt (x d);"
        "alter domain d add constraint c check (value > 1) not valid;",
    ),
    Case(
        "domain validate",
        "create domain d as int; create table dt (x d);"
        "alter domain d add constraint c check (value > 1) not valid;",
        "create domain d as int; create table dt (x d);"
        "alter domain d add constraint c check (value > 1);",
    ),
    Case("domain collation", "create domain d as text;", 'create domain d as text collate "C";'),
    Case("domain base", "create domain d as int;", "create domain d as bigint;"),
    Case(
        "domain base with users",
        "create domain d as int check (value > 0); create table dt (id int, x d);"
        "create view dv as select x from dt; create index di on dt (x);",
        "create domain d as bigint check (value > 0); create table dt (id int, x d);"
        "create view dv as select x from dt; create index di on dt (x);",
        "insert into public.dt values (1, 5)",
    ),
    Case(
        "domain comments",
        "create domain d as int constraint c check (value > 1);",
        "create domain d as int constraint c check (value > 1);"
        "comment on domain d is 'd'; comment on constraint c on domain d is 'c';",
    ),
    Case(
        "domain over domain",
        "create domain d as int; create domain e as d check (value > 1);",
        "create domain d as bigint; create domain e as d check (value > 1);",
    ),
    Case("domain of typmod", "create domain d as varchar(10);", "create domain d as varchar(20);"),
    # composites
    Case("composite", "", 'create type addr as (street text collate "C", no int);'),
    Case("composite empty", "create type addr as ();", "create type addr as (a int);"),
    Case(
        "composite attribute",
        "create type addr as (s text, no int);",
        "create type addr as (s text, no int, z text);",
    ),
    Case(
        "composite attribute with rows",
        "create type addr as (s text, no int);" + _ADDR_USER,
        "create type addr as (s text, no int, z text);" + _ADDR_USER,
        "insert into public.ta (id) values (1)",
    ),
    Case(
        "composite attribute type",
        "create type addr as (s text, no int);",
        "create type addr as (s text, no bigint);",
    ),
    Case(
        "composite attribute type with rows",
        "create type addr as (s text, no int);" + _ADDR_USER,
        "create type addr as (s text, no bigint);" + _ADDR_USER,
        _ADDR_ROWS,
    ),
    Case(
        "composite order with rows",
        "create type addr as (s text, no int);" + _ADDR_USER,
        "create type addr as (no int, s text);" + _ADDR_USER,
    ),
    Case(
        "composite used by function",
        "create type addr as (s text, no int);"
        "create function fa(addr) returns text language sql as 'select ($1).s';"
        "create view va as select (row('a', 1)::addr).no as z;",
        "create type addr as (s text);"
        "create function fa(addr) returns text language sql as 'select ($1).s';"
        "create view va as select (row('a')::addr).s as z;",
    ),
    Case(
        "composite comments",
        "create type addr as (s text, no int);",
        "create type addr as (s text, no int); comment on type addr is 'a';"
        "comment on column addr.s is 's';",
    ),
    # ranges
    Case("range", "", "create type r as range (subtype = float8, subtype_diff = float8mi);"),
    Case(
        "range diff",
        "create type r as range (subtype = float8);",
        "create type r as range (subtype = float8, subtype_diff = float8mi);",
    ),
    Case(
        "range multirange",
        "create type r as range (subtype = float8);",
        "create type r as range (subtype = float8, multirange_type_name = rr);",
    ),
    Case(
        "range collation",
        "create type r as range (subtype = text);",
        'create type r as range (subtype = text, collation = "C");',
    ),
    Case(
        "range with users",
        "create type r as range (subtype = float8); create table rt (id int, x r, y r_multirange);"
        "create view rv as select r(1, 2) as z from rt;",
        "create type r as range (subtype = float8, subtype_diff = float8mi);"
        "create table rt (id int, x r, y r_multirange);"
        "create view rv as select r(1, 2) as z from rt;",
        "insert into public.rt values (1, '[1,2)', '{[1,2)}')",
    ),
    Case(
        "range comment",
        "create type r as range (subtype = float8);",
        "create type r as range (subtype = float8); comment on type r is 'r';",
    ),
    # functions and procedures
    Case("function", "", _function("select 1")),
    Case("function body", _function("select 1"), _function("select 2")),
    Case("function result", _function("select 1"), _function("select 1", returns="bigint")),
    Case("function argument name", _function("select 1"), _function("select 1", "b int")),
    Case("function named argument", _function("select 1", "int"), _function("select 1", "b int")),
    Case("function default", _function("select 1"), _function("select 1", "a int default 3")),
    Case(
        "function out",
        _function("select 1, 2", "a int, out x int, out y int", "record"),
        _function("select 1, 2", "a int, out x int, out z int", "record"),
    ),
    Case(
        "function attributes",
        _function("select 1"),
        _function("select 1", more="strict parallel safe cost 5 leakproof set work_mem = '1MB'"),
    ),
    Case(
        "function language",
        _function("select 1"),
        "create function f(a int) returns int language plpgsql immutable"
        " as $$begin return 1; end$$;",
    ),
    Case(
        "function overload",
        _function("select 1"),
        _function("select 1") + _function("select 2", "a text"),
    ),
    Case(
        "function to procedure",
        _function("select 1"),
        "create procedure f(a int) language sql as $$select 1$$;",
    ),
    Case(
        "function atomic",
        "create function f() returns bigint begin atomic select count(*) from t; end;",
        "create function f() returns bigint begin atomic select max(n) from t; end;",
    ),
    Case(
        "function body with users",
        _function("select 1") + _FUNCTION_USERS,
        _function("select a") + _FUNCTION_USERS,
    ),
    Case(
        "function rebuilt with users",
        _function("select 1") + _FUNCTION_USERS,
        _function("select 1", "z int") + _FUNCTION_USERS,
        "insert into public.tf (g) values (1)",
    ),
    Case("function dropped with users", _function("select 1") + _FUNCTION_USERS, ""),
    Case(
        "function setof table",
        "",
        "create function f() returns setof t language sql as 'select * from t';",
    ),
    Case(
        "function comment",
        _function("select 1"),
        _function("select 1") + "comment on function f(int) is 'f';",
    ),
    Case("function variadic", "", _function("select 1", "variadic a int[]")),
    Case(
        "window function",
        "",
        "create function w() returns bigint language internal window as 'window_row_number';",
    ),
    Case(
        "procedure",
        "",
        "create procedure p(a int, inout b text) language plpgsql as"
        " $$begin end$$; comment on procedure p is 'p';",
    ),
    Case(
        "procedure body",
        "create procedure p(a int) language plpgsql as $$begin end$$;",
        "create procedure p(a int) language plpgsql as $$begin null; end$$;",
    ),
    # aggregates and operators
    Case(
        "aggregate",
        "",
        _SFN + "create aggregate agg(int) (sfunc = sfn, stype = int,"
        " initcond = '0', parallel = safe, combinefunc = sfn);",
    ),
    Case(
        "aggregate initial",
        _SFN + "create aggregate agg(int) (sfunc = sfn, stype = int);",
        _SFN + "create aggregate agg(int) (sfunc = sfn, stype = int, initcond = '5');",
    ),
    Case(
        "aggregate result",
        "create aggregate agg(int) (sfunc = int4_avg_accum, stype = int8[], initcond = '{0,0}');",
        "create aggregate agg(int) (sfunc = int4_avg_accum, stype = int8[], finalfunc = int8_avg,"
        " initcond = '{0,0}');",
    ),
    Case(
        "aggregate star",
        "",
        "create aggregate cnt(*) (sfunc = int8inc, stype = int8,"
        " initcond = '0'); comment on aggregate cnt(*) is 'c';",
    ),
    Case(
        "aggregate ordered",
        "",
        "create aggregate pct(float8 order by anyelement)"
        " (sfunc = ordered_set_transition, stype = internal, finalfunc = percentile_disc_final,"
        " finalfunc_extra);",
    ),
    Case(
        "aggregate in view",
        _SFN + "create aggregate agg(int) (sfunc = sfn, stype = int);"
        "create view av as select agg(n) as x from t;",
        _SFN + "create aggregate agg(z int) (sfunc = sfn, stype = int);"
        "create view av as select agg(n) as x from t;",
    ),
    Case(
        "operator",
        "",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf);",
    ),
    Case(
        "operator links",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf);",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf,"
        " commutator = ==>, negator = !==);"
        "create operator ==> (leftarg = text, rightarg = int, function = opr);"
        "create operator !== (leftarg = int, rightarg = text, function = opf2);",
    ),
    Case(
        "operator hints",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf);",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf,"
        " restrict = eqsel, join = eqjoinsel);",
    ),
    Case(
        "operator function",
        _OPF + "create operator === (leftarg = int, rightarg = text,"
        " function = opf); create view ov as select 1 === 'a'::text as x;",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf2);"
        "create view ov as select 1 === 'a'::text as x;",
    ),
    Case(
        "operator merges",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf);",
        _OPF + "create operator === (leftarg = int, rightarg = text, function = opf, hashes,"
        " merges);",
    ),
    # views
    Case("view", "", "create view v as select id, name as nm from t where n > 0;"),
    Case(
        "view condition",
        "create view v as select id from t;",
        "create view v as select id from t where n > 1;",
    ),
    Case(
        "view column more",
        "create view v as select id from t;",
        "create view v as select id, name from t;",
    ),
    Case(
        "view column type",
        "create view v as select id from t;",
        "create view v as select id::bigint from t;",
    ),
    Case(
        "view on view",
        "create view v as select id, n from t; create view w as select n from v;"
        "comment on view w is 'w'; grant select on w to ptahk_a;",
        "create view v as select n, id from t; create view w as select n from v;"
        "comment on view w is 'w'; grant select on w to ptahk_a;",
    ),
    Case(
        "view options",
        "create view v as select id from t;",
        "create view v with (security_barrier, security_invoker = true) as select id from t"
        " with cascaded check option;",
    ),
    Case(
        "view option changes",
        "create view v with (security_barrier) as select id from t;",
        "create view v as select id from t with local check option;",
    ),
    Case(
        "view column extras",
        "create view v as select id, name from t;",
        "create view v as select id, name from t; alter view v alter column name"
        " set default 'x'; comment on column v.name is 'n'; comment on view v is 'v';",
    ),
    Case("view to table", "create view v as select id from t;", "create table v (id int);"),
    Case(
        "view to materialized view",
        "create view v as select id from t;",
        "create materialized view v as select id from t;",
    ),
    Case(
        "view column grants",
        "create view v as select id, name from t;",
        "create view v as select id, name from t; grant select (id), update (name) on v"
        " to ptahk_a;",
    ),
    Case(
        "materialized view",
        "",
        "create materialized view m as select id, n from t;create unique index m_id on m (id);",
    ),
    Case(
        "materialized view query",
        "create materialized view m as select id, n from t;"
        "create unique index m_id on m (id); create view mv as select id from m;"
        "comment on materialized view m is 'm'; grant select on m to ptahk_a;",
        "create materialized view m as select id, n from t where n > 1;"
        "create unique index m_id on m (id); create view mv as select id from m;"
        "comment on materialized view m is 'm'; grant select on m to ptahk_a;",
    ),
    Case(
        "materialized view options",
        "create materialized view m as select id, name from t;",
        "create materialized view m with (fillfactor = 70) as select id, name from t;"
        "alter materialized view m alter column id set statistics 50;"
        "alter materialized view m alter column name set storage external;"
        "alter materialized view m alter column id set (n_distinct = 7);"
        "comment on column m.id is 'i';",
    ),
    Case(
        "materialized view not filled",
        "create materialized view m as select id from t;",
        "create materialized view m as select id from t with no data;",
    ),
    # rules and triggers
    Case(
        "rule",
        "",
        "create rule r as on insert to t where new.id = 5 do also"
        " insert into app.q values (new.id, new.name);",
    ),
    Case(
        "rule changes",
        "create rule r as on update to t do also notify x;",
        "create rule r as on update to t do instead nothing;",
    ),
    Case(
        "rule state",
        "create rule r as on update to t do also notify x;",
        "create rule r as on update to t do also notify x; alter table t disable rule r;"
        "comment on rule r on t is 'r';",
    ),
    Case(
        "rule on view",
        "create view v as select id from t;",
        "create view v as select id from t;"
        "create rule r as on delete to v do instead delete from t where id = old.id;",
    ),
    Case(
        "rule on rebuilt view",
        "create view v as select id, n from t;"
        "create rule r as on delete to v do instead delete from t where id = old.id;",
        "create view v as select n, id from t;"
        "create rule r as on delete to v do instead delete from t where id = old.id;",
    ),
    Case(
        "trigger",
        _TF,
        _TF + "create trigger g before insert or update of name on t"
        " for each row when (new.id > 3) execute function tf('a', 'b');",
    ),
    Case(
        "trigger changes",
        _TF + "create trigger g before insert on t for each row execute function tf();",
        _TF + _TF2 + "create trigger g after insert or delete on t for each statement"
        " execute function tf2();",
    ),
    Case(
        "trigger state",
        _TF + "create trigger g before insert on t for each row execute function tf();",
        _TF + "create trigger g before insert on t for each row execute function tf();"
        "alter table t enable always trigger g; comment on trigger g on t is 'g';",
    ),
    Case(
        "trigger disabled and changed",
        _TF + "create trigger g before insert on t for each row"
        " execute function tf(); alter table t disable trigger g;",
        _TF + "create trigger g after insert on t for each row execute function tf();"
        "alter table t disable trigger g;",
    ),
    Case(
        "constraint trigger",
        _TF + "create constraint trigger g after insert on t for each row execute function tf();",
        _TF + "create constraint trigger g after insert on t deferrable initially deferred"
        " for each row execute function tf();",
    ),
    Case(
        "trigger transition",
        _TF,
        _TF + "create trigger g after update on t referencing"
        " old table as o new table as w for each statement execute function tf();",
    ),
    Case(
        "trigger on view",
        _TF + "create view v as select id, n from t;"
        "create trigger g instead of insert on v for each row execute function tf();",
        _TF + "create view v as select n, id from t;"
        "create trigger g instead of insert on v for each row execute function tf();",
    ),
    Case(
        "trigger on partitioned",
        _TF + "create table pt (id int) partition by range (id);"
        "create table pt1 partition of pt for values from (0) to (9);",
        _TF + "create table pt (id int) partition by range (id);"
        "create table pt1 partition of pt for values from (0) to (9);"
        "create trigger g before insert on pt for each row execute function tf();",
    ),
    # policies
    Case(
        "policy",
        "",
        "create policy p on t for select to ptahk_a using (id > 1);"
        "create policy q on t as restrictive for update to ptahk_a, ptahk_b using (true)"
        " with check (n > 0);",
    ),
    Case(
        "policy condition",
        "create policy p on t using (id > 1);",
        "create policy p on t using (id > 2) with check (id > 3);",
    ),
    Case(
        "policy roles",
        "create policy p on t using (id > 1);",
        "create policy p on t to ptahk_a using (id > 1);",
    ),
    Case(
        "policy command",
        "create policy p on t using (id > 1);",
        "create policy p on t for delete using (id > 1); comment on policy p on t is 'p';",
    ),
    # owners and grants
    Case(
        "grants on tables",
        "",
        "grant select, insert on t to ptahk_a;"
        "grant update (name, n) on t to ptahk_b; grant select on t to public;",
    ),
    Case(
        "grant options",
        "grant select on t to ptahk_a with grant option;grant insert on t to ptahk_a;",
        "grant select on t to ptahk_a; grant insert on t to ptahk_a with grant option;",
    ),
    Case(
        "grants on everything else",
        _MOOD + _SFN + "create sequence s; create domain d as int; create view v as select 1 as a;"
        "create procedure p() language sql as '';"
        "create aggregate agg(int) (sfunc = sfn, stype = int); create type c as (a int);",
        _MOOD + _SFN + "create sequence s; create domain d as int; create view v as select 1 as a;"
        "create procedure p() language sql as '';"
        "create aggregate agg(int) (sfunc = sfn, stype = int); create type c as (a int);"
        "grant usage on sequence s to ptahk_a; grant usage on domain d to ptahk_a;"
        "revoke all on type mood from public; grant select on v to ptahk_a;"
        "revoke all on function sfn from public; grant execute on procedure p to ptahk_a;"
        "grant execute on function agg(int) to ptahk_b; grant usage, create on schema app"
        " to ptahk_a; grant usage on type c to ptahk_a;",
    ),
    Case("owner without rights", "", "revoke all on t from postgres;"),
    Case(
        "owners",
        _MOOD + _SFN + "create sequence s; create domain d as int; create view v as select 1 as a;"
        "create materialized view m as select 1 as a; create procedure p() language sql as '';"
        "create aggregate agg(int) (sfunc = sfn, stype = int); create type c as (a int);"
        "create type r as range (subtype = int);"
        + _OPF
        + "create operator === (leftarg = int, rightarg = text, function = opf);"
        "grant select on v to ptahk_a;",
        _MOOD + _SFN + "create sequence s; create domain d as int; create view v as select 1 as a;"
        "create materialized view m as select 1 as a; create procedure p() language sql as '';"
        "create aggregate agg(int) (sfunc = sfn, stype = int); create type c as (a int);"
        "create type r as range (subtype = int);"
        + _OPF
        + "create operator === (leftarg = int, rightarg = text, function = opf);"
        "grant select on v to ptahk_b;"
        "alter sequence s owner to ptahk_a; alter domain d owner to ptahk_a;"
        "alter view v owner to ptahk_a; alter materialized view m owner to ptahk_a;"
        "alter procedure p owner to ptahk_a; alter aggregate agg(int) owner to ptahk_a;"
        "alter type c owner to ptahk_a; alter type r owner to ptahk_a;"
        "alter operator === (int, text) owner to ptahk_a; alter table t owner to ptahk_a;"
        "alter type mood owner to ptahk_b; alter function sfn owner to ptahk_b;"
        "alter schema app owner to ptahk_a;",
    ),
    Case(
        "default privileges",
        "",
        "alter default privileges in schema app grant select on tables to ptahk_a;"
        "alter default privileges in schema app grant usage on sequences to ptahk_b"
        " with grant option;",
    ),
    Case(
        "default privileges change",
        "alter default privileges in schema app grant select, insert on tables to ptahk_a;",
        "alter default privileges in schema app grant select on tables to ptahk_b;"
        "create table app.fresh (id int); grant insert on app.fresh to ptahk_b;"
        "create function app.g() returns int language sql as 'select 1';",
    ),
)
