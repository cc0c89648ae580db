"""The golang-migrate layout, with the engine and autocommit suffixes of pop. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, digits_finding, visible_sql
from ptahk.migrations.layouts.common import (
    SERVED_BY,
    Options,
    Parts,
    choose_engine,
    refuse_duplicates,
    unknown_name,
)
from ptahk.migrations.model import Part, TxMode

NAME: Final = re.compile(r"(?P<version>\d+)_(?P<title>[^/]*)\.(?P<way>up|down)\.sql")


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The ``.up.sql`` files of the engine; ``.down.sql`` is passed over."""
    parts = Parts()
    named: list[tuple[Part, str | None]] = []
    for file in visible_sql(files):
        match = NAME.fullmatch(file.name)
        if match is None:
            parts.refuse(unknown_name(file, "VERSION_title.up.sql"))
            continue
        if match["way"] == "down" or parts.refuse(digits_finding(file, match["version"])):
            continue
        title = match["title"].split(".")
        tx_mode: TxMode | None = None
        engine = None
        while len(title) > 1 and (title[-1] == "autocommit" or title[-1] in SERVED_BY):
            word = title.pop()
            if word == "autocommit":
                tx_mode = "none"
            else:
                engine = word
        version = match["version"].lstrip("0") or "0"
        part = Part(file, version, (int(version),), ".".join(title), tx_mode=tx_mode)
        named.append((part, engine))
    parts.parts = choose_engine(named, options.engine)
    refuse_duplicates(parts)
    return parts
