"""From a URL to an open PyMySQL connection, and what its errors mean.

PyMySQL reads no URL: it is given the parts as ``wire.mydsn`` understood them, and what it made of
them is compared before it connects (C-8.5).
"""

from __future__ import annotations

import ssl
from typing import Any, Final, TypeAlias

import pymysql
import pymysql.connections
import pymysql.cursors

from ptahk.errors import Unreachable, UsageError
from ptahk.executor.budget import ConnectionLost
from ptahk.wire import dsn
from ptahk.wire.target import DatabaseUrl

Connection: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"

_LOST: Final = frozenset({0, 1053, 1077, 1079, 1159, 1161, 1927, 2006, 2013, 2014, 2055, 4031})
"""Codes after which this session is gone, or can no longer be told to be there."""
_DENIED: Final = frozenset({1044, 1045, 1049, 1130, 1203, 1226, 1227, 1251, 1524, 1698, 1862, 3118,
                            3955, 4151})  # fmt: skip
"""How a server says that the URL's account, password or database is not welcome."""
_UNKNOWN_DATABASE: Final = 1049


def lost(error: BaseException) -> ConnectionLost:
    """The session is gone; the driver's text names the cause, never a secret."""
    return ConnectionLost(
        f"the database session was lost: {text_of(error)}",
        hint="run the same command again: it finds the claim and asks the database what happened",
    )


def code_of(error: BaseException) -> int:
    """The server's or the driver's number; 0: none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def text_of(error: BaseException) -> str:
    """The first line of the server's message."""
    text = str(error.args[1] if len(error.args) > 1 else error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def ends_the_session(error: pymysql.MySQLError) -> bool:
    """Whether the error came with the end of the connection."""
    return isinstance(error, pymysql.err.InterfaceError) or code_of(error) in _LOST


def open_(url: str, application_name: str, seconds: int) -> Connection:
    """Connect, once.

    :param url: one that ``wire.dsn`` accepts for this engine.
    :raises UsageError: the driver makes something else of the URL, or the server refuses it.
    :raises Unreachable: no session can be had (exit 6).
    """
    read = dsn.read(url, engine="mysql")
    try:
        made = pymysql.connect(
            **_arguments(read),
            program_name=application_name,
            connect_timeout=seconds,
            charset="utf8mb4",
            autocommit=True,
            local_infile=False,
            defer_connect=True,
        )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the URL's TLS files cannot be used (ssl-ca, ssl-cert, ssl-key): {text_of(error)}",
            reason="InvalidUrl",
        ) from None
    differing = _disagreements(read, made)
    if differing:
        raise UsageError(
            "PyMySQL understands the database URL otherwise than we do "
            f"({', '.join(differing)}): refused",
            reason="InvalidUrl",
        )
    try:
        made.connect()
    except pymysql.MySQLError as error:
        message = text_of(error)
        if code_of(error) in _DENIED:
            hint = "create it first" if code_of(error) == _UNKNOWN_DATABASE else None
            raise UsageError(
                f"the server refuses this URL: {message}", reason="Denied", hint=hint
            ) from None
        raise Unreachable(f"the database cannot be reached: {message}") from None
    return made


def _arguments(read: DatabaseUrl) -> dict[str, Any]:
    parts = read.driver
    given: dict[str, Any] = {
        "user": parts["user"],
        # As bytes: the driver would write text in Latin-1.
        "password": parts.get("password", "").encode(),
        "database": parts["database"],
    }
    if "socket" in parts:
        given["unix_socket"] = parts["socket"]
    else:
        given |= {"host": parts["host"], "port": int(parts["port"])}
    mode = parts["ssl-mode"]
    if mode == "DISABLED":
        given["ssl_disabled"] = True
    elif mode != "PREFERRED":
        given["ssl"] = _context(parts)
    return given


def _context(parts: dict[str, str]) -> ssl.SSLContext:
    verifies = parts["ssl-mode"] in ("VERIFY_CA", "VERIFY_IDENTITY")
    context = ssl.create_default_context(cafile=parts.get("ssl-ca"))
    # The certificates that the servers make for themselves do not pass the strict checks.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = parts["ssl-mode"] == "VERIFY_IDENTITY"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    if "ssl-cert" in parts:
        context.load_cert_chain(parts["ssl-cert"], parts["ssl-key"])
    return context


def _disagreements(read: DatabaseUrl, made: Any) -> list[str]:
    """Names of the parts that the driver holds otherwise; it has not connected yet."""
    identity, mode = read.identity, read.driver["ssl-mode"]
    context: Any = getattr(made, "ctx", None)
    held = {
        "user": made.user == identity.user,
        "database": made.db == identity.database,
        "password": made.password == read.driver.get("password", "").encode(),
        "socket": made.unix_socket == (identity.host if identity.socket else None),
        "host": identity.socket or made.host == identity.host,
        "port": identity.socket or made.port == identity.port,
        "init_command": made.init_command is None and made.sql_mode is None,
        "local_infile": not made.client_flag & pymysql.constants.CLIENT.LOCAL_FILES,
        "multi_statements": not made.client_flag & pymysql.constants.CLIENT.MULTI_STATEMENTS,
        "ssl-mode": (
            made.ssl == (mode != "DISABLED")
            and made._ssl_required == (mode not in ("DISABLED", "PREFERRED"))
            and (not mode.startswith("VERIFY") or context.verify_mode == ssl.CERT_REQUIRED)
            and (mode != "VERIFY_IDENTITY" or context.check_hostname)
        ),
    }
    return sorted(name for name, agrees in held.items() if not agrees)
