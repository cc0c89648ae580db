"""What the layouts share: options, comments as markers, duplicate versions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import Finding
from ptahk.migrations.lexing import mysql, postgres
from ptahk.migrations.lexing.tokens import LexError
from ptahk.migrations.model import Engine, Part

SERVED_BY: Final[Mapping[str, tuple[Engine, ...]]] = {
    "postgres": ("postgresql",),
    "postgresql": ("postgresql",),
    "pg": ("postgresql",),
    "mysql": ("mysql", "mariadb"),
    "mariadb": ("mariadb",),
    "sqlite": (),
    "sqlite3": (),
    "cockroach": (),
    "cockroachdb": (),
    "sqlserver": (),
}
"""Engine words in file names → the engines that such a file is for."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a directory is read for."""

    engine: Engine
    explicit: bool = False
    """The layout was named, not detected."""
    placeholders: Mapping[str, str] | str | None = None
    """Flyway: values, or ``off``."""


@dataclass(slots=True)
class Parts:
    """What a layout found: files to run and what is wrong."""

    parts: list[Part] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def refuse(self, finding: Finding | None) -> bool:
        """Keep a finding. :returns: whether there was one."""
        if finding is not None:
            self.findings.append(finding)
        return finding is not None


@dataclass(frozen=True, slots=True)
class Comment:
    """A ``--`` comment."""

    at: int
    text: str
    after_sql: bool
    """Something that is no comment stands before it."""

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def comments(file: SourceFile, engine: Engine, parts: Parts) -> list[Comment]:
    """The ``--`` comments of a file, as its engine sees them; a file that has no end of a quote
    gives those before it, and a finding."""
    scan = postgres.line_comments if engine == "postgresql" else mysql.line_comments
    found: list[Comment] = []
    try:
        for at, text, after_sql in scan(file.text):
            found.append(Comment(at, text, after_sql))
    except LexError as error:
        parts.refuse(file.finding(error.number, error.at, error.message, error.hint))
    return found


def on_own_line(file: SourceFile, comment: Comment) -> bool:
    """It stands at the beginning of its line."""
    before = file.text[: comment.at]
    return not before or before[-1] in "\r\n" or before == "\ufeff"


def marked(
    file: SourceFile, engine: Engine, word: str, parts: Parts
) -> Iterator[tuple[Comment, str]]:
    """Comments at a line's beginning that hold ``word``, and what follows it."""
    for comment in comments(file, engine, parts):
        if on_own_line(file, comment):
            body = comment.text[2:].strip()
            if body.lower().startswith(word.lower()):
                yield comment, body[len(word) :].strip()


def unknown_name(file: SourceFile, wanted: str) -> Finding:
    """A ``.sql`` file that the layout has no place for."""
    return file.finding(
        "MG102", None, f"the name is none of this layout's ({wanted})",
        "rename it, or move it out of the directory; --format names another layout",
    )  # fmt: skip


def refuse_duplicates(parts: Parts) -> None:
    """Two files of one version (and kind) are refused with both names."""
    seen: dict[tuple[Any, ...], Part] = {}
    for part in parts.parts:
        key = (part.kind, part.order)
        first = seen.setdefault(key, part)
        if first is not part:
            parts.refuse(
                part.file.finding(
                    "MG103", None,
                    f"version {part.version} is also that of {first.file.name}",
                    "give one of them another version: ptahk migrate rebase "
                    f"{part.version}",
                )
            )  # fmt: skip


def choose_engine(named: Iterable[tuple[Part, str | None]], engine: Engine) -> list[Part]:
    """One file for each version: that of the engine replaces the generic one.

    :param named: parts with the engine word of their name, None for the generic one.
    """
    chosen: dict[tuple[Any, ...], list[tuple[int, Part]]] = {}
    for part, word in named:
        if word is not None and engine not in SERVED_BY[word]:
            continue
        # mariadb's own file before mysql's, and either before the generic one.
        rank = 0 if word is None else (2 if len(SERVED_BY[word]) == 1 else 1)
        chosen.setdefault((part.kind, part.order), []).append((rank, part))
    out: list[Part] = []
    for ranked in chosen.values():
        best = max(rank for rank, _ in ranked)
        out += [part for rank, part in ranked if rank == best]
    return out
