"""The declaration's statements, by the one PostgreSQL lexer, with the loader's refusals."""

from __future__ import annotations

from collections.abc import Iterator

from ptahk.executor.planning.refusing import as_refusals, syntax_error
from ptahk.migrations.lexing import postgres
from ptahk.migrations.lexing.tokens import Statement, Token

__all__ = ["Statement", "Token", "split", "syntax_error"]


def split(file: str, text: str) -> Iterator[Statement]:
    """The statements of one file, in order, lazily.

    :raises UsageError: unterminated quote or comment, a client command, a NUL character; with
        file and line. What stands before it has been given out.
    """
    return as_refusals(file, text, postgres.split(file, text))
