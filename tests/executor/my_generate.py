"""Random pairs of MySQL or MariaDB schemas: ``pair(seed, mariadb)`` is the same everywhere.

The second schema is the first one with some changes, or another one altogether. Every kind that the
planner claims is made; what the server itself would refuse is not.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field

INTEGERS = ("tinyint", "smallint", "int", "bigint", "int unsigned", "bigint unsigned")
SCALARS = (
    *INTEGERS, "decimal(10,2)", "decimal(12,4)", "double", "float", "date", "datetime",
    "datetime(3)", "timestamp null", "time", "year", "varchar(20)", "varchar(40)", "varchar(200)",
    "char(5)", "binary(8)", "varbinary(30)", "text", "mediumtext", "blob", "bit(4)", "json",
    "enum('a','b')", "enum('a','b','c')", "enum('b','a')", "set('x','y')", "set('x','y','z')",
)  # fmt: skip
CHARACTERS = ("varchar", "char", "text", "mediumtext", "enum", "set")
CHARSETS = (
    "", "", "", " character set latin1", " character set utf8mb4 collate utf8mb4_bin",
    " character set ascii", " collate utf8mb4_unicode_ci",
)  # fmt: skip
DEFAULTS = {
    "tinyint": ("1", "0"), "smallint": ("3",), "int": ("5", "-1"), "bigint": ("7",),
    "decimal": ("1.5",), "double": ("2",), "date": ("'2020-01-01'",),
    "datetime": ("'2020-01-01 10:00:00'", "current_timestamp"), "varchar": ("'x'", "''", "'it''s'"),
    "char": ("'c'",), "enum": ("'a'",), "bit": ("b'1'",), "binary": ("'ab'",), "year": ("2000",),
}  # fmt: skip


@dataclass
class Table:
    """One table: (name, definition) of its columns, and its parts by name."""

    name: str
    columns: list[tuple[str, str]] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    options: str = ""
    partition: str = ""
    versioned: bool = False

    def text(self) -> str:
        lines = [f"`{name}` {definition}" for name, definition in self.columns]
        lines += [*self.indexes.values(), *self.checks.values(), *self.foreign.values()]
        versioned = " with system versioning" if self.versioned else ""
        inside = ",\n  ".join(lines)
        tail = f"{self.options}{versioned} {self.partition}".strip()
        return f"create table `{self.name}` (\n  {inside}\n) {tail};"


@dataclass
class Schema:
    """A whole declaration."""

    tables: dict[str, Table] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    """Views, routines, triggers, events and sequences by name, in order."""

    def text(self) -> str:
        names = [name for name in self.others if name.startswith("seq")]
        before = [self.others[name] for name in names]
        after = [text for name, text in self.others.items() if name not in names]
        return "\n".join([*before, *(t.text() for t in self.tables.values()), *after])


@dataclass(frozen=True)
class Pair:
    """From one declaration to another."""

    old: str
    new: str
    tables: tuple[str, ...]


class Maker:
    """Makes schemas of one seed."""

    def __init__(self, seed: int, mariadb: bool) -> None:
        self.random = random.Random(seed)
        self.mariadb = mariadb

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def type(self) -> str:
        chosen = self.random.choice(SCALARS)
        if chosen.startswith(CHARACTERS):
            chosen += self.random.choice(CHARSETS)
        return chosen

    def definition(self) -> str:
        kind = self.type()
        base = kind.split("(")[0].split(" ")[0]
        text = kind
        if self.chance(40) and "null" not in kind:
            text += " not null"
        if self.chance(40) and base in DEFAULTS and "(3)" not in kind:
            value = self.random.choice(DEFAULTS[base])
            if not ("unsigned" in kind and value == "-1"):
                text += f" default {value}"
        if self.chance(10):
            text += " comment 'it''s \\n a comment'"
        if self.chance(6) and ("not null" not in text or "default" in text):
            text += " invisible"
        return text

    def expression(self, table: Table) -> str | None:
        numbers = [
            name
            for name, text in table.columns
            if text.startswith(INTEGERS) and "as (" not in text and not name.startswith(("id", "r"))
        ]
        if not numbers:
            return None
        # A difference of unsigned numbers depends on the session's modes: MariaDB refuses it.
        sign, number = self.random.choice("+*"), self.random.randint(1, 3)
        return f"`{self.random.choice(numbers)}` {sign} {number}"

    def table(self, name: str) -> Table:
        table = Table(name)
        counted = self.chance(40)
        table.columns.append(("id", f"int not null{' auto_increment' if counted else ''}"))
        for number in self.random.sample(range(12), self.random.randint(1, 6)):
            table.columns.append((f"c{number}", self.definition()))
        table.indexes["primary"] = "primary key (id)"
        for _ in range(self.random.randint(0, 3)):
            self.add_index(table)
        if self.chance(30):
            self.add_generated(table)
        if self.chance(30):
            self.add_check(table)
        table.options = self.random.choice(
            ("", "", " default charset=latin1", " comment='it''s'", " row_format=dynamic",
             " default charset=utf8mb4 collate=utf8mb4_bin", " stats_persistent=1")
        )  # fmt: skip
        if self.chance(20):
            table.partition = self.partition()
        elif self.mariadb and self.chance(15):
            table.versioned = True
        return table

    def partition(self) -> str:
        shape = self.random.randint(0, 3)
        if shape == 0:
            return f"partition by hash (id) partitions {self.random.randint(2, 4)}"
        if shape == 1:
            # With KEY () MySQL refuses any index with a prefix beside the primary key.
            by = "" if self.mariadb else "id"
            return f"partition by key ({by}) partitions {self.random.randint(2, 3)}"
        if shape == 2:
            bounds = [10 * n for n in range(1, self.random.randint(2, 5))]
            listed = [f"partition p{b} values less than ({b})" for b in bounds]
            if self.chance(50):
                listed.append("partition pmax values less than maxvalue")
            return f"partition by range (id) ({', '.join(listed)})"
        chosen = self.random.sample(range(1, 5), self.random.randint(1, 4))
        listed = [f"partition l{n} values in ({n}, {n + 10})" for n in chosen]
        return f"partition by list (id) ({', '.join(listed)})"

    def add_index(self, table: Table) -> None:
        name = f"k{self.random.randint(0, 5)}"
        plain = [
            (n, d) for n, d in table.columns
            if not d.startswith(("json", "set")) and "as (" not in d
        ]  # fmt: skip
        chosen = self.random.sample(plain, min(len(plain), self.random.randint(1, 2)))
        parts = []
        for column, definition in chosen:
            part = f"`{column}`"
            if definition.startswith(("text", "mediumtext", "blob")):
                part += "(10)"
            elif definition.startswith("varchar(") and self.chance(30):
                part += "(5)"
            if self.chance(20):
                part += " desc"
            parts.append(part)
        what = "unique key" if self.chance(25) and not table.partition else "key"
        if table.partition and what == "unique key":
            return
        if not self.mariadb and self.chance(15) and what == "key":
            made = self.expression(table)
            if made:
                parts = [f"({made})"]
        hidden = ""
        if self.chance(12):
            hidden = " ignored" if self.mariadb else " invisible"
        note = " comment 'n'" if self.chance(10) else ""
        table.indexes[name] = f"{what} {name} ({', '.join(parts)}){note}{hidden}"
        text = [
            n for n, d in table.columns if d.startswith(("text", "varchar")) and "as (" not in d
        ]
        if text and self.chance(12) and not table.partition:
            table.indexes["ft"] = f"fulltext key ft (`{self.random.choice(text)}`)"

    def add_generated(self, table: Table) -> None:
        made = self.expression(table)
        if made is None:
            return
        kind = self.random.choice(("virtual", "stored"))
        name = f"g{self.random.randint(0, 1)}"
        if name not in dict(table.columns):
            at = self.random.randint(1, len(table.columns))
            table.columns.insert(at, (name, f"bigint generated always as ({made}) {kind}"))

    def add_check(self, table: Table) -> None:
        made = self.expression(table)
        if made is None or "id" in made.split("`"):
            return
        name = f"{table.name}_ck{self.random.randint(0, 2)}"
        off = " not enforced" if not self.mariadb and self.chance(20) else ""
        table.checks[name] = f"constraint {name} check ({made} > -{self.random.randint(5, 6)}){off}"

    def schema(self) -> Schema:
        schema = Schema()
        for number in range(self.random.randint(1, 4)):
            name = f"t{number}"
            schema.tables[name] = self.table(name)
        self.add_foreign(schema)
        self.add_others(schema)
        return schema

    def add_foreign(self, schema: Schema) -> None:
        able = [t for t in schema.tables.values() if not t.partition and not t.versioned]
        for table in able:
            if not self.chance(50):
                continue
            parent = self.random.choice(able)
            column = f"r{self.random.randint(0, 2)}"
            if column not in dict(table.columns):
                table.columns.append((column, "int"))
            elif dict(table.columns)[column] != "int":
                continue
            name = f"{table.name}_fk{self.random.randint(0, 2)}"
            rule = self.random.choice(
                ("", " on delete cascade", " on delete set null", " on update cascade")
            )
            table.foreign[name] = (
                f"constraint {name} foreign key (`{column}`) references `{parent.name}` (id){rule}"
            )

    def add_others(self, schema: Schema) -> None:
        for number in range(3):
            for make in (self.view, self.routine, self.trigger, self.event, self.sequence):
                if self.chance(25):
                    name, text = make(schema, number)
                    if name:
                        schema.others[name] = text

    def view(self, schema: Schema, number: int) -> tuple[str, str]:
        table = self.random.choice(list(schema.tables.values()))
        shown = self.random.choice([n for n, d in table.columns if "invisible" not in d])
        how = self.random.choice(("", "algorithm=merge ", "sql security invoker "))
        where = self.random.choice((" where id > 1", "", " where id < 7 with check option"))
        select = f"select id, `{shown}` as shown, 'é' as literal from `{table.name}`{where}"
        return f"v{number}", f"create {how}view v{number} as {select};"

    def routine(self, schema: Schema, number: int) -> tuple[str, str]:
        value = self.random.randint(1, 3)
        if self.chance(50):
            body = f"begin declare x int default {value}; return x + a; end"
            text = f"create function f{number}(a int) returns int deterministic {body}"
            return f"f{number}", f"delimiter //\n{text}//\ndelimiter ;"
        security = self.random.choice(("", "sql security invoker ", "comment 'c' "))
        body = f"begin select {value}; select a; end"
        text = f"create procedure p{number}(in a int) {security}{body}"
        return f"p{number}", f"delimiter //\n{text}//\ndelimiter ;"

    def trigger(self, schema: Schema, number: int) -> tuple[str, str]:
        table = self.random.choice(list(schema.tables.values()))
        when = self.random.choice(("before insert", "after update", "before delete"))
        value = self.random.randint(1, 3)
        body = f"for each row begin set @a = {value}; end"
        text = f"create trigger tr{number} {when} on `{table.name}` {body}"
        return f"tr{number}", f"delimiter //\n{text}//\ndelimiter ;"

    def event(self, schema: Schema, number: int) -> tuple[str, str]:
        every = self.random.choice(("every 1 day", "every 2 hour", "at '2035-01-01 00:00:00'"))
        state = self.random.choice(("", " disable", " on completion preserve", " comment 'x'"))
        table = self.random.choice(list(schema.tables))
        body = f"do delete from `{table}` where 1 = 0"
        return f"e{number}", f"create event e{number} on schedule {every}{state} {body};"

    def sequence(self, schema: Schema, number: int) -> tuple[str, str]:
        if not self.mariadb:
            return "", ""
        by = self.random.randint(1, 3)
        more = self.random.choice(("", " cycle", " maxvalue 100000", " cache 10"))
        return f"seq{number}", f"create sequence seq{number} increment by {by}{more};"

    def changed(self, schema: Schema) -> Schema:
        """Some changes of every part."""
        new = deepcopy(schema)
        new.others = {}
        for table in new.tables.values():
            for change in (self.change_columns, self.change_parts, self.change_whole):
                if self.chance(50):
                    change(table)
        if self.chance(25) and len(new.tables) > 1:
            gone = self.random.choice(list(new.tables))
            del new.tables[gone]
            for table in new.tables.values():
                table.foreign = {
                    k: v for k, v in table.foreign.items() if f"references `{gone}`" not in v
                }
        if self.chance(25):
            name = f"t{self.random.randint(5, 7)}"
            new.tables[name] = self.table(name)
        for table in new.tables.values():
            if self.chance(20):
                table.foreign = {}
        if self.chance(40):
            self.add_foreign(new)
        if self.chance(50):
            self.add_others(new)
        else:
            used = set(new.tables) == set(schema.tables) and all(
                {n for n, d in t.columns if "invisible" not in d}
                <= {n for n, d in new.tables[t.name].columns}
                for t in schema.tables.values()
            )
            new.others = dict(schema.others) if used else {}
        return new

    def change_columns(self, table: Table) -> None:
        used = "".join([*table.indexes.values(), *table.checks.values(), *table.foreign.values()])
        used += "".join(d for _, d in table.columns if "as (" in d)
        free = [n for n, _ in table.columns if f"`{n}`" not in used and n != "id"]
        which = self.random.randint(0, 3)
        if which == 0 and free:
            gone = self.random.choice(free)
            table.columns = [(n, d) for n, d in table.columns if n != gone]
        elif which == 1:
            name = f"n{self.random.randint(0, 3)}"
            if name not in dict(table.columns):
                at = self.random.randint(1, len(table.columns))
                table.columns.insert(at, (name, self.definition()))
        elif which == 2 and free:
            chosen = self.random.choice(free)
            table.columns = [
                (n, self.definition() if n == chosen and "as (" not in d else d)
                for n, d in table.columns
            ]
        else:
            self.random.shuffle(table.columns)

    def change_parts(self, table: Table) -> None:
        for parts in (table.indexes, table.checks):
            for name in list(parts):
                if name != "primary" and self.chance(30):
                    del parts[name]
        if self.chance(60):
            self.add_index(table)
        if self.chance(40):
            self.add_check(table)
        if self.chance(30):
            self.add_generated(table)

    def change_whole(self, table: Table) -> None:
        table.options = self.random.choice(("", " comment='other'", " default charset=utf8mb4"))
        unique = any(text.startswith("unique") for text in table.indexes.values())
        if not (table.foreign or table.versioned or unique or "ft" in table.indexes):
            table.partition = self.partition() if self.chance(40) else ""
        if self.mariadb and not (table.foreign or table.partition) and self.chance(30):
            table.versioned = not table.versioned


def pair(seed: int, mariadb: bool) -> Pair:
    """The pair of a seed."""
    maker = Maker(seed, mariadb)
    old = maker.schema()
    new = maker.schema() if maker.chance(15) else maker.changed(old)
    for schema in (old, new):
        _settle(schema)
    return Pair(old.text(), new.text(), tuple(old.tables))


def _settle(schema: Schema) -> None:
    """Leave out what the servers do not take together."""
    for table in schema.tables.values():
        for text in table.foreign.values():
            parent = schema.tables[text.split("references `")[1].split("`")[0]]
            for whole in (table, parent):
                whole.partition = ""
                whole.versioned = False
    for table in schema.tables.values():
        if table.partition:
            table.indexes = {
                name: text
                for name, text in table.indexes.items()
                if not text.startswith(("unique", "fulltext"))
            }
