"""Sum files: what a directory held when somebody last said that it was right. Pure.

``ptahk.sum`` lists each file with a hash of that file alone; two branches that add files conflict
on its first line, as wanted. ``atlas.sum`` chains: the hash of a file covers every file before it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, normal, sha256, visible_sql
from ptahk.migrations.findings import Finding
from ptahk.migrations.layouts import atlas
from ptahk.migrations.model import Format

NAMES: Final[dict[Format, str]] = {"ptahk": "ptahk.sum", "atlas": "atlas.sum"}
_PTAHK_HEAD: Final = "ptahk.sum/1"
_HASH: Final = "ptahk migrate hash writes it anew, once you have looked at the change"


def write(layout: Format, files: Sequence[SourceFile], order: Sequence[str]) -> str | None:
    """The sum file's text; None where the layout has none.

    :param order: names of the files that run, in order (ptahk).
    """
    if layout == "ptahk":
        return _ptahk(files, order)
    return _atlas(files) if layout == "atlas" else None


def verify(layout: Format, files: Sequence[SourceFile], order: Sequence[str]) -> Iterator[Finding]:
    """What of the directory its sum file does not say; nothing where there is none."""
    name = NAMES.get(layout)
    stored = next((file for file in files if file.name == name), None)
    if stored is None:
        return
    wanted = write(layout, files, order)
    assert wanted is not None, "the layout has a sum file"
    found = normal(stored.text)
    if found.rstrip("\n") == wanted.rstrip("\n"):
        return
    before = list(_entries(found))
    now = list(_entries(wanted))
    yield from _differences(stored, before, now)


def _differences(
    stored: SourceFile, before: list[tuple[str, str]], now: list[tuple[str, str]]
) -> Iterator[Finding]:
    known, there = dict(before), dict(now)
    told = False
    for number, (name, _) in enumerate(before, start=2):
        if name not in there:
            told = True
            yield Finding("MG111", stored.name, number, 1, f"{name} is gone", _HASH)
    for name, hashed in now:
        if name not in known:
            told = True
            yield Finding("MG111", name, 0, 0, f"{stored.name} does not list the file", _HASH)
        elif known[name] != hashed:
            yield Finding("MG111", name, 0, 0, f"the file is not what {stored.name} says", _HASH)
            if told or stored.name == "atlas.sum":
                return  # in a chain every later line differs too
            told = True
    if not told:
        yield Finding("MG111", stored.name, 1, 1, "its first line does not fit the others", _HASH)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n")[1:]:
        name, _, hashed = line.rpartition(" ")
        if name:
            yield name, hashed


def _ptahk(files: Sequence[SourceFile], order: Sequence[str]) -> str:
    named = {file.name: file for file in files}
    # Files of other engines do not run here; the sum covers them all the same.
    others = [file.name for file in visible_sql(files) if file.name not in set(order)]
    rest = "".join(f"{name} {sha256(normal(named[name].text).encode())}\n"
                   for name in sorted([*order, *others], key=_ptahk_order))  # fmt: skip
    return f"{_PTAHK_HEAD} {sha256(rest.encode())}\n{rest}"


def _ptahk_order(name: str) -> tuple[int, str]:
    digits = re.match(r"\d+", name)
    return (int(digits[0]) if digits else 0, name)


def _atlas(files: Sequence[SourceFile]) -> str:
    lines = atlas_chain(files)
    whole = hashlib.sha256("".join(name + hashed for name, hashed in lines).encode())
    body = "".join(f"{name} h1:{hashed}\n" for name, hashed in lines)
    return f"h1:{_base64(whole.digest())}\n{body}"


def atlas_chain(files: Sequence[SourceFile]) -> list[tuple[str, str]]:
    """Name and chained hash of each file, in atlas's order; of ignored ones the name alone counts,
    and they are not listed."""
    chain = hashlib.sha256()
    lines: list[tuple[str, str]] = []
    for file in visible_sql(files):
        chain.update(file.name.encode())
        if atlas.sum_ignored(file):
            continue
        chain.update(file.raw)
        lines.append((file.name, _base64(chain.digest())))
    return lines


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
