"""One file of a migration directory: its bytes, its text, its digests. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.migrations.findings import Finding
from ptahk.migrations.lexing.tokens import BOM, place

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
TOTAL_BYTES_MAX: Final = 40 * 1024 * 1024
"""As much as a plan file carries."""
FILES_MAX: Final = 10_000
VERSION_DIGITS_MAX: Final = 36
"""Longer ones are a mistake: the longest in use have 20."""
_NOT_NEWLINE: Final = re.compile(r"[^\r\n]")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was read, once."""

    name: str
    """Relative to the directory, with ``/``."""
    text: str
    """With its BOM and its line ends."""

    @property
    def base(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def raw(self) -> bytes:
        return self.text.encode("utf-8")

    def finding(
        self, number: str, at: int | None, message: str, hint: str | None = None
    ) -> Finding:
        """A finding at an offset of the text; None: of the file as a whole."""
        line, column = (0, 0) if at is None else place(self.text, at)
        return Finding(number, self.name, line, column, message, hint)


def read(name: str, data: bytes) -> SourceFile | Finding:
    """A file of its bytes, or why it is none."""
    if len(data) > FILE_BYTES_MAX:
        return too_large(name, len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        return Finding(
            "MG105", name, line, column,
            f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8",
        )  # fmt: skip
    file = SourceFile(name, text)
    if "\0" in text:
        return file.finding("MG106", text.index("\0"), "the file holds a NUL character")
    return file


def too_large(name: str, size: int) -> Finding:
    """:param size: bytes."""
    return Finding(
        "MG107", name, 0, 0, f"the file has {size} bytes, more than {FILE_BYTES_MAX}",
        "split it, or load the data by other means",
    )  # fmt: skip


def normal(text: str) -> str:
    """Without BOM, and with CRLF as LF: the same text in every checkout."""
    return text.removeprefix(BOM).replace("\r\n", "\n")


def sha256(data: bytes) -> str:
    """A plain SHA-256, as checksums of files are."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def checksum(up: str) -> str:
    """C-11.7, of the part to run."""
    return sha256(normal(up).encode("utf-8"))


def blanked(text: str, keep: Sequence[tuple[int, int]]) -> str:
    """``text`` with everything outside the ranges as spaces: lines and columns stay."""
    out: list[str] = []
    at = 0
    for start, end in keep:
        out += [_NOT_NEWLINE.sub(" ", text[at:start]), text[start:end]]
        at = end
    out.append(_NOT_NEWLINE.sub(" ", text[at:]))
    return "".join(out)


def digits_finding(file: SourceFile, digits: str) -> Finding | None:
    """A version that nobody means."""
    if len(digits.lstrip("0")) <= VERSION_DIGITS_MAX:
        return None
    return file.finding(
        "MG108", None, f"the version has {len(digits)} digits, more than {VERSION_DIGITS_MAX}",
        "rename the file",
    )  # fmt: skip


def hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def is_sql(name: str) -> bool:
    return name.endswith(".sql")


def visible_sql(files: Iterable[SourceFile]) -> list[SourceFile]:
    """The ``.sql`` files that are not hidden, by name."""
    return sorted(
        (file for file in files if is_sql(file.name) and not hidden(file.name)),
        key=lambda file: file.name,
    )
