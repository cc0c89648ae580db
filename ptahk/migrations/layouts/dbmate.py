"""The dbmate layout: ``-- migrate:up`` and ``-- migrate:down`` blocks of one file. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, blanked, digits_finding, visible_sql
from ptahk.migrations.layouts.common import (
    Comment,
    Options,
    Parts,
    comments,
    on_own_line,
    unknown_name,
)
from ptahk.migrations.model import Part, TxMode

NAME: Final = re.compile(r"(?P<version>\d+)(?P<title>[^/]*)\.sql")
MARKER: Final = re.compile(r"--\s*migrate:(up|down)(?:\s+(.*))?\s*", re.DOTALL)
OPTION: Final = re.compile(r"(\w+):(\S+)")


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The up blocks, in the order of the names; versions are text, leading zeros count."""
    parts = Parts()
    seen: dict[str, SourceFile] = {}
    for file in visible_sql(files):
        match = NAME.fullmatch(file.name)
        if match is None:
            parts.refuse(unknown_name(file, "VERSION_title.sql"))
            continue
        version = match["version"]
        if parts.refuse(digits_finding(file, version)):
            continue
        first = seen.setdefault(version, file)
        if first is not file:
            parts.refuse(
                file.finding(
                    "MG103", None, f"version {version} is also that of {first.name}",
                    "give one of them another version",
                )
            )  # fmt: skip
        part = _part(file, version, match["title"].lstrip("_"), options, parts)
        if part is not None:
            parts.parts.append(part)
    return parts


def _part(
    file: SourceFile, version: str, title: str, options: Options, parts: Parts
) -> Part | None:
    up: Comment | None = None
    end = len(file.text)
    tx_mode: TxMode | None = None
    down = False
    for comment in comments(file, options.engine, parts):
        match = MARKER.fullmatch(comment.text)
        if match is None or not on_own_line(file, comment):
            continue
        if match[1] == "down":
            if up is None or down:
                parts.refuse(file.finding("MG206", comment.at, "migrate:down before up, or twice"))
            end, down = (end if down else comment.at), True
            continue
        if up is not None:
            parts.refuse(
                file.finding(
                    "MG206", comment.at, "a second migrate:up, which dbmate does not run",
                    "one file, one block",
                )
            )  # fmt: skip
            continue
        up = comment
        tx_mode = _options(file, comment, match[2] or "", parts)
    if up is None:
        parts.refuse(
            file.finding("MG204", None, "no '-- migrate:up' in the file", "write it above the SQL")
        )
        return None
    if up.after_sql:
        parts.refuse(
            file.finding("MG205", up.at, "SQL stands before '-- migrate:up'", "move it below")
        )
    text = blanked(file.text, [(up.end, end)])
    # dbmate runs in the order of file names, and so do we.
    return Part(
        file, version, (file.name,), title, up=file.text[up.end : end], text=text, tx_mode=tx_mode
    )


def _options(file: SourceFile, comment: Comment, text: str, parts: Parts) -> TxMode | None:
    tx_mode: TxMode | None = None
    for word in text.split():
        match = OPTION.fullmatch(word)
        if match is None or match[1] != "transaction" or match[2] not in ("true", "false"):
            parts.refuse(
                file.finding("MG203", comment.at, f"{word} is no option of migrate:up",
                             "transaction:false is the only one")
            )  # fmt: skip
        elif match[2] == "false":
            tx_mode = "none"
    return tx_mode
