"""The goose layout: ``-- +goose Up`` and ``Down`` sections of one file. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, blanked, digits_finding, hidden, visible_sql
from ptahk.migrations.layouts.common import (
    Comment,
    Options,
    Parts,
    comments,
    on_own_line,
    refuse_duplicates,
    unknown_name,
)
from ptahk.migrations.model import Part, TxMode

NAME: Final = re.compile(r"(?P<version>\d+)_(?P<title>[^/]*)\.sql")
CODE: Final = re.compile(r"\d+_[^/]*\.go")
MARKER: Final = re.compile(r"--.*?\+goose[ \t]+(.*)", re.IGNORECASE | re.DOTALL)
PREFIX: Final = "+goose"


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The Up sections."""
    parts = Parts()
    for file in files:
        if CODE.fullmatch(file.name) and not hidden(file.name):
            parts.refuse(
                file.finding("MG109", None, "a migration written in Go", "write it in SQL")
            )
    for file in visible_sql(files):
        match = NAME.fullmatch(file.name)
        if match is None or not match["version"].lstrip("0"):
            parts.refuse(unknown_name(file, "VERSION_title.sql with a version of 1 or more"))
            continue
        if parts.refuse(digits_finding(file, match["version"])):
            continue
        version = match["version"].lstrip("0")
        part = _part(file, version, match["title"], options, parts)
        if part is not None:
            parts.parts.append(part)
    refuse_duplicates(parts)
    return parts


def markers(file: SourceFile, options: Options, parts: Parts) -> list[tuple[Comment, str]]:
    """goose's comments: they begin their line."""
    found = []
    for comment in comments(file, options.engine, parts):
        match = MARKER.match(comment.text)
        if match is not None and on_own_line(file, comment):
            found.append((comment, " ".join(match[1].upper().split())))
    return found


def _part(
    file: SourceFile, version: str, title: str, options: Options, parts: Parts
) -> Part | None:
    up: Comment | None = None
    end = len(file.text)
    cuts: list[int] = []
    tx_mode: TxMode | None = None
    inside: Comment | None = None
    down = False
    for comment, word in markers(file, options, parts):
        if word == "UP":
            if up is not None or down:
                parts.refuse(
                    file.finding("MG206", comment.at, "a second +goose Up, or behind Down")
                )
            up = up or comment
        elif word == "DOWN":
            if down or up is None:
                parts.refuse(file.finding("MG206", comment.at, "+goose Down before Up, or twice"))
            elif inside is not None:
                parts.refuse(file.finding("MG206", inside.at, "+goose StatementBegin has no End"))
            end, down, inside = (end if down else comment.at), True, None
        elif word == "NO TRANSACTION":
            tx_mode = "none"
        elif word in ("STATEMENTBEGIN", "STATEMENTEND"):
            begins = word == "STATEMENTBEGIN"
            if begins == (inside is not None) or up is None:
                parts.refuse(file.finding("MG206", comment.at, f"+goose {word} out of place"))
            inside = comment if begins else None
            if not down:
                cuts.append(comment.at)
        elif word.startswith("ENVSUB"):
            if word != "ENVSUB OFF":
                parts.refuse(
                    file.finding(
                        "MG207", comment.at,
                        "+goose ENVSUB puts the environment into SQL, and ptahk does not",
                        "write the values",
                    )
                )  # fmt: skip
        else:
            parts.refuse(file.finding("MG201", comment.at, f"+goose {word} is no directive"))
    if inside is not None:
        parts.refuse(file.finding("MG206", inside.at, "+goose StatementBegin has no End"))
    if up is None:
        parts.refuse(
            file.finding("MG204", None, "no '-- +goose Up' in the file", "write it above the SQL")
        )
        return None
    if up.after_sql:
        parts.refuse(
            file.finding("MG205", up.at, "SQL stands before '-- +goose Up'", "move it below")
        )
    text = blanked(file.text, [(up.end, end)])
    return Part(
        file, version, (int(version),), title, up=file.text[up.end : end], text=text,
        cuts=tuple(cut for cut in cuts if cut < end), tx_mode=tx_mode,
    )  # fmt: skip
