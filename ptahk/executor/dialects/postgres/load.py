"""Loads a declaration into a scratch database, fast, and says where it went wrong.

Statements go out in pipelined batches, each in the extended protocol, where the server itself
refuses two statements in one text. A batch that fails was undone as a whole and is sent again one
by one: so an error has its statement, and statements that cannot share a transaction still run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import psycopg

from ptahk.errors import UsageError
from ptahk.executor.dialects.postgres import stated
from ptahk.executor.dialects.postgres.declared import Reader
from ptahk.executor.dialects.postgres.lexer import Statement, split
from ptahk.executor.dialects.postgres.quote import ident
from ptahk.executor.dialects.postgres.session import Session, first_line, lost
from ptahk.executor.dialects.postgres.stated import Mention

BATCH: Final = 24
"""Statements of one implicit transaction: some 300 locks where all create tables, far below the
smallest lock table. Larger ones are not faster: what a transaction has changed so far is looked
through again and again."""
NOTES_MAX: Final = 20
_FORBIDDEN: Final = "42501"
_EXTENSION: Final = re.compile(r'create extension "')
_QUOTED: Final = re.compile(r'"([^"]+)"')
_ROLE_HEADS: Final = frozenset({"GRANT", "REVOKE", "ALTER", "CREATE"})


class SourceError(UsageError):
    """The declaration does not load: the server's message with file and line (exit 2)."""

    default_reason = "InvalidSource"

    def __init__(self, statement: Statement, message: str, sqlstate: str | None, line: int) -> None:
        where = f"{statement.file}:{line}"
        super().__init__(f"{where}: {message}", field=where)
        self.sqlstate = sqlstate
        self.file = statement.file
        self.line = line


@dataclass(slots=True)
class Loaded:
    """What a load found beside the objects themselves."""

    notes: list[str] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    foreign_owners: list[Mention] = field(default_factory=list)
    """Owners that this role may not set even here: recorded as facts instead."""
    statements: int = 0


def load(
    session: Session,
    files: Sequence[tuple[str, str]],
    *,
    search_path: str,
    create_roles: bool,
) -> Loaded:
    """Run a declaration in a scratch database.

    :param files: (name, text) in loading order.
    :param search_path: the target's own, by which bare names resolve.
    :param create_roles: on a development server, roles that are missing become NOLOGIN.
    :raises UsageError: with file and line: it does not parse, or may not be run here.
    :raises UsageError: ``MissingRoles``, with the list of them.
    """
    loader = _Loader(session, create_roles)
    session.query("SELECT set_config('search_path', %s, false)", (search_path,))
    loader.read_path()
    batches = _Batches(loader.statements(files))
    while batch := batches.take():
        session.budget.check()
        loader.send(batch, batches.read_on)
    loader.refuse_missing()
    return loader.loaded


class _Batches:
    """The statements in batches; the next one is read while the server works on the last."""

    def __init__(self, statements: Iterator[Statement]) -> None:
        self._statements = statements
        self._next: list[Statement] | None = None
        self._error: UsageError | None = None

    def read_on(self) -> None:
        """Read the next batch. What is refused in it is refused when its turn comes."""
        if self._next is None and self._error is None:
            try:
                self._next = list(islice(self._statements, BATCH))
            except UsageError as error:
                self._error = error

    def take(self) -> list[Statement]:
        """The next batch; empty at the end. :raises UsageError: it holds what must not be sent."""
        self.read_on()
        if self._error is not None:
            raise self._error
        batch, self._next = self._next or [], None
        return batch


class _Loader:
    def __init__(self, session: Session, create_roles: bool) -> None:
        self.session = session
        self.create_roles = create_roles
        self.loaded = Loaded()
        self.missing: dict[str, str] = {}
        self.path: tuple[str, ...] = ()
        self.pending: list[tuple[Statement, tuple[str, ...]]] = []
        self.data = 0
        self.first_data = ""

    def statements(self, files: Sequence[tuple[str, str]]) -> Iterator[Statement]:
        """Those to run, in order. Whatever must not be sent is refused before the next batch."""
        for name, text in files:
            reader = Reader()
            for statement in split(name, text):
                verdict = reader.verdict(statement)
                if verdict == "run":
                    yield statement
                elif verdict == "data":
                    self.data += 1
                    self.first_data = self.first_data or f"{name}:{statement.line}"
        if self.data:
            self.loaded.notes.append(
                f"{self.data} statements that change rows were left out (the first is "
                f"{self.first_data}): a declaration holds schema only"
            )

    def read_path(self) -> None:
        """The schemas of the search path in force, those that exist."""
        self.path = tuple(self.session.query("SELECT current_schemas(false)::text[]")[0][0])

    def send(self, batch: list[Statement], meanwhile: Callable[[], None]) -> None:
        """One batch; after it, everything in it is committed.

        :param meanwhile: called once while the server works on it.
        """
        self.loaded.statements += len(batch)
        try:
            self._pipelined(batch, meanwhile)
            self._note(batch)
        except psycopg.Error as error:
            if self.session.lost:
                raise lost(error) from error
            for statement in batch:
                self.session.budget.check()
                self._single(statement)
                self._note([statement])

    def _pipelined(self, batch: Iterable[Statement], meanwhile: Callable[[], None]) -> None:
        connection = self.session.connection
        with connection.pipeline(), connection.cursor() as cursor:
            for statement in batch:
                cursor.execute(statement.text.encode(), prepare=False)
            meanwhile()

    def _single(self, statement: Statement) -> None:
        for _ in range(8):  # a statement may name several missing roles
            try:
                self.session.run(statement.text)
                return
            except psycopg.errors.UndefinedObject as error:
                role = self._missing_role(statement, error)
                if role is None:
                    raise _located(statement, error) from None
                if not self.create_roles:
                    self.missing.setdefault(role, f"{statement.file}:{statement.line}")
                    return
                self.session.run(f"CREATE ROLE {ident(role)} NOLOGIN")
                self.loaded.notes.append(f"created role {role} on the development server")
            except psycopg.errors.InsufficientPrivilege as error:
                if not self._foreign_owner(statement):
                    raise _located(statement, error) from None
                return
            except psycopg.Error as error:
                raise _located(statement, error) from None
        raise SourceError(statement, "names too many missing roles", None, statement.line)

    def _missing_role(self, statement: Statement, error: psycopg.Error) -> str | None:
        """The role that the server does not know, whatever language it says so in."""
        if statement.words(1)[0] not in _ROLE_HEADS:
            return None
        quoted = _QUOTED.search(error.diag.message_primary or "")
        if quoted is None:
            return None
        name = quoted.group(1)
        named = any(
            name in (token.key, token.text.lower())
            for token in statement.tokens
            if token.kind in ("word", "name")
        )
        known = self.session.query("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s", (name,))
        context = {"TO", "FROM", "AUTHORIZATION", "ROLE", "USER"} & {
            token.key for token in statement.tokens
        }
        return name if named and context and not known else None

    def _foreign_owner(self, statement: Statement) -> bool:
        """An owner that this role may not give objects to is a fact all the same."""
        owners = [m for m in stated.mentions(statement, self.path) if m.attribute == "owner"]
        if not owners:
            return False
        if statement.words(2) == ("CREATE", "SCHEMA"):
            self.session.run(f"CREATE SCHEMA IF NOT EXISTS {ident(owners[0].name[0])}")
        self.loaded.foreign_owners += owners
        return True

    def _note(self, batch: Iterable[Statement]) -> None:
        """Remember what was stated, by the search path of its place."""
        for statement in batch:
            head = statement.words(2)
            if head[0] in ("SET", "RESET", "SELECT"):
                self._moved(statement)
                continue
            self.loaded.mentions += stated.mentions(statement, self.path)

    def _moved(self, statement: Statement) -> None:
        """Follow the search path by the statement's own words: in a batch it has moved on."""
        keys = [token.key for token in statement.tokens]
        if "SEARCH_PATH" not in keys and "'search_path'" not in [
            token.text for token in statement.tokens
        ]:
            return
        if keys[0] == "SELECT":
            literals = [token.text for token in statement.tokens if token.kind == "plain"]
            value = literals[1][1:-1] if len(literals) > 1 else ""
            self.path = tuple(part.strip(' "') for part in value.split(",") if part.strip(' "'))
            return
        at = keys.index("SEARCH_PATH") + 2
        names = []
        for token in statement.tokens[at:]:
            if token.kind == "word":
                names.append(token.text.lower())
            elif token.kind == "name":
                names.append(token.key)
            elif token.kind == "plain":
                names.append(token.text[1:-1])
        self.path = tuple(name for name in names if name)

    def refuse_missing(self) -> None:
        """:raises UsageError: ``MissingRoles``."""
        if not self.missing:
            return
        listed = ", ".join(f"{role} ({place})" for role, place in self.missing.items())
        raise UsageError(
            f"the declaration names roles that the server does not have: {listed}",
            reason="MissingRoles",
            hint="create them first (CREATE ROLE … NOLOGIN), or load on a development server",
        )


def _located(statement: Statement, error: psycopg.Error) -> SourceError:
    position = error.diag.statement_position
    line = statement.line_of(int(position)) if position else statement.line
    message = error.diag.message_primary or first_line(error)
    extra = [text for text in (error.diag.message_detail, error.diag.message_hint) if text]
    if error.sqlstate == _FORBIDDEN and _EXTENSION.search(message):
        extra.append(
            "where a database that is a template holds it, its name helps: --dev-template, "
            "dev.template"
        )
    if extra:
        message = f"{message} ({'; '.join(extra)})"
    return SourceError(statement, message.replace("\n", " "), error.sqlstate, line)
