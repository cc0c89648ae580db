"""Which layout a directory has. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, hidden, visible_sql
from ptahk.migrations.findings import Finding
from ptahk.migrations.layouts import dbmate, flyway, goose
from ptahk.migrations.layouts.common import Options, Parts, comments, on_own_line
from ptahk.migrations.model import Format

SUMS: Final[Mapping[str, Format]] = {"ptahk.sum": "ptahk", "atlas.sum": "atlas"}
_DIGITS: Final = re.compile(r"\d+[^/]*\.sql")
_HINT: Final = "name the layout with --format"


def detect(files: Sequence[SourceFile], options: Options) -> Format | Finding:
    """The one layout that fits: a sum file first, then folders, names and markers."""
    sums = sorted(file.name for file in files if file.name in SUMS)
    if len(sums) == 2:
        return Finding("MG104", "", 0, 0, f"the directory has {sums[0]} and {sums[1]}", _HINT)
    if sums:
        return SUMS[sums[0]]
    found: dict[Format, str] = {}
    for file in visible_sql(files):
        layout = _of(file, options)
        if layout is not None:
            found.setdefault(layout, file.name)
    if len(found) > 1:
        names = " and ".join(f"{name} is of {layout}" for layout, name in sorted(found.items())[:2])
        return Finding("MG104", "", 0, 0, f"two layouts: {names}", _HINT)
    if found:
        return next(iter(found))
    return _without_marks(files)


def _without_marks(files: Sequence[SourceFile]) -> Format | Finding:
    sql = visible_sql(files)
    if not sql:
        text = "the directory has no .sql file"
        return Finding("MG101", "", 0, 0, text, "ptahk migrate new NAME makes the first one")
    for file in sql:
        if _DIGITS.fullmatch(file.name):
            return "ptahk"
    return sql[0].finding("MG102", None, "the name is none of any layout's", _HINT)


def _of(file: SourceFile, options: Options) -> Format | None:
    """What one file says about its directory; digits alone say nothing."""
    folder, _, base = file.name.rpartition("/")
    if base == "up.sql" and folder:
        return "diesel"
    if file.name.endswith((".up.sql", ".down.sql")):
        return "golang-migrate" if file.name.endswith(".up.sql") else None
    if flyway.NAME.fullmatch(base) and not hidden(file.name):
        return "flyway"
    if "+goose" not in file.text.lower() and "migrate:" not in file.text:
        return None
    # A file that cannot be split says nothing here, and is refused when it is read.
    for comment in comments(file, options.engine, Parts()):
        if on_own_line(file, comment):
            match = goose.MARKER.match(comment.text)
            if match is not None and match[1].strip().upper() == "UP":
                return "goose"
            marker = dbmate.MARKER.fullmatch(comment.text)
            if marker is not None and marker[1] == "up":
                return "dbmate"
    return None
