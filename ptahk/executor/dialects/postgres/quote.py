"""Identifiers and literals as SQL text. Pure.

Output is the same on every server version, so that plan bytes do not depend on one (C-7.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")

# Every word that some version from 15 to 18 does not let stand unquoted everywhere.
_KEYWORDS = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary
    bit boolean both case cast char character check coalesce collate collation column
    concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from
    full grant greatest group grouping having ilike in initially inner inout int integer
    intersect interval into is isnull join json json_array json_arrayagg json_exists
    json_object json_objectagg json_query json_scalar json_serialize json_table json_value
    lateral leading least left like limit localtime localtimestamp merge_action national
    natural nchar none normalize not notnull null nullif numeric offset on only or order out
    outer overlaps overlay placing position precision primary real references returning right
    row select session_user setof similar smallint some substring symmetric system_user table
    tablesample then time timestamp to trailing treat trim true union unique user using values
    varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement
    xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
    """.split()
)


def ident(name: str) -> str:
    """One identifier, quoted where the server would not read it back unchanged."""
    if _PLAIN.match(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def qualified(parts: Iterable[str]) -> str:
    """Identifiers joined by dots."""
    return ".".join(ident(part) for part in parts)


def literal(text: str) -> str:
    """A string literal that means the same whatever ``standard_conforming_strings`` says."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return "'" + quoted + "'"
