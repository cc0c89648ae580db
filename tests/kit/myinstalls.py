"""Where the MySQL and MariaDB servers that the tests run are installed.

``scripts/set-up`` unpacks Debian's packages, each with the C library that it was built for, into
the user's cache: MySQL is in Debian's unstable suite only, whose libraries are not this machine's.
Everything there runs through the folder's own loader. Nothing here starts anything.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kit.installs import ServerMissing, cache_root

MAKES = ("mysql", "mariadb")
"""Every make of the family that the suites run on."""
_DAEMONS = {"mysql": "mysqld", "mariadb": "mariadbd"}
_CLIENTS = {"mysql": "mysql", "mariadb": "mariadb"}
_DUMPS = {"mysql": "mysqldump", "mariadb": "mariadb-dump"}
_LOADER = "ld-linux*.so.*"


@dataclass(frozen=True)
class MyInstall:
    """One unpacked server."""

    make: str
    root: Path
    """Holds ``usr`` and, of the older suites, ``lib``."""

    @property
    def daemon(self) -> Path:
        """The server's program."""
        return self.root / "usr" / "sbin" / _DAEMONS[self.make]

    @property
    def share(self) -> Path:
        """Messages, character sets, and MariaDB's system tables."""
        return self.root / "usr" / "share" / "mysql"

    @property
    def plugins(self) -> Path:
        """Folder of loadable modules; may be absent."""
        return self.root / "usr" / "lib" / "mysql" / "plugin"

    def command(self, program: Path) -> list[str]:
        """The beginning of a command line that runs one of its programs."""
        folders = [
            folder
            for parent in (self.root / "usr" / "lib", self.root / "lib")
            for folder in sorted(parent.glob("*-linux-gnu"))
        ]
        loaders = [found for folder in folders for found in sorted(folder.glob(_LOADER))]
        if not loaders:
            raise ServerMissing(f"{self.make}: no loader below {self.root}: run scripts/set-up")
        paths = ":".join(str(folder) for folder in folders)
        return [str(loaders[0]), "--library-path", paths, str(program)]

    def client(self) -> list[str]:
        """The beginning of a command line of its terminal client."""
        return self.command(self.root / "usr" / "bin" / _CLIENTS[self.make])

    def dump(self) -> list[str]:
        """The beginning of a command line of its dump program."""
        return self.command(self.root / "usr" / "bin" / _DUMPS[self.make])

    def version(self) -> str:
        """As the server says it, for example ``9.7.4``."""
        done = subprocess.run(
            [*self.command(self.daemon), "--no-defaults", "--version"],
            capture_output=True, text=True, check=True, cwd="/",
        )  # fmt: skip
        found = re.search(r"Ver (\d+\.\d+\.\d+)", done.stdout)
        if found is None:
            raise ServerMissing(f"{self.make}: no version in {done.stdout!r}")
        return found[1]

    def copy(self, folder: Path) -> "MyInstall":
        """What the server needs of it, where another user may read it."""
        made = MyInstall(self.make, folder)
        loader, _, paths, _ = self.command(self.daemon)
        listed = subprocess.run(
            [loader, "--library-path", paths, "--list", self.daemon],
            capture_output=True, text=True, check=True, cwd="/",
        )  # fmt: skip
        needed = {loader, str(self.daemon)}
        needed |= set(re.findall(rf"{re.escape(str(self.root))}\S+", listed.stdout))
        for path in map(Path, sorted(needed)):
            target = folder / path.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for tree in (self.share, self.plugins):
            if tree.exists():
                shutil.copytree(tree, folder / tree.relative_to(self.root))
        return made


def find(make: str) -> MyInstall:
    """The unpacked server of a make.

    :raises ServerMissing: it is not there; the message says how to get it.
    """
    install = MyInstall(make, cache_root() / make)
    if not install.daemon.exists():
        raise ServerMissing(
            f"{make} is not installed: run scripts/set-up, or leave it out with --my "
            f"(the whole list is {', '.join(MAKES)})"
        )
    return install
