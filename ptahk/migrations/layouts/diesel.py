"""The diesel layout: a folder a version, with ``up.sql`` and ``metadata.toml``. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, digits_finding, visible_sql
from ptahk.migrations.layouts.common import Options, Parts, refuse_duplicates, unknown_name
from ptahk.migrations.model import Part, TxMode

FOLDER: Final = re.compile(r"(?P<version>[\d-]*\d[\d-]*)(?:_(?P<title>[^/]*))?")
METADATA: Final = "metadata.toml"


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """The ``up.sql`` of each folder."""
    parts = Parts()
    named = {file.name: file for file in files}
    for file in visible_sql(files):
        folder, _, base = file.name.rpartition("/")
        match = FOLDER.fullmatch(folder)
        if match is None or base not in ("up.sql", "down.sql"):
            parts.refuse(unknown_name(file, "VERSION_title/up.sql"))
            continue
        if base == "down.sql":
            continue
        digits = match["version"].replace("-", "")
        if parts.refuse(digits_finding(file, digits)):
            continue
        version = digits.lstrip("0") or "0"
        tx_mode = _tx_mode(named, f"{folder}/{METADATA}", parts)
        parts.parts.append(
            Part(file, version, (int(version),), match["title"] or "", tx_mode=tx_mode)
        )
    refuse_duplicates(parts)
    return parts


def _tx_mode(named: Mapping[str, SourceFile], name: str, parts: Parts) -> TxMode | None:
    file = named.get(name)
    if file is None:
        return None
    try:
        value = tomllib.loads(file.text).get("run_in_transaction", True)
    except tomllib.TOMLDecodeError as error:
        parts.refuse(file.finding("MG203", None, f"is not TOML: {error}"))
        return None
    if not isinstance(value, bool):
        parts.refuse(file.finding("MG203", None, "run_in_transaction is true or false"))
        return None
    return None if value else "none"
