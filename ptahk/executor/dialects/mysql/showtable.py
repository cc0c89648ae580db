"""Reads what ``SHOW CREATE TABLE`` prints into facts. Pure.

Both servers print one clause a line and escape line breaks in literals, so a line is a clause. A
line that is none of the known clauses makes the table one that cannot be planned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ptahk.executor.dialects.mysql.kinds.partition import canonical
from ptahk.executor.dialects.mysql.quote import unident

NAME: Final = r"`(?:[^`]|``)*`"
_COLUMN: Final = re.compile(
    rf"(?P<name>{NAME}) (?P<type>[a-z_0-9]+(?: varying)?"
    r"(?:\((?:[^()']|'(?:[^'\\]|''|\\.)*')*\))?(?: unsigned| signed)?(?: zerofill)?"
    r"(?: /\*M?!\d+ COMPRESSED\*/)?)"
    r"(?: CHARACTER SET (?P<charset>\w+))?(?: COLLATE (?P<collation>\w+))?(?P<rest>.*)\Z",
    re.DOTALL,
)
_INDEX: Final = re.compile(
    rf"(?P<what>PRIMARY KEY|UNIQUE KEY|FULLTEXT KEY|SPATIAL KEY|VECTOR KEY|KEY)"
    rf"(?: (?P<name>{NAME}))? (?P<body>.*)\Z",
    re.DOTALL,
)
_FOREIGN: Final = re.compile(
    rf"CONSTRAINT (?P<name>{NAME}) FOREIGN KEY \((?P<columns>{NAME}(?:, {NAME})*)\)"
    rf" REFERENCES (?:(?P<schema>{NAME})\.)?(?P<table>{NAME}) \((?P<theirs>{NAME}(?:, {NAME})*)\)"
    r"(?P<rules>.*)\Z",
    re.DOTALL,
)
_CHECK: Final = re.compile(rf"CONSTRAINT (?P<name>{NAME}) (?P<body>CHECK \(.*)\Z", re.DOTALL)
_PERIOD: Final = re.compile(rf"PERIOD FOR (?P<name>SYSTEM_TIME|{NAME}) (?P<body>\(.*\))\Z")
_NAMES: Final = re.compile(NAME)
_HEAD: Final = re.compile(rf"CREATE TABLE {NAME} \(\n")
_OPTION: Final = re.compile(
    rf"\s*(?:/\*M?!\d*\s*)?(?P<key>WITH SYSTEM VERSIONING|START TRANSACTION|STORAGE \w+|"
    rf"(?:DEFAULT )?[A-Z_]+(?:(?:=| )(?=[^\s=]))|{NAME}=)"
    rf"(?P<value>'(?:[^'\\]|''|\\.)*'|{NAME}|\([^)]*\)|[^\s'`]*)(?:\s*\*/)?"
)
_WRAPPED: Final = re.compile(r"\A\s*/\*!\d+ (.*?)\s*\*/\s*\Z", re.DOTALL)
CHARACTER: Final = re.compile(
    r"(?:char|varchar|tinytext|text|mediumtext|longtext|enum|set)(?![a-z0-9])"
)
"""Types whose values have a character set."""
_CONDITIONAL: Final = re.compile(r"/\*!(?:80|9)\d+ ([A-Z][A-Z_ 0-9]*(?:='[^']*')?) \*/")


class Unreadable(ValueError):
    """The text holds a clause that is not known here; the message shows it."""


def parse(
    text: str, collations: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Facts of one table, its foreign keys by name, and what is not compared.

    :param collations: the collation that a character set has where none is printed.
    :returns: the last holds ``auto_increment``, the counter.
    :raises Unreadable: naming the clause.
    """
    head = _HEAD.match(text)
    end = text.find("\n)", head.end() - 1) if head else -1
    if head is None or end < 0:
        raise Unreadable(text[:60])
    facts: dict[str, Any] = {"columns": [], "indexes": {}, "checks": {}, "periods": {}}
    foreign: dict[str, dict[str, Any]] = {}
    for line in text[head.end() : end].split("\n"):
        _clause(line[2:].removesuffix(","), facts, foreign)
    tail = text[end + 2 :]
    options, partition = _tail(tail)
    aside: dict[str, Any] = {}
    counter = options.pop("AUTO_INCREMENT", None)
    if counter is not None:
        aside["auto_increment"] = int(counter)
    facts["charset"] = options.pop("DEFAULT CHARSET", "")
    facts["collation"] = options.pop("COLLATE", "") or collations.get(facts["charset"], "")
    facts["engine"] = options.pop("ENGINE", "")
    facts["options"] = options
    if partition:
        facts["partition"] = canonical(partition)
    for column in facts["columns"]:
        _effective(column, facts, collations)
    return {key: value for key, value in facts.items() if value not in ({}, [], "")}, foreign, aside


def _clause(line: str, facts: dict[str, Any], foreign: dict[str, dict[str, Any]]) -> None:
    if line.startswith("`"):
        match = _COLUMN.match(line)
        if match is None:
            raise Unreadable(line)
        facts["columns"].append(
            {
                "name": unident(match["name"]),
                "type": match["type"],
                "charset": match["charset"] or "",
                "collation": match["collation"] or "",
                "rest": _plain(match["rest"].strip()),
            }
        )
        return
    match = _INDEX.match(line)
    if match is not None:
        name = "PRIMARY" if match["name"] is None else unident(match["name"])
        facts["indexes"][name] = [match["what"], _plain(match["body"])]
        return
    match = _FOREIGN.match(line)
    if match is not None:
        foreign[unident(match["name"])] = _foreign(match)
        return
    match = _CHECK.match(line)
    if match is not None:
        facts["checks"][unident(match["name"])] = _plain(match["body"])
        return
    match = _PERIOD.match(line)
    if match is None:
        raise Unreadable(line)
    facts["periods"][match["name"]] = match["body"]


def _foreign(match: re.Match[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "columns": [unident(name) for name in _NAMES.findall(match["columns"])],
        "references": unident(match["table"]),
        "referenced_columns": [unident(name) for name in _NAMES.findall(match["theirs"])],
        "rules": match["rules"].strip(),
    }
    if match["schema"]:
        found["schema"] = unident(match["schema"])
    return found


def _plain(text: str) -> str:
    """Conditional comments around attributes taken off: they are code on the server that prints."""
    return _CONDITIONAL.sub(r"\1", text)


def _effective(
    column: dict[str, Any], facts: dict[str, Any], collations: Mapping[str, str]
) -> None:
    """What a column without a clause of its own has: the table's character set and collation."""
    if CHARACTER.match(column["type"]) is None:
        for key in ("charset", "collation"):
            if not column[key]:
                del column[key]
        return
    if not column["charset"]:
        column["charset"] = facts["charset"]
        column["collation"] = column["collation"] or facts["collation"]
    elif not column["collation"]:
        column["collation"] = collations.get(column["charset"], "")


def _tail(tail: str) -> tuple[dict[str, str], str]:
    at = tail.find("PARTITION BY")
    line = tail.rfind("\n", 0, at) if at >= 0 else -1
    if line >= 0 and re.fullmatch(r"\n\s*(?:/\*!\d+ )?", tail[line:at]):
        options, text = tail[:line], tail[line:].strip()
        wrapped = _WRAPPED.match(text)
        partition = wrapped.group(1) if wrapped else text
    else:
        options, partition = tail, ""
    found: dict[str, str] = {}
    position = 0
    options = options.rstrip()
    while position < len(options):
        match = _OPTION.match(options, position)
        if match is None or match.end() == position:
            raise Unreadable(options[position:])
        found[match["key"].rstrip("= ")] = match["value"]
        position = match.end()
    return found, partition
