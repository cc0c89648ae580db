"""What of a declaration is run in scratch, left out or refused; and its own database's name. Pure.

One leading ``CREATE SCHEMA X; USE X`` names the declaration's own database: both are dropped and
``X.`` is rewritten by token. Any other qualified name is refused, since it would reach a database
that is somebody's. What is refused here is refused before it is sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql import settings
from ptahk.executor.dialects.mysql.lexer import Statement, Token, syntax_error
from ptahk.executor.dialects.mysql.names import Mention, mentions
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.migrations.lexing.named import DATABASE, OBJECTS, name_after, name_at, object_at
from ptahk.migrations.words import code, objections

_DATA: Final = frozenset(
    {"INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "TRUNCATE", "CALL", "DO", "WITH"}
)
_SKIPPED: Final = frozenset(
    {"LOCK", "UNLOCK", "START", "BEGIN", "COMMIT", "ROLLBACK", "ANALYZE", "OPTIMIZE"}
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """One statement as it is sent to the scratch database."""

    source: Statement
    sql: str
    kind: str
    """``view`` and so on, where it creates or alters an object; else empty."""
    name: str
    definer: str = ""
    """``user@host`` where the statement states one; it is a fact, and is not sent."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else it states: ``starts``, ``ends`` and ``at`` are True where a schedule (or its
    partitions) gives them as literals; ``status`` of an event, which is created disabled."""


@dataclass(slots=True)
class Reader:
    """Judges the statements of one declaration, in order.

    :param scratch: the name of the database that they are loaded into.
    :param target: the name of the database that is planned: a declaration may say it too.
    :param fold: the server does not tell names of databases apart by case.
    """

    scratch: str
    target: str
    fold: bool = False
    own: str = ""
    """The name that the declaration itself gives its database."""
    begun: bool = False
    data: int = 0
    first_data: str = ""
    _seen: set[str] = field(default_factory=set)

    def prepare(self, statement: Statement) -> Prepared | None:
        """The statement to run, rewritten; None where it is left out.

        :raises UsageError: with file and line: it may not be run here.
        """
        head = statement.words(1)[0]
        if head == "SET":
            sql = settings.kept(statement)
            return Prepared(statement, sql, "", "") if sql else None
        if head == "USE":
            self._use(statement)
            return None
        if head in _DATA:
            self.data += 1
            self.first_data = self.first_data or f"{statement.file}:{statement.line}"
            return None
        if head in _SKIPPED:
            return None
        if head not in ("CREATE", "ALTER", "DROP", "RENAME"):
            raise _refuse(statement, f"{head} is not part of a declaration")
        place = object_at(statement.tokens)
        what = statement.tokens[place].key if place is not None else ""
        if what in DATABASE and place is not None:
            return self._database(statement, place)
        self._check_kind(statement, place, what)
        if _is_key_switch(statement):
            return None
        self.begun = True
        return self._rewrite(statement, what, place or 0)

    def is_own(self, name: str) -> bool:
        """Whether this is a name of the declaration's own database."""
        mine = {self.own, self.target} - {""}
        return name in mine or (self.fold and name.lower() in {each.lower() for each in mine})

    def _use(self, statement: Statement) -> None:
        names = [token.called for token in statement.tokens[1:2]]
        if not names:
            raise _refuse(statement, "USE names no database")
        self._name_own(statement, names[0])

    def _name_own(self, statement: Statement, name: str) -> None:
        if self.is_own(name):
            if name != self.target:
                self.own = name
            return
        if self.own or self.begun:
            raise _refuse(
                statement, f"a declaration is of one database: {name} would be another one"
            )
        self.own = name

    def _database(self, statement: Statement, place: int) -> Prepared | None:
        """``CREATE DATABASE X`` and ``DROP DATABASE IF EXISTS X`` name it; its defaults count."""
        at = name_at(statement.tokens, place)
        if at >= len(statement.tokens):
            raise _refuse(statement, "names no database")
        name, head = statement.tokens[at], statement.words(1)[0]
        if head == "DROP" and self.begun:
            raise _refuse(statement, "DROP DATABASE would drop what was declared before it")
        self._name_own(statement, name.called)
        options = statement.tokens[at + 1 :]
        if head == "DROP" or not options:
            return None
        # Token by token: a dump has each option in a conditional comment of its own.
        words = [token.text for token in options]
        if "ENCRYPTION" in words:
            words = words[: words.index("ENCRYPTION")]
            words = words[:-1] if words[-1:] == ["DEFAULT"] else words
        text = " ".join(words)
        return Prepared(statement, f"ALTER DATABASE {ident(self.scratch)} {text}", "", "")

    def _check_kind(self, statement: Statement, place: int | None, what: str) -> None:
        head = statement.words(1)[0]
        keys = {token.key for token in statement.tokens[: (place or 0) + 1]}
        if "TEMPORARY" in keys:
            raise _refuse(statement, "a temporary table is not part of a schema")
        if head == "RENAME" and what != "TABLE":
            raise _refuse(
                statement, f"RENAME {what or statement.words(2)[-1]} is not a declaration"
            )
        if what not in OBJECTS:
            named = " ".join(statement.words(3))
            raise _refuse(statement, f"{named} … is not claimed: ptahk has no builder for it")
        if any(token.key == "SONAME" for token in statement.tokens):
            raise _refuse(statement, "a loadable function reaches beyond one database")

    def elsewhere(self, statement: Statement, what: str = "") -> Prepared:
        """A statement that defines nothing lasting, with its own database's name rewritten."""
        edits: list[tuple[int, int, str]] = []
        for mention in mentions(statement.tokens, what):
            edits += self._qualifier(statement, mention)
        return Prepared(statement, _edit(statement, edits), "", "")

    def _rewrite(self, statement: Statement, what: str, place: int) -> Prepared:
        edits: list[tuple[int, int, str]] = []
        for mention in mentions(statement.tokens, what):
            edits += self._qualifier(statement, mention)
        definer, cut = _definer(statement.tokens[:place])
        edits += cut
        name = name_after(statement.tokens, place)
        facts: dict[str, Any] = {}
        if what == "EVENT" and statement.words(1)[0] != "DROP":
            facts, more = _schedule(statement.tokens)
            edits += more
        elif what == "TABLE" and "SYSTEM_TIME" in (keys := [t.key for t in statement.tokens]):
            facts = {"starts": True} if "STARTS" in keys else {}
        sql = _edit(statement, edits)
        return Prepared(statement, sql, what.lower(), name, definer, facts)

    def _qualifier(self, statement: Statement, mention: Mention) -> list[tuple[int, int, str]]:
        token = mention.qualifier
        if self.is_own(token.called):
            return [(token.at, token.end, ident(self.scratch))]
        if mention.certain:
            line = statement.line_of_token(token)
            own = self.own or self.target
            raise syntax_error(
                statement.file,
                line,
                f"{token.called}.{mention.name.called} is in another database than {own}: only"
                " the declaration's own database may be named",
            )
        return []


_SENT: Final = frozenset(
    {"INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "WITH", "VALUES", "CALL", "DO", "TRUNCATE",
     "SET", "START", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "LOCK", "UNLOCK"}
)  # fmt: skip
_UNSEEN: Final = frozenset({"PREPARE", "EXECUTE", "OUTFILE", "DUMPFILE", "LOAD_FILE"})
"""What stands behind these is not in the text, or is a file of the server's."""


def replayed(reader: Reader, statement: Statement, others: Collection[str]) -> Prepared | None:
    """A migration's statement as it is sent when its file is run again in scratch; None: it is
    left out.

    :param others: the databases of the server, but for the scratch one.
    :raises UsageError: it reaches, or may reach, beyond the scratch database.
    """
    head = statement.words(1)[0]
    for objection in objections(statement, False):
        if objection.number != "MG406":  # those are about the session alone
            raise _refuse(statement, objection.message)
    _refuse_others(reader, statement, others)
    if head in ("ANALYZE", "OPTIMIZE"):
        return None
    temporary = any(token.key == "TEMPORARY" for token in statement.tokens[1:4])
    if head in _SENT or (temporary and head in ("CREATE", "DROP")):
        return reader.elsewhere(statement, "TABLE" if temporary else "")
    return reader.prepare(statement)


def _refuse_others(reader: Reader, statement: Statement, others: Collection[str]) -> None:
    names = {name.lower() for name in others if not reader.is_own(name)}
    own = 0
    for token, following in itertools.pairwise(code(statement)):
        if token.kind == "word" and token.key in _UNSEEN:
            raise _refuse(statement, f"{token.key}: what it runs or reads is not in its text")
        if not token.is_name or not following.text.startswith("."):
            continue
        if token.called.lower() in names:
            raise _refuse(statement, f"{token.called} is another database")
        own += reader.is_own(token.called)
    # What is rewritten must be all of it: the real database stands under that name.
    if own != sum(reader.is_own(each.qualifier.called) for each in mentions(statement.tokens, "")):
        raise _refuse(statement, "it names its own database where that cannot be told for sure")


def _refuse(statement: Statement, message: str) -> UsageError:
    return syntax_error(statement.file, statement.line, message)


def _is_key_switch(statement: Statement) -> bool:
    """``ALTER TABLE t DISABLE KEYS``, as dumps have it around rows."""
    tail = [token.key for token in statement.tokens[-2:]]
    return tail in (["DISABLE", "KEYS"], ["ENABLE", "KEYS"])


def _definer(tokens: Sequence[Token]) -> tuple[str, list[tuple[int, int, str]]]:
    """The account that ``DEFINER =`` names, empty for the one that loads; and the cut."""
    for place, token in enumerate(tokens):
        if token.key != "DEFINER" or place + 2 >= len(tokens) or tokens[place + 1].key != "=":
            continue
        at = place + 2
        user, last = _part(tokens[at]), tokens[at]
        host = "%"
        if tokens[at].key in ("CURRENT_USER", "CURRENT_ROLE") and tokens[at].kind == "word":
            if [t.key for t in tokens[at + 1 : at + 3]] == ["(", ")"]:
                last = tokens[at + 2]
            return "", [(token.at, last.end, "")]
        if at + 1 < len(tokens) and tokens[at + 1].text.startswith("@"):
            last = tokens[at + 1]
            host = last.text[1:]
            if not host and at + 2 < len(tokens):
                last = tokens[at + 2]
                host = _part(last)
        return f"{user}@{host}", [(token.at, last.end, "")]
    return "", []


def _schedule(tokens: Sequence[Token]) -> tuple[dict[str, Any], list[tuple[int, int, str]]]:
    """What an event's head states, and the edits by which it never runs in scratch."""
    facts: dict[str, Any] = {}
    edits: list[tuple[int, int, str]] = []
    created = tokens[0].key == "CREATE"
    before: Token | None = None
    for place, token in enumerate(tokens):
        word = token.kind == "word"
        following = tokens[place + 1] if place + 1 < len(tokens) else token
        if word and token.key in ("STARTS", "ENDS", "AT"):
            facts[token.key.lower()] = _is_literal(tokens, place + 1)
        elif word and token.key in ("ENABLE", "DISABLE"):
            last = tokens[place + 2] if following.key == "ON" else token
            replica = following.key == "ON"
            on = token.key == "ENABLE"
            facts["status"] = "ENABLED" if on else "DISABLED"
            if replica:
                facts["status"] = "SLAVESIDE_DISABLED"
            edits.append((token.at, last.end, "DISABLE"))
        elif word and token.key == "COMMENT" and following.kind in ("plain", "double"):
            before = before or token
        elif word and token.key == "DO":
            before = before or token
            break
    if created and "status" not in facts and before is not None:
        facts["status"] = "ENABLED"
        edits.append((before.at, before.at, "DISABLE "))
    return facts, edits


def _is_literal(tokens: Sequence[Token], place: int) -> bool:
    """A point in time that is the same at every load."""
    if place < len(tokens) and tokens[place].key in ("TIMESTAMP", "DATETIME"):
        place += 1
    return place < len(tokens) and tokens[place].kind in ("plain", "double")


def _part(token: Token) -> str:
    if token.kind in ("plain", "double"):
        return token.text[1:-1].replace("''", "'")
    return token.called


def _edit(statement: Statement, edits: Sequence[tuple[int, int, str]]) -> str:
    """The statement's text with what stands at some places of its file replaced."""
    text, base = statement.text, statement.start
    parts, last = [], 0
    for start, end, new in sorted(edits):
        parts += [text[last : start - base], new]
        last = end - base
    return "".join([*parts, text[last:]])
