"""Splits PostgreSQL SQL text into statements, as psql does. Pure.

It knows quoting, dollar quotes, nested comments, parentheses, ``BEGIN ATOMIC`` bodies and the data
of ``COPY … FROM stdin``, and nothing of the grammar: the server parses. Wherever it is in doubt
the server decides too, since every statement is sent alone and the server refuses two in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ptahk.migrations.lexing.tokens import (
    BOM,
    STATEMENT_BYTES_MAX,
    LexError,
    Places,
    Statement,
    Token,
)

_QUOTE_GOES_ON = r"(?:[ \t\f\v]|--[^\r\n]*)*[\r\n](?:[ \t\r\n\f\v]|--[^\r\n]*[\r\n])*'"
"""After a closed quote: white space with a line end in it, and the string continues."""

_TOKEN: Final = re.compile(
    rf"""
      (?P<space>[ \t\r\n\f\v]+)
    | (?P<comment>--[^\r\n]*)
    | (?P<escape>[eE]'[^'\\]*+(?:(?:\\.|''|'{_QUOTE_GOES_ON})[^'\\]*+)*+')
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
_CUT: Final = frozenset({"space", "word", "number", "other", "block", "comment", "meta"})
"""Kinds of token in which a delimiter of a file's own may stand."""
_DROPPED_META: Final = re.compile(r"\\(?:un)?restrict(?:[ \t]+[^\n]*)?(?=\n|\Z)")
_LINE_REST: Final = re.compile(r"[ \t\f\v\r]*(?:\n|\Z)")
_DATA_END: Final = re.compile(r"^\\\.\r?$", re.MULTILINE)
_NEWLINE_BEFORE: Final = re.compile(r"(?:\A|\n)[ \t]*\Z")


def split(
    file: str, text: str, start: int = 0, end: int | None = None, delimiter: str = ";"
) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :param start: where in ``text`` to begin, and ``end`` to stop; places are those of ``text``.
    :param delimiter: ends statements instead of the semicolon.
    :raises LexError: unterminated quote or comment, a client command, a NUL character. What stands
        before it has been given out.
    """
    if "\0" in text:
        raise LexError("MG106", text.index("\0"), "the file holds a NUL character")
    scanner = _Scanner(file, text, start, len(text) if end is None else end, delimiter)
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
    copy: list[Token] = []
    begins = True
    while True:
        token = scanner.advance(at_start=True, comments=True)
        if token is None:
            return
        if token.kind == "comment":
            yield token.at, token.text, significant
            continue
        significant = True
        if token.key == ";":
            scanner.skip_copy_data(copy)
            copy, begins = [], True
        elif copy or (begins and token.key == "COPY"):
            copy.append(token)
            begins = False
        else:
            begins = False


class _Scanner:
    def __init__(self, file: str, text: str, start: int, end: int, delimiter: str) -> None:
        self.file = file
        self.text = text
        self.end = end
        self.position = 1 if start == 0 and text.startswith(BOM) else start
        self.delimiter = delimiter
        self.tolerant = False
        """Only comments are wanted: what psql would do with the rest does not matter."""
        self._places = Places(text)

    def next_statement(self) -> Statement | None:
        tokens: list[Token] = []
        depth = 0
        body = _Body()
        data = None
        while True:
            token = self.advance(at_start=not tokens)
            if token is None:
                if not tokens:
                    return None
                break
            key = token.key
            if token.kind == "delimiter" or (key == ";" and self.delimiter == ";"):
                ends = token.kind == "delimiter" or (depth == 0 and not body.open)
                if ends and tokens:
                    data = self._copy_data(tokens)
                    break
                if ends:
                    continue
            if key == "(":
                depth += 1
            elif key == ")":
                depth = max(0, depth - 1)
            if depth == 0:
                body.feed(token, tokens)
            tokens.append(token)
        return self._statement(tokens, data)

    def _statement(self, tokens: list[Token], data: str | None) -> Statement:
        start, last = tokens[0].at, tokens[-1]
        end = last.at + len(last.text)
        if end - start > STATEMENT_BYTES_MAX:
            raise LexError("MG306", start, "the statement is too large")
        line, column = self._places.of(start)
        return Statement(
            self.text[start:end], self.file, line, tuple(tokens), start, column, data
        )  # fmt: skip

    def advance(self, at_start: bool, comments: bool = False) -> Token | None:
        """The next significant token; None at the end.

        :param comments: give ``--`` comments out too.
        """
        text, end, own = self.text, self.end, self.delimiter != ";"
        while self.position < end:
            begin = self.position
            match = _TOKEN.match(text, begin, end)
            assert match is not None, "the last alternative takes any character"
            kind, after = str(match.lastgroup), match.end()
            if own and kind in _CUT:
                cut = text.find(self.delimiter, begin, end)
                if cut == begin:
                    self.position = begin + len(self.delimiter)
                    return Token("delimiter", self.delimiter, "", begin)
                if begin < cut < after and kind != "comment":
                    after = cut
            self.position = after
            if kind == "space":
                continue
            if kind == "word":  # first: every other token is one
                word = text[begin:after]
                return Token(kind, word, word.upper(), begin)
            if kind == "comment":
                if comments:
                    return Token(kind, match.group(), "", begin)
                continue
            if kind == "block":
                self._skip_comment(begin)
                continue
            if kind == "meta":
                if not self.tolerant:
                    self._meta(begin, at_start)
                continue
            if kind == "open":
                raise LexError("MG301", begin, "unterminated quote")
            if kind == "dollar":
                return self._dollar(match.group(), begin)
            return _token(kind, text[begin:after], begin)
        return None

    def _skip_comment(self, begin: int) -> None:
        depth = 1
        while depth:
            match = _COMMENT.search(self.text, self.position, self.end)
            if match is None:
                raise LexError("MG301", begin, "unterminated comment")
            depth += 1 if match.group() == "/*" else -1
            self.position = match.end()

    def _meta(self, begin: int, at_start: bool) -> None:
        """pg_dump's ``\\restrict`` pair says nothing about the schema; all else is refused."""
        match = _DROPPED_META.match(self.text, begin)
        alone = _NEWLINE_BEFORE.search(self.text[max(0, begin - 80) : begin].lstrip(BOM))
        if match is None or not at_start or alone is None:
            word = self.text[begin : begin + 24].split()
            raise LexError(
                "MG302", begin, f"{word[0]!r} is a command of psql, not SQL",
                "write SQL: only \\restrict and \\unrestrict of pg_dump are passed over",
            )  # fmt: skip
        self.position = match.end()

    def _dollar(self, tag: str, begin: int) -> Token:
        close = self.text.find(tag, self.position, self.end)
        if close < 0:
            raise LexError("MG301", begin, f"unterminated dollar-quoted string {tag}")
        self.position = close + len(tag)
        return Token("dollar", self.text[begin : self.position], "", begin)

    def skip_copy_data(self, tokens: list[Token]) -> None:
        """Pass over the rows of a COPY that has just ended: what looks like SQL there is none."""
        self._copy_data(tokens)

    def _copy_data(self, tokens: list[Token]) -> str | None:
        """The lines behind ``COPY … FROM stdin;`` up to ``\\.``."""
        if self.delimiter != ";" or not is_copy_from_stdin(tokens):
            return None
        rest = _LINE_REST.match(self.text, self.position, self.end)
        if rest is None:
            raise LexError(
                "MG303", self.position, "text follows COPY … FROM stdin on its line",
                "begin the data on the next line",
            )  # fmt: skip
        close = _DATA_END.search(self.text, rest.end(), self.end)
        if close is None:
            raise LexError(
                "MG303", tokens[0].at, "the data of COPY … FROM stdin has no end",
                "end it with a line that holds \\. alone",
            )  # fmt: skip
        self.position = close.end()
        return self.text[rest.end() : close.start()]


def is_copy_from_stdin(tokens: list[Token] | tuple[Token, ...]) -> bool:
    """``COPY … FROM stdin``, by its words outside parentheses."""
    if not tokens or tokens[0].key != "COPY" or tokens[0].kind != "word":
        return False
    depth = 0
    before = ""
    for token in tokens:
        if token.key in ("(", ")") and token.kind == "other":
            depth += 1 if token.key == "(" else -1
        if depth == 0 and token.kind == "word":
            if token.key == "STDIN" and before == "FROM":
                return True
            before = token.key
        elif depth == 0:
            before = ""
    return False


def _token(kind: str, text: str, begin: int) -> Token:
    if kind == "name":
        return Token(kind, text, text[text.index('"') + 1 : -1].replace('""', '"'), begin)
    if kind in ("plain", "escape"):
        return Token(kind, text, "", begin)
    return Token(kind, text, text, begin)


class _Body:
    """The ``BEGIN ATOMIC … END`` body of a CREATE FUNCTION or PROCEDURE, outside all quotes.

    END closes it only as the first token of one of its statements: the END of a CASE, and names
    such as ``pending`` or ``"end"``, stand further inside.
    """

    def __init__(self) -> None:
        self.open = False
        self._first = False

    def feed(self, token: Token, before: list[Token]) -> None:
        """Take one token at parenthesis depth 0."""
        if not self.open:
            opens = token.key == "ATOMIC" and token.kind == "word" and _begins_body(before)
            self.open = self._first = opens
        elif self._first and token.key == "END" and token.kind == "word":
            self.open = False
        else:
            self._first = token.key == ";"


def _begins_body(before: list[Token]) -> bool:
    if not before or before[-1].key != "BEGIN" or before[0].key != "CREATE":
        return False
    words = [token.key for token in before[1:4]]
    if words[:2] == ["OR", "REPLACE"]:
        words = words[2:]
    return words[:1] in (["FUNCTION"], ["PROCEDURE"])
