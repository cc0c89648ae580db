"""Which server and database a session talks to, and whether it may be used at all (C-9.7).

One list of variables tells: what a make or a version does not have is simply not in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pymysql

from ptahk.errors import Refused
from ptahk.executor.planning.model import Query

OLDEST: Final = {"mysql": (8, 4, 0), "mariadb": (10, 11, 0)}
_NAMES: Final = {"mysql": "MySQL", "mariadb": "MariaDB"}
_STRANGERS: Final = ("tidb", "vitess", "oceanbase", "singlestore", "doris", "starrocks")
"""Speak the protocol, and are other databases."""
_MEANING: Final = frozenset(
    {
        "ANSI", "ANSI_QUOTES", "DB2", "EMPTY_STRING_IS_NULL", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE",
        "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "NO_BACKSLASH_ESCAPES", "NO_FIELD_OPTIONS",
        "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "ORACLE", "PIPES_AS_CONCAT", "POSTGRESQL",
        "REAL_AS_FLOAT", "SIMULTANEOUS_ASSIGNMENT",
    }
)  # fmt: skip
"""Modes under which the same text means something else, or the server leaves out of its own text
what we compare it by."""
_PLACE: Final = ("hostname", "port", "datadir", "server_id")
"""What a server without a UUID is known by."""
_ASKED: Final = (
    "server_uuid", *_PLACE, "read_only", "super_read_only",
    "innodb_read_only", "wsrep_on", "wsrep_provider", "group_replication_group_name",
    "group_replication_single_primary_mode",
)  # fmt: skip


_POSITION: Final = "SELECT SOURCE_POS_WAIT('ptahk.000001', 4, 1)"
"""Of MySQL: NULL where nothing applies what a source sent, else a number within a second."""
_SEVERAL_CHANNELS: Final = 3079
_GRANT: Final = (
    "this account cannot see whether the server is a replica that was stopped: GRANT {} ON *.*"
)
_UNSEEN: Final = {False: _GRANT.format("REPLICATION CLIENT"), True: _GRANT.format("SLAVE MONITOR")}


@dataclass(frozen=True, slots=True)
class Identity:
    """Which server and database this session talks to (C-6.14)."""

    server: str
    """``server_uuid``; of MariaDB ``mariadb-`` and hex digits of where it is."""
    database: str
    """As the server reports it."""
    account: str
    """``user@host``, as the server matched it."""
    version: int
    """As 90704."""
    mariadb: bool
    thread: int
    timeline: None = None
    notes: tuple[str, ...] = ()
    """What this account could not see of the server, and what to grant."""

    @property
    def role(self) -> str:
        """The account, under the name that the other engines have for it."""
        return self.account

    @property
    def make(self) -> str:
        """``mysql`` or ``mariadb``."""
        return "mariadb" if self.mariadb else "mysql"

    def __str__(self) -> str:
        return f"mysql/{self.server}/{self.database}"


def identify(query: Query, make: str = "") -> Identity:
    """Read the identity, and refuse what may not be used.

    :param make: which of the two the target names; "": either.
    :raises Refused: ``UnsupportedServer``, ``WrongServer``, ``StandbyServer``,
        ``MultiWriterServer`` or ``SqlModeRefused``; the message names what was found.
    """
    said, database, account, mode, thread = query(
        "SELECT VERSION(), DATABASE(), CURRENT_USER(), @@SESSION.sql_mode, CONNECTION_ID()"
    )[0]
    version = _version(str(said))
    mariadb = "mariadb" in str(said).lower()
    _refuse_make(str(said), version, mariadb, make)
    _refuse_modes(str(mode))
    names = ", ".join(f"'{name}'" for name in _ASKED)
    found = {
        str(name).lower(): str(value)
        for name, value in query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    }
    _refuse_read_only(found)
    _refuse_writers(found)
    grouped = bool(found.get("group_replication_group_name"))
    notes = _refuse_replica(query, mariadb, grouped)
    return Identity(
        _server(found),
        _reported(query, str(database)),
        str(account),
        version[0] * 10000 + version[1] * 100 + version[2],
        mariadb,
        int(thread),
        notes=notes,
    )


def _version(said: str) -> tuple[int, int, int]:
    match = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", said)
    if match is None:
        raise Refused(f"the server's version is unknown: {said[:80]}", reason="UnsupportedServer")
    return int(match[1]), int(match[2]), int(match[3])


def _refuse_make(said: str, version: tuple[int, int, int], mariadb: bool, wanted: str) -> None:
    found = "mariadb" if mariadb else "mysql"
    strangers = [name for name in _STRANGERS if name in said.lower()]
    if strangers:
        raise Refused(
            f"the server is neither MySQL nor MariaDB (version={said[:80]})",
            reason="UnsupportedServer",
        )
    if wanted and wanted != found:
        raise Refused(
            f"the server is {_NAMES[found]} {said[:80]}, and the target is declared as "
            f"{_NAMES[wanted]} (target.engine={wanted})",
            reason="WrongServer",
            field="engine",
            hint=f"set target.engine to {found}, or use another URL",
        )
    if version < OLDEST[found]:
        oldest = ".".join(str(part) for part in OLDEST[found][:2])
        raise Refused(
            f"{_NAMES[found]} {said[:80]} is too old: {oldest} is the oldest supported",
            reason="UnsupportedServer",
        )


def _refuse_modes(mode: str) -> None:
    refused = sorted(_MEANING.intersection(mode.upper().split(",")))
    if refused:
        raise Refused(
            f"the server's sql_mode changes what SQL text means or holds ({', '.join(refused)})",
            reason="SqlModeRefused",
            hint="take these modes out of the server's sql_mode",
        )


def _refuse_read_only(found: Mapping[str, str]) -> None:
    on = [
        name
        for name in ("read_only", "super_read_only", "innodb_read_only")
        if found.get(name, "OFF").upper() in ("ON", "1")
    ]
    if on:
        raise Refused(
            f"the server takes no writes ({', '.join(on)})",
            reason="StandbyServer",
            hint="point the URL at the primary",
        )


def _refuse_writers(found: Mapping[str, str]) -> None:
    """A lock is held on one server: where another may write too, it excludes nobody (H7)."""
    provider = found.get("wsrep_provider", "none")
    if found.get("wsrep_on", "OFF").upper() == "ON" and provider not in ("", "none"):
        raise _several("a Galera cluster (wsrep_on)")
    grouped = found.get("group_replication_group_name", "")
    if grouped and found.get("group_replication_single_primary_mode", "ON").upper() != "ON":
        raise _several("a Group Replication of several primaries")


def _several(what: str) -> Refused:
    return Refused(
        f"the server is part of {what}: its locks hold on this member alone",
        reason="MultiWriterServer",
        hint="use a server or a group with one writer",
    )


def _refuse_replica(query: Query, mariadb: bool, grouped: bool) -> tuple[str, ...]:
    """Refuse a replica of another server.

    Any account sees a replica that is at work; one that was stopped, and takes writes, only an
    account with a right of its own.

    :param grouped: of Group Replication, whose own channels are no other server's.
    :returns: a note, where a stopped one cannot be told.
    """
    notes: tuple[str, ...] = ()
    try:
        found = bool(query("SHOW ALL SLAVES STATUS" if mariadb else "SHOW REPLICA STATUS"))
    except pymysql.err.OperationalError:
        found, notes = _is_at_work(query, mariadb, grouped), (_UNSEEN[mariadb],)
    if found:
        raise Refused(
            "the server is a replica of another one",
            reason="StandbyServer",
            hint="point the URL at the primary",
        )
    return notes


def _is_at_work(query: Query, mariadb: bool, grouped: bool) -> bool:
    """Whether something that came from another server is being applied, as any account sees it."""
    if mariadb:
        rows = query("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        return any(str(count) != "0" for _, count in rows)
    try:
        return query(_POSITION)[0][0] is not None
    except pymysql.err.OperationalError as error:
        if error.args[0] != _SEVERAL_CHANNELS:
            raise
        return not grouped


def _server(found: Mapping[str, str]) -> str:
    """What tells this server from others, also after its restart on another machine.

    MySQL has a UUID in its data folder. MariaDB keeps nothing of the kind, and its ``server_uid``
    is a digest of a network card's address and the port: every new Pod of a StatefulSet would be
    another server, and what its predecessor left unfinished could never be proven. Its host's
    name, port, data folder and ``server_id`` stay.
    """
    if "server_uuid" in found:
        return found["server_uuid"].lower()
    place = "\0".join(found.get(name, "") for name in _PLACE)
    return f"mariadb-{hashlib.sha256(place.encode()).hexdigest()[:40]}"


def _reported(query: Query, database: str) -> str:
    """The name in the casing that the server keeps, which a client's may differ from."""
    rows = query(
        "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s", (database,)
    )
    names = [str(row[0]) for row in rows]
    return database if database in names or not names else names[0]
