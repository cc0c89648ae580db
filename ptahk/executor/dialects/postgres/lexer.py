"""Splits PostgreSQL SQL text into statements, as psql does. Pure.

It knows quoting, dollar quotes, nested comments, parentheses and ``BEGIN ATOMIC`` bodies, and
nothing of the grammar: the server parses. Wherever it is in doubt the server decides too, since
every statement is sent alone and the server refuses two in one text.
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
      (?P<space>(?:\s+|--[^\r\n]*)+)
    | (?P<escape>[eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+')
    | (?P<plain>(?:[bBxXnN]|[uU]&)?'[^']*+(?:''[^']*+)*+')
    | (?P<name>(?:[uU]&)?"[^"]*+(?:""[^"]*+)*+")
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?\$)
    | (?P<number>\d[\w.]*+)
    | (?P<block>/\*)
    | (?P<meta>\\)
    | (?P<open>['"])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_DROPPED_META: Final = re.compile(r"\\(?:un)?restrict(?:[ \t]+[^\n]*)?(?=\n|\Z)")


@dataclass(frozen=True, slots=True)
class Token:
    """One significant token. ``text`` is as written; ``key`` is a word in upper case, a quoted
    name as its value, punctuation as is, and ``''`` for literals."""

    kind: str
    text: str
    key: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it stands in its file, without the semicolon."""

    text: str
    file: str
    line: int
    """Line of the first token, from 1."""
    tokens: tuple[Token, ...]

    def words(self, count: int) -> tuple[str, ...]:
        """The keys of the first tokens; short statements give fewer."""
        return tuple(token.key for token in self.tokens[:count])

    def line_of(self, position: int) -> int:
        """Line in the file of a character position within ``text``, from 1 (as the server's)."""
        return self.line + self.text.count("\n", 0, max(0, position - 1))


def syntax_error(file: str, line: int, message: str) -> UsageError:
    """What the lexer or the loader refuses, with its place (exit 2)."""
    return UsageError(f"{file}:{line}: {message}", reason="InvalidSource", field=f"{file}:{line}")


def split(file: str, text: str) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :raises UsageError: unterminated quote or comment, a client command, a NUL character; with
        file and line. What stands before it has been given out.
    """
    if "\0" in text:
        at = text.index("\0")
        raise syntax_error(file, text.count("\n", 0, at) + 1, "the file holds a NUL character")
    scanner = _Scanner(file, text)
    while True:
        statement = scanner.next_statement()
        if statement is None:
            return
        yield statement


class _Scanner:
    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.position = 1 if text.startswith("\ufeff") else 0
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
        tokens: list[Token] = []
        start = end = depth = atomic = 0
        while True:
            token, begin = self._next(at_start=not tokens)
            if token is None:
                if not tokens:
                    return None
                break
            key = token.key
            if key == ";" and depth == 0 and atomic == 0:
                if tokens:
                    break
                continue
            if not tokens:
                start = begin
            if key == "(":
                depth += 1
            elif key == ")":
                depth = max(0, depth - 1)
            elif token.kind == "word" and depth == 0:
                atomic = _atomic_depth(atomic, key, tokens)
            tokens.append(token)
            end = self.position
        if end - start > STATEMENT_BYTES_MAX:
            raise self.refuse(start, "the statement is too large")
        return Statement(self.text[start:end], self.file, self.line_at(start), tuple(tokens))

    def _next(self, at_start: bool) -> tuple[Token | None, int]:
        text = self.text
        while True:
            match = _TOKEN.match(text, self.position)
            if match is None:
                return None, self.position
            begin, kind = self.position, str(match.lastgroup)
            self.position = match.end()
            if kind == "space":
                continue
            if kind == "block":
                self._skip_comment(begin)
                continue
            if kind == "meta":
                self._meta(begin, at_start)
                continue
            if kind == "open":
                raise self.refuse(begin, "unterminated quote")
            if kind == "dollar":
                return self._dollar(match.group(), begin), begin
            return _token(kind, match.group()), begin

    def _skip_comment(self, begin: int) -> None:
        depth = 1
        while depth:
            match = _COMMENT.search(self.text, self.position)
            if match is None:
                raise self.refuse(begin, "unterminated comment")
            depth += 1 if match.group() == "/*" else -1
            self.position = match.end()

    def _meta(self, begin: int, at_start: bool) -> None:
        """pg_dump's ``\\restrict`` pair says nothing about the schema; all else is refused."""
        match = _DROPPED_META.match(self.text, begin)
        if match is None or not at_start:
            word = self.text[begin : begin + 24].split()
            raise self.refuse(begin, f"{word[0]!r} is a command of psql, not SQL")
        self.position = match.end()

    def _dollar(self, tag: str, begin: int) -> Token:
        close = self.text.find(tag, self.position)
        if close < 0:
            raise self.refuse(begin, f"unterminated dollar-quoted string {tag}")
        self.position = close + len(tag)
        return Token("dollar", self.text[begin : self.position], "")


def _token(kind: str, text: str) -> Token:
    if kind == "word":
        return Token(kind, text, text.upper())
    if kind == "name":
        return Token(kind, text, text[text.index('"') + 1 : -1].replace('""', '"'))
    if kind in ("plain", "escape"):
        return Token(kind, text, "")
    return Token(kind, text, text)


def _atomic_depth(depth: int, key: str, before: list[Token]) -> int:
    """How deep in a ``BEGIN ATOMIC … END`` body the statement is after this word.

    ``BEGIN ATOMIC`` opens it; inside, ``CASE`` needs an ``END`` of its own. Counted only in
    CREATE FUNCTION and PROCEDURE, where the body stands outside all quotes.
    """
    if depth == 0:
        opens = key == "ATOMIC" and bool(before) and before[-1].key == "BEGIN"
        return 1 if opens and before[0].key == "CREATE" else 0
    if key in ("BEGIN", "CASE"):
        return depth + 1
    return depth - 1 if key == "END" else depth
