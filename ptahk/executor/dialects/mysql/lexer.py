"""Splits SQL text for MySQL and MariaDB into statements, as the servers' own client does. Pure.

It knows quoting, comments, conditional comments (their content is code where the server reads it)
and the client's DELIMITER command, and nothing of the grammar: the server parses. Every statement
is sent alone and the server refuses two in one text, so a doubt ends in an error, never in more
than was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ptahk.errors import UsageError

STATEMENT_BYTES_MAX: Final = 4 * 1024 * 1024

_TOKEN: Final = re.compile(
    r"""
      (?P<space>(?:\s+|--(?=[\s\x00-\x1f]|\Z)[^\n]*|\#[^\n]*)+)
    | (?P<plain>(?:[bBxXnN])?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+')
    | (?P<double>"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+")
    | (?P<name>`[^`]*+(?:``[^`]*+)*+`)
    | (?P<variable>@@?(?:[A-Za-z0-9_.$\x80-\U0010ffff]*+))
    | (?P<word>[A-Za-z0-9_$\x80-\U0010ffff]++)
    | (?P<block>/\*)
    | (?P<close>\*/)
    | (?P<open>['"`])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CONDITIONAL: Final = re.compile(r"/\*(M?)!(\d{5,6})?")
_DELIMITER: Final = re.compile(r"delimiter[ \t]+", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+\Z|0[xXbB][0-9A-Fa-f]+\Z|\d+[eE]\d+\Z")
_SANDBOX: Final = re.compile(r"/\*M?!999999\\- enable the sandbox mode \*/")


@dataclass(frozen=True, slots=True)
class Token:
    """One significant token. ``key`` is a word in upper case, a quoted name as its value,
    punctuation as is, and ``''`` for literals."""

    kind: str
    text: str
    key: str
    start: int
    """Offset in the statement's text."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it can name an object: a bare word or one in backticks."""
        return self.kind in ("word", "name")

    @property
    def called(self) -> str:
        """The name it stands for, as written."""
        return self.key if self.kind == "name" else self.text


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it stands in its file, without the delimiter."""

    text: str
    file: str
    line: int
    """Line of the first token, from 1."""
    tokens: tuple[Token, ...]

    def words(self, count: int) -> tuple[str, ...]:
        """The keys of the first tokens; short statements give fewer."""
        return tuple(token.key for token in self.tokens[:count])

    def line_of(self, position: int) -> int:
        """Line in the file of an offset within ``text``."""
        return self.line + self.text.count("\n", 0, max(0, position))


@dataclass(frozen=True, slots=True)
class Server:
    """What of the server decides how its SQL is read."""

    is_mariadb: bool
    version: int
    """As in conditional comments: 90704 for 9.7.4, 101118 for 10.11.18."""

    def reads(self, mariadb_only: bool, version: int) -> bool:
        """Whether the content of a conditional comment is code here."""
        if mariadb_only:
            return self.is_mariadb and version <= self.version
        if self.is_mariadb and 50700 <= version <= 99999:
            return False  # MariaDB takes these for MySQL's own since 5.7
        return version <= self.version


def syntax_error(file: str, line: int, message: str) -> UsageError:
    """What the lexer or the loader refuses, with its place (exit 2)."""
    return UsageError(f"{file}:{line}: {message}", reason="InvalidSource", field=f"{file}:{line}")


def split(file: str, text: str, server: Server) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :raises UsageError: unterminated quote or comment, a client command, a NUL character; with
        file and line. What stands before it has been given out.
    """
    if "\0" in text:
        at = text.index("\0")
        raise syntax_error(file, text.count("\n", 0, at) + 1, "the file holds a NUL character")
    scanner = _Scanner(file, text, server)
    while (statement := scanner.next_statement()) is not None:
        yield statement


def tokens_of(text: str, server: Server) -> tuple[Token, ...]:
    """The tokens of one text that the server printed. :raises UsageError: it cannot be read."""
    scanner = _Scanner("(server)", text, server)
    scanner.delimiter = ""
    statement = scanner.next_statement()
    return () if statement is None else statement.tokens


class _Scanner:
    def __init__(self, file: str, text: str, server: Server) -> None:
        self.file = file
        self.text = text
        self.server = server
        self.position = 1 if text.startswith("\ufeff") else 0
        self.delimiter = ";"
        self.inside = 0
        """How many conditional comments are open."""
        self._counted = 0
        self._line = 1

    def line_at(self, position: int) -> int:
        """Lines are counted once: positions are asked for in rising order."""
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def refuse(self, position: int, message: str) -> UsageError:
        return syntax_error(self.file, self.text.count("\n", 0, position) + 1, message)

    def next_statement(self) -> Statement | None:
        found: list[tuple[str, str, int]] = []
        start = end = 0
        opened: int | None = None
        while True:
            if self.delimiter and self.text.startswith(self.delimiter, self.position):
                self.position += len(self.delimiter)
                if found:
                    break
                opened = None
                continue
            match = _TOKEN.match(self.text, self.position)
            if match is None:
                if not found:
                    return None
                break
            begin, kind = self.position, str(match.lastgroup)
            if not found and kind == "word" and self._is_delimiter(begin):
                continue
            cut = self._cut(match.group()) if kind in ("word", "other") else 0
            self.position = begin + cut if cut else match.end()
            if kind == "space":
                continue
            if kind == "block":
                if self._comment(begin) and opened is None:
                    opened = begin  # the statement begins inside it: it belongs to its text
                end = self.position if found else end
                continue
            if kind == "close" and self.inside:
                self.inside -= 1
                end = self.position if found else end
                continue
            if kind == "open":
                raise self.refuse(begin, "unterminated quote")
            if not found:
                start = begin if opened is None else opened
                self._client_command(begin, match.group())
            found.append((kind, self.text[begin : self.position], begin))
            end = self.position
        self.inside = 0
        if end - start > STATEMENT_BYTES_MAX:
            raise self.refuse(start, "the statement is too large")
        tokens = tuple(_token(kind, text, begin - start) for kind, text, begin in found)
        return Statement(self.text[start:end], self.file, self.line_at(start), tokens)

    def _cut(self, text: str) -> int:
        """Length of a token that the delimiter stands in, as in ``END$$``."""
        if self.delimiter in ("", ";"):
            return 0
        return max(0, text.find(self.delimiter))

    def _is_delimiter(self, begin: int) -> bool:
        match = _DELIMITER.match(self.text, begin)
        if match is None:
            return False
        stop = self.text.find("\n", match.end())
        words = self.text[match.end() : stop if stop >= 0 else len(self.text)].split()
        if not words or "\\" in words[0]:
            raise self.refuse(begin, "DELIMITER needs a string, and no backslash in it")
        self.delimiter = words[0]
        self.position = stop + 1 if stop >= 0 else len(self.text)
        return True

    def _client_command(self, begin: int, text: str) -> None:
        word = self.text[begin : begin + 24].split()[0]
        if text == "\\":
            raise self.refuse(begin, f"{word!r} is a command of the client, not SQL")
        if text.lower() in ("source", "system"):
            raise self.refuse(begin, f"{word!r} is a command of the client, not SQL")

    def _comment(self, begin: int) -> bool:
        """Skip a comment, or enter one whose content is code. :returns: whether it was entered."""
        if _SANDBOX.match(self.text, begin) is None:
            match = _CONDITIONAL.match(self.text, begin)
            if match is not None and self.server.reads(
                bool(match.group(1)), int(match.group(2) or 0)
            ):
                self.position = match.end()
                self.inside += 1
                return True
        close = self.text.find("*/", begin + 2)
        if close < 0:
            raise self.refuse(begin, "unterminated comment")
        self.position = close + 2
        return False


def _token(kind: str, text: str, start: int) -> Token:
    if kind == "word":
        if _NUMBER.match(text):
            return Token("number", text, text, start)
        return Token(kind, text, text.upper(), start)
    if kind == "name":
        return Token(kind, text, text[1:-1].replace("``", "`"), start)
    if kind in ("plain", "double"):
        return Token(kind, text, "", start)
    return Token(kind, text, text, start)
