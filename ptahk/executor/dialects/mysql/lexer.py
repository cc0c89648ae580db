"""The declaration's statements, by the one lexer of MySQL and MariaDB, as the server reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ptahk.executor.planning.refusing import as_refusals, syntax_error
from ptahk.migrations.lexing import mysql
from ptahk.migrations.lexing.mysql import Server
from ptahk.migrations.lexing.tokens import MARKS, Statement, Token

__all__ = ["Server", "Statement", "Token", "split", "syntax_error"]


def split(file: str, text: str, server: Server) -> Iterator[Statement]:
    """The statements of one file, in order, lazily; of executable comments only the code.

    :raises UsageError: unterminated quote, comment or routine, a client command, a NUL character;
        with file and line. What stands before it has been given out.
    """
    for statement in as_refusals(file, text, mysql.split(file, text, server=server)):
        code = tuple(token for token in statement.tokens if token.kind not in MARKS)
        same = len(code) == len(statement.tokens)
        yield statement if same else dataclasses.replace(statement, tokens=code)
