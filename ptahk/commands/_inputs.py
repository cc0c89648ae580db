"""What a local command reads before it does anything: the URL, the declaration, the state's place.

Every refusal here is the caller's mistake (exit 2) with nothing started. No text quotes a URL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath

from ptahk.commands._options import DEFAULT_URL_ENV, ENVIRONMENT_NAME, Place, Source
from ptahk.errors import UsageError

URL_BYTES_MAX = 16 * 1024
SOURCE_BYTES_MAX = 32 * 1024 * 1024
"""All declared files together; a real schema is a hundredth of it."""
SOURCE_FILES_MAX = 10_000
MANIFEST_BYTES_MAX = 4 * 1024 * 1024
PLAN_FILE_BYTES_MAX = 64 * 1024 * 1024
STATE_VARIABLE = "PTAHK_STATE"

Files = tuple[tuple[str, str], ...]
"""(name, text) of each declared file, in the order in which they are loaded."""


def read_url(place: Place) -> str:
    """The database URL of ``--url-file`` or of ``--url-env`` (``DATABASE_URL``).

    One newline at the end of a file is the editor's and is dropped; in a variable it is a mistake.

    :raises UsageError: both are given, or there is none.
    """
    if place.url_env and place.url_file:
        raise UsageError(
            "two database URLs given (--url-env, --url-file): use one", field="url-env"
        )
    if place.url_file:
        data = read_bytes(place.url_file, "url-file", URL_BYTES_MAX)
        return _text(data, place.url_file, "url-file").removesuffix("\n").removesuffix("\r")
    return url_of_environment(place.url_env or DEFAULT_URL_ENV, "url-env")


def url_of_environment(name: str, field: str) -> str:
    """The URL in an environment variable.

    :raises UsageError: the name is none (a URL, perhaps), or the variable is unset or empty.
    """
    if ENVIRONMENT_NAME.fullmatch(name) is None:
        # Never quoted: somebody may have put the URL itself here.
        raise UsageError(
            f"--{field} takes the name of an environment variable, not a URL: arguments are "
            "visible to every user of the machine",
            reason="InvalidVariableName",
            field=field,
            hint=f"export {DEFAULT_URL_ENV}=…, or keep the URL in a file and use --url-file FILE.",
        )
    value = os.environ.get(name, "")
    if not value:
        raise UsageError(
            f"no database URL ({field}={name}): the environment variable is not set",
            reason="NoDatabaseURL",
            field=field,
            hint=f"export {name}=postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or use --url-file.",
        )
    return value


def os_user() -> str | None:
    """Name of the user that local Jobs run as; libpq falls back to it."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def has_url(place: Place) -> bool:
    """Whether a URL can be had without a complaint: given, or in the default variable."""
    return bool(place.url_env or place.url_file or os.environ.get(DEFAULT_URL_ENV))


def read_files(source: Source) -> Files | None:
    """The declared files, or None where no option names any.

    :raises UsageError: a file cannot be read or is not text, or a directory holds none.
    """
    if not source.schema and not source.schema_dir:
        return None
    files = [*_named(source.schema or ())]
    if source.schema_dir:
        files += _of_directory(Path(source.schema_dir))
    total = sum(len(text) for _, text in files)
    if total > SOURCE_BYTES_MAX:
        raise UsageError(
            f"declaration too large (bytes={total}): at most {SOURCE_BYTES_MAX}",
            reason="SourceTooLarge",
            field="schema",
        )
    return tuple(files)


def _named(paths: Iterable[str]) -> list[tuple[str, str]]:
    """A file is named by its last part, so that the plan does not depend on where it lies.

    Where two would be equal, all are named as given.
    """
    given = list(paths)
    if given.count("-") > 1:
        raise UsageError("standard input given twice (schema=-)", field="schema")
    short = ["stdin" if path == "-" else PurePath(path).name for path in given]
    names = (
        short if len(set(short)) == len(short) else [PurePath(path).as_posix() for path in given]
    )
    if len(set(names)) != len(names):
        raise UsageError("a schema file is given twice", field="schema")
    return [
        (name, _text(read_bytes(path, "schema", SOURCE_BYTES_MAX), path, "schema"))
        for name, path in zip(names, given, strict=True)
    ]


def _of_directory(root: Path) -> list[tuple[str, str]]:
    if not root.is_dir():
        raise UsageError(f"not a directory (schema-dir={root})", field="schema-dir")
    paths = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*.sql")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    )
    if not paths:
        raise UsageError(
            f"no declaration (schema-dir={root}): it holds no *.sql file", field="schema-dir"
        )
    if len(paths) > SOURCE_FILES_MAX:
        raise UsageError(f"too many files (schema-dir={root}): {len(paths)}", field="schema-dir")
    return [
        (name, _text(read_bytes(str(root / name), "schema-dir", SOURCE_BYTES_MAX), name, "schema"))
        for name in paths
    ]


def read_bytes(path: str, field: str, bytes_max: int) -> bytes:
    """A whole file, or standard input for ``-``, within a bound.

    :raises UsageError: it cannot be read, or is larger.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(bytes_max + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read ({field}={path}): {error.strerror or type(error).__name__}",
            reason="UnreadableFile",
            field=field,
        ) from None
    if len(data) > bytes_max:
        raise UsageError(
            f"file too large ({field}={path}): more than {bytes_max} bytes", field=field
        )
    return data


def _text(data: bytes, path: str, field: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = "" if field.startswith("url") else f":{line}"
        # ``from None``: the error's own text and its object hold the bytes.
        raise UsageError(
            f"not UTF-8 ({field}={path}{where})", reason="NotText", field=field
        ) from None
    if "\0" in text:
        raise UsageError(f"not text ({field}={path}): it holds a NUL byte", field=field)
    return text


def state_directory(place: Place) -> Path:
    """``--state``, else ``PTAHK_STATE``, else the user's state directory (XDG)."""
    if place.state:
        return Path(place.state).absolute()
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_STATE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "ptahk"
    try:
        return Path.home() / ".local" / "state" / "ptahk"
    except RuntimeError:
        raise UsageError(
            "no state directory: this user has no home directory",
            field="state",
            hint=f"Use --state DIR or {STATE_VARIABLE}.",
        ) from None


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def write_atomically(path: str, data: bytes) -> None:
    """Write a whole file or none of it; what stood there stays until the new one is complete.

    :raises UsageError: it cannot be written.
    """
    import tempfile

    target = Path(path)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device: nothing to keep
            target.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(
            f"cannot write (out={path}): {error.strerror or type(error).__name__}",
            reason="UnwritableFile",
            field="out",
        ) from None
