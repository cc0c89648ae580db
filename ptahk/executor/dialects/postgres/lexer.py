"""The declaration's statements, by the one PostgreSQL lexer, with the loader's refusals."""

from __future__ import annotations

from collections.abc import Iterator

from ptahk.errors import UsageError
from ptahk.migrations.lexing import postgres
from ptahk.migrations.lexing.tokens import LexError, Statement, Token, place

__all__ = ["Statement", "Token", "split", "syntax_error"]


def syntax_error(file: str, line: int, message: str) -> UsageError:
    """What the lexer or the loader refuses, with its place (exit 2)."""
    return UsageError(f"{file}:{line}: {message}", reason="InvalidSource", field=f"{file}:{line}")


def split(file: str, text: str) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :raises UsageError: unterminated quote or comment, a client command, a NUL character; with
        file and line. What stands before it has been given out.
    """
    try:
        yield from postgres.split(file, text)
    except LexError as error:
        raise syntax_error(file, place(text, error.at)[0], error.message) from None
