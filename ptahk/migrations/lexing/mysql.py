"""Splits MySQL and MariaDB text into statements, as the servers' own client does. Pure.

Beyond the client it knows where a routine's body ends, so that none needs a DELIMITER. Both modes
that change quoting, ANSI_QUOTES and NO_BACKSLASH_ESCAPES, are off in every session of ptahk's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ptahk.migrations.lexing.blocks import Blocks
from ptahk.migrations.lexing.tokens import (
    BOM,
    MARKS,
    STATEMENT_BYTES_MAX,
    LexError,
    Places,
    Statement,
    Token,
)

NEVER: Final = 999_999
"""An executable comment for this version or a later one is a plain comment on every server."""

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n\f\v]+)
    | (?P<comment>\#[^\n]*|--(?=[\x00-\x20]|\Z)[^\n]*)
    | (?P<code>/\*M?!(?:\d{5,6})?)
    | (?P<hint>/\*\+.*?\*/)
    | (?P<block>/\*)
    | (?P<close>\*/)
    | (?P<plain>[bBxXnN]?'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|\\N)
    | (?P<double>"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+")
    | (?P<name>`[^`]*+(?:``[^`]*+)*+`)
    | (?P<variable>@@?[A-Za-z0-9_.$\x80-\U0010ffff]*+)
    | (?P<word>[A-Za-z0-9_$\x80-\U0010ffff]++)
    | (?P<assign>:=)
    | (?P<meta>\\)
    | (?P<open>['"`])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CUT: Final = frozenset(
    {"space", "word", "variable", "other", "block", "comment", "code", "close", "hint"}
)
_DIRECTIVE: Final = re.compile(r"delimiter(?=[ \t])[ \t]*([^\r\n]*)", re.IGNORECASE)
_FIRST_ON_LINE: Final = re.compile(r"(?:\A|\n)[ \t]*\Z")
_COMMAND: Final = re.compile(r"(?:source|system)(?=[ \t])", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+\Z|0[xXbB][0-9A-Fa-f]+\Z|\d+[eE]\d+\Z")


@dataclass(frozen=True, slots=True)
class Server:
    """What of the server decides how its SQL is read."""

    is_mariadb: bool
    version: int
    """As in executable comments: 90704 for 9.7.4, 101118 for 10.11.18."""

    def reads(self, mariadb_only: bool, version: int) -> bool:
        """Whether the content of an executable comment is code here."""
        if mariadb_only:
            return self.is_mariadb and version <= self.version
        if self.is_mariadb and 50700 <= version <= 99999:
            return False  # MariaDB takes these for MySQL's own since 5.7
        return version <= self.version


def split(
    file: str,
    text: str,
    start: int = 0,
    end: int | None = None,
    delimiter: str = ";",
    server: Server | None = None,
) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :param start: where in ``text`` to begin, and ``end`` to stop; places are those of ``text``.
    :param delimiter: ends statements until a DELIMITER line says otherwise.
    :param server: reads the text: an executable comment that is none to it is a comment. None:
        what any server reads is code.
    :raises LexError: unterminated quote, comment or routine; a command of the client; NUL. What
        stands before it has been given out.
    """
    if "\0" in text:
        raise LexError("MG106", text.index("\0"), "the file holds a NUL character")
    scanner = _Scanner(file, text, start, len(text) if end is None else end, delimiter, server)
    while True:
        statement = scanner.next_statement()
        if statement is None:
            return
        yield statement


def line_comments(text: str) -> Iterator[tuple[int, str, bool]]:
    """Every ``--`` comment: offset, text, and whether something significant stands before it.

    :raises LexError: as ``split``.
    """
    scanner = _Scanner("", text, 0, len(text), ";")
    scanner.tolerant = True
    significant = False
    while True:
        token = scanner.advance(at_start=False, comments=True)
        if token is None:
            return
        if token.kind == "comment":
            yield token.at, token.text, significant
        else:
            significant = True


class _Scanner:
    def __init__(
        self,
        file: str,
        text: str,
        start: int,
        end: int,
        delimiter: str,
        server: Server | None = None,
    ) -> None:
        self.file = file
        self.server = server
        self.text = text
        self.end = end
        self.position = 1 if start == 0 and text.startswith(BOM) else start
        self.delimiter = delimiter
        self.tolerant = False
        """Only comments are wanted: what the client would do with the rest does not matter."""
        self._code: list[int] = []
        """Where the executable comments begin that are open now."""
        self._places = Places(text)

    def next_statement(self) -> Statement | None:
        tokens: list[Token] = []
        blocks = Blocks()
        while True:
            token = self.advance(at_start=not tokens)
            if token is None:
                if not tokens:
                    return None
                self._refuse_open(tokens, blocks)
                break
            if token.kind == "delimiter" and not (blocks.open and token.text == ";"):
                self._refuse_inside_code()
                self._refuse_package(tokens, blocks)
                if _significant(tokens):
                    break
                tokens, blocks = [], Blocks()
                continue
            tokens.append(token)
            if token.kind not in MARKS and blocks.kind != "":
                # What an executable comment holds is code; its marks are not.
                head = tokens if blocks.kind is not None else _code_of(tokens)
                blocks.feed(token, head)
        return self._statement(tokens) if _significant(tokens) else None

    def _refuse_open(self, tokens: list[Token], blocks: Blocks) -> None:
        if self._code:
            raise LexError("MG301", self._code[0], "unterminated executable comment")
        if blocks.open and self.delimiter == ";":
            raise LexError(
                "MG305", tokens[0].at, "the body of a routine has no END",
                "close every block, or write the routine between DELIMITER lines",
            )  # fmt: skip
        self._refuse_package(tokens, blocks)

    def _refuse_package(self, tokens: list[Token], blocks: Blocks) -> None:
        if blocks.kind == "PACKAGE" and self.delimiter == ";":
            raise LexError(
                "MG305", tokens[0].at, "a package has no end that can be told without DELIMITER",
                "write it between DELIMITER lines",
            )  # fmt: skip

    def _refuse_inside_code(self) -> None:
        if self._code:
            raise LexError(
                "MG304", self._code[0], f"an executable comment holds the terminator "
                f"{self.delimiter}", "write the statement between DELIMITER lines",
            )  # fmt: skip

    def _statement(self, tokens: list[Token]) -> Statement:
        start, last = tokens[0].at, tokens[-1]
        end = last.at + len(last.text)
        if end - start > STATEMENT_BYTES_MAX:
            raise LexError("MG306", start, "the statement is too large")
        line, column = self._places.of(start)
        return Statement(self.text[start:end], self.file, line, tuple(tokens), start, column)

    def advance(self, at_start: bool, comments: bool = False) -> Token | None:
        """The next token that is no comment and no white space; None at the end."""
        text = self.text
        while self.position < self.end:
            begin = self.position
            match = _TOKEN.match(text, begin, self.end)
            assert match is not None, "the last alternative takes any character"
            kind, after = str(match.lastgroup), match.end()
            if kind in _CUT and not self.tolerant:
                cut = self._next_delimiter(begin, after)
                if cut == begin:
                    self.position = begin + len(self.delimiter)
                    return Token("delimiter", text[begin : self.position], "", begin)
                if cut is not None and kind not in ("comment", "block", "hint"):
                    after = cut
            self.position = after
            if kind == "space" or (kind == "comment" and not comments):
                continue
            if kind == "block" or (kind == "code" and self._is_comment(match.group())):
                self._skip_comment(begin)
            elif kind == "word" and at_start and not self.tolerant and self._client(begin):
                continue
            else:
                return self._take(kind, text[begin:after], begin)
        return None

    def _next_delimiter(self, begin: int, end: int) -> int | None:
        """Where the delimiter begins within a token; letter case does not count."""
        size = len(self.delimiter)
        if size == 1:
            at = self.text.find(self.delimiter, begin, end)
            return None if at < 0 else at
        wanted = self.delimiter.lower()
        if self.text[begin : begin + size].lower() == wanted:
            return begin
        at = self.text[begin : min(end + size - 1, self.end)].lower().find(wanted)
        return None if at < 0 or begin + at >= end else begin + at

    def _take(self, kind: str, text: str, begin: int) -> Token:
        if kind == "meta" and not self.tolerant:
            raise LexError(
                "MG302", begin, f"{self.text[begin : begin + 2]!r} is a command of the "
                "client, not SQL", "write SQL",
            )  # fmt: skip
        if kind == "open":
            raise LexError("MG301", begin, "unterminated quote")
        if kind == "code":
            self._code.append(begin)
        elif kind == "close" and self._code:
            self._code.pop()
        return _token(kind, text, begin)

    def _is_comment(self, text: str) -> bool:
        """An executable comment that is one to the server, or to every server."""
        mark, _, digits = text.partition("!")
        version = int(digits or 0)
        if version >= NEVER:
            return True
        return self.server is not None and not self.server.reads(mark.endswith("M"), version)

    def _skip_comment(self, begin: int) -> None:
        close = self.text.find("*/", begin + 2, self.end)
        if close < 0:
            raise LexError("MG301", begin, "unterminated comment")
        self.position = close + 2

    def _client(self, begin: int) -> bool:
        """A DELIMITER line is obeyed; other commands of the client are refused."""
        match = _DIRECTIVE.match(self.text, begin, self.end)
        first = _FIRST_ON_LINE.search(self.text[max(0, begin - 200) : begin].lstrip(BOM))
        word = self.text[begin : begin + 10].lower()
        if match is not None:
            if first is None:
                raise LexError(
                    "MG304", begin, "DELIMITER stands first on its line, or it is no command",
                    "give it a line of its own",
                )  # fmt: skip
            self._delimiter(begin, match.group(1))
            self.position = match.end()
            return True
        if word.startswith("delimiter") and not word[9:10].isalnum():
            raise LexError("MG304", begin, "DELIMITER has no argument")
        command = _COMMAND.match(self.text, begin, self.end)
        if command is not None:
            raise LexError(
                "MG302", begin, f"{command.group()!r} is a command of the client, not SQL",
                "write SQL; statements of another file belong into this one",
            )  # fmt: skip
        return False

    def _delimiter(self, begin: int, argument: str) -> None:
        words = argument.split()
        found = words[0] if words else ""
        if found[:1] in "'\"`" and len(found) > 1 and found[-1] == found[0]:
            found = found[1:-1]
        if not found or "\\" in found:
            raise LexError(
                "MG304", begin, f"DELIMITER cannot be {found!r}: a word, and no backslash in it",
                "use // or $$",
            )  # fmt: skip
        self.delimiter = found


def _code_of(tokens: list[Token]) -> list[Token]:
    return [token for token in tokens if token.kind not in MARKS]


def _significant(tokens: list[Token]) -> bool:
    return any(token.kind not in MARKS for token in tokens)


def _token(kind: str, text: str, begin: int) -> Token:
    if kind == "word":
        if _NUMBER.match(text):
            return Token("number", text, text, begin)
        return Token(kind, text, text.upper(), begin)
    if kind == "name":
        return Token(kind, text, text[1:-1].replace("``", "`"), begin)
    if kind in ("plain", "double"):
        return Token(kind, text, "", begin)
    return Token(kind, text, text, begin)
