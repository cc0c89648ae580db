"""The atlas layout: ``VERSION[_description].sql``, and atlas' own directives. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.migrations.files import SourceFile, digits_finding, visible_sql
from ptahk.migrations.layouts.common import Options, Parts, refuse_duplicates, unknown_name
from ptahk.migrations.model import Header, Kind, Part, TxMode

NAME: Final = re.compile(r"(?P<version>\d[^_/]*?)(?:_(?P<description>[^/]*))?\.sql")
DIRECTIVE: Final = re.compile(r"--\s*atlas:(\w+)(?:[ \t]+([^\r\n]*?))?[ \t]*\r?\Z")
FOREIGN: Final = frozenset({"txtar", "import"})
_ESCAPES: Final = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The files in text order of their names, as atlas runs them."""
    parts = Parts()
    for file in visible_sql(files):
        match = NAME.fullmatch(file.name)
        if match is None:
            parts.refuse(unknown_name(file, "VERSION_description.sql"))
            continue
        if parts.refuse(digits_finding(file, match["version"])):
            continue
        found = _directives(file, parts)
        kind: Kind = "checkpoint" if found.checkpoint else "versioned"
        header = Header(tx_mode=found.tx_mode, delimiter=found.delimiter)
        order = (file.name,)
        parts.parts.append(
            Part(file, match["version"], order, match["description"] or "", kind,
                 tx_mode=found.tx_mode, header=header)
        )  # fmt: skip
    _refuse_other_order(parts, options)
    _refuse_versions(parts)
    refuse_duplicates(parts)
    return parts


def sum_ignored(file: SourceFile) -> bool:
    """``-- atlas:sum ignore`` on line 1: the sum covers the name alone."""
    first = file.text.removeprefix("\ufeff").split("\n", 1)[0]
    match = DIRECTIVE.fullmatch(first)
    return match is not None and match[1] == "sum" and (match[2] or "").strip() == "ignore"


@dataclass(slots=True)
class _Found:
    tx_mode: TxMode | None = None
    delimiter: str = ";"
    checkpoint: bool = False


def _directives(file: SourceFile, parts: Parts) -> _Found:
    """The unbroken block of comments from the first byte, followed by an empty line; ``delimiter``
    and ``sum`` on line 1 alone, where no empty line is asked for."""
    found = _Found()
    lines = file.text.removeprefix("\ufeff").split("\n")
    head = 0
    while head < len(lines) and lines[head].lstrip().startswith("--"):
        head += 1
    closed = head < len(lines) and not lines[head].strip()
    at = len(file.text) - len(file.text.removeprefix("\ufeff"))
    for number, line in enumerate(lines):
        match = DIRECTIVE.match(line.strip("\r"))
        if match is not None:
            key, value = match[1], (match[2] or "").strip()
            first_line = number == 0 and key in ("delimiter", "sum")
            if not first_line and key != "nolint" and not (number < head and closed):
                parts.refuse(
                    file.finding(
                        "MG202", at, f"atlas:{key} stands where atlas does not read it",
                        "directives are comments from the first byte on, then an empty line; "
                        "delimiter and sum stand on line 1",
                    )
                )  # fmt: skip
            else:
                _take(found, file, at, key, value, parts)
        at += len(line) + 1
    return found


def _take(found: _Found, file: SourceFile, at: int, key: str, value: str, parts: Parts) -> None:
    if key == "txmode":
        if value not in ("file", "none"):
            parts.refuse(
                file.finding("MG203", at, f"atlas:txmode {value}: is file or none")
            )  # fmt: skip
        else:
            found.tx_mode = "none" if value == "none" else "file"
    elif key == "delimiter":
        for escape, character in _ESCAPES.items():
            value = value.replace(escape, character)
        if not value:
            parts.refuse(file.finding("MG203", at, "atlas:delimiter has no value"))
        found.delimiter = value or ";"
    elif key == "checkpoint":
        found.checkpoint = True
    elif key in FOREIGN:
        parts.refuse(
            file.finding("MG207", at, f"atlas:{key} is a feature of atlas that ptahk does not have")
        )
    elif key not in ("sum", "nolint"):
        parts.refuse(file.finding("MG201", at, f"atlas:{key} is no directive that ptahk knows"))


def _refuse_other_order(parts: Parts, options: Options) -> None:
    """Atlas sorts as text. Where numbers would sort otherwise, somebody must have meant it."""
    numbers = [part for part in parts.parts if part.version.isdigit()]
    if options.explicit or len(numbers) != len(parts.parts):
        return
    for before, after in zip(parts.parts, parts.parts[1:], strict=False):
        if int(before.version) > int(after.version):
            parts.refuse(
                after.file.finding(
                    "MG112", None,
                    f"as text it sorts after {before.file.name}, as a number before it",
                    "--format atlas keeps the order of text",
                )
            )  # fmt: skip
            return


def _refuse_versions(parts: Parts) -> None:
    seen: dict[str, Part] = {}
    for part in parts.parts:
        first = seen.setdefault(part.version, part)
        if first is not part and first.kind == part.kind:
            parts.refuse(
                part.file.finding(
                    "MG103", None, f"version {part.version} is also that of {first.file.name}",
                    "give one of them another version",
                )
            )  # fmt: skip
