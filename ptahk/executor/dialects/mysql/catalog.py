"""Reads one database into facts, the same way for the live one and for scratch.

Tables, views, routines and sequences are read as the server prints them (``SHOW CREATE``); triggers
and events, of which it keeps what the user wrote, from ``information_schema``. The database's own
name is replaced in what is printed, so that a scratch database reads like the target.

What is asked: two lists, then one ``SHOW CREATE`` for each table, view, routine and sequence. These
go out together where the session can send several before it reads the first answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import pymysql

from ptahk.executor.dialects.mysql import showtable
from ptahk.executor.dialects.mysql.lexer import Server
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Catalog, Facts, ObjectId, Query

KNOWN: Final = "known"
"""Where a catalog's context has what the next reading of the same database may use."""
Known = Mapping[str, Mapping[str, Any]]
"""Tables of an earlier reading by name, as JSON values: ``mark``, ``text`` (a digest of what the
server printed), ``facts``, ``foreign`` and ``aside``. It saves asking and parsing, not looking."""

QueryMany = Callable[[Sequence[str]], Sequence[Sequence[tuple[Any, ...]]]]
"""Several queries without parameters, their answers in order."""

UNSUPPORTED: Final = frozenset({"package", "package body", "unreadable"})
"""Kinds that are read so that a difference is seen, and have no builder."""

TABLE_IDS: Final = (
    "SELECT name, table_id FROM information_schema.innodb_tables"
    " WHERE LEFT(name, CHAR_LENGTH(%s)) = %s ORDER BY name"
)
"""Of MySQL; parameters: the database's name and a slash, twice."""
MARKS: Final = (
    "SELECT table_name, create_time < NOW() - INTERVAL 2 SECOND, create_time, row_format,"
    " table_collation, create_options, table_comment"
    " FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"
    " AND engine = 'InnoDB' ORDER BY table_name"
)
"""Of MySQL; parameter: the database's name. The second column says what is old enough."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_DEFINER: Final = re.compile(r" DEFINER=(?P<user>`(?:[^`]|``)*`)(?:@(?P<host>`(?:[^`]|``)*`))?")
_VIEW: Final = re.compile(
    r"CREATE ALGORITHM=(?P<algorithm>\w+)(?P<definer> DEFINER=\S+) SQL SECURITY (?P<security>\w+)"
    r" VIEW `(?:[^`]|``)*` (?P<columns>\((?:`(?:[^`]|``)*`,?)+\) )?AS (?P<select>.*?)"
    r"(?: WITH (?P<check>CASCADED|LOCAL) CHECK OPTION)?\Z",
    re.DOTALL,
)
_ROUTINE: Final = re.compile(
    r"CREATE(?P<definer> DEFINER=`(?:[^`]|``)*`(?:@`(?:[^`]|``)*`)?)?"
    r" (?P<aggregate>AGGREGATE )?(?:PROCEDURE|FUNCTION) (?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`"
    r"(?P<text>.*)\Z",
    re.DOTALL,
)
_SYSTEM_TIME_STARTS: Final = re.compile(r" STARTS TIMESTAMP'[^']*'")
_SECURITY: Final = re.compile(r"\n {4}SQL SECURITY (\w+)(?=\n)")


def server_of(version: str) -> Server:
    """The server by the answer of ``SELECT VERSION()``."""
    numbers = re.findall(r"\d+", version)
    mariadb = "mariadb" in version.lower()
    if mariadb and numbers[:2] == ["5", "5"] and len(numbers) > 5:
        numbers = numbers[3:]  # 5.5.5-10.11.18-MariaDB
    major, minor, patch = (int(number) for number in numbers[:3])
    return Server(mariadb, major * 10000 + minor * 100 + patch)


def read_catalog(
    query: Query,
    database: str,
    *,
    called: str = "",
    exclude: Sequence[str] = (),
    many: QueryMany | None = None,
    known: Known | None = None,
) -> Catalog:
    """Everything in ``database``, which must be the session's current one.

    :param called: the name that stands in the facts instead; default: its own.
    :param exclude: globs over ``name`` or ``database.name`` (``policy.exclude``).
    :param many: sends several queries at once; default: one after the other.
    :param known: ``context["known"]`` of an earlier reading of the same database. Where MySQL's
        dictionary shows that nothing has changed, its tables are not asked for again; MariaDB has
        no such mark, and MySQL shows it to accounts with PROCESS.
    """
    reader = _Reader(query, database, called or database, exclude, many, known or {})
    return reader.read()


def fingerprint(catalog: Catalog) -> str:
    """SHA-256 of the sorted facts, ``sha256:`` and 64 hex digits."""
    known = catalog.digests.get("objects")
    if known is None:
        plain = sorted((oid.kind, list(oid.name), facts) for oid, facts in catalog.objects.items())
        body = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        known = "sha256:" + hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
        catalog.digests["objects"] = known
    return known


def read_sizes(query: Query, database: str) -> dict[ObjectId, int]:
    """Bytes of each table with its indexes, as the storage engine estimates them now."""
    rows = query(
        "SELECT table_name, coalesce(data_length, 0) + coalesce(index_length, 0)"
        " FROM information_schema.tables WHERE table_schema = %s AND table_type <> 'VIEW'",
        (database,),
    )
    return {ObjectId("table", (str(name),)): int(size) for name, size in rows}


class _Reader:
    def __init__(
        self,
        query: Query,
        database: str,
        called: str,
        exclude: Sequence[str],
        many: QueryMany | None,
        known: Known,
    ) -> None:
        self._query = query
        self._many = many or (lambda sqls: [query(sql) for sql in sqls])
        self._database = database
        self._called = called
        self._exclude = tuple(exclude)
        self._known = known
        self._seen: dict[str, dict[str, Any]] = {}
        self._marks: dict[str, str] = {}
        self._objects: dict[ObjectId, Facts] = {}
        self._collations: dict[str, str] = {}
        self._aside: dict[str, dict[str, Any]] = {}

    def read(self) -> Catalog:
        context = self._context()
        self._collations = {
            str(name): str(collation)
            for name, collation in self._query(
                "SELECT character_set_name, default_collate_name"
                " FROM information_schema.character_sets"
            )
        }
        tables, views, sequences = self._list_tables()
        routines = self._list_routines()
        if not context["mariadb"]:
            self._mark()
        same = {name for name in tables if self._is_marked_the_same(name)}
        asked = [
            *(f"SHOW CREATE TABLE {ident(name)}" for name in tables if name not in same),
            *(f"SHOW CREATE VIEW {ident(name)}" for name in views),
            *(f"SHOW CREATE SEQUENCE {ident(name)}" for name in sequences),
            *(f"SHOW CREATE {kind.upper()} {ident(name)}" for kind, name in routines),
        ]
        answers = iter(self._many(asked))
        for name in tables:
            if name in same:
                self._keep(name, self._known[name])
            else:
                self._table(name, self._renamed(str(next(answers)[0][1])))
        for name in views:
            self._view(name, self._renamed(str(next(answers)[0][1])))
        for name in sequences:
            self._sequence(name, str(next(answers)[0][1]))
        for kind, name in routines:
            self._routine(kind, name, next(answers)[0])
        self._triggers()
        self._events()
        context |= {"aside": self._aside, KNOWN: self._seen}
        return Catalog(dict(sorted(self._objects.items())), frozenset(), {}, context)

    def _context(self) -> dict[str, Any]:
        version, mode, user, zone, charset, collation = self._query(
            "SELECT VERSION(), @@SESSION.sql_mode, CURRENT_USER(), @@SESSION.time_zone,"
            " @@character_set_database, @@collation_database"
        )[0]
        server = server_of(str(version))
        return {
            "server_version": server.version,
            "mariadb": server.is_mariadb,
            "sql_mode": str(mode),
            "time_zone": str(zone),
            "user": str(user),
            "database": self._called,
            "charset": str(charset),
            "collation": str(collation),
        }

    def _wanted(self, name: str) -> bool:
        full = f"{self._called}.{name}"
        return not any(fnmatchcase(full if "." in glob else name, glob) for glob in self._exclude)

    def _list_tables(self) -> tuple[list[str], list[str], list[str]]:
        found: dict[str, list[str]] = {"VIEW": [], "SEQUENCE": [], "": []}
        for name, kind in self._query("SHOW FULL TABLES"):
            if self._wanted(str(name)):
                found.get(str(kind), found[""]).append(str(name))
        return found[""], found["VIEW"], found["SEQUENCE"]

    def _list_routines(self) -> list[tuple[str, str]]:
        found = []
        for kind, name in self._query(
            "SELECT routine_type, routine_name FROM information_schema.routines"
            " WHERE routine_schema = %s ORDER BY routine_type, routine_name",
            (self._database,),
        ):
            if not self._wanted(str(name)):
                continue
            if str(kind) in ("PROCEDURE", "FUNCTION"):
                found.append((str(kind).lower(), str(name)))
            else:
                self._objects[ObjectId(str(kind).lower(), (str(name),))] = {}
        return found

    def _renamed(self, text: str) -> str:
        """The database's own name, where the server prints it, as it is called in the facts."""
        if self._database == self._called:
            return text
        return text.replace(f"{ident(self._database)}.", f"{ident(self._called)}.")

    def _mark(self) -> None:
        """When MySQL's dictionary last wrote each table, and which table it is.

        Every ALTER makes the time anew. It has whole seconds, so what is younger than two may
        change unseen: no mark, while others have one that are old enough by now. A table that was
        renamed keeps its time, and one that references it is printed otherwise; so the marks are
        of all tables together, with the numbers that InnoDB knows them by.
        """
        try:
            numbers = self._query(TABLE_IDS, (f"{self._database}/",) * 2)
        except pymysql.MySQLError:  # wants a right that few accounts have: PROCESS
            return
        if not _PLAIN_NAME.fullmatch(self._database):
            return  # InnoDB writes its name otherwise
        rows = self._query(MARKS, (self._database,))
        dated = [(name, *what) for name, _, *what in rows]
        same = hashlib.sha256(repr([*numbers, *dated]).encode("utf-8", "surrogatepass")).hexdigest()
        self._marks = {str(name): same for name, is_old, *_ in rows if is_old}

    def _is_marked_the_same(self, name: str) -> bool:
        mark = self._marks.get(name)
        return mark is not None and name in self._known and self._known[name]["mark"] == mark

    def _mark_of(self, name: str, foreign: Mapping[str, Facts]) -> str | None:
        """None also where it references what has none: its text has columns of that in it."""
        mine = all(
            "schema" not in facts and facts["references"] in self._marks
            for facts in foreign.values()
        )
        return self._marks.get(name) if mine else None

    def _keep(self, name: str, known: Mapping[str, Any]) -> None:
        """Facts of a table that were read, now or before."""
        oid = ObjectId("table", (name,))
        self._objects[oid] = known["facts"]
        self._seen[name] = {**known, "mark": self._mark_of(name, known["foreign"])}
        if known["aside"]:
            self._aside[str(oid)] = known["aside"]
        for constraint, clause in known["foreign"].items():
            self._objects[ObjectId("foreign key", (name, constraint))] = clause

    def _table(self, name: str, text: str) -> None:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        known = self._known.get(name)
        if known is not None and known["text"] == digest:
            self._keep(name, known)
            return
        try:
            facts, foreign, aside = showtable.parse(text, self._collations)
        except showtable.Unreadable as error:
            clause = {"clause": str(error)}
            self._objects[ObjectId("unreadable", (f"table {name}",))] = clause
            return
        partition = facts.get("partition", "")
        if partition.startswith("PARTITION BY SYSTEM_TIME"):
            found = _SYSTEM_TIME_STARTS.search(partition)
            if found is not None:
                facts["partition"] = partition.replace(found.group(), "", 1)
                aside["starts"] = found.group()
        self._keep(name, {"text": digest, "facts": facts, "foreign": foreign, "aside": aside})

    def _view(self, name: str, text: str) -> None:
        match = _VIEW.match(text)
        if match is None:
            self._objects[ObjectId("unreadable", (f"view {name}",))] = {"clause": text[:200]}
            return
        facts = {
            "algorithm": match["algorithm"],
            "security": match["security"],
            "select": match["select"],
            "definer": _definer(match["definer"]),
        }
        if match["columns"]:
            facts["columns"] = match["columns"].strip()
        if match["check"]:
            facts["check"] = match["check"]
        self._objects[ObjectId("view", (name,))] = facts

    def _sequence(self, name: str, text: str) -> None:
        head = f"CREATE SEQUENCE {ident(name)} "
        self._objects[ObjectId("sequence", (name,))] = {"options": text.removeprefix(head)}

    def _routine(self, kind: str, name: str, row: Sequence[Any]) -> None:
        oid = ObjectId(kind, (name,))
        match = None if row[2] is None else _ROUTINE.match(str(row[2]))
        if match is None:
            # The server hides the text from whoever may not see it.
            self._objects[ObjectId("unreadable", (f"{kind} {name}",))] = {}
            return
        facts: dict[str, Any] = {
            "text": self._renamed(match["text"]),
            "definer": _definer(match["definer"] or ""),
            "sql_mode": str(row[1]),
        }
        if match["aggregate"]:
            facts["aggregate"] = True
        self._objects[oid] = facts

    def _triggers(self) -> None:
        last: dict[tuple[str, ...], str] = {}
        for row in self._query(
            "SELECT trigger_name, event_manipulation, event_object_table, action_timing,"
            " action_statement, definer, sql_mode FROM information_schema.triggers"
            " WHERE trigger_schema = %s"
            " ORDER BY event_object_table, action_timing, event_manipulation, action_order",
            (self._database,),
        ):
            name, event, table, timing, statement, definer, mode = (str(value) for value in row)
            if not (self._wanted(name) and self._wanted(table)):
                continue
            facts: dict[str, Any] = {
                "table": table,
                "timing": timing,
                "event": event,
                "statement": self._renamed(statement),
                "definer": definer,
                "sql_mode": mode,
            }
            place = (table, timing, event)
            if place in last:
                facts["follows"] = last[place]
            last[place] = name
            self._objects[ObjectId("trigger", (name,))] = facts

    def _events(self) -> None:
        for row in self._query(
            "SELECT event_name, definer, time_zone, event_definition, execute_at, interval_value,"
            " interval_field, sql_mode, starts, ends, status, on_completion, event_comment"
            " FROM information_schema.events WHERE event_schema = %s",
            (self._database,),
        ):
            name = str(row[0])
            if not self._wanted(name):
                continue
            facts: dict[str, Any] = {"time_zone": str(row[2]), "sql_mode": str(row[7])}
            facts["definer"] = str(row[1])
            facts["statement"] = self._renamed(str(row[3]))
            if row[4] is not None:
                facts["at"] = str(row[4])
            else:
                facts["every"] = f"{row[5]} {row[6]}"
            for key, value in (("starts", row[8]), ("ends", row[9])):
                if value is not None:
                    facts[key] = str(value)
            facts["status"] = str(row[10])
            facts["completion"] = str(row[11])
            if row[12]:
                facts["comment_text"] = str(row[12])
            self._objects[ObjectId("event", (name,))] = facts


def _definer(text: str) -> str:
    """``user@host`` of a DEFINER clause that the server printed."""
    match = _DEFINER.match(text)
    if match is None:
        return ""
    user = match["user"][1:-1].replace("``", "`")
    return f"{user}@{match['host'][1:-1].replace('``', '`')}" if match["host"] else user
