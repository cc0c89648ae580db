"""What is wrong with a migration directory: numbered findings, with place and way out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ptahk.errors import UsageError

TITLES: Final[Mapping[str, str]] = {
    "MG101": "no migration in the directory",
    "MG102": "a file name that the layout does not know",
    "MG103": "one version, two files",
    "MG104": "two layouts in one directory",
    "MG105": "a file that is not UTF-8",
    "MG106": "a NUL character",
    "MG107": "too large",
    "MG108": "a version of too many digits",
    "MG109": "code or a callback instead of SQL",
    "MG110": "a placeholder without a value",
    "MG111": "a sum file that does not fit the files",
    "MG112": "text order and numeric order differ",
    "MG113": "a version in the future",
    "MG201": "an unknown directive",
    "MG202": "a directive after the first statement",
    "MG203": "a directive with a bad value",
    "MG204": "no marker of the part to run",
    "MG205": "SQL before the marker of the part to run",
    "MG206": "a marker that does not fit the others",
    "MG207": "a feature of the layout's own tool that ptahk does not have",
    "MG301": "a quote or comment without an end",
    "MG302": "a command of a client, which is not SQL",
    "MG303": "COPY data without a beginning or an end",
    "MG304": "a delimiter that does not work",
    "MG305": "a routine without an end",
    "MG306": "a statement that is too large",
    "MG401": "a statement that cannot run in a transaction",
    "MG402": "transaction control",
    "MG403": "a statement that would give up ptahk's lock",
    "MG404": "a statement for another database",
    "MG405": "a setting of the whole server",
    "MG406": "a statement that would blind or bind the session",
    "MG407": "a file or a program of the server",
    "MG408": "a table of ptahk's",
    "MG409": "a setting that changes how SQL is read",
    "MG410": "statements of both kinds in one file",
    "MG411": "a transaction or a table lock without an end",
    "MG412": "a transaction around the whole file",
    "MG501": "a file that was changed after it was merged",
    "MG502": "a file that was removed after it was merged",
    "MG503": "a new file that sorts before one that was merged",
    "MG601": "a version that was applied in part",
    "MG602": "a version whose outcome nobody saw",
    "MG604": "another tool's history that moved",
    "MG611": "a version that was edited after it was applied",
    "MG612": "a version that was applied and whose file is gone",
    "MG613": "a version that was applied with another file's text",
    "MG614": "a version whose comments or white space changed after it was applied",
    "MG621": "a database that is ahead of the directory",
    "MG631": "a version below the newest that was applied",
    "MG701": "another tool's history that did not end well",
    "MG702": "a version that another tool recorded and no file has",
    "MG703": "a file that is not the text that another tool ran",
    "MG704": "another tool's history table that cannot be told",
    "MG705": "versions that nothing but another tool's word is known of",
    "MG801": "a statement that cannot be run again on an empty database",
    "MG802": "a checkpoint that does not give what its files give",
}
"""Every number once and for good; ``docs/migrations.md`` is held to it by a test."""

WARNINGS: Final = frozenset({"MG113", "MG412", "MG614"})
"""Findings that refuse nothing."""
IGNORABLE: Final = frozenset({"MG113", "MG412", "MG503"})
"""Those that a file may switch off for itself, with a reason: ``-- ptahk:ignore``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    number: str
    file: str
    """``""``: of the directory itself."""
    line: int
    """From 1; 0: of the file as a whole."""
    column: int
    message: str
    """What was found."""
    hint: str | None = None
    """The header or command that would allow it, where there is one."""
    statement: int | None = None
    """Number of the statement in its file, from 1, where it is about one."""

    @property
    def refuses(self) -> bool:
        return self.number not in WARNINGS

    @property
    def where(self) -> str:
        """``FILE:LINE:COLUMN``, as far as it goes."""
        if not self.file:
            return "directory"
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        out: dict[str, Any] = {
            "number": self.number,
            "title": TITLES[self.number],
            "severity": "error" if self.refuses else "warning",
            "file": self.file or None,
            "line": self.line or None,
            "column": self.column if self.line else None,
            "message": self.message,
            "hint": self.hint,
        }
        if self.statement is not None:
            out["statement"] = self.statement
        return out

    def sentence(self) -> str:
        """One line for a person."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.where}: {self.number} {self.message}{hint}"


class InvalidSource(UsageError):
    """A migration directory that cannot be run; carries every finding (C-11.1)."""

    default_reason = "InvalidSource"

    def __init__(self, findings: Sequence[Finding]) -> None:
        first = findings[0]
        more = len(findings) - 1
        tail = f"; and {more} more" if more else ""
        super().__init__(
            f"{first.where}: {first.message} ({first.number}){tail}",
            field=first.where,
            hint=first.hint,
        )
        self.findings = tuple(findings)
        self.file = first.file or None
        self.line = first.line or None


def refuse(findings: Sequence[Finding]) -> None:
    """:raises InvalidSource: one of them refuses."""
    refusing = [finding for finding in findings if finding.refuses]
    if refusing:
        raise InvalidSource(refusing)
