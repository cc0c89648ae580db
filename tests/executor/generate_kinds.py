"""Random schema pairs of the kinds beside tables, made to depend on one another.

Where ``generate`` draws many tables, this draws types, routines, views and grants that use each
other: domains over enums, functions over composites, operators, aggregates in views, policies and
triggers that call functions. Slots work as there: the same seed makes the same pair everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.executor.generate import ROLES, Pair, Slots

_LABELS = ("new", "open", "done", "it's so", "Odd One")
_A, _B = ROLES


@dataclass
class Writer:
    """Draws one schema; every method adds statements and remembers what exists."""

    slots: Slots
    version: int
    sql: list[str] = field(default_factory=list)
    enums: dict[str, list[str]] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    """Types that a column may have."""
    functions: dict[str, str] = field(default_factory=dict)
    """Name → type of its one argument; all are immutable."""
    tables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    views: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    grantable: list[tuple[str, str]] = field(default_factory=list)
    """What GRANT names, and a privilege of it."""
    ownable: list[str] = field(default_factory=list)

    def write(self) -> str:
        self.sql.append("create schema app;")
        self.grantable.append(("schema app", "usage"))
        self._extension()
        self._enums()
        self._domains()
        self._composites()
        self._ranges()
        for name in ("f0", "f1", "f2", "f3"):
            self._function(name)
        self._guarded_domain()
        self._more_routines()
        for name in ("t0", "t1", "t2"):
            self._table(name)
        self._table_function()
        for name in ("v0", "v1", "v2", "v3"):
            self._view(name)
        for name in ("m0", "m1"):
            self._matview(name)
        for name in sorted(self.tables):
            self._guards(name)
        self._rights()
        return "\n".join(self.sql)

    def _r(self, slot: str) -> Random:
        return self.slots.random(f"k/{slot}")

    def _schema(self, name: str) -> str:
        return Random(f"{self.slots.seed}/k/{name}/schema").choice(["public", "public", "app"])

    def _comment(self, slot: str, what: str) -> None:
        r = self._r(f"{slot}/comment")
        if r.random() < 0.25:
            self.sql.append(f"comment on {what} is '{r.choice(['one', 'two'])}';")

    def _extension(self) -> None:
        r = self._r("extension")
        if r.random() < 0.25:
            self.sql.append(f"create extension citext schema {r.choice(['public', 'app'])};")

    def _enums(self) -> None:
        for name in ("e0", "e1"):
            r = self._r(name)
            if r.random() < 0.1:
                continue
            labels = [label for label in _LABELS if r.random() < 0.7] or ["new"]
            if r.random() < 0.3:
                r.shuffle(labels)
            full = f"{self._schema(name)}.{name}"
            self.sql.append(f"create type {full} as enum ({', '.join(map(_literal, labels))});")
            self.enums[full] = labels
            self.types += [full, full, f"{full}[]"]
            self.grantable.append((f"type {full}", "usage"))
            self.ownable.append(f"type {full}")
            self._comment(name, f"type {full}")

    def _domains(self) -> None:
        for name in ("d0", "d1", "d2"):
            r = self._r(name)
            if r.random() < 0.2:
                continue
            bases = ["int", "bigint", "text", "varchar(20)"] + [*self.enums] * 2
            bases += [t for t in self.types if ".d" in t and "[]" not in t]
            base = r.choice(bases)
            full = f"{self._schema(name)}.{name}"
            text = f"create domain {full} as {base}"
            if base == "text" and r.random() < 0.3:
                text += ' collate "C"'
            if base in self.enums and r.random() < 0.5:
                text += f" default {_literal(r.choice(self.enums[base]))}"
            if base in ("int", "bigint"):
                if r.random() < 0.4:
                    text += f" default {r.choice('12')}"
                if r.random() < 0.5:
                    text += f" constraint small check (value < {r.choice(['100', '200'])})"
            elif r.random() < 0.3:
                text += " constraint filled check (value::text <> 'x')"
            self.sql.append(text + ";")
            if base == "int" and r.random() < 0.3:
                late = r.choice(["", " not valid"])
                self.sql.append(f"alter domain {full} add constraint big check (value > -9){late};")
            self.types += [full, full]
            self.grantable.append((f"type {full}", "usage"))
            self.ownable.append(f"domain {full}")
            self._comment(name, f"domain {full}")

    def _composites(self) -> None:
        for name in ("c0", "c1"):
            r = self._r(name)
            if r.random() < 0.2:
                continue
            members = [f"p{i} {r.choice(['int', 'text', 'bigint', *self.types])}" for i in range(4)]
            members = [one for one in members if r.random() < 0.7] or ["p int"]
            full = f"{self._schema(name)}.{name}"
            self.sql.append(f"create type {full} as ({', '.join(members)});")
            self.types.append(full)
            self.grantable.append((f"type {full}", "usage"))
            self.ownable.append(f"type {full}")
            self._comment(name, f"column {full}.{members[0].split()[0]}")

    def _ranges(self) -> None:
        r = self._r("r0")
        if r.random() < 0.6:
            full = f"{self._schema('r0')}.r0"
            more = r.choice(["subtype = int", "subtype = float8", "subtype = text"])
            if "float8" in more and r.random() < 0.5:
                more += ", subtype_diff = float8mi"
            self.sql.append(f"create type {full} as range ({more});")
            self.types.append(full)
            self.ownable.append(f"type {full}")

    def _function(self, name: str) -> None:
        r = self._r(name)
        if r.random() < 0.1:
            return
        argument = r.choice(["int", "int", "text", *[t for t in self.types if "[]" not in t]])
        if r.random() < 0.6:
            argument = "int"
        schema = self._schema(name)
        label = r.choice(["x", "x", "y"])
        body = r.choice(["select 1", "select 2", "select 1 + 1"])
        marks = r.choice(["immutable", "immutable parallel safe", "immutable cost 7"])
        default = " default null" if r.random() < 0.2 else ""
        self.sql.append(
            f"create function {schema}.{name}({label} {argument}{default}) returns int"
            f" language sql {marks} as $${body}$$;"
        )
        self.functions[f"{schema}.{name}"] = argument
        called = f"function {schema}.{name}({argument})"
        self.grantable.append((called, "execute"))
        self.ownable.append(called)
        self._comment(name, called)

    def _calls(self, argument: str) -> list[str]:
        return [name for name, takes in self.functions.items() if takes == argument]

    def _guarded_domain(self) -> None:
        r = self._r("guarded")
        calls = self._calls("int")
        if calls and r.random() < 0.5:
            self.sql.append(
                f"create domain public.dg as int constraint g check"
                f" ({r.choice(calls)}(value) > {r.choice('01')});"
            )
            self.types.append("public.dg")

    def _more_routines(self) -> None:
        r = self._r("procedure")
        if r.random() < 0.6:
            kind = r.choice(["int", *self.types])
            self.sql.append(
                f"create procedure app.pr({r.choice('xy')} {kind}, inout z int) language plpgsql"
                f" as $$begin z := {r.choice('12')}; end$$;"
            )
            self.grantable.append((f"procedure app.pr({kind}, int)", "execute"))
        r = self._r("aggregate")
        self.sql.append(
            "create function public.sf(int, int) returns int language sql immutable as"
            f" 'select $1 + {r.choice(['$2', '$2 + 0'])}';"
        )
        if r.random() < 0.6:
            options = r.choice(["", ", initcond = '0'", ", initcond = '1', parallel = safe"])
            self.sql.append(
                f"create aggregate public.ag({r.choice(['', 'x '])}int)"
                f" (sfunc = public.sf, stype = int{options});"
            )
            self.functions["public.ag"] = "aggregate"
        r = self._r("operator")
        if r.random() < 0.6:
            self._operators(r)
        for name in ("tf0", "tf1"):
            r = self._r(name)
            self.sql.append(
                f"create function public.{name}() returns trigger language plpgsql as"
                f" $${r.choice(['begin return new; end', 'begin return null; end'])}$$;"
            )

    def _operators(self, r: Random) -> None:
        self.sql.append(
            "create function public.of0(int, text) returns bool language sql immutable as"
            f" 'select {r.choice(['true', 'false'])}';"
            "create function public.of1(text, int) returns bool language sql immutable as"
            " 'select true';"
        )
        links, other = "", ""
        if r.random() < 0.5:
            links += ", commutator = operator(public.<==)"
            other += (
                "create operator public.<== (leftarg = text, rightarg = int,"
                " function = public.of1, commutator = operator(public.==>));"
            )
        if r.random() < 0.3:
            links += ", negator = operator(public.!=>)"
            other += (
                "create operator public.!=> (leftarg = int, rightarg = text,"
                " function = public.of0, negator = operator(public.==>));"
            )
        if r.random() < 0.3:
            links += ", restrict = eqsel, join = eqjoinsel"
        self.sql.append(
            "create operator public.==> (leftarg = int, rightarg = text, function = public.of0"
            f"{links}); {other}"
        )
        self.ownable.append("operator public.==> (int, text)")
        self.functions["public.==>"] = "operator"

    def _table(self, name: str) -> None:
        r = self._r(name)
        full = f"{self._schema(name)}.{name}"
        columns = [("id", "int")]
        parts = ["id int primary key"]
        for column in ("a", "b", "c", "d", "e"):
            r = self._r(f"{name}.{column}")
            if r.random() < 0.25:
                continue
            kind = r.choice(["int", "text", *self.types, *self.types])
            text = f"{column} {kind}"
            if kind in self.enums and r.random() < 0.6:
                text += f" default {_literal(r.choice(self.enums[kind]))}"
            elif kind == "int" and self._calls("int") and r.random() < 0.4:
                text += f" default {r.choice(self._calls('int'))}(1)"
            parts.append(text)
            columns.append((column, kind))
        for column, kind in columns[1:]:
            r = self._r(f"{name}.{column}.check")
            if self._calls(kind) and r.random() < 0.3:
                parts.append(f"check ({r.choice(self._calls(kind))}({column}) >= 0)")
        self.sql.append(f"create table {full} ({', '.join(parts)});")
        self.tables[full] = columns
        self.grantable += [(full, "select"), (full, "insert, update")]
        self.ownable.append(f"table {full}")
        for column, kind in columns[1:]:
            r = self._r(f"{name}.{column}.index")
            if self._calls(kind) and r.random() < 0.3:
                call = f"{r.choice(self._calls(kind))}({column})"
                self.sql.append(f"create index {name}_{column} on {full} ({call});")
            elif kind in self.enums and r.random() < 0.5:
                label = _literal(r.choice(self.enums[kind]))
                self.sql.append(
                    f"create index {name}_{column} on {full} (id) where {column} = {label};"
                )

    def _table_function(self) -> None:
        r = self._r("setof")
        if r.random() < 0.6:
            table = r.choice(sorted(self.tables))
            self.sql.append(
                f"create function public.every() returns setof {table} language sql stable"
                f" as 'select * from {table}';"
                f"create function public.one(x {table}) returns int language sql immutable"
                f" as 'select {r.choice('12')}';"
            )
            self.functions["public.one"] = table
        r = self._r("atomic")
        if r.random() < 0.5:
            table = r.choice(sorted(self.tables))
            column, kind = r.choice(self.tables[table])
            self.sql.append(
                f"create function public.atom() returns {kind} begin atomic"
                f" select max({column}::text) from {table}; select null::{kind}; end;"
            )

    def _view(self, name: str) -> None:
        r = self._r(name)
        if r.random() < 0.12:
            return
        source, columns = r.choice([*self.tables.items(), *self.views.items()])
        chosen = [c for c in columns if r.random() < 0.75] or columns[:1]
        items = [c for c, _ in chosen]
        made = list(chosen)
        for column, kind in columns:
            if self._calls(kind) and r.random() < 0.3 and f"{column}z" not in items:
                items.append(f"{r.choice(self._calls(kind))}({column}) as {column}z")
                made.append((f"{column}z", "int"))
        if "public.==>" in self.functions and r.random() < 0.3:
            items.append("1 operator(public.==>) 'x'::text as opq")
            made = [m for m in made if m[0] != "opq"]
            items = [i for i in items if i != "opq"]
            made.append(("opq", "bool"))
        if r.random() < 0.2:
            r.shuffle(items)
        tail = ""
        enums = [(c, k) for c, k in columns if k in self.enums]
        if enums and r.random() < 0.5:
            column, kind = r.choice(enums)
            tail = f" where {column} = {_literal(r.choice(self.enums[kind]))}"
        full = f"{self._schema(name)}.{name}"
        options = r.choice(["", "", " with (security_barrier)", " with (security_invoker = true)"])
        self.sql.append(
            f"create view {full}{options} as select {', '.join(items)} from {source}{tail};"
        )
        self.views[full] = made
        self.grantable += [(full, "select"), (full, f"select ({made[0][0]})")]
        self._comment(name, f"view {full}")
        self._comment(f"{name}.column", f"column {full}.{made[0][0]}")
        if r.random() < 0.2:
            self.sql.append(
                f"create trigger vt instead of insert on {full} for each row"
                " execute function public.tf0();"
            )
        elif r.random() < 0.2:
            self.sql.append(f"create rule vr as on delete to {full} do instead nothing;")

    def _matview(self, name: str) -> None:
        r = self._r(name)
        if r.random() < 0.4:
            return
        source, columns = r.choice([*self.tables.items(), *self.views.items()])
        plain = [c for c, k in columns if k in ("int", "text", "bool") or k in self.enums]
        if not plain:
            return
        items = [c for c in plain if r.random() < 0.8] or plain[:1]
        full = f"public.{name}"
        if "public.ag" in self.functions and r.random() < 0.4:
            self.sql.append(
                f"create materialized view {full} as select {items[0]}, public.ag(1) as s"
                f" from {source} group by {items[0]};"
            )
        else:
            options = r.choice(["", " with (fillfactor = 80)"])
            self.sql.append(
                f"create materialized view {full}{options} as select {', '.join(items)}"
                f" from {source};"
            )
        if r.random() < 0.6:
            self.sql.append(f"create index {name}_i on {full} ({items[0]});")
        self.grantable.append((full, "select"))
        self._comment(name, f"materialized view {full}")

    def _guards(self, full: str) -> None:
        columns = self.tables[full]
        r = self._r(f"{full}.trigger")
        if r.random() < 0.5:
            column, kind = r.choice(columns)
            when = ""
            if self._calls(kind):
                when = f" when ({r.choice(self._calls(kind))}(new.{column}) > 0)"
            function = r.choice(["tf0", "tf1"])
            head = r.choice(["create trigger tg before", "create constraint trigger tg after"])
            self.sql.append(
                f"{head} insert or update on {full} for each row{when}"
                f" execute function public.{function}();"
            )
            if r.random() < 0.3:
                state = r.choice(["disable", "enable always", "enable replica"])
                self.sql.append(f"alter table {full} {state} trigger tg;")
            self._comment(f"{full}.trigger", f"trigger tg on {full}")
        r = self._r(f"{full}.policy")
        if r.random() < 0.5:
            column, kind = r.choice(columns)
            test = f"id > {r.choice('12')}"
            if self._calls(kind):
                test = f"{r.choice(self._calls(kind))}({column}) > 0"
            elif kind in self.enums:
                test = f"{column} <> {_literal(r.choice(self.enums[kind]))}"
            form = r.choice(["", " as restrictive", " for select", " for update"])
            roles = r.choice(["", f" to {_A}", f" to {_A}, {_B}"])
            self.sql.append(f"create policy po on {full}{form}{roles} using ({test});")
        r = self._r(f"{full}.rule")
        if r.random() < 0.25:
            action = r.choice(["do instead nothing", "do also notify x"])
            self.sql.append(f"create rule ru as on delete to {full} {action};")
            if r.random() < 0.3:
                self.sql.append(f"alter table {full} disable rule ru;")

    def _rights(self) -> None:
        for what, privilege in self.grantable:
            r = self._r(f"{what}.{privilege}.grant")
            if r.random() < 0.2:
                option = " with grant option" if r.random() < 0.3 else ""
                self.sql.append(f"grant {privilege} on {what} to {r.choice(ROLES)}{option};")
            elif privilege in ("execute", "usage") and r.random() < 0.1:
                self.sql.append(f"revoke all on {what} from public;")
        for what in self.ownable:
            r = self._r(f"{what}.owner")
            if r.random() < 0.07:
                self.sql.append(f"alter {what} owner to {r.choice(ROLES)};")
        for number, words in enumerate(
            (
                f"in schema app grant select on tables to {_A}",
                f"in schema public grant execute on functions to {_B} with grant option",
                f"for role {_A} in schema app grant usage on types to {_B}",
            )
        ):
            if self._r(f"default{number}").random() < 0.12:
                self.sql.append(f"alter default privileges {words};")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def pair(seed: int, version: int) -> Pair:
    """The pair of a seed for a server of a major version."""
    share = Random(f"{seed}/k/share").choice([0.03, 0.1, 0.25, 0.5, 1.0])
    first = Writer(Slots(seed), version)
    old = first.write()
    new = Writer(Slots(seed, other=seed + 1, share=share), version).write()
    # Most pairs go without rows: those of the others often cannot be kept, and the plan says so.
    rows = Random(f"{seed}/k/rows").random() < 0.35
    return Pair(seed, old, new, tuple(first.tables) if rows else ())
