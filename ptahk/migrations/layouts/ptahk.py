"""The ptahk layout: ``VERSION_description[.ENGINE][.checkpoint].sql``, and its header. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ptahk.migrations.files import SourceFile, digits_finding, visible_sql
from ptahk.migrations.findings import IGNORABLE, Finding
from ptahk.migrations.layouts.common import (
    Comment,
    Options,
    Parts,
    choose_engine,
    comments,
    refuse_duplicates,
    unknown_name,
)
from ptahk.migrations.model import Header, Kind, Part

NAME: Final = re.compile(
    r"(?P<version>\d+)(?:_(?P<description>[\w.-]+?))??"
    r"(?:\.(?P<engine>postgresql|mysql|mariadb))?(?P<checkpoint>\.checkpoint)?\.sql"
)
DIRECTIVE: Final = re.compile(r"--\s*ptahk:(\S*)[ \t]*(.*)", re.DOTALL)
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
ALLOWED: Final = ("database", "global", "replication-role", "program")
KEYS: Final = (
    "txmode", "lock-timeout", "statement-timeout", "delimiter", "checkpoint", "out-of-order",
    "allow", "requires", "ignore",
)  # fmt: skip
_REPEATABLE: Final = frozenset({"allow", "requires", "ignore"})


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The files of the engine, with their headers."""
    parts = Parts()
    named: list[tuple[Part, str | None]] = []
    for file in visible_sql(files):
        match = NAME.fullmatch(file.name)
        if match is None:
            parts.refuse(unknown_name(file, "VERSION_description.sql"))
            continue
        if parts.refuse(digits_finding(file, match["version"])):
            continue
        header = header_of(file, options, parts)
        kind: Kind = "checkpoint" if match["checkpoint"] or header.checkpoint else "versioned"
        version = match["version"].lstrip("0") or "0"
        part = Part(
            file, version, (int(version),), match["description"] or "", kind,
            tx_mode=header.tx_mode, header=header,
        )  # fmt: skip
        named.append((part, match["engine"]))
    parts.parts = choose_engine(named, options.engine)
    refuse_duplicates(parts)
    return parts


def header_of(file: SourceFile, options: Options, parts: Parts) -> Header:
    """The header's keys. Whatever is not understood is a finding: an ignored ``txmode none`` is
    worse than a refusal."""
    if _silent(file):
        return Header()
    reader = _Reader(file, parts)
    for comment in comments(file, options.engine, parts):
        match = DIRECTIVE.match(comment.text)
        if match is not None:
            reader.take(comment, match[1], match[2].strip())
    return Header(**reader.values)


def ignored(file: SourceFile, options: Options, parts: Parts) -> Header:
    """``-- ptahk:ignore`` alone, which every layout may have."""
    if _silent(file):
        return Header()
    reader = _Reader(file, parts)
    for comment in comments(file, options.engine, Parts()):
        match = DIRECTIVE.match(comment.text)
        if match is None:
            continue
        if match[1] != "ignore":
            reader.bad(
                "MG201", comment, f"only ptahk:ignore goes with this layout, not ptahk:{match[1]}"
            )
        else:
            reader.take(comment, match[1], match[2].strip())
    return Header(**reader.values)


def _silent(file: SourceFile) -> bool:
    """It cannot hold a directive, so nobody need look for its comments; most files are so."""
    return "ptahk:" not in file.text.lower()


class _Reader:
    def __init__(self, file: SourceFile, parts: Parts) -> None:
        self.file = file
        self.parts = parts
        self.values: dict[str, Any] = {}
        self._seen: set[str] = set()

    def bad(self, number: str, comment: Comment, message: str, hint: str | None = None) -> None:
        self.parts.refuse(self.file.finding(number, comment.at, message, hint))

    def take(self, comment: Comment, key: str, value: str) -> None:
        if key not in KEYS:
            self.bad("MG201", comment, f"ptahk:{key} is no directive", f"one of {', '.join(KEYS)}")
        elif comment.after_sql:
            self.bad(
                "MG202", comment, f"ptahk:{key} stands after the first statement",
                "move it above the first statement",
            )  # fmt: skip
        elif key in self._seen and key not in _REPEATABLE:
            self.bad("MG203", comment, f"ptahk:{key} is given twice", "keep one of them")
        else:
            self._seen.add(key)
            wrong = self._value(key, value)
            if wrong is not None:
                self.bad("MG203", comment, f"ptahk:{key} {value}".rstrip() + f": {wrong}")

    def _value(self, key: str, value: str) -> str | None:
        """Keep the value. :returns: what is wrong with it."""
        if key == "txmode":
            self.values["tx_mode"] = value
            return None if value in ("file", "none") else "is file or none"
        if key in ("lock-timeout", "statement-timeout"):
            match = DURATION.fullmatch(value)
            if match is None:
                return "is a duration such as 3s or 500ms"
            self.values[key.replace("-", "_") + "_s"] = float(match[1]) * UNIT_S[match[2]]
            return None
        if key in ("checkpoint", "out-of-order"):
            self.values[key.replace("-", "_")] = True
            return "takes no value" if value else None
        if key == "delimiter":
            self.values["delimiter"] = value
            return None if value and "\\" not in value else "is a text without a backslash"
        if key == "allow":
            before = self.values.get("allow", frozenset())
            assert isinstance(before, frozenset)
            self.values["allow"] = before | {value}
            return None if value in ALLOWED else f"is one of {', '.join(ALLOWED)}"
        return self._more(key, value)

    def _more(self, key: str, value: str) -> str | None:
        if key == "requires":
            before = self.values.get("requires", ())
            assert isinstance(before, tuple)
            self.values["requires"] = (*before, value)
            return None if value else "is a query that returns true"
        number, _, reason = value.partition(" ")
        reasons = self.values.setdefault("ignore", {})
        assert isinstance(reasons, dict)
        reasons[number] = reason.strip()
        if number not in IGNORABLE:
            return f"only {', '.join(sorted(IGNORABLE))} can be switched off"
        return None if reason.strip() else "needs a reason behind the number"


def future(part: Part, latest: str) -> Finding | None:
    """A timestamp that is far ahead blocks every later file.

    :param latest: the latest timestamp that is not: 14 digits, UTC.
    """
    digits = part.version
    if part.kind != "versioned" or not re.fullmatch(r"20\d{12}", digits) or digits <= latest:
        return None
    return part.file.finding(
        "MG113", None, f"the version is a time in the future ({digits})",
        f"files made before that time will be out of order: ptahk migrate rebase {digits}",
    )  # fmt: skip
