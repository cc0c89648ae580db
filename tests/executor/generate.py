"""Random schemas in pairs: two declarations that share some objects and differ in others.

A schema is drawn from *slots*: every object and every part of one has a slot with a seed of its
own. The second schema of a pair draws some slots anew, so that what differs is spread over all
kinds; whatever a drawn part refers to is looked up among what exists, so each schema is valid by
construction. The same seed makes the same pair on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

ROLES = ("ptahk_gen_a", "ptahk_gen_b")
"""Login-less roles that the declarations name."""

_LABELS = ("low", "mid", "high", "it's", "Top One")
_TABLES = ("t0", "t1", "t2", "T 3", "t4")
_COLUMNS = ("a", "b", "c", "d", "E f", "g")


@dataclass(frozen=True)
class Pair:
    """Two declarations; rows are inserted into the first where they can be."""

    seed: int
    old: str
    new: str
    tables: tuple[str, ...]
    """Tables of ``old``, qualified, for a try at inserting a row of defaults."""


@dataclass
class Slots:
    """Seeds by name; some are drawn anew for the second schema."""

    seed: int
    other: int = 0
    share: float = 0.0
    """How much of the second schema is drawn anew; 0: the first schema."""

    def random(self, name: str) -> Random:
        if self.share and Random(f"{self.other}/{name}").random() < self.share:
            return Random(f"{self.seed}/{self.other}/{name}")
        return Random(f"{self.seed}/{name}")


@dataclass
class Column:
    name: str
    type: str
    generated: bool = False


@dataclass
class Table:
    name: str
    columns: list[Column]
    key: bool
    kind: str = "plain"
    given_away: bool = False
    """Has an owner of its own, as its sequences must then have."""

    def of(self, *types: str) -> list[Column]:
        return [c for c in self.columns if c.type in types]


@dataclass
class Writer:
    """Draws one schema; every method adds statements and remembers what exists."""

    slots: Slots
    version: int
    sql: list[str] = field(default_factory=list)
    enums: dict[str, list[str]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    composites: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    sequences: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def write(self) -> str:
        self.sql.append("create schema app;")
        if self.slots.random("schema").random() < 0.3:
            self.sql.append("comment on schema app is 'application';")
        self._types()
        self._functions()
        self._sequences()
        for name in _TABLES:
            self._table(name)
        self._child()
        self._partitions()
        for name in ("v0", "v1", "v2"):
            self._view(name)
        self._matview()
        for table in list(self.tables.values()):
            self._extras(table)
        self._loose()
        return "\n".join(self.sql)

    def _schema(self, name: str) -> str:
        # Drawn once for both schemas: a move is a drop and a create, and hides smaller changes.
        return Random(f"{self.slots.seed}/{name}/schema").choice(["public", "public", "app"])

    def _types(self) -> None:
        for name in ("e0", "e1"):
            r = self.slots.random(name)
            if r.random() < 0.85:
                labels = [label for label in _LABELS if r.random() < 0.7] or ["low"]
                if r.random() < 0.3:
                    r.shuffle(labels)
                full = f"{self._schema(name)}.{name}"
                quoted = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
                self.sql.append(f"create type {full} as enum ({quoted});")
                self.enums[full] = labels
        r = self.slots.random("d0")
        if r.random() < 0.8:
            base = r.choice(["int", "int", "bigint", "text"])
            check = "value > 0" if base != "text" else "value <> ''"
            more = f" default {'3' if base != 'text' else repr('x')}" if r.random() < 0.4 else ""
            more += " not null" if r.random() < 0.2 else ""
            more += f" constraint dc check ({check})" if r.random() < 0.6 else ""
            self.sql.append(f"create domain public.d0 as {base}{more};")
            self.domains["public.d0"] = base
        r = self.slots.random("y0")
        if r.random() < 0.7:
            attributes = [a for a in ("p int", "q text", "r numeric(8,2)") if r.random() < 0.75]
            if self.enums and r.random() < 0.3:
                attributes.append(f"s {sorted(self.enums)[0]}")
            self.sql.append(f"create type public.y0 as ({', '.join(attributes or ['p int'])});")
            self.composites.append("public.y0")
        r = self.slots.random("r0")
        if r.random() < 0.4:
            subtype = r.choice(["int", "float8", "text"])
            self.sql.append(f"create type public.r0 as range (subtype = {subtype});")

    def _functions(self) -> None:
        for name, argument in (("f0", "int"), ("f1", "text"), ("f2", "int")):
            r = self.slots.random(name)
            if r.random() < 0.15:
                continue
            result = {"int": "int", "text": "text"}[argument]
            body = r.choice(
                ["select $1", f"select {'$1 + 1' if argument == 'int' else 'lower($1)'}"]
            )
            default = " default 1" if name == "f2" and r.random() < 0.4 else ""
            marks = r.choice(["immutable", "immutable strict", "immutable parallel safe"])
            schema = self._schema(name)
            self.sql.append(
                f"create function {schema}.{name}(x {argument}{default}) returns {result}"
                f" language sql {marks} as $${body}$$;"
            )
            self.functions[f"{schema}.{name}"] = argument
            if r.random() < 0.2:
                self.sql.append(f"comment on function {schema}.{name}({argument}) is 'f';")
            if r.random() < 0.3:
                self.sql.append(
                    f"create function {schema}.{name}(x bigint, y int) returns bigint"
                    " language sql immutable as 'select x + y';"
                )
        r = self.slots.random("tf")
        self.sql.append(
            "create function public.tf() returns trigger language plpgsql as"
            f" $$begin {r.choice(['return new;', 'return coalesce(new, old);'])} end$$;"
        )
        if self.slots.random("proc").random() < 0.5:
            self.sql.append("create procedure public.p(x int) language sql as 'select 1';")
        if "app.f0" in self.functions or "public.f0" in self.functions:
            r = self.slots.random("agg")
            if r.random() < 0.4:
                initial = r.choice(["0", "1"])
                self.sql.append(
                    "create aggregate public.ag(int) (sfunc = int4pl, stype = int,"
                    f" initcond = '{initial}');"
                )
        r = self.slots.random("op")
        if r.random() < 0.3:
            self.sql.append(
                "create function public.opf(int, text) returns bool language sql immutable"
                " as 'select true'; create operator public.=== (leftarg = int, rightarg = text,"
                " function = public.opf);"
            )

    def _sequences(self) -> None:
        for name in ("s0", "s1"):
            r = self.slots.random(name)
            if r.random() < 0.7:
                options = r.choice(
                    ["", " increment by 5", " as int maxvalue 900 cycle", " start with 40 cache 3"]
                )
                full = f"{self._schema(name)}.{name}"
                self.sql.append(f"create sequence {full}{options};")
                self.sequences.append(full)

    def _type(self, r: Random) -> str:
        kinds = [
            "int", "int", "bigint", "text", "text", "varchar(10)", "varchar(40)", "varchar",
            "numeric(8,2)", "numeric(10,2)", "boolean", "timestamptz", "date", "jsonb", "uuid",
            "int[]", "double precision", "smallint", "bytea", "char(4)",
        ]  # fmt: skip
        kinds += [e for e in self.enums for _ in range(2)]
        kinds += [f"{e}[]" for e in self.enums]
        kinds += list(self.domains) * 2 + self.composites
        return r.choice(kinds)

    def _default(self, r: Random, kind: str) -> str:
        if kind in self.enums:
            return "'" + r.choice(self.enums[kind]).replace("'", "''") + f"'::{kind}"
        if kind in ("int", "bigint", "smallint"):
            options = ["0", "7", "(1 + 2)"]
            options += [f"nextval('{s}')" for s in self.sequences if kind == "bigint"]
            options += [
                f"{f}(3)" for f, a in self.functions.items() if a == "int" and kind == "int"
            ]
            return r.choice(options)
        return {
            "text": r.choice(["''", "'it''s'", "upper('x')"]),
            "varchar(10)": "'v'",
            "numeric(8,2)": "1.5",
            "boolean": r.choice(["true", "false"]),
            "timestamptz": "now()",
            "date": "'2020-01-01'",
            "jsonb": "'{}'",
            "int[]": "'{1,2}'",
            "double precision": "0.5",
        }.get(kind, "")

    def _column(self, table: str, name: str, before: list[Column]) -> tuple[str, Column] | None:
        r = self.slots.random(f"{table}.{name}")
        if r.random() < 0.2:
            return None
        kind = self._type(r)
        quoted = _quote(name)
        plain = [c for c in before if c.type == "int" and not c.generated]
        if r.random() < 0.1 and plain:
            source = _quote(r.choice(plain).name)
            virtual = self.version >= 18 and r.random() < 0.5
            how = "virtual" if virtual else "stored"
            text = f"{quoted} int generated always as ({source} * {r.choice('23')}) {how}"
            # A virtual column can be in no index, so it is offered to nobody.
            return text, Column(name, "virtual" if virtual else "int", True)
        text = f"{quoted} {kind}"
        if kind in ("text", "varchar(10)", "varchar") and r.random() < 0.15:
            text += ' collate "C"'
        default = self._default(r, kind)
        if default and r.random() < 0.45:
            text += f" default {default}"
        if r.random() < 0.3:
            text += " not null"
        return text, Column(name, kind)

    def _table(self, name: str) -> None:
        r = self.slots.random(name)
        if r.random() < 0.12:
            return
        full = f"{self._schema(name)}.{_quote(name)}"
        kind = self.slots.random(f"{name}.id").choice(
            ["int", "int", "bigint", "serial", "bigserial",
             "int generated always as identity",
             "bigint generated by default as identity (start with 100)"]
        )  # fmt: skip
        columns = [Column("id", "bigint" if "big" in kind else "int")]
        parts = [f"id {kind}"]
        for column in _COLUMNS:
            made = self._column(name, column, columns[1:])
            if made:
                parts.append(made[0])
                columns.append(made[1])
        key = r.random() < 0.85
        if key:
            named = f"constraint {_name(name)}_the_key " if r.random() < 0.1 else ""
            parts.append(f"{named}primary key (id)")
        table = Table(full, columns, key)
        for number in range(2):
            check = self._check(table, f"{name}.check{number}", number)
            if check:
                parts.append(check)
        unlogged = "unlogged " if r.random() < 0.08 else ""
        options = " with (fillfactor = 70)" if r.random() < 0.15 else ""
        self.sql.append(f"create {unlogged}table {full} ({', '.join(parts)}){options};")
        if not unlogged:
            self.tables[name] = table

    def _check(self, table: Table, slot: str, number: int) -> str:
        r = self.slots.random(slot)
        ints = [c for c in table.of("int") if c.name != "id" and not c.generated]
        if not ints or r.random() < 0.5:
            return ""
        column = _quote(r.choice(ints).name)
        options = [f"{column} > {r.choice('012')}", f"{column} is not null or id > 0"]
        options += [f"{f}({column}) >= 0" for f, a in self.functions.items() if a == "int"]
        return f"constraint ck{number} check ({r.choice(options)})"

    def _child(self) -> None:
        r = self.slots.random("k0")
        parents = [t for n, t in self.tables.items() if n in ("t0", "t4")]
        if not parents or r.random() < 0.5:
            return
        parent = r.choice(parents)
        self.sql.append(f"create table public.k0 (k1 int, k2 text) inherits ({parent.name});")
        if r.random() < 0.4:
            self.sql.append("alter table public.k0 alter id set default 5;")

    def _partitions(self) -> None:
        r = self.slots.random("p0")
        if r.random() < 0.4:
            return
        parts = ["id int not null", "day date not null"]
        columns = [Column("id", "int"), Column("day", "date")]
        for name in ("a", "b", "c"):
            made = self._column("p0", name, columns[2:])
            if made and not made[1].generated:
                parts.append(made[0])
                columns.append(made[1])
        if r.random() < 0.6:
            parts.append("primary key (id, day)")
        self.sql.append(f"create table public.p0 ({', '.join(parts)}) partition by range (day);")
        self.tables["p0"] = Table("public.p0", columns, False, "partitioned")
        for number, year in enumerate((2020, 2021, 2022)):
            r = self.slots.random(f"p0.{year}")
            if r.random() < 0.7:
                self.sql.append(
                    f"create table public.p0_{number} partition of public.p0"
                    f" for values from ('{year}-01-01') to ('{year + 1}-01-01');"
                )
                if r.random() < 0.3:
                    self.sql.append(
                        f"create index p0_{number}_own on public.p0_{number} (id) where id > 9;"
                    )

    def _view(self, name: str) -> None:
        r = self.slots.random(name)
        sources = [(t.name, [(c.name, c.type) for c in t.columns]) for t in self.tables.values()]
        sources += list(self.views.items())
        if not sources or r.random() < 0.15:
            return
        source, columns = r.choice(sources)
        chosen = [c for c in columns if r.random() < 0.7] or columns[:1]
        items = [_quote(c) for c, _ in chosen]
        made = list(chosen)
        calls = [(f, c) for f, a in self.functions.items() for c, k in columns if k == a]
        if calls and r.random() < 0.4:
            function, column = r.choice(calls)
            items.append(f"{function}({_quote(column)}) as z")
            if all(c != "z" for c, _ in made):
                made.append(("z", self.functions[function]))
            else:
                items.pop()
        enums = [(c, k) for c, k in columns if k in self.enums]
        where = ""
        if enums and r.random() < 0.5:
            column, kind = r.choice(enums)
            label = r.choice(self.enums[kind]).replace("'", "''")
            where = f" where {_quote(column)} = '{label}'"
        full = f"{self._schema(name)}.{name}"
        self.sql.append(f"create view {full} as select {', '.join(items)} from {source}{where};")
        self.views[full] = made
        if r.random() < 0.3:
            self.sql.append(f"comment on view {full} is 'view';")
        if r.random() < 0.3:
            self.sql.append(f"grant select on {full} to {r.choice(ROLES)};")

    def _matview(self) -> None:
        r = self.slots.random("m0")
        tables = [t for t in self.tables.values() if t.kind == "plain"]
        if not tables or r.random() < 0.4:
            return
        table = r.choice(tables)
        items = [_quote(c.name) for c in table.columns if r.random() < 0.7] or ["id"]
        self.sql.append(
            f"create materialized view public.m0 as select {', '.join(items)} from {table.name};"
            f" create index m0_i on public.m0 ({items[0]});"
            if not _unindexable(table, items[0])
            else f"create materialized view public.m0 as select {', '.join(items)}"
            f" from {table.name};"
        )

    def _extras(self, table: Table) -> None:
        bare = table.name.split(".")[1].strip('"')
        for number in range(3):
            self._index(
                table, f"{bare}.index{number}", f"{bare.replace(' ', '_').lower()}_i{number}"
            )
        self._unique(table, bare)
        for number in range(2):
            self._foreign(table, bare, number)
        self._settings(table, bare)
        self._guards(table, bare)
        self._words(table, bare)

    def _index(self, table: Table, slot: str, name: str) -> None:
        r = self.slots.random(slot)
        plain = [c for c in table.columns if not _unindexable(table, _quote(c.name))]
        if r.random() < 0.45 or not plain:
            return
        keys = [_quote(c.name) for c in r.sample(plain, min(len(plain), r.choice([1, 1, 2])))]
        if r.random() < 0.3:
            keys[0] += r.choice([" desc", " nulls first"])
        texts, ints = table.of("text"), table.of("int")
        if texts and r.random() < 0.25:
            keys = [f"lower({_quote(texts[0].name)})"]
        elif ints and r.random() < 0.2:
            calls = [f for f, a in self.functions.items() if a == "int"]
            keys = [f"{r.choice(calls)}({_quote(ints[0].name)})"] if calls else keys
        where = ""
        if r.random() < 0.25:
            enums = [c for c in table.columns if c.type in self.enums]
            where = " where id > 5"
            if enums:
                label = self.enums[enums[0].type][0].replace("'", "''")
                where = f" where {_quote(enums[0].name)} = '{label}'"
        include = " include (id)" if r.random() < 0.15 else ""
        unique = "unique " if r.random() < 0.15 and table.kind == "plain" else ""
        self.sql.append(
            f"create {unique}index {name} on {table.name} ({', '.join(keys)}){include}{where};"
        )

    def _unique(self, table: Table, bare: str) -> None:
        r = self.slots.random(f"{bare}.unique")
        ints = table.of("int", "bigint", "text", "uuid")
        if r.random() < 0.6 or not ints or table.kind != "plain":
            return
        more = r.choice(["", "", " deferrable", " deferrable initially deferred"])
        nulls = " nulls not distinct" if r.random() < 0.2 else ""
        column = _quote(r.choice(ints).name)
        self.sql.append(
            f"alter table {table.name} add constraint {_name(bare)}_u"
            f" unique{nulls} ({column}){more};"
        )

    def _foreign(self, table: Table, bare: str, number: int) -> None:
        r = self.slots.random(f"{bare}.foreign{number}")
        targets = [t for t in self.tables.values() if t.key]
        columns = [c for c in table.of("int", "bigint") if not c.generated and c.name != "id"]
        if r.random() < 0.5 or not targets or not columns:
            return
        action = r.choice(["", " on delete cascade", " on delete set null", " on update cascade"])
        late = r.choice(["", "", " deferrable initially deferred"])
        valid = " not valid" if table.kind == "plain" and r.random() < 0.1 else ""
        self.sql.append(
            f"alter table {table.name} add constraint {_name(bare)}_fk{number} foreign key"
            f" ({_quote(r.choice(columns).name)}) references {r.choice(targets).name} (id)"
            f"{action}{late}{valid};"
        )

    def _settings(self, table: Table, bare: str) -> None:
        r = self.slots.random(f"{bare}.settings")
        texts = table.of("text", "jsonb")
        if texts and r.random() < 0.2:
            self.sql.append(
                f"alter table {table.name} alter {_quote(texts[0].name)}"
                f" set storage {r.choice(['external', 'main'])};"
            )
        if len(table.columns) > 1 and r.random() < 0.2:
            self.sql.append(
                f"alter table {table.name} alter {_quote(table.columns[1].name)}"
                f" set statistics {r.choice(['50', '200'])};"
            )
        if r.random() < 0.15:
            self.sql.append(f"alter table {table.name} replica identity full;")
        if table.key and r.random() < 0.1:
            self.sql.append(f"alter table {table.name} enable row level security;")

    def _guards(self, table: Table, bare: str) -> None:
        r = self.slots.random(f"{bare}.trigger")
        if r.random() < 0.35:
            plain = [c for c in table.columns if not c.generated]
            of = f" of {_quote(r.choice(plain).name)}" if r.random() < 0.5 else ""
            when = r.choice(["before", "after"])
            self.sql.append(
                f"create trigger tg {when} update{of} on {table.name} for each row"
                " execute function public.tf();"
            )
            if r.random() < 0.2:
                self.sql.append(f"alter table {table.name} disable trigger tg;")
        r = self.slots.random(f"{bare}.policy")
        if r.random() < 0.25:
            command = r.choice(["all", "select", "update"])
            self.sql.append(
                f"create policy po on {table.name} for {command}"
                f" to {r.choice((*ROLES, 'public'))} using (id > {r.choice('12')});"
            )
        r = self.slots.random(f"{bare}.rule")
        if r.random() < 0.12 and table.kind == "plain":
            self.sql.append(
                f"create rule ru as on delete to {table.name}"
                f" where old.id = {r.choice('12')} do instead nothing;"
            )

    def _words(self, table: Table, bare: str) -> None:
        r = self.slots.random(f"{bare}.words")
        if r.random() < 0.3:
            self.sql.append(f"comment on table {table.name} is {r.choice(['$$a$$', '$$b$$'])};")
        if r.random() < 0.3:
            column = r.choice(table.columns)
            self.sql.append(f"comment on column {table.name}.{_quote(column.name)} is 'c';")
        if r.random() < 0.35:
            rights = r.choice(["select", "select, insert", "all"])
            option = " with grant option" if r.random() < 0.2 else ""
            self.sql.append(f"grant {rights} on {table.name} to {r.choice(ROLES)}{option};")
        if r.random() < 0.2:
            column = _quote(r.choice(table.columns).name)
            self.sql.append(f"grant update ({column}) on {table.name} to {r.choice(ROLES)};")
        if r.random() < 0.1:
            self.sql.append(f"alter table {table.name} owner to {r.choice(ROLES)};")
            table.given_away = True

    def _loose(self) -> None:
        for name, argument in self.functions.items():
            r = self.slots.random(f"{name}.grants")
            if r.random() < 0.2:
                self.sql.append(f"revoke all on function {name}({argument}) from public;")
        r = self.slots.random("defaults")
        if r.random() < 0.2:
            self.sql.append(
                f"alter default privileges in schema app grant select on tables to {ROLES[0]};"
            )
        for sequence in self.sequences:
            r = self.slots.random(f"{sequence}.owner")
            owners = [
                t for t in self.tables.values()
                if t.name.split(".")[0] == sequence.split(".")[0] and t.of("int", "bigint")
                and not t.given_away
            ]  # fmt: skip
            if owners and r.random() < 0.3:
                table = r.choice(owners)
                column = r.choice(table.of("int", "bigint"))
                if column.name != "id" and not column.generated:
                    self.sql.append(
                        f"alter sequence {sequence} owned by {table.name}.{_quote(column.name)};"
                    )


def _quote(name: str) -> str:
    return name if name.islower() and name.isalnum() else f'"{name}"'


def _name(bare: str) -> str:
    return bare.replace(" ", "_").lower()


def _unindexable(table: Table, quoted: str) -> bool:
    for column in table.columns:
        if _quote(column.name) == quoted:
            return column.type in ("jsonb", "virtual", "public.y0")
    return True


def pair(seed: int, version: int) -> Pair:
    """The pair of a seed for a server of a major version."""
    share = Random(f"{seed}/share").choice([0.05, 0.15, 0.3, 0.6, 1.0])
    first = Writer(Slots(seed), version)
    old = first.write()
    new = Writer(Slots(seed, other=seed + 1, share=share), version).write()
    kinds = Random(f"{seed}/empty").random()
    if kinds < 0.06:
        old = ""
    elif kinds < 0.1:
        new = ""
    tables = tuple(table.name for table in first.tables.values()) if old else ()
    return Pair(seed, old, new, tables)
