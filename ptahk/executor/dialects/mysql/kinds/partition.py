"""Partitions: the smallest change that brings one list to another. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ptahk.executor.dialects.mysql.quote import ident, unident

_LIST: Final = re.compile(r"\n\((?:PARTITION .*)\)\s*\Z", re.DOTALL)
_BETWEEN: Final = ",\n "
_NAME: Final = re.compile(r"PARTITION (`(?:[^`]|``)*`|[^\s(]+)")


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A partition clause: how rows are spread, and the partitions that are listed."""

    method: str
    listed: tuple[tuple[str, str], ...]
    """(name, definition) in order."""

    @property
    def by_values(self) -> bool:
        """By RANGE or LIST, where a partition is a set of values of its own."""
        return re.match(r"PARTITION BY (RANGE|LIST)\b", self.method) is not None

    @property
    def by_range(self) -> bool:
        return self.method.startswith("PARTITION BY RANGE")

    def text(self) -> str:
        """The clause as ``SHOW CREATE TABLE`` prints it."""
        if not self.listed:
            return self.method
        return f"{self.method}\n({_BETWEEN.join(text for _, text in self.listed)})"


def read(text: str) -> Partitioned:
    """Take a partition clause apart."""
    match = _LIST.search(text)
    if match is None:
        return Partitioned(text, ())
    body = match.group().strip()[1:-1]
    listed = []
    for part in body.split(",\n PARTITION "):
        whole = part if part.startswith("PARTITION ") else "PARTITION " + part
        named = _NAME.match(whole)
        assert named is not None, whole
        name = named.group(1)
        listed.append((unident(name) if name.startswith("`") else name, whole))
    return Partitioned(text[: match.start()], tuple(listed))


def keep_undeclared(live: str, declared: str) -> str:
    """The declared clause with the live partitions that it does not list, where they can stay."""
    if not live or not declared or live == declared:
        return declared
    old, new = read(live), read(declared)
    if old.method != new.method or not old.by_values or not old.listed:
        return declared
    mine = dict(new.listed)
    kept = [(name, mine.get(name, text)) for name, text in old.listed]
    added = [(name, text) for name, text in new.listed if name not in dict(old.listed)]
    same = [name for name, _ in kept if name in mine] == [
        name for name, _ in new.listed if name in dict(old.listed)
    ]
    if not same or (old.by_range and added and new.listed[-len(added) :] != tuple(added)):
        return declared
    return Partitioned(new.method, (*kept, *added)).text()


def canonical(text: str) -> str:
    """The clause with the partitions of a LIST by name: their order says nothing."""
    found = read(text)
    if not found.listed or not found.method.startswith("PARTITION BY LIST"):
        return text
    return Partitioned(found.method, tuple(sorted(found.listed))).text()


@dataclass(frozen=True, slots=True)
class Change:
    """Clauses for statements of their own, or a clause for the table's own ALTER."""

    dropped: tuple[str, ...] = ()
    add: str = ""
    whole: str = ""
    """Spreads all rows anew."""


def change(old: str, new: str) -> Change:
    """From one clause to another; either may be empty."""
    if old == new:
        return Change()
    if not new:
        return Change(whole="REMOVE PARTITIONING")
    if not old:
        return Change(whole=new)
    one, two = read(old), read(new)
    before, after = dict(one.listed), dict(two.listed)
    plain = one.method == two.method and one.by_values and one.listed and two.listed
    kept = [name for name in before if name in after]
    if not plain or not kept or any(before[name] != after[name] for name in kept):
        return Change(whole=new)
    dropped = tuple(name for name in before if name not in after)
    added = [(name, text) for name, text in two.listed if name not in before]
    in_order = kept == [name for name in after if name in before]
    at_end = not added or not one.by_range or list(two.listed[-len(added) :]) == added
    # A range without its neighbour grows: rows that were in a dropped one may belong there.
    open_end = one.by_range and added and "MAXVALUE" in one.listed[-1][1]
    if not in_order or not at_end or (open_end and one.listed[-1][0] not in dropped):
        return Change(whole=new)
    add = f"ADD PARTITION ({_BETWEEN.join(text for _, text in added)})" if added else ""
    return Change(dropped, add)


def drop_clause(names: tuple[str, ...]) -> str:
    """``DROP PARTITION a, b``."""
    return "DROP PARTITION " + ", ".join(ident(name) for name in names)
