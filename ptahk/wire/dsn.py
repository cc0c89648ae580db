"""Database URL → target identity (C-8). Nothing connects, and nothing is read from the machine.

The identity names the route that the driver will take and what will be in force on it, with its
defaults filled in; the caller scrubs ``PG*`` and ``MYSQL*`` from the environment so that these are
the defaults. Here are PostgreSQL's URLs, and the way to those of MySQL (``mydsn``). ``agrees``
compares this reading with libpq's own (``psycopg.conninfo.conninfo_to_dict``), and the executor
refuses any difference. One URL has one reading here or none: see ``uri``.

Whether a name is bound, excluded, or refused is a table below. A name that stands in no table is
refused: a parameter that we do not know could move the target.
"""

import re
from collections.abc import Mapping
from typing import Any

from ptahk.wire import uri
from ptahk.wire.digest import engine_family
from ptahk.wire.target import DatabaseUrl, TargetIdentity

__all__ = ["DatabaseUrl", "TargetIdentity", "agrees", "identify", "read"]

DEFAULT_PORT = 5432
NAME_BYTES_MAX = 63
"""PostgreSQL cuts a longer name, so that two spellings would reach one database."""

_ROUTE = ("host", "port", "dbname", "user", "password")

_ON_OFF = ("0", "1")
_TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_BOUND: dict[str, tuple[str | None, tuple[str, ...] | None]] = {
    "sslmode": ("prefer", ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
    "channel_binding": ("prefer", ("disable", "prefer", "require")),
    "sslnegotiation": ("postgres", ("postgres", "direct")),
    "sslcertmode": ("allow", ("disable", "allow", "require")),
    "sslcompression": ("0", _ON_OFF),
    "sslsni": ("1", _ON_OFF),
    "ssl_min_protocol_version": ("TLSv1.2", _TLS_VERSIONS),
    "ssl_max_protocol_version": (None, _TLS_VERSIONS),
    "sslrootcert": (None, None),
    "sslcert": (None, None),
    "sslkey": (None, None),
    "sslcrl": (None, None),
    "sslcrldir": (None, None),
    "require_auth": (None, None),
    "requirepeer": (None, None),
    # No default of its own: it depends on how libpq was built.
    "gssencmode": (None, ("disable", "prefer", "require")),
    "krbsrvname": ("postgres", None),
    "gsslib": (None, ("gssapi", "sspi")),
    "gssdelegation": ("0", _ON_OFF),
    "target_session_attrs": (
        "any",
        ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    ),
}
"""Parameter → (libpq's default, allowed values): transport and authentication policy."""

_ALWAYS_SHOWN = ("sslmode", "channel_binding")

_EXCLUDED = (
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)
"""Timing and liveness: whole numbers, never part of the identity (C-8.2)."""
_LABELS = ("application_name", "fallback_application_name")
"""Excluded too: a session is named by its operation (C-9.8)."""
_SECRETS = ("sslpassword",)

_REFUSED: dict[str, str] = {
    "service": "a service file can name any target",
    "servicefile": "a service file can name any target",
    "passfile": "a file of passwords is not bound by the identity",
    "hostaddr": "it sends the session elsewhere than host says",
    "replication": "a replication session runs no SQL of ours",
    "sslkeylogfile": "it writes the session's keys to a file",
    "load_balance_hosts": "an operation has one target",
    "requiressl": "it is obsolete",
    "client_encoding": "sessions always use UTF8",
    "min_protocol_version": "the wire protocol is the executor's choice",
    "max_protocol_version": "the wire protocol is the executor's choice",
    "scram_client_key": "only password credentials are supported",
    "scram_server_key": "only password credentials are supported",
    "oauth_issuer": "only password credentials are supported",
    "oauth_client_id": "only password credentials are supported",
    "oauth_client_secret": "only password credentials are supported",
    "oauth_scope": "only password credentials are supported",
    "search_path": "libpq has no such parameter",
    "currentschema": "libpq has no such parameter",
    "schema": "libpq has no such parameter",
    "role": "libpq has no such parameter",
}
_HINTS: dict[str, str] = {
    "search_path": "Write options=-c%20search_path%3DNAME.",
    "currentschema": "Write options=-c%20search_path%3DNAME.",
    "schema": "Write options=-c%20search_path%3DNAME.",
    "role": "Write options=-c%20role%3DNAME.",
    "requiressl": "Write sslmode=require.",
    "hostaddr": "Write the address as the host.",
}

_SESSION = frozenset(
    {
        "role", "search_path", "default_tablespace", "temp_tablespaces",
        "default_table_access_method", "default_toast_compression", "work_mem",
        "maintenance_work_mem", "temp_buffers", "max_parallel_maintenance_workers",
        "max_parallel_workers_per_gather", "statement_timeout", "lock_timeout",
        "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout",
        "synchronous_commit", "timezone", "row_security", "jit",
    }
)  # fmt: skip
"""Session options of ``options`` that are bound; besides these only names with a dot are."""
_SESSION_EXCLUDED = frozenset(
    {
        "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count",
        "tcp_user_timeout", "client_connection_check_interval", "application_name",
    }
)  # fmt: skip
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,62})=(.*)", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")


def read(url: str, *, engine: str, os_user: str | None = None) -> DatabaseUrl:
    """Read a database URL strictly.

    :param engine: of the resource; the URL's scheme must belong to it.
    :param os_user: name of the user that the operation's process runs as. libpq falls back to
        it, so a URL without a user is bound to it, and refused where the caller passes None. A
        MySQL URL always names its user.
    :raises UsageError: the URL has no single meaning, or breaks a rule of C-8.5. The message
        never quotes a part of it.
    """
    if engine_family(engine) == "mysql":
        from ptahk.wire import mydsn  # late: most runs never need it

        return mydsn.read(url)
    parts = uri.split(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise uri.refuse(
            "scheme", "a PostgreSQL URL begins with postgresql:// or postgres://, in lower case"
        )
    return _Reader(parts, os_user).read()


def identify(url: str, *, engine: str, os_user: str | None = None) -> TargetIdentity:
    """The identity alone; raises as ``read`` does."""
    return read(url, engine=engine, os_user=os_user).identity


def agrees(url: DatabaseUrl, conninfo: Mapping[str, Any]) -> list[str]:
    """What libpq understands differently: ``DatabaseUrl.disagreements`` as a function."""
    return url.disagreements(conninfo)


class _Reader:
    """One reading of one URL."""

    def __init__(self, parts: uri.Parts, os_user: str | None) -> None:
        self._parts = parts
        self._os_user = os_user
        self._given: dict[str, str] = {}
        self._excluded: list[str] = []
        self._normalised: list[str] = []

    def read(self) -> DatabaseUrl:
        self._collect()
        given = self._given
        socket, host = self._host()
        port = uri.port(given["port"]) if "port" in given else DEFAULT_PORT
        if "port" not in given:
            self._note("port")
        user = given.get("user") or self._os_user
        if user is None:
            raise uri.refuse("user", "it names no user, and libpq would take the machine's")
        if "user" not in given:
            self._note("user")
        database = self._database()
        session = self._session()
        if self._parts.scheme == "postgres":
            self._note("scheme")
        identity = TargetIdentity(
            engine="postgresql",
            socket=socket,
            host=host,
            port=port,
            database=database,
            user=_name(user, "user"),
            role=session.pop("role", None),
            search_path=session.pop("search_path", None),
            security=self._security(),
            session=tuple(sorted(session.items())),
            excluded=tuple(sorted(set(self._excluded))),
            normalised=tuple(sorted(set(self._normalised))),
        )
        return DatabaseUrl(identity, given)

    def _collect(self) -> None:
        """Every part under libpq's name for it, each at most once."""
        parts = self._parts
        route = (parts.host, parts.port, parts.path, parts.user, parts.password)
        for name, value in zip(_ROUTE, route, strict=True):
            if value is not None:
                self._given[name] = value
        for number, (name, value) in enumerate(parts.query, 1):
            self._parameter(number, name, value)
        if "password" in self._given:
            self._excluded.append("password")

    def _parameter(self, number: int, name: str, value: str) -> None:
        if name == "ssl":
            if value != "true":
                raise uri.refuse("ssl", "only ssl=true has a meaning", "Write sslmode=….")
            name, value = "sslmode", "require"
            self._note("ssl")
        if name.lower() in _REFUSED:
            lower = name.lower()
            raise uri.refuse(lower, f"{_REFUSED[lower]}", _HINTS.get(lower))
        known = (*_ROUTE, "options", *_BOUND, *_EXCLUDED, *_LABELS, *_SECRETS)
        if name not in known:
            # Not quoted: behind a raw & it may be the rest of a password.
            raise uri.refuse(f"parameter {number}", "its name is unknown")
        if name in self._given:
            raise uri.refuse(name, "it is given twice")
        if not value:
            raise uri.refuse(name, "it is given, but empty")
        self._given[name] = value
        if name in _EXCLUDED and _WHOLE_NUMBER.fullmatch(value) is None:
            raise uri.refuse(name, "it is not a whole number")
        if name in _EXCLUDED or name in _LABELS or name in _SECRETS:
            self._excluded.append(name)

    def _note(self, part: str) -> None:
        self._normalised.append(part)

    def _host(self) -> tuple[bool, str]:
        text = self._given.get("host")
        if text is None:
            raise uri.refuse(
                "host",
                "it names no host",
                "Name one, or a socket's directory: ?host=/run/postgresql.",
            )
        if text.startswith("/"):
            if "," in text:
                raise uri.refuse("host", "several hosts are named; an operation has one target")
            return True, text
        host, changed = uri.host(text)
        if changed:
            self._note("host")
        return False, host

    def _database(self) -> str:
        name = self._given.get("dbname")
        if name is None:
            raise uri.refuse("dbname", "it names no database")
        if "=" in name or "://" in name:
            raise uri.refuse("dbname", "some clients read such a name as another URL")
        return _name(name, "dbname")

    def _security(self) -> tuple[tuple[str, str], ...]:
        found = {}
        for name, (default, allowed) in _BOUND.items():
            value = self._given.get(name, default)
            if name in self._given and allowed is not None and value not in allowed:
                raise uri.refuse(name, f"it must be one of {', '.join(allowed)}")
            if value is not None and (name in _ALWAYS_SHOWN or value != default):
                found[name] = value
        return tuple(sorted(found.items()))

    def _session(self) -> dict[str, str]:
        """The settings in ``options``, which the server reads as its own command line."""
        found: dict[str, str] = {}
        for name, value in _settings(_words(self._given.get("options", ""))):
            if name in found:
                raise uri.refuse("options", "a setting is given twice")
            found[name] = value
        for name in list(found):
            if name in _SESSION_EXCLUDED:
                self._excluded.append(f"options.{name}")
                del found[name]
            elif name not in _SESSION and "." not in name:
                raise uri.refuse(
                    "options",
                    "a setting is not among those that may be bound",
                    f"These may: {', '.join(sorted(_SESSION))}, and names with a dot.",
                )
        return found


def _words(text: str) -> list[str]:
    """Split as the server does: white space separates, a backslash keeps what follows it."""
    words: list[str] = []
    word: str | None = None
    characters = iter(text)
    for character in characters:
        if character == " ":  # every other white space is refused before
            if word is not None:
                words.append(word)
            word = None
            continue
        if character == "\\":
            character = next(characters, "")
        word = (word or "") + character
    return words if word is None else [*words, word]


def _settings(words: list[str]) -> list[tuple[str, str]]:
    """``-c name=value``, ``-cname=value`` and ``--name=value``; nothing else is a setting."""
    found = []
    rest = iter(words)
    for word in rest:
        if word == "-c":
            text = next(rest, "")
        elif word.startswith(("-c", "--")):
            text = word[2:]
        else:
            raise uri.refuse("options", "only -c NAME=VALUE and --NAME=VALUE are allowed")
        match = _SETTING.fullmatch(text)
        if match is None:
            raise uri.refuse("options", "only -c NAME=VALUE and --NAME=VALUE are allowed")
        # The server reads a dash in a name as an underscore, and ignores case.
        name = match[1].replace("-", "_").lower()
        found.append((name, match[2]))
    return found


def _name(text: str, part: str) -> str:
    if len(text.encode("utf-8")) > NAME_BYTES_MAX:
        raise uri.refuse(part, f"it is longer than {NAME_BYTES_MAX} bytes, so PostgreSQL cuts it")
    return text
