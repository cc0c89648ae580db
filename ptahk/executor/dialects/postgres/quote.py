"""SQL identifiers and literals as PostgreSQL reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")

# Words that cannot stand as a column or function name without quotes on some supported server
# (reserved, column-name and type-or-function words of 15 to 18). Quoting more is harmless.
_WORDS = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user dec decimal default deferrable desc distinct do else end except
    exists extract false fetch float for foreign freeze from full grant greatest group grouping
    having ilike in initially inner inout int integer intersect interval into is isnull join json
    json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
    json_serialize json_table json_value lateral leading least left like limit localtime
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif
    numeric offset on only or order out outer overlaps overlay placing position precision primary
    real references returning right row select session_user setof similar smallint some substring
    symmetric system_user table tablesample then time timestamp to trailing treat trim true union
    unique user using values varchar variadic verbose when where window with xmlattributes
    xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
    xmltable
    """.split()  # noqa: SIM905
)

NAME_BYTES_MAX = 63
"""Longest identifier of a server built with the default ``NAMEDATALEN``."""


def ident(name: str) -> str:
    """One identifier, quoted only where it must be."""
    if _PLAIN.match(name) and name not in _WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def qualified(parts: Iterable[str]) -> str:
    """A dotted name of any number of parts."""
    return ".".join(ident(part) for part in parts)


def idents(names: Iterable[str]) -> str:
    """A comma-separated list of identifiers."""
    return ", ".join(ident(name) for name in names)


def literal(text: str) -> str:
    """A string literal that means the same under either ``standard_conforming_strings``."""
    quoted = "'" + text.replace("'", "''") + "'"
    if "\\" in text:
        return "E" + quoted.replace("\\", "\\\\")
    return quoted


def dollar(body: str) -> str:
    """``body`` between dollar quotes whose tag does not occur in it."""
    tag = "$$"
    number = 0
    while tag in body or body.endswith("$"):
        number += 1
        tag = f"$ptahk{number}$"
        if tag not in body:
            break
    return f"{tag}{body}{tag}"


def clip(name: str, size_bytes_max: int = NAME_BYTES_MAX) -> str:
    """``name`` cut to whole characters within the server's limit."""
    return name.encode()[:size_bytes_max].decode(errors="ignore")


def object_name(first: str, second: str, label: str) -> str:
    """The name that the server itself would choose (its ``makeObjectName``)."""
    spare = NAME_BYTES_MAX - len(label.encode()) - 1 - (1 if second else 0)
    one, two = len(first.encode()), len(second.encode())
    while one + two > spare:
        if one > two:
            one -= 1
        else:
            two -= 1
    parts: Sequence[str] = [clip(first, one), *([clip(second, two)] if second else []), label]
    return "_".join(parts)
