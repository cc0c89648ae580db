"""What one database URL leads to: the values that ``dsn`` reads out of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptahk.wire.digest import EngineFamily, TargetIdentityDigest, target_identity_digest


@dataclass(frozen=True, slots=True)
class TargetIdentity:
    """The route of one database URL and what is in force on it. Holds no secret.

    :ivar socket: ``host`` is a Unix socket, not a name or an address: of PostgreSQL its directory,
        of MySQL its path, where there is no port (0).
    :ivar user: as in the URL, or the operating-system user that libpq falls back to.
    :ivar security: transport and authentication policy, defaults filled in.
    :ivar session: options that the session starts with, ``role`` and ``search_path`` apart.
    :ivar excluded: names of the given parts that are not bound (C-8.2).
    :ivar normalised: names of the given parts that were brought to one spelling (C-8.3).
    """

    engine: EngineFamily
    socket: bool
    host: str
    port: int
    database: str
    user: str
    role: str | None
    search_path: str | None
    security: tuple[tuple[str, str], ...]
    session: tuple[tuple[str, str], ...]
    excluded: tuple[str, ...] = field(default=(), compare=False)
    normalised: tuple[str, ...] = field(default=(), compare=False)

    @property
    def bound(self) -> dict[str, Any]:
        """The JSON document that the digest covers."""
        return {
            "engine": self.engine,
            "transport": "socket" if self.socket else "tcp",
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "role": self.role,
            "searchPath": self.search_path,
            "security": dict(self.security),
            "session": dict(self.session),
        }

    @property
    def digest(self) -> TargetIdentityDigest:
        """C-8.1's digest."""
        return target_identity_digest(self.bound)

    @property
    def local_key(self) -> str:
        """The coordination key of a local run that was given none (C-14.5)."""
        host = f"[{self.host}]" if ":" in self.host and not self.socket else self.host
        return f"local:{host}:{self.port}/{self.database}"


class DatabaseUrl:
    """A URL that was read: its identity, and what the driver must understand by it.

    Holds the password, so its repr shows the identity alone.
    """

    __slots__ = ("_understood", "identity")

    def __init__(self, identity: TargetIdentity, understood: Mapping[str, str]) -> None:
        self.identity = identity
        self._understood = dict(understood)

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.identity!r})"

    @property
    def driver(self) -> dict[str, str]:
        """What a driver that reads no URLs is given: part → text, the password among them."""
        return dict(self._understood)

    def disagreements(self, conninfo: Mapping[str, Any]) -> list[str]:
        """Names of the parts that libpq understands differently; empty where it agrees.

        :param conninfo: ``psycopg.conninfo.conninfo_to_dict(url)``.
        """
        theirs = {name: str(value) for name, value in conninfo.items() if value is not None}
        names = self._understood.keys() | theirs.keys()
        return sorted(name for name in names if self._understood.get(name) != theirs.get(name))
