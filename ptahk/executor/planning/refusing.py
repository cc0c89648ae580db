"""What the lexers refuse, as a declaration's loader says it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ptahk.errors import UsageError
from ptahk.migrations.lexing.tokens import LexError, Statement, place


def syntax_error(file: str, line: int, message: str) -> UsageError:
    """What the lexer or the loader refuses, with its place (exit 2)."""
    return UsageError(f"{file}:{line}: {message}", reason="InvalidSource", field=f"{file}:{line}")


def as_refusals(file: str, text: str, statements: Iterator[Statement]) -> Iterator[Statement]:
    """The statements of one file, lazily.

    :raises UsageError: instead of a LexError, with file and line.
    """
    try:
        yield from statements
    except LexError as error:
        raise syntax_error(file, place(text, error.at)[0], error.message) from None
