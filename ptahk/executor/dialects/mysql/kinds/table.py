"""Tables: created whole, changed by one ALTER that the server does or leaves undone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ptahk.executor.dialects.mysql.kinds import column as columns
from ptahk.executor.dialects.mysql.kinds import partition as partitions
from ptahk.executor.dialects.mysql.model import Finding, World, worst
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Facts, ObjectId, PlanRefusal, Step

ALTER: Final = "AlterTable"
_VERSIONED: Final = "WITH SYSTEM VERSIONING"
_HISTORY: Final = "SET STATEMENT system_versioning_alter_history=KEEP FOR "
_DEFAULTS: Final = {
    "COMMENT": "''", "ROW_FORMAT": "DEFAULT", "STATS_PERSISTENT": "DEFAULT",
    "STATS_AUTO_RECALC": "DEFAULT", "STATS_SAMPLE_PAGES": "DEFAULT", "KEY_BLOCK_SIZE": "0",
    "CHECKSUM": "0", "MAX_ROWS": "0", "MIN_ROWS": "0", "AVG_ROW_LENGTH": "0",
    "PACK_KEYS": "DEFAULT", "DELAY_KEY_WRITE": "0", "COMPRESSION": "'none'", "ENCRYPTION": "'N'",
    "AUTOEXTEND_SIZE": "0", "PAGE_CHECKSUM": "0", "INSERT_METHOD": "NO",
}  # fmt: skip
"""What an option means that nobody gives."""
_HIDDEN: Final = re.compile(r" (?:INVISIBLE|IGNORED)\Z")
_NAMES: Final = re.compile(r"`((?:[^`]|``)*)`")
_ENFORCED: Final = re.compile(r" NOT ENFORCED\Z")
_VARYING: Final = re.compile(
    r"(?:\A| )DEFAULT \(((?:[^()']|'(?:[^'\\]|''|\\.)*'|\([^()]*\))*"
    r"\b(?:uuid|uuid_short|rand|random_bytes|sysdate|connection_id)\([^()]*\).*?)\)"
    r"(?=\Z| COMMENT| INVISIBLE| ON UPDATE| CHECK)",
    re.IGNORECASE,
)
"""A default that is another one for every row: MySQL adds no column with it."""
_IMPLICIT: Final = re.compile(r"\b(?:DEFAULT|AUTO_INCREMENT|GENERATED ALWAYS)\b")


@dataclass(slots=True)
class _Change:
    clauses: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    """Clauses of a statement afterwards."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, clause: str, *found: Finding) -> None:
        self.clauses.append(clause)
        self.findings += found


def create_text(name: str, facts: Facts, foreign: Mapping[str, Facts], aside: Facts) -> str:
    """``CREATE TABLE`` as it is read back.

    :param foreign: foreign keys that go into the statement.
    :param aside: the first value of the counter, and since when SYSTEM_TIME partitions count.
    """
    lines = [columns.definition(column) for column in facts["columns"]]
    lines += [f"PERIOD FOR {key} {body}" for key, body in facts.get("periods", {}).items()]
    lines += [index_clause(key, body) for key, body in facts.get("indexes", {}).items()]
    lines += [foreign_clause(key, clause) for key, clause in foreign.items()]
    lines += [f"CONSTRAINT {ident(k)} {body}" for k, body in facts.get("checks", {}).items()]
    tail = [f"ENGINE={facts['engine']}"]
    if "auto_increment" in aside:
        tail.append(f"AUTO_INCREMENT={aside['auto_increment']}")
    if "charset" in facts:
        tail.append(f"DEFAULT CHARSET={facts['charset']}")
    if "collation" in facts:
        tail.append(f"COLLATE={facts['collation']}")
    tail += [_option(key, value) for key, value in facts.get("options", {}).items()]
    partition = _with_start(facts.get("partition", ""), aside)
    body = ",\n  ".join(lines)
    text = f"CREATE TABLE {ident(name)} (\n  {body}\n) {' '.join(tail)}"
    return f"{text}\n{partition}" if partition else text


def _with_start(partition: str, aside: Facts) -> str:
    """Where the declaration says since when its partitions count, so does the statement."""
    if "starts" not in aside or not partition.startswith("PARTITION BY SYSTEM_TIME"):
        return partition
    head, line, rest = partition.partition("\n")
    return f"{head}{aside['starts']}{line}{rest}"


def _option(key: str, value: Any) -> str:
    if not value:
        return key
    return f"{key} {value}" if key == "TABLESPACE" else f"{key}={value}"


def foreign_clause(name: str, clause: Facts) -> str:
    """``CONSTRAINT … FOREIGN KEY …``."""
    mine = ",".join(ident(each) for each in clause["columns"])
    theirs = ",".join(ident(each) for each in clause["referenced_columns"])
    rules = f" {clause['rules']}" if clause["rules"] else ""
    return (
        f"CONSTRAINT {ident(name)} FOREIGN KEY ({mine}) REFERENCES"
        f" {ident(clause['references'])} ({theirs}){rules}"
    )


def index_clause(name: str, index: Sequence[str]) -> str:
    """``KEY name (…)``."""
    what, body = index
    return f"{what} {body}" if name == "PRIMARY" else f"{what} {ident(name)} {body}"


def alter(
    world: World, oid: ObjectId, old: Facts, new: Facts, freed: frozenset[str] = frozenset()
) -> list[Step] | PlanRefusal:
    """The statements that turn a live table into the declared one.

    :param freed: checks that another statement drops before.
    """
    name = oid.name[0]
    change = _Change()
    anew = {
        column["name"]
        for column, before in _common(old, new)
        if not _in_place(world.mariadb, before, column)
    }
    _drop_checks(world, change, old, new, anew, freed)
    added = _indexes(world, change, old, new, anew)
    _periods(change, old, new, dropping=True)
    refusal = _drop_versioning(change, oid, old, new)
    _columns(world.mariadb, change, old, new, anew)
    for clause in added:
        change.add(clause)
    _periods(change, old, new, dropping=False)
    _add_checks(world, change, old, new, anew)
    refusal = _options(change, oid, old, new) or refusal
    if refusal is not None:
        return refusal
    parts = partitions.change(old.get("partition", ""), new.get("partition", ""))
    return list(_statements(world, oid, name, old, change, parts))


def _statements(
    world: World, oid: ObjectId, name: str, old: Facts, change: _Change, parts: partitions.Change
) -> Iterator[Step]:
    versioned = _VERSIONED in old.get("options", {})
    prefix = f"{_HISTORY if versioned else ''}ALTER TABLE {ident(name)} "
    if parts.dropped:
        reason = f"the rows of the partitions {', '.join(parts.dropped)} are lost"
        sql = prefix + partitions.drop_clause(parts.dropped)
        yield Step(sql, "DropPartition", oid, "destructive", reason=reason, transaction=False)
    if change.clauses or parts.whole:
        found = [*change.findings]
        if parts.whole:
            found.append(Finding("warning", "every row is put into its partition anew"))
        level, reason = worst(found)
        body = ",\n  ".join(change.clauses)
        body = f"{body}\n{parts.whole}".strip()
        yield Step(prefix + body, ALTER, oid, level, reason=reason, transaction=False)
    if change.later:
        yield Step(prefix + ", ".join(change.later), ALTER, oid, transaction=False)
    if parts.add:
        yield Step(prefix + parts.add, "AddPartition", oid, transaction=False)


def _common(old: Facts, new: Facts) -> list[tuple[Facts, Facts]]:
    before = {column["name"]: column for column in old["columns"]}
    return [(c, before[c["name"]]) for c in new["columns"] if c["name"] in before]


def _in_place(mariadb: bool, old: Facts, new: Facts) -> bool:
    """Whether MODIFY can change it; otherwise it is dropped and added."""
    one, two = columns.storage(old), columns.storage(new)
    if ("AS ROW" in old["rest"]) != ("AS ROW" in new["rest"]):
        return False
    if mariadb and (one, two) != ("base", "base"):
        return old == new or (one == two and old["rest"].split(" COMMENT ")[0] == (
            new["rest"].split(" COMMENT ")[0]) and old["type"] == new["type"])  # fmt: skip
    return one == two or "virtual" not in (one, two)


def _drop_checks(
    world: World, change: _Change, old: Facts, new: Facts, anew: set[str], freed: frozenset[str]
) -> None:
    before, after = old.get("checks", {}), new.get("checks", {})
    for name, body in before.items():
        if name in freed:
            continue
        if name in after and after[name] == body and not _names_any(body, anew):
            continue
        if _only_enforcement(world, body, after.get(name, "")) and not _names_any(body, anew):
            continue
        gone = () if name in after else (Finding("warning", f"check {name} is gone"),)
        change.add(drop_check(world.mariadb, name), *gone)


def drop_check(mariadb: bool, name: str) -> str:
    """The clause that drops a check."""
    return f"DROP {'CONSTRAINT' if mariadb else 'CHECK'} {ident(name)}"


def _only_enforcement(world: World, old: str, new: str) -> bool:
    return not world.mariadb and old != new and _ENFORCED.sub("", old) == _ENFORCED.sub("", new)


def _add_checks(world: World, change: _Change, old: Facts, new: Facts, anew: set[str]) -> None:
    before = old.get("checks", {})
    for name, body in new.get("checks", {}).items():
        named = _names_any(body, anew)
        if before.get(name) == body and not named:
            continue
        if _only_enforcement(world, before.get(name, ""), body) and not named:
            state = "NOT ENFORCED" if _ENFORCED.search(body) else "ENFORCED"
            change.add(f"ALTER CHECK {ident(name)} {state}")
            continue
        change.add(f"ADD CONSTRAINT {ident(name)} {body}")


def _names_any(text: str, names: set[str]) -> bool:
    return bool(names) and any(ident(name) in text for name in names)


def _indexes(world: World, change: _Change, old: Facts, new: Facts, anew: set[str]) -> list[str]:
    """Drops into ``change``; returns what is to be added once the columns are there."""
    before: Mapping[str, Any] = old.get("indexes", {})
    after: Mapping[str, Any] = new.get("indexes", {})
    rebuilt = {name for name, index in before.items() if _names_any(index[1], anew)}
    fresh = [name for name in after if name not in before]
    added: list[str] = []
    for name, index in before.items():
        if name in after and name not in rebuilt:
            if after[name] == index:
                continue
            if list(after[name]) == [index[0], after[name][1]] and _HIDDEN.sub("", index[1]) == (
                _HIDDEN.sub("", after[name][1])
            ):
                added.append(f"ALTER INDEX {ident(name)} {_visibility(world, after[name][1])}")
                continue
        elif name not in after and name not in rebuilt and name != "PRIMARY":
            same = [other for other in fresh if after[other] == index]
            if same and same[0] != "PRIMARY":
                fresh.remove(same[0])
                change.add(f"RENAME INDEX {ident(name)} TO {ident(same[0])}")
                continue
        gone = []
        if name not in after:
            unique = index[0] in ("PRIMARY KEY", "UNIQUE KEY")
            what = "nothing keeps values apart any more" if unique else "reads lose it"
            gone.append(Finding("warning", f"index {name} is gone: {what}"))
        drop = "DROP PRIMARY KEY" if name == "PRIMARY" else f"DROP INDEX {ident(name)}"
        change.add(drop, *gone)
        if name in after:
            fresh.append(name)
    ordered = [name for name in after if name in fresh]
    return [*added, *(f"ADD {index_clause(name, after[name])}" for name in ordered)]


def _visibility(world: World, body: str) -> str:
    hidden = _HIDDEN.search(body) is not None
    if world.mariadb:
        return "IGNORED" if hidden else "NOT IGNORED"
    return "INVISIBLE" if hidden else "VISIBLE"


def _columns(mariadb: bool, change: _Change, old: Facts, new: Facts, anew: set[str]) -> None:
    before = {column["name"]: column for column in old["columns"]}
    after = [column["name"] for column in new["columns"]]
    for name, column in before.items():
        if name in anew or name not in after:
            change.add(f"DROP COLUMN {ident(name)}", *_dropped(column, name in anew))
    stay = [name for name in before if name in after and name not in anew]
    placed = _longest_run([name for name in after if name in stay], stay)
    last = stay[-1] if stay else None
    previous = ""
    for column in new["columns"]:
        name = column["name"]
        where = f" AFTER {ident(previous)}" if previous else " FIRST"
        if name not in before or name in anew:
            at_end = previous and previous == last and placed and placed[-1] == last
            plain = _without_varying(mariadb, change, column)
            change.add(
                f"ADD COLUMN {columns.definition(plain)}{'' if at_end else where}",
                *_added(plain),
            )
            if at_end:
                last = name
                placed.append(name)
        elif name not in placed:
            change.add(f"MODIFY COLUMN {columns.definition(column)}{where}", Finding("safe", ""))
            change.findings += columns.findings(before[name], column, _unique(old, new, name))
        elif before[name] != column:
            change.add(f"MODIFY COLUMN {columns.definition(column)}")
            change.findings += columns.findings(before[name], column, _unique(old, new, name))
        previous = name


def _without_varying(mariadb: bool, change: _Change, column: Facts) -> Facts:
    """The column without such a default, which it gets by a statement of its own."""
    match = None if mariadb else _VARYING.search(column["rest"])
    if match is None:
        return column
    change.later.append(f"ALTER COLUMN {ident(column['name'])} SET DEFAULT ({match.group(1)})")
    change.findings.append(
        Finding(
            "warning",
            f"column {column['name']}: rows that exist get no value from its default, which is"
            " another one for every row",
        )
    )
    return {**column, "rest": column["rest"].replace(match.group(), "", 1).strip()}


def _dropped(column: Facts, again: bool) -> list[Finding]:
    name = f"column {column['name']}"
    if columns.storage(column) == "virtual" or "AS ROW" in column["rest"]:
        return []  # nothing of it is stored
    if columns.storage(column) == "stored":
        return [Finding("warning", f"{name} is {'computed anew' if again else 'gone'}")]
    return [Finding("destructive", f"{name} is dropped with its values")]


def _added(column: Facts) -> list[Finding]:
    rest = column["rest"]
    if columns.nullable(column) or _IMPLICIT.search(rest):
        return []
    return [
        Finding(
            "warning",
            f"column {column['name']} is NOT NULL without a default: rows that exist get what the"
            " server takes for empty",
        )
    ]


def _unique(old: Facts, new: Facts, name: str) -> bool:
    """Whether a column is part of a key over distinct values."""
    return any(
        index[0] in ("PRIMARY KEY", "UNIQUE KEY") and ident(name) in index[1]
        for side in (old, new)
        for index in side.get("indexes", {}).values()
    )


def _longest_run(wanted: list[str], present: list[str]) -> list[str]:
    """The longest part of ``wanted`` that stands in this order in ``present`` already."""
    place = {name: at for at, name in enumerate(present)}
    best: list[tuple[int, int]] = []  # (length, previous)
    for at, name in enumerate(wanted):
        found = [(best[i][0], i) for i in range(at) if place[wanted[i]] < place[name]]
        length, previous = max(found, default=(0, -1))
        best.append((length + 1, previous))
    if not best:
        return []
    at = max(range(len(best)), key=lambda i: best[i][0])
    run: list[str] = []
    while at >= 0:
        run.append(wanted[at])
        at = best[at][1]
    return run[::-1]


def _periods(change: _Change, old: Facts, new: Facts, *, dropping: bool) -> None:
    before, after = old.get("periods", {}), new.get("periods", {})
    if dropping:
        for name, body in before.items():
            if after.get(name) != body and name != "SYSTEM_TIME":
                change.add(f"DROP PERIOD FOR {name}")
        return
    for name, body in after.items():
        if before.get(name) != body:
            change.add(f"ADD PERIOD FOR {name}{body}")


def _drop_versioning(change: _Change, oid: ObjectId, old: Facts, new: Facts) -> PlanRefusal | None:
    before, after = old.get("options", {}), new.get("options", {})
    one, two = (side.get("periods", {}).get("SYSTEM_TIME") for side in (old, new))
    if _VERSIONED in before and _VERSIONED in after and one != two:
        return PlanRefusal(
            "UnsupportedChange",
            f"{oid} would get another period of system time ({one} to {two}): its history would be"
            " lost; drop system versioning in one step and add it in another",
            oid,
        )
    if _VERSIONED in before and _VERSIONED not in after:
        change.add("DROP SYSTEM VERSIONING", Finding("destructive", "its history is lost"))
    return None


def _options(change: _Change, oid: ObjectId, old: Facts, new: Facts) -> PlanRefusal | None:
    if old["engine"] != new["engine"]:
        reason = f"the engine changes from {old['engine']} to {new['engine']}"
        change.add(f"ENGINE={new['engine']}", Finding("destructive", reason))
    charset, collation = new.get("charset"), new.get("collation")
    if (old.get("charset"), old.get("collation")) != (charset, collation) and charset:
        change.add(f"DEFAULT CHARACTER SET={charset} COLLATE={collation}")
    before, after = old.get("options", {}), new.get("options", {})
    for key in before:
        if key in after or key == _VERSIONED:
            continue
        default = "DEFAULT" if key.startswith("`") else _DEFAULTS.get(key)
        if default is None:
            return PlanRefusal(
                "UnsupportedChange", f"{oid} has the option {key}, which no ALTER takes off", oid
            )
        change.add(_option(key, default))
    for key, value in after.items():
        if before.get(key) == value and key in before:
            continue
        change.add("ADD SYSTEM VERSIONING" if key == _VERSIONED else _option(key, value))
    return None


def drop(oid: ObjectId) -> Step:
    """DROP TABLE."""
    sql = f"DROP TABLE {ident(oid.name[0])}"
    reason = f"{oid} is dropped with its rows"
    return Step(sql, "DropTable", oid, "destructive", reason=reason, transaction=False)


def names_in(text: str) -> list[str]:
    """The names that stand in backticks, in order."""
    return [name.replace("``", "`") for name in _NAMES.findall(text)]
