"""What tells, after a statement's end was never seen, whether it took effect (H10).

A digest of the one object that a statement names, as the server prints it: read before the
statement and kept in its row, read again once its session has ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pymysql

from ptahk.executor.dialects.mysql.driver import code_of
from ptahk.executor.dialects.mysql.session import Session
from ptahk.wire import digest

_SHOWN: Final = {
    "view": "VIEW",
    "procedure": "PROCEDURE",
    "function": "FUNCTION",
    "trigger": "TRIGGER",
    "event": "EVENT",
    "sequence": "SEQUENCE",
}
_CALLED: Final = frozenset({"procedure", "function"})
"""Kinds whose names a plan prints with parentheses (``ObjectId``)."""
_ABSENT: Final = frozenset({1051, 1146, 1305, 1347, 1360, 1539, 4091})
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")
"""Moves with every row that somebody else inserts."""


def digest_of(session: Session, named: str) -> str:
    """Digest of an object by its name in a plan, ``kind name``; of what a table holds too.

    :raises pymysql.MySQLError: the server refused a read for another reason than its absence.
    """
    kind, _, name = named.partition(" ")
    if kind == "foreign":  # "foreign key table.name"
        kind, name = "table", name.partition(" ")[2]
    if kind in _CALLED:
        name = name.removesuffix("()")
    what = _SHOWN.get(kind)
    if what is not None:
        return digest.result_digest([named, _shown(session, what, name)])
    return digest.result_digest([named, _table(session, name)])


def _table(session: Session, name: str) -> str | None:
    """Of ``table.part`` the table, whose name may have a dot in it."""
    shown = _shown(session, "TABLE", name)
    while shown is None and "." in name:
        name = name.rpartition(".")[0]
        shown = _shown(session, "TABLE", name)
    return shown


def _shown(session: Session, what: str, name: str) -> str | None:
    """The server's own text; None: there is no such object."""
    database = session.database.replace("`", "``")
    quoted = name.replace("`", "``")
    try:
        rows: Sequence[tuple[Any, ...]] = session.query(
            f"SHOW CREATE {what} `{database}`.`{quoted}`"
        )
    except pymysql.MySQLError as error:
        if code_of(error) in _ABSENT:
            return None
        raise
    return _COUNTER.sub("", "\n".join(str(value) for value in rows[0])) if rows else None
