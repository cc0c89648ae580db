"""Scratch databases: where a declaration is loaded to be read back as the server understands it.

On the same server and in the same session as the target: the session goes into it and comes back.
It is dropped at the end always; a stray only when it has our name, is past its deadline and unused.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pymysql

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Query

Run = Callable[[str], object]

PREFIX: Final = "ptahk_scratch_"
_STRAY: Final = re.compile(r"ptahk_scratch_([0-9a-f]{8})[0-9a-f]{24}\Z")
_SWEEP_MAX: Final = 8
HINT: Final = (
    "grant CREATE, DROP and what else the declaration needs on `ptahk\\_scratch\\_%`.* to this"
    " account, or name a development server of the same make and version (--dev-url-env,"
    " dev.urlFrom)"
)


class ScratchUnavailable(Refused):
    """No scratch database is to be had (exit 3)."""

    default_reason = "ScratchUnavailable"


@contextlib.contextmanager
def database(
    run: Run, query: Query, *, target: str, charset: str, collation: str, seconds: float
) -> Iterator[str]:
    """A scratch database that the session is in, and out of again at the end.

    :param target: the database that the session goes back to.
    :param charset: with ``collation``, the target's defaults: scratch gets the same.
    :param seconds: how long the operation may take; afterwards a sweeper may drop it.
    :raises ScratchUnavailable: the server refuses to make one.
    """
    name = f"{PREFIX}{int(time.time() + seconds):08x}{secrets.token_hex(12)}"
    with _unlogged(run, query):
        try:
            run(f"CREATE DATABASE {ident(name)} CHARACTER SET {charset} COLLATE {collation}")
        except pymysql.MySQLError as error:
            if error.args[0] in (1044, 1142, 1227, 1290, 1836):
                raise ScratchUnavailable(
                    f"the server refuses a scratch database: {error.args[1]}", hint=HINT
                ) from None
            raise
        try:
            run(f"USE {ident(name)}")
            yield name
        finally:
            run(f"USE {ident(target)}")
            run("SET SESSION foreign_key_checks = 0")
            try:
                run(f"DROP DATABASE IF EXISTS {ident(name)}")
            finally:
                run("SET SESSION foreign_key_checks = 1")


@contextlib.contextmanager
def _unlogged(run: Run, query: Query) -> Iterator[None]:
    """Keep scratch work out of the binary log where that may be; never on Galera."""
    rows: Any = query(
        "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'wsrep_on', 'sql_log_bin')"
    )
    values = {str(name).lower(): str(value).upper() for name, value in rows}
    off = False
    if values.get("log_bin") == "ON" == values.get("sql_log_bin") and (
        values.get("wsrep_on", "OFF") == "OFF"
    ):
        with contextlib.suppress(pymysql.MySQLError):  # wants a right that few accounts have
            run("SET SESSION sql_log_bin = 0")
            off = True
    try:
        yield
    finally:
        if off:
            run("SET SESSION sql_log_bin = 1")


def sweep(run: Run, query: Query) -> int:
    """Drop strays: our name, past their deadline, no session in them.

    :returns: how many were dropped.
    """
    used = {str(row[0]) for row in query("SELECT db FROM information_schema.processlist") if row[0]}
    dropped = 0
    for (name,) in query("SHOW DATABASES LIKE 'ptahk\\_scratch\\_%%'"):
        match = _STRAY.match(str(name))
        if match is None or int(match.group(1), 16) >= time.time() or str(name) in used:
            continue
        if dropped >= _SWEEP_MAX:
            break
        with contextlib.suppress(pymysql.MySQLError):  # somebody else's, or gone already
            run(f"DROP DATABASE IF EXISTS {ident(str(name))}")
            dropped += 1
    return dropped
