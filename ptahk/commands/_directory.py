"""Migration directories on disk and in git: read whole, once; written only where a command says so.

Every refusal here is the caller's mistake (exit 2) with nothing written.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ptahk.errors import UsageError
from ptahk.migrations import files, findings, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import Finding
from ptahk.migrations.model import Engine

READ: Final = (".sql", ".sum", ".conf", ".toml")
"""What is read; of other files the name alone counts."""
DEPTH_MAX: Final = 8
GIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A directory's files, and what could not be read as text."""

    files: tuple[SourceFile, ...]
    findings: tuple[Finding, ...]


def read(directory: str) -> OnDisk:
    """Every file below a directory, by name.

    :raises UsageError: it is none, cannot be read, or holds too much.
    """
    root = Path(directory)
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "does not exist"
        raise _unreadable(directory, what)
    found: list[SourceFile] = []
    wrong: list[Finding] = []
    for name in sorted(_names(root, directory)):
        read_ = _read(root / name, name)
        if isinstance(read_, Finding):
            wrong.append(read_)
        else:
            found.append(read_)
    return OnDisk(tuple(found), tuple(wrong))


def files_of(directory: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of every file, as an operation is given them.

    :raises UsageError: it cannot be read, or a file is not text.
    """
    found = read(directory)
    refuse(found.findings)
    return tuple((file.name, file.text) for file in found.files)


def refuse_names(given: Sequence[tuple[str, str]], spec: Mapping[str, Any]) -> None:
    """Refuse what no operation need be started for.

    :param spec: of a PtahMigration; its format and engine count.
    :raises InvalidSource: a file's name, or its layout.
    """
    read_ = [SourceFile(name, text) for name, text in given]
    engine: Engine = spec["target"]["engine"]
    findings.refuse(reading.by_names(read_, engine=engine, layout=spec.get("format")))


def _names(root: Path, directory: str) -> Iterator[str]:
    count = 0
    pending = [(root, 0)]
    try:
        while pending:
            folder, depth = pending.pop()
            for entry in os.scandir(folder):
                # A mounted ConfigMap keeps its data in hidden folders and links to it.
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < DEPTH_MAX:
                        pending.append((Path(entry.path), depth + 1))
                elif entry.is_file():
                    count += 1
                    if count > files.FILES_MAX:
                        raise _unreadable(directory, f"holds more than {files.FILES_MAX} files")
                    yield Path(entry.path).relative_to(root).as_posix()
    except OSError as error:
        raise _unreadable(directory, f"cannot be read: {error.strerror}") from None


def _read(path: Path, name: str) -> SourceFile | Finding:
    if not name.endswith(READ):
        return SourceFile(name, "")
    try:
        size = path.stat().st_size
        if size > files.FILE_BYTES_MAX:
            return files.too_large(name, size)
        return files.read(name, path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot read a migration ({path}): {error.strerror}",
            reason="UnreadableFile", field="DIR",
        ) from None  # fmt: skip


def _unreadable(directory: str, why: str) -> UsageError:
    return UsageError(
        f"migration directory ({directory}) {why}", reason="UnreadableFile", field="DIR"
    )


def write(directory: str, name: str, text: str, *, new: bool) -> None:
    """Write one file whole or not at all.

    :param new: it must not exist.
    :raises UsageError: it exists, or cannot be written.
    """
    path = Path(directory) / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if new:
            with path.open("x", encoding="utf-8", newline="") as handle:
                handle.write(text)
            return
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ptahk-")
        try:
            with os.fdopen(number, "w", encoding="utf-8", newline="") as handle:
                handle.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, error) from None


def rename(directory: str, old: str, new: str) -> None:
    """Move one file or folder within the directory. :raises UsageError: it cannot be."""
    source, target = Path(directory) / old, Path(directory) / new
    if target.exists():
        raise UsageError(f"cannot rename {old}: {target} exists", field="VERSION")
    try:
        source.rename(target)
    except OSError as error:
        raise _unwritable(source, error) from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot write ({path}): {error.strerror}", reason="UnwritableFile", field="DIR"
    )


@dataclass(frozen=True, slots=True)
class Merged:
    """What a git commit holds of a directory."""

    ref: str
    files: dict[str, bytes]


def of_git(directory: str, ref: str) -> tuple[Merged, Merged | None]:
    """The directory at ``ref``, and at the point where this branch left it (None: unrelated).

    :raises UsageError: no git, no repository, or no such commit.
    """
    if ref.startswith("-"):
        raise UsageError(f"not a commit (base={ref!r})", field="base")
    prefix = _git(directory, "rev-parse", "--show-prefix").decode().strip()
    commit = _git(directory, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", ref=ref)
    tip = commit.decode().strip()
    base = Merged(ref, dict(_blobs(directory, tip, prefix)))
    fork = _git(directory, "merge-base", "HEAD", tip, may_fail=True).decode().strip()
    if not fork:
        return base, None
    return base, Merged(fork, dict(_blobs(directory, fork, prefix)))


def _blobs(directory: str, commit: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    below = ("--", prefix) if prefix else ()
    listed = _git(directory, "ls-tree", "-r", "-z", "--full-tree", commit, *below)
    wanted: list[tuple[str, str]] = []
    for line in listed.split(b"\0"):
        head, _, name = line.partition(b"\t")
        parts = head.split()
        path = name.decode("utf-8", "surrogateescape").removeprefix(prefix)
        if len(parts) == 3 and parts[1] == b"blob" and path.endswith(".sql"):
            wanted.append((path, parts[2].decode()))
    if not wanted:
        return
    asked = "".join(f"{blob}\n" for _, blob in wanted).encode()
    data = _git(directory, "cat-file", "--batch", given=asked)
    at = 0
    for path, _ in wanted:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        yield path, data[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _git(
    directory: str, *arguments: str, ref: str = "", given: bytes | None = None,
    may_fail: bool = False,
) -> bytes:  # fmt: skip
    try:
        done = subprocess.run(
            ["git", "-C", directory, *arguments],
            input=given, capture_output=True, check=False, timeout=GIT_S,
        )  # fmt: skip
    except FileNotFoundError:
        raise UsageError("--base needs git, and there is none", field="base") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} took more than {GIT_S:g} s", field="base") from None
    if done.returncode and not may_fail:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else "no such commit"
        raise UsageError(
            f"git cannot read the base ({'base=' + ref if ref else directory}): {why}",
            field="base",
            hint="Fetch it first, as with: git fetch origin main.",
        )
    return done.stdout if done.returncode == 0 else b""


def refuse(wrong: Sequence[Finding]) -> None:
    """:raises InvalidSource: the directory cannot be used."""
    findings.refuse(wrong)
