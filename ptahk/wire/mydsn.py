"""MySQL and MariaDB URLs → target identity (C-8). As strict as ``dsn``, and as pure.

Their clients have no common URL: every language has names of its own for the same thing, and some
of these run SQL, read files, or send several statements at once. So there is one list of names
here, those of MySQL's own documentation; all else is refused. PyMySQL reads no URL at all: it is
given the parts as they were understood here, and the executor compares what it makes of them.
"""

import re
from typing import Final

from ptahk.wire import uri
from ptahk.wire.target import DatabaseUrl, TargetIdentity

DEFAULT_PORT: Final = 3306
DATABASE_CHARS_MAX: Final = 64
USER_CHARS_MAX: Final = 128
"""MariaDB's; MySQL's is 32. A longer one is refused by the server itself."""

MODES: Final = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
"""``ssl-mode``, weakest first; the second is every client's default."""
_VERIFYING: Final = ("VERIFY_CA", "VERIFY_IDENTITY")
_ENCRYPTED: Final = ("REQUIRED", *_VERIFYING)
_FILES: Final = ("ssl-ca", "ssl-cert", "ssl-key")
_BOUND: Final = ("ssl-mode", *_FILES, "socket")
_EXCLUDED: Final = ("connect-timeout", "read-timeout", "write-timeout")
"""Timing, in whole seconds; never part of the identity (C-8.2), and ours to choose."""

_INJECTS = "it runs SQL of its own at the start of a session"
_READS = "it reads a file of this machine"
_SEVERAL = "it lets one text hold several statements"
_REFUSED: Final[dict[str, str]] = {
    "multistatements": _SEVERAL,
    "allowmultiqueries": _SEVERAL,
    "clientflag": "it changes the protocol",
    "localinfile": _READS,
    "allowloadlocalinfile": _READS,
    "allowallfiles": _READS,
    "readdefaultfile": _READS,
    "readdefaultgroup": _READS,
    "defaultsfile": _READS,
    "initcommand": _INJECTS,
    "connectioninitsql": _INJECTS,
    "sessionvariables": _INJECTS,
    "sqlmode": "the session's sql_mode is the executor's choice",
    "autocommit": "the executor's sessions always commit by themselves",
    "charset": "sessions always use utf8mb4",
    "characterset": "sessions always use utf8mb4",
    "collation": "sessions always use utf8mb4",
    "autoreconnect": "a lost session ends the operation",
    "user": "it belongs before the host",
    "username": "it belongs before the host",
    "password": "it belongs before the host",
    "host": "it belongs before the database",
    "port": "it belongs after the host",
    "database": "it belongs after the host",
    "dbname": "it belongs after the host",
    "schema": "it belongs after the host",
}
"""By the name in lower case without dashes and underscores, in which drivers differ."""
_HINTS: Final[dict[str, str]] = {
    "ssl": "Write ssl-mode=REQUIRED.",
    "usessl": "Write ssl-mode=REQUIRED.",
    "tls": "Write ssl-mode=REQUIRED.",
    "sslmode": "Write ssl-mode=MODE.",
    "sslca": "Write ssl-ca=PATH.",
    "sslrootcert": "Write ssl-ca=PATH.",
    "unixsocket": "Write socket=PATH.",
}
_OWN: Final = ("information_schema", "mysql", "performance_schema", "sys")
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def read(url: str) -> DatabaseUrl:
    """Read a ``mysql://`` or ``mariadb://`` URL strictly.

    :raises UsageError: the URL has no single meaning, or breaks a rule of C-8.5. The message
        never quotes a part of it.
    """
    parts = uri.split(url)
    if parts.scheme not in ("mysql", "mariadb"):
        raise uri.refuse(
            "scheme", "a URL of this engine begins with mysql:// or mariadb://, in lower case"
        )
    return _Reader(parts).read()


class _Reader:
    """One reading of one URL."""

    def __init__(self, parts: uri.Parts) -> None:
        self._parts = parts
        self._given: dict[str, str] = {}
        self._excluded: list[str] = []
        self._normalised: list[str] = []

    def read(self) -> DatabaseUrl:
        for number, (name, value) in enumerate(self._parts.query, 1):
            self._parameter(number, name, value)
        if self._parts.scheme == "mariadb":
            self._normalised.append("scheme")
        if self._parts.password is not None:
            self._excluded.append("password")
        socket, host, port = self._route()
        security = self._security()
        identity = TargetIdentity(
            engine="mysql",
            socket=socket,
            host=host,
            port=port,
            database=self._database(),
            user=self._user(),
            role=None,
            search_path=None,
            security=tuple(sorted(security.items())),
            session=(),
            excluded=tuple(sorted(set(self._excluded))),
            normalised=tuple(sorted(set(self._normalised))),
        )
        understood = {
            **security,
            "socket" if socket else "host": host,
            "database": identity.database,
            "user": identity.user,
        }
        if not socket:
            understood["port"] = str(port)
        if self._parts.password is not None:
            understood["password"] = self._parts.password
        return DatabaseUrl(identity, understood)

    def _parameter(self, number: int, name: str, value: str) -> None:
        plain = name.lower().replace("-", "").replace("_", "")
        spelt = name.replace("_", "-")
        if spelt not in (*_BOUND, *_EXCLUDED):
            if plain in _REFUSED:
                raise uri.refuse(plain, _REFUSED[plain])
            # Not quoted: behind a raw & it may be the rest of a password.
            raise uri.refuse(f"parameter {number}", "its name is unknown", _HINTS.get(plain))
        if spelt in self._given:
            raise uri.refuse(spelt, "it is given twice")
        if not value:
            raise uri.refuse(spelt, "it is given, but empty")
        if spelt != name:
            self._normalised.append(spelt)
        self._given[spelt] = value
        if spelt in _EXCLUDED:
            if _WHOLE_NUMBER.fullmatch(value) is None:
                raise uri.refuse(spelt, "it is not a whole number of seconds")
            self._excluded.append(spelt)

    def _route(self) -> tuple[bool, str, int]:
        host, path = self._parts.host, self._given.get("socket")
        if host is not None and host.startswith("/"):
            if path is not None:
                raise uri.refuse("socket", "the socket is named twice")
            host, path = None, host
        if path is not None:
            if host is not None or self._parts.port is not None:
                raise uri.refuse("socket", "a host or a port is named beside the socket")
            if not path.startswith("/"):
                raise uri.refuse("socket", "it is not an absolute path")
            return True, path, 0
        if host is None:
            raise uri.refuse(
                "host",
                "it names no host",
                "Name one, or a socket: ?socket=/run/mysqld/mysqld.sock.",
            )
        name, changed = uri.host(host)
        if changed:
            self._normalised.append("host")
        if self._parts.port is None:
            self._normalised.append("port")
            return False, name, DEFAULT_PORT
        return False, name, uri.port(self._parts.port)

    def _user(self) -> str:
        user = self._parts.user
        if user is None:
            raise uri.refuse("user", "it names no user, and clients would take the machine's")
        if len(user) > USER_CHARS_MAX:
            raise uri.refuse("user", f"it is longer than {USER_CHARS_MAX} characters")
        return user

    def _database(self) -> str:
        name = self._parts.path
        if name is None:
            raise uri.refuse("database", "it names no database")
        if len(name) > DATABASE_CHARS_MAX:
            raise uri.refuse("database", f"it is longer than {DATABASE_CHARS_MAX} characters")
        if name.endswith(" ") or any(ord(character) > 0xFFFF for character in name):
            raise uri.refuse(
                "database", "no server of this engine can have a database of that name"
            )
        if name.lower() in _OWN:
            raise uri.refuse("database", "it is one of the server's own")
        return name

    def _security(self) -> dict[str, str]:
        given = self._given.get("ssl-mode", "PREFERRED")
        mode = given.upper().replace("-", "_")
        if mode not in MODES:
            raise uri.refuse("ssl-mode", f"it must be one of {', '.join(MODES)}")
        if mode != given:
            self._normalised.append("ssl-mode")
        files: dict[str, str] = {name: self._given[name] for name in _FILES if name in self._given}
        if ("ssl-ca" in files) != (mode in _VERIFYING):
            # Clients differ in whether a CA alone is checked, and in what is checked without one.
            raise uri.refuse(
                "ssl-ca",
                "a CA and a mode that checks it go together",
                f"Write ssl-ca=PATH with ssl-mode={' or '.join(_VERIFYING)}.",
            )
        if ("ssl-cert" in files) != ("ssl-key" in files):
            raise uri.refuse("ssl-cert", "a certificate and its key go together")
        if "ssl-cert" in files and mode not in _ENCRYPTED:
            raise uri.refuse("ssl-cert", "it needs a mode that always encrypts")
        return {"ssl-mode": mode, **files}
