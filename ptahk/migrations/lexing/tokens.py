"""What the lexers give: tokens, statements with their places, and refusals. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

STATEMENT_BYTES_MAX: Final = 4 * 1024 * 1024
BOM: Final = "\ufeff"
MARKS: Final = frozenset({"code", "close", "hint"})
"""Kinds of token around the code of an executable comment, and optimizer hints."""


HEAD: Final = 8
"""How many of its first keys a statement keeps at hand."""


class Token(NamedTuple):
    """One significant token. ``text`` is as written; ``key`` is a word in upper case, a quoted
    name as its value, punctuation as is, and ``''`` for literals.

    A tuple, since tens of thousands are made of every directory.
    """

    kind: str
    text: str
    key: str
    at: int = 0
    """Offset in the file's text."""

    @property
    def end(self) -> int:
        """Offset of what follows it."""
        return self.at + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it can name an object: a bare word or a quoted name."""
        return self.kind in ("word", "name")

    @property
    def called(self) -> str:
        """The name it stands for, as written."""
        return self.key if self.kind == "name" else self.text


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it stands in its file, without its terminator."""

    text: str
    file: str
    line: int
    """Line of the first token, from 1."""
    tokens: tuple[Token, ...]
    start: int = 0
    """Offset of ``text`` in the file's text."""
    column: int = 1
    """Column of the first token, from 1, in characters."""
    data: str | None = None
    """The rows of a ``COPY … FROM stdin``."""
    head: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The keys of its first tokens that are no marks, ``""`` for quoted names."""

    def __post_init__(self) -> None:
        found: list[str] = []
        for token in self.tokens:
            if token.kind not in MARKS:
                found.append("" if token.kind == "name" else token.key)
                if len(found) == HEAD:
                    break
        object.__setattr__(self, "head", tuple(found))

    def words(self, count: int) -> tuple[str, ...]:
        """The keys of the first tokens; short statements give fewer."""
        found = []
        for token in self.tokens:
            if token.kind not in MARKS:
                found.append(token.key)
            if len(found) == count:
                break
        return tuple(found)

    def line_of(self, position: int) -> int:
        """Line in the file of a character position within ``text``, from 1 (as the server's)."""
        return self.line + self.text.count("\n", 0, max(0, position - 1))

    def line_of_token(self, token: Token) -> int:
        """Line in the file of one of its tokens."""
        return self.line_of(token.at - self.start + 1)

    def place_of(self, position: int) -> tuple[int, int]:
        """Line and column in the file of a character position within ``text``, from 1."""
        before = self.text[: max(0, position - 1)]
        if "\n" not in before:
            return self.line, self.column + len(before)
        return self.line + before.count("\n"), len(before) - before.rindex("\n")


class LexError(Exception):
    """Text that cannot be split.

    :param number: of the finding (``MG301`` …).
    :param at: offset in the file's text.
    :param message: what was found there.
    :param hint: the way out, where there is one.
    """

    def __init__(self, number: str, at: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.number = number
        self.at = at
        self.message = message
        self.hint = hint


def place(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    at = min(at, len(text))
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


class Places:
    """Line and column of offsets that are asked for in rising order; each line is counted once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = 0
        self._line = 1
        self._begin = 0

    def of(self, at: int) -> tuple[int, int]:
        if at < self._counted:
            return place(self._text, at)
        lines = self._text.count("\n", self._counted, at)
        if lines:
            self._line += lines
            self._begin = self._text.rindex("\n", self._counted, at) + 1
        self._counted = at
        return self._line, at - self._begin + 1
