"""Real MySQL and MariaDB servers for the tests, each started once per run.

As in ``servers.py``: in the run's folder, ended by pid by the guard. A first data folder is made
once per machine, in the user's cache, and copied for every server: MySQL takes seconds for one.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import pymysql
import pymysql.connections

from tests.kit import guard
from tests.kit.installs import ServerMissing, cache_root
from tests.kit.myinstalls import MyInstall, find
from tests.kit.servers import Account, Run, account, free_port

SUPERUSER = "admin"
PID_FILE = "mysqld.pid"
_START_S = 60.0
_PORT_TRIES = 5
_INITIAL = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "fill_help_tables.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mysql_sys_schema.sql",
)
_SETTINGS = {
    # Nothing has to survive the machine; what was committed survives the server's process, which
    # tests kill.
    "innodb-flush-method": "nosync",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-doublewrite": "OFF",
    "innodb-buffer-pool-size": "64M",
    "skip-log-bin": "",
    "skip-name-resolve": "",
    "bind-address": "127.0.0.1",
    "max-connections": "200",
    "default-time-zone": "+00:00",
    "performance-schema": "ON",
    "event-scheduler": "OFF",
}
_OWN_SETTINGS: dict[str, dict[str, str]] = {
    "mysql": {
        "mysqlx": "OFF",
        "secure-file-priv": "NULL",
        "innodb-redo-log-capacity": "16M",
        "table-open-cache": "4000",
    },
    "mariadb": {
        "innodb-log-file-size": "16M",
        "performance-schema-instrument": "wait/lock/metadata/sql/mdl=ON",
    },
}


@dataclass(frozen=True)
class MyServer:
    """A running server of the family."""

    make: str
    """``mysql`` or ``mariadb``."""
    version: str
    port: int
    pid: int
    folder: str
    root: str
    """Where its programs are."""
    password: str = field(repr=False)
    """Of ``admin``, who may do everything; made for this run."""
    host: str = "127.0.0.1"

    @property
    def install(self) -> MyInstall:
        """Its programs."""
        return MyInstall(self.make, Path(self.root))

    @property
    def socket(self) -> str:
        """Path of its Unix socket."""
        return f"{self.folder}/socket"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return Path(self.folder) / "log"

    @property
    def ca(self) -> str:
        """The certificate authority of a server that has TLS."""
        return f"{self.folder}/data/ca.pem"

    def url(
        self,
        dbname: str,
        user: str = SUPERUSER,
        password: str | None = None,
        *,
        scheme: str | None = None,
        port: int | str | None = None,
        **parameters: str,
    ) -> str:
        """A database URL over TCP; an underscore in a parameter's name stands for its dash."""
        if password is None and user == SUPERUSER:
            password = self.password
        auth = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        named = {name.replace("_", "-"): value for name, value in parameters.items()}
        query = f"?{urlencode(named)}" if named else ""
        where = f"{self.host}:{port or self.port}"
        return f"{scheme or self.make}://{auth}@{where}/{quote(dbname, safe='')}{query}"

    def connect(
        self, dbname: str | None = None, user: str = SUPERUSER, password: str | None = None
    ) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        """A connection in autocommit mode; the caller closes it."""
        if password is None and user == SUPERUSER:
            password = self.password
        return pymysql.connect(
            unix_socket=self.socket, user=user, password=password or "", database=dbname,
            autocommit=True, charset="utf8mb4", ssl_disabled=True,
        )  # fmt: skip


def _options(install: MyInstall, folder: Path, settings: Mapping[str, str]) -> list[str]:
    chosen = {**_SETTINGS, **_OWN_SETTINGS[install.make], **settings}
    if "log-bin" in settings:
        del chosen["skip-log-bin"]
    chosen |= {
        "basedir": str(install.root / "usr"),
        "datadir": str(folder / "data"),
        "tmpdir": str(folder),
        "lc-messages-dir": str(install.share),
        "character-sets-dir": str(install.share / "charsets"),
        "plugin-dir": str(install.plugins),
    }
    return ["--no-defaults"] + [
        f"--{name}={value}" if value else f"--{name}" for name, value in chosen.items()
    ]


def _installed(run: Path, make: str, who: Account | None) -> MyInstall:
    """The install, or a copy of it where the unprivileged account may look."""
    install = find(make)
    if who is None:
        return install
    copy = run / f"install-{make}"
    if not copy.exists():
        partial = run / f"partial-{make}"
        partial.mkdir()
        install.copy(partial)
        partial.chmod(0o755)
        partial.rename(copy)
    return MyInstall(make, copy)


def _template(run: Path, install: MyInstall, who: Account | None) -> Path:
    """A data folder that nobody has used yet; made once per machine and version, and kept."""
    kept = cache_root() / f"{install.make}-data-{find(install.make).version()}"
    if kept.exists():
        return kept
    folder = run / f"making-{install.make}"
    folder.mkdir()
    _give(folder, who)
    options = _options(install, folder, {})
    if install.make == "mysql":
        command = [*install.command(install.daemon), *options, "--initialize-insecure"]
        _make_data(command, b"", folder, who)
    else:
        (folder / "data").mkdir()
        _give(folder / "data", who)
        script = b"create database mysql;\nuse mysql;\n"
        script += b"".join((install.share / name).read_bytes() for name in _INITIAL)
        command = [*install.command(install.daemon), *options, "--bootstrap"]
        _make_data([*command, "--skip-grant-tables"], script, folder, who)
    # Who a server is must be told apart: it makes a new identity where there is none.
    (folder / "data" / "auto.cnf").unlink(missing_ok=True)
    partial = Path(tempfile.mkdtemp(dir=kept.parent, prefix=f".{kept.name}-"))
    shutil.copytree(folder / "data", partial / "data")
    with contextlib.suppress(OSError):  # another run may have been quicker
        (partial / "data").rename(kept)
    shutil.rmtree(partial)
    shutil.rmtree(folder)
    return kept


def _make_data(command: Sequence[str], script: bytes, folder: Path, who: Account | None) -> None:
    done = subprocess.run(
        command, input=script, capture_output=True, check=False, cwd=folder,
        **(who.popen() if who else {}),
    )  # fmt: skip
    if done.returncode:
        words = (done.stdout + done.stderr)[-2000:].decode(errors="replace")
        raise ServerMissing(f"no data folder can be made: {words}")


def _give(path: Path, who: Account | None) -> None:
    if who is not None:
        os.chown(path, who.uid, who.gid)


def _copy(source: Path, target: Path, who: Account | None) -> None:
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        _give(path, who)
    target.chmod(0o711)


def _accounts(folder: Path, password: str, who: Account | None) -> Path:
    """What the server runs at every start: its accounts, with this run's password."""
    path = folder / "accounts.sql"
    path.write_text(
        f"CREATE USER IF NOT EXISTS '{SUPERUSER}'@'%' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON *.* TO '{SUPERUSER}'@'%' WITH GRANT OPTION;\n"
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';\n"
    )
    path.chmod(0o600)
    _give(path, who)
    return path


def start(run: Run, make: str, settings: Mapping[str, str] | None = None) -> MyServer:
    """Start a server in a folder of its own.

    :param settings: options above those of every test server, without their dashes.
    :raises ServerMissing: it is not installed, or does not start; with the server's own words.
    """
    who = account()
    with run.locked(f"install-{make}"):
        install = _installed(run.folder, make, who)
        template = _template(run.folder, install, who)
    folder = run.fresh(make)
    _give(folder, who)
    _copy(template, folder / "data", who)
    return launch(folder, make, install, secrets.token_urlsafe(12), settings or {})


def launch(
    folder: Path,
    make: str,
    install: MyInstall,
    password: str,
    settings: Mapping[str, str],
    at: int = 0,
) -> MyServer:
    """Start a server on a data folder that is there.

    :param at: its port; 0: any that is free.
    """
    who = account()
    accounts = _accounts(folder, password, who)
    for _ in range(_PORT_TRIES):
        port = at or free_port()
        chosen = {
            **settings,
            "port": str(port),
            "socket": f"{folder}/socket",
            "pid-file": f"{folder}/{PID_FILE}",
            "init-file": str(accounts),
        }
        options = _options(install, folder, chosen)
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*install.command(install.daemon), *options], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                **(who.popen() if who else {}),
            )  # fmt: skip
        found = MyServer(
            make, find(make).version(), port, process.pid, str(folder), str(find(make).root),
            password,
        )  # fmt: skip
        if _answers(found, process):
            return found
        words = (folder / "log").read_text(errors="replace")[-2000:]
        if "already in use" not in words:
            break
    raise ServerMissing(f"{make} does not start: {words}")


def _answers(server: MyServer, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until the server lets its superuser in. It has no other way to say that it is ready."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError, pymysql.err.OperationalError):
            # The driver leaves a socket open that found nobody.
            with socket.socket(socket.AF_UNIX) as knock:
                knock.connect(server.socket)
            server.connect().close()
            # Whoever started it may end before it does: the guard's business, not Popen's.
            process.returncode = 0
            return True
        time.sleep(0.02)
    process.kill()
    process.wait()
    return False


def shared(run: Run, make: str) -> MyServer:
    """The run's shared server of a make, started at its first use by anybody."""
    known = run.folder / f"server-{make}.json"
    with run.locked(f"server-{make}"):
        if known.exists():
            return MyServer(**json.loads(known.read_text()))
        server = start(run, make)
        known.write_text(json.dumps(asdict(server)))
        known.chmod(0o600)
        return server


def stop(server: MyServer) -> None:
    """End a server that is not shared, and remove its folder."""
    end(server)
    shutil.rmtree(server.folder, ignore_errors=True)


def end(server: MyServer) -> None:
    """SIGKILL; its data stays."""
    guard.end(server.pid, Path(server.folder), signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(server.pid, 0)


def restart(
    server: MyServer, settings: Mapping[str, str] | None = None, *, same_port: bool = False
) -> MyServer:
    """Start a server that has ended, on its data; without ``same_port`` at another one."""
    folder = Path(server.folder)
    install = _installed(folder.parent, server.make, account())
    at = server.port if same_port else 0
    return launch(folder, server.make, install, server.password, settings or {}, at)


def version_used(run: Run, make: str) -> str | None:
    """The version of the run's shared server; None where no test asked for one."""
    known = run.folder / f"server-{make}.json"
    return str(json.loads(known.read_text())["version"]) if known.exists() else None
