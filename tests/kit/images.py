"""Builds the images of the project's own Dockerfile, without a registry, once for each state of it.

``python -m tests.kit.images`` builds them and prints their names. The base is a Debian made by
mmdebstrap, packages come from a wheelhouse, and buildah runs the Dockerfile's steps, none of which
needs a network. Base, wheelhouse, layers and results are kept in the user's cache, each under the
hash of what it was made from; a second run with the same sources builds nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.kit.installs import NeedsRoot, ServerMissing, cache_root

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("executor", "manager")
_REPOSITORY = "ptahk.test"
_CONTEXT = (
    "Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE", "ptahk", "locks",
)  # fmt: skip
_SUITE = "bookworm"
_PYTHON = "3.11"
"""Of the suite: what wheels must be for."""
_PACKAGES = "python3-minimal,python3-venv,ca-certificates,usr-is-merged"
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
"""A merged /usr from the start: no package that merges it later, with all of Perl, is needed."""
_LEFT_OUT = ("doc", "info", "locale", "man")
_KEPT = 4
_STORE_BYTES_MAX = 4 * 1024**3
_TIME = 1577836800
"""Of every file of the build context: only its bytes shall count."""
_TOOLS = ("buildah", "mmdebstrap", "unshare")


@dataclass(frozen=True)
class Image:
    """An image in an OCI archive."""

    repository: str
    digest: str
    archive: str

    @property
    def reference(self) -> str:
        """Its name by digest, as an operation Pod names it."""
        return f"{self.repository}@{self.digest}"


def _cache() -> Path:
    return cache_root() / "images"


def _say(text: str) -> None:
    print(f"images: {text}", file=sys.stderr, flush=True)


_held: list[int] = []
"""The lock's descriptor. Programs inherit it, so that one which outlives us keeps the lock."""


@contextmanager
def _lock() -> Iterator[None]:
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "images.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _held.append(handle.fileno())
        try:
            yield
        finally:
            _held.clear()


def _run(what: str, argv: list[str], *, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, pass_fds=_held,
    )  # fmt: skip
    if done.returncode:
        words = (done.stderr + done.stdout).strip()[-2000:]
        raise RuntimeError(f"{what}: exit {done.returncode}: {words}")
    return done.stdout


def copy_context(target: Path) -> str:
    """Copy what the images are built from, and name it by its bytes.

    A copy, because sources that change during a build would be kept under the wrong name.
    """
    skip = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in _CONTEXT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=skip)
        else:
            shutil.copyfile(source, target / name)
    digest = hashlib.sha256()
    for path in sorted(target.rglob("*")):
        digest.update(f"{path.relative_to(target).as_posix()}\0".encode())
        if path.is_file():
            path.chmod(0o644)
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        else:
            path.chmod(0o755)
        os.utime(path, (_TIME, _TIME))
    return digest.hexdigest()


def _name(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _mirror() -> list[str]:
    """The Debian mirror that apt uses here, if it says one."""
    wanted = ["Created-By: Packages", "Origin: Debian", "Component: main", f"Codename: {_SUITE}"]
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return listed.stdout.split()[:1]


def _base() -> Path:
    """The root of the base image, as a tar archive."""
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
    recipe = ["--variant=minbase", _MERGED, f"--include={_PACKAGES}", *excluded, _SUITE]
    archive = _cache() / f"base-{_name(platform.machine(), *recipe)}.tar"
    if not archive.exists():
        _say(f"making a base of Debian {_SUITE}'s packages: about a minute, once per machine")
        partial = archive.with_suffix(".partial.tar")
        _run("mmdebstrap", ["mmdebstrap", "--quiet", *recipe, str(partial), *_mirror()])
        partial.rename(archive)
    return archive


def _wheels(context: Path) -> Path:
    """A folder with every wheel that the Dockerfile's steps install, from its lock files."""
    locks = sorted((context / "locks").glob("*.txt"))
    machine = platform.machine()
    folder = _cache() / f"wheels-{_name(machine, _PYTHON, *(lock.read_text() for lock in locks))}"
    if not folder.exists():
        _say("filling the wheelhouse")
        tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (36, 34, 28, 17)]
        tags.append(f"--platform=manylinux2014_{machine}")
        partial = Path(tempfile.mkdtemp(dir=_cache(), prefix="partial-"))
        for lock in locks:
            _run("pip download", [
                sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                "--only-binary=:all:", "--implementation=cp", f"--python-version={_PYTHON}", *tags,
                "--dest", str(partial), "--require-hashes", "--no-deps", "-r", str(lock),
            ])  # fmt: skip
        partial.chmod(0o755)
        partial.rename(folder)
    return folder


class _Buildah:
    """buildah with a store of its own, in a mount namespace that leaves nothing behind."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._driver = "overlay"
        try:
            self("info")
        except RuntimeError:  # the cache lies where overlays cannot be stacked
            self._driver = "vfs"

    def __call__(self, *arguments: str) -> str:
        argv = [
            "unshare", "--mount", "--propagation=private", "--", "buildah",
            "--root", str(self._store / self._driver), "--runroot", str(self._store / "run"),
            "--storage-driver", self._driver, *arguments,
        ]  # fmt: skip
        # Nothing here runs by a user's own configuration of container tools.
        return _run(f"buildah {arguments[0]}", argv, env={"BUILDAH_ISOLATION": "chroot"}).strip()

    def empty_when_large(self) -> None:
        """Start anew when layers of old sources fill the cache."""
        size = _run("du", ["du", "--summarize", "--bytes", str(self._store)]).split()[0]
        if int(size) > _STORE_BYTES_MAX:
            self.empty()

    def empty(self) -> None:
        """Forget every layer."""
        shutil.rmtree(self._store, ignore_errors=True)

    def base(self, archive: Path) -> str:
        """Name of the image whose root is the archive."""
        name = f"localhost/{archive.stem}:1"
        if name not in self("images", "--format", "{{.Name}}:{{.Tag}}").split():
            container = self("from", "scratch")
            self("add", "--quiet", container, str(archive), "/")
            self("commit", "--quiet", container, name)
            self("rm", container)
        return name


def _build(context: Path, folder: Path) -> None:
    base, wheels = _base(), _wheels(context)
    buildah = _Buildah(_cache() / "store")
    buildah.empty_when_large()
    partial = Path(tempfile.mkdtemp(dir=_cache(), prefix="partial-"))
    try:
        _build_all(buildah, context, base, wheels, folder.name, partial)
    except RuntimeError as error:
        # A build that was killed may leave layers in the store that it names and does not hold.
        _say(f"once more, with an empty store: {error}")
        buildah.empty()
        _build_all(buildah, context, base, wheels, folder.name, partial)
    known = {}
    for target in TARGETS:
        archive = str(folder / f"{target}.tar")
        image = Image(f"{_REPOSITORY}/{target}", _digest(partial, target), archive)
        known[target] = asdict(image)
    (partial / "images.json").write_text(json.dumps(known))
    partial.rename(folder)


def _digest(folder: Path, target: str) -> str:
    """What a registry would call the image in an archive."""
    with tarfile.open(folder / f"{target}.tar") as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        digest: str = json.load(index)["manifests"][0]["digest"]
        return digest


def content(archive: Path) -> dict[str, Any]:
    """What is in an image, and how it is run: its layers' digests, and its settings.

    The time at which its base was taken over is in no file of it.
    """
    with tarfile.open(archive) as tar:

        def read(name: str) -> Any:
            found = tar.extractfile(name)
            assert found is not None
            return json.load(found)

        def blob(digest: str) -> Any:
            return read("blobs/" + digest.replace(":", "/"))

        config = blob(blob(read("index.json")["manifests"][0]["digest"])["config"]["digest"])
        return {"layers": config["rootfs"]["diff_ids"], "settings": config["config"]}


def build_again() -> dict[str, dict[str, Any]]:
    """What a build without any layer of an earlier one comes to, by target, as ``content``.

    At another place and time, from the same sources, base and locks. It takes a minute.
    """
    build()
    with tempfile.TemporaryDirectory() as work, _lock():
        place = Path(tempfile.mkdtemp(dir=_cache(), prefix="partial-"))
        context, out = Path(work) / "elsewhere", place / "out"
        context.mkdir()
        out.mkdir()
        try:
            copy_context(context)
            wheels, buildah = _wheels(context), _Buildah(place / "store")
            _build_all(buildah, context, _base(), wheels, "again", out)
            return {target: content(out / f"{target}.tar") for target in TARGETS}
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _build_all(
    buildah: _Buildah, context: Path, base: Path, wheels: Path, tag: str, out: Path
) -> None:
    base_name = buildah.base(base)
    for target in TARGETS:
        _say(f"building {target}")
        name = f"{_REPOSITORY}/{target}:{tag}"
        buildah(
            "bud", "--quiet", "--layers", "--isolation", "chroot", "--pull-never",
            "--volume", f"{wheels}:/{wheels.name}:ro", "--build-arg", f"BASE={base_name}",
            "--build-arg", "PIP_NO_INDEX=1", "--build-arg", f"PIP_FIND_LINKS=/{wheels.name}",
            "--timestamp", str(_TIME), "--target", target, "--tag", name,
            "--file", str(context / "Dockerfile"), str(context),
        )  # fmt: skip
        archive = out / f"{target}.tar"
        archive.unlink(missing_ok=True)
        buildah(
            "push", "--quiet", "--compression-level", "1", name, f"oci-archive:{archive}:{name}"
        )


def _forget_old() -> None:
    built = sorted(_cache().glob("built-*"), key=lambda path: path.stat().st_mtime)
    for old in [*built[:-_KEPT], *_cache().glob("partial-*")]:
        shutil.rmtree(old)


def build() -> dict[str, Image]:
    """The images of the sources as they are now, by target; built unless they are there.

    :raises ServerMissing: they cannot be built here.
    """
    if os.geteuid() != 0:
        raise NeedsRoot("images are built as root")
    if any(shutil.which(tool) is None for tool in _TOOLS):
        raise ServerMissing("images are built with buildah and mmdebstrap: scripts/set-up")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work, _lock():
        _cache().mkdir(exist_ok=True)
        context = Path(work)
        fingerprint = copy_context(context)
        folder = _cache() / f"built-{_name(fingerprint, _SUITE, _PACKAGES, platform.machine())}"
        if not folder.exists():
            _build(context, folder)
            _forget_old()
            _say(f"built in {time.monotonic() - began:.0f} s")
        os.utime(folder)
        known = json.loads((folder / "images.json").read_text())
    return {target: Image(**told) for target, told in known.items()}


if __name__ == "__main__":
    try:
        for built in build().values():
            print(built.reference)
    except (ServerMissing, RuntimeError) as failure:
        sys.exit(f"error: the images could not be built: {failure}")
