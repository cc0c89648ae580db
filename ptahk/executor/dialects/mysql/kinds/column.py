"""Columns: how one is defined, and what a change of its definition does to its values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from ptahk.executor.dialects.mysql.model import Finding
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Facts

_TYPE: Final = re.compile(r"(?P<base>[a-z_0-9]+)(?:\((?P<arguments>.*)\))?(?P<tail>[^)]*)\Z", re.S)
_INTEGERS: Final = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_TEXTS: Final = {"tinytext": 255, "text": 65535, "mediumtext": 16777215, "longtext": 4294967295}
_BLOBS: Final = {"tinyblob": 255, "blob": 65535, "mediumblob": 16777215, "longblob": 4294967295}
_FLOATS: Final = {"float": 1, "double": 2}
_TIMES: Final = ("datetime", "timestamp", "time")
_WIDER: Final = {
    "ascii": {"latin1", "utf8mb3", "utf8mb4", "utf8", "latin2", "cp1250", "cp1251", "cp1252"},
    "latin1": {"utf8mb3", "utf8mb4", "utf8"},
    "latin2": {"utf8mb3", "utf8mb4", "utf8"},
    "cp1250": {"utf8mb3", "utf8mb4", "utf8"},
    "cp1251": {"utf8mb3", "utf8mb4", "utf8"},
    "utf8": {"utf8mb3", "utf8mb4"},
    "utf8mb3": {"utf8", "utf8mb4"},
    "ucs2": {"utf8mb4", "utf16", "utf8mb3"},
}
"""Character sets that hold every character of the first."""
_GENERATED: Final = re.compile(r"GENERATED ALWAYS AS .*?\b(VIRTUAL|STORED|PERSISTENT)\b", re.S)
_ITEMS: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
_SRID: Final = re.compile(r"\bSRID (\d+)|\bREF_SYSTEM_ID=(\d+)")
Storage = Literal["base", "virtual", "stored"]


def definition(column: Facts) -> str:
    """The column as CREATE and ALTER TABLE take it, with its effective character set."""
    parts = [ident(column["name"]), str(column["type"])]
    if column.get("charset"):
        parts.append(f"CHARACTER SET {column['charset']} COLLATE {column['collation']}")
    elif column.get("collation"):
        parts.append(f"COLLATE {column['collation']}")
    if column["rest"]:
        parts.append(str(column["rest"]))
    return " ".join(parts)


def storage(column: Facts) -> Storage:
    """Whether its values are stored, computed, or both."""
    match = _GENERATED.search(column["rest"])
    if match is None:
        return "base"
    return "virtual" if match.group(1) == "VIRTUAL" else "stored"


def nullable(column: Facts) -> bool:
    """Whether it takes NULL."""
    return not re.search(r"\bNOT NULL\b", _without_literals(column["rest"]))


def values_of(column: Facts) -> list[str] | None:
    """The values of an enum or a set, as written between quotes; None for other types."""
    base, arguments, _ = parts(column)
    return _ITEMS.findall(arguments) if base in ("enum", "set") else None


def length_of(column: Facts) -> int | None:
    """Characters (bytes of a binary type) that it holds at most; None where that is no matter."""
    base, arguments, _ = parts(column)
    if base in ("char", "varchar", "binary", "varbinary"):
        return int(arguments or 1)
    return _TEXTS.get(base) or _BLOBS.get(base)


def integer_range(column: Facts) -> tuple[int, int] | None:
    """Smallest and largest value of an integer type."""
    base, _, tail = parts(column)
    if base not in _INTEGERS:
        return None
    bits = 8 * _INTEGERS[base]
    if "unsigned" in tail:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def parts(column: Facts) -> tuple[str, str, str]:
    """Base type, what stands in its parentheses, and what follows (``unsigned``)."""
    match = _TYPE.match(column["type"])
    assert match is not None, column["type"]
    return match["base"], match["arguments"] or "", match["tail"]


def changes_type(old: Facts, new: Facts) -> bool:
    """Whether a foreign key over it would have to stand aside."""
    keys = ("type", "charset", "collation")
    return storage(old) != storage(new) or any(old.get(k) != new.get(k) for k in keys)


def findings(old: Facts, new: Facts, in_unique_key: bool) -> Iterator[Finding]:
    """What turning ``old`` into ``new`` does to the values that are stored."""
    name = f"column {old['name']}"
    if storage(old) == "base" and storage(new) != "base":
        yield Finding("destructive", f"{name} becomes generated: its values are replaced")
        return
    if storage(old) != "base" and storage(new) == "base":
        if storage(old) == "virtual":
            yield Finding("destructive", f"{name} is no longer generated: its values are lost")
        else:
            yield Finding("warning", f"{name} is no longer generated: its values stay as they are")
        return
    if storage(old) != "base":
        yield Finding("warning", f"{name} is computed anew")
        return
    if nullable(old) and not nullable(new):
        yield Finding("warning", f"{name} takes no NULL any more")
    if old["type"] != new["type"]:
        yield from _types(name, old, new)
    yield from _charset(name, old, new, in_unique_key)
    before, after = _srid(old), _srid(new)
    if before != after:
        yield Finding("destructive", f"{name} gets another SRID ({before} to {after})")


def _srid(column: Facts) -> str:
    match = _SRID.search(column["rest"])
    return "none" if match is None else str(match.group(1) or match.group(2))


def _charset(name: str, old: Facts, new: Facts, in_unique_key: bool) -> Iterator[Finding]:
    before, after = old.get("charset"), new.get("charset")
    if before and after and before != after:
        if after not in _WIDER.get(before, ()):
            yield Finding(
                "destructive",
                f"{name} changes its character set from {before} to {after}, which lacks"
                " characters of the first",
            )
        else:
            yield Finding("warning", f"{name} is converted from {before} to {after}")
    one, two = old.get("collation"), new.get("collation")
    if one and two and one != two:
        if in_unique_key:
            yield Finding(
                "destructive",
                f"{name} changes its collation from {one} to {two} inside a unique key: values"
                " that differed may become equal",
            )
        elif before == after:
            yield Finding("warning", f"{name} sorts and compares by {two}")


def _types(name: str, old: Facts, new: Facts) -> Iterator[Finding]:
    (base, arguments, _), (other, others, _) = parts(old), parts(new)
    change = f"from {old['type']} to {new['type']}"
    one, two = integer_range(old), integer_range(new)
    if one and two:
        if two[0] <= one[0] and one[1] <= two[1]:
            if base != other:
                yield Finding("warning", f"{name} is rewritten {change}")
        elif ("unsigned" in old["type"]) != ("unsigned" in new["type"]):
            yield Finding("destructive", f"{name} changes its sign {change}")
        else:
            yield Finding("destructive", f"{name} shrinks {change}")
        return
    if base == other == "decimal":
        yield from _decimal(name, change, old, new)
        return
    if base == other and base in ("enum", "set"):
        yield from _members(name, old, new)
        return
    if base in _FLOATS and other in _FLOATS and not (arguments or others):
        if _FLOATS[base] > _FLOATS[other]:
            yield Finding("destructive", f"{name} loses precision {change}")
        elif base != other:
            yield Finding("warning", f"{name} is rewritten {change}")
        return
    if (base in _TIMES and {base, other} <= {"datetime", "timestamp"}) or base == other in _TIMES:
        yield from _temporal(name, change, old, new)
        return
    yield from _strings(name, change, old, new)


def _decimal(name: str, change: str, old: Facts, new: Facts) -> Iterator[Finding]:
    (one, two), (three, four) = (_digits(parts(side)[1]) for side in (old, new))
    if "unsigned" in new["type"] and "unsigned" not in old["type"]:
        yield Finding("destructive", f"{name} changes its sign {change}")
    elif four < two or three - four < one - two:
        yield Finding("destructive", f"{name} loses precision {change}")
    else:
        yield Finding("warning", f"{name} is rewritten {change}")


def _digits(arguments: str) -> tuple[int, int]:
    total, _, scale = arguments.partition(",")
    return int(total or 10), int(scale or 0)


def _members(name: str, old: Facts, new: Facts) -> Iterator[Finding]:
    before, after = values_of(old) or [], values_of(new) or []
    if after[: len(before)] == before:
        if len(after) > len(before):
            yield Finding("safe", f"{name} gets members at the end")
        return
    gone = [value for value in before if value not in after]
    if gone:
        yield Finding("destructive", f"{name} loses the members {', '.join(gone)}")
    else:
        yield Finding(
            "destructive", f"{name} has its members in another order: what sorts or stores by"
            " number changes",
        )  # fmt: skip


def _temporal(name: str, change: str, old: Facts, new: Facts) -> Iterator[Finding]:
    if int(parts(new)[1] or 0) < int(parts(old)[1] or 0):
        yield Finding("destructive", f"{name} loses fractions of a second {change}")
    elif parts(old)[0] == "datetime" and parts(new)[0] == "timestamp":
        yield Finding("destructive", f"{name} shrinks {change}: no dates before 1970")
    else:
        yield Finding("warning", f"{name} is rewritten {change}")


def _strings(name: str, change: str, old: Facts, new: Facts) -> Iterator[Finding]:
    one, two = length_of(old), length_of(new)
    same = bool(old.get("charset")) == bool(new.get("charset"))
    if one is not None and two is not None and same:
        # A char loses its trailing spaces, a text counts bytes: wide enough for four each.
        base, other = parts(old)[0], parts(new)[0]
        need = one * 4 if other in _TEXTS and base not in _TEXTS else one
        if base in _TEXTS and other not in _TEXTS:
            yield Finding("destructive", f"{name} shrinks {change}")
        elif two >= need or (two >= one and base in _TEXTS):
            plain = base == other or other in _TEXTS or other in _BLOBS
            yield Finding("safe" if plain else "warning", f"{name} is rewritten {change}")
        else:
            yield Finding("destructive", f"{name} shrinks {change}")
        return
    if integer_range(old) and parts(new)[0] == "decimal":
        total, scale = _digits(parts(new)[1])
        limits = integer_range(old) or (0, 0)
        fits = max(abs(limit) for limit in limits) < 10 ** (total - scale)
        if fits and (limits[0] >= 0 or "unsigned" not in new["type"]):
            yield Finding("warning", f"{name} is rewritten {change}")
            return
    if values_of(old) is not None and new.get("charset") and two is not None:
        longest = max((len(value) for value in values_of(old) or [""]), default=0)
        if parts(old)[0] == "enum" and two >= longest:
            yield Finding("warning", f"{name} is rewritten {change}")
            return
    yield Finding("destructive", f"{name} is converted {change}: what has no equal there is lost")


def _without_literals(text: str) -> str:
    return re.sub(r"'(?:[^'\\]|''|\\.)*'", "''", text)
