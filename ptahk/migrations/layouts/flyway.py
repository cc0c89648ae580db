"""The flyway layout: ``V1.2__description.sql``, repeatables, baselines, placeholders. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ptahk.migrations.files import SourceFile, digits_finding, hidden, visible_sql
from ptahk.migrations.layouts.common import Options, Parts, refuse_duplicates, unknown_name
from ptahk.migrations.model import Kind, Part, TxMode

NAME: Final = re.compile(
    r"(?:(?P<prefix>[VBU])(?P<version>\d+(?:[._]\d+)*)|(?P<repeatable>R))__(?P<title>.*)\.sql"
)
CODE: Final = re.compile(r"[VRBU][\d._]*__.*\.(java|class|kt|py|js|groovy)")
CALLBACK: Final = re.compile(r"(before|after)[A-Z]\w*(__.*)?\.(sql|java|class)|createSchema.*\.sql")
PLACEHOLDER: Final = re.compile(r"\$\{([^}\n]*)\}")
CONF_LINE: Final = re.compile(r"\s*([\w.]+)\s*=\s*(.*?)\s*")
PARTS_MAX: Final = 16


def read(files: Sequence[SourceFile], options: Options) -> Parts:
    """Versioned files part by part as numbers, baselines, and repeatables by description."""
    parts = Parts()
    named = {file.name: file for file in files}
    for file in files:
        if not hidden(file.name) and (CODE.fullmatch(file.base) or CALLBACK.fullmatch(file.base)):
            parts.refuse(
                file.finding("MG109", None, "code or a callback, which ptahk does not run",
                             "write it as a migration in SQL")
            )  # fmt: skip
    for file in visible_sql(files):
        if CALLBACK.fullmatch(file.base):
            continue
        match = NAME.fullmatch(file.base)
        if match is None:
            parts.refuse(unknown_name(file, "V1.2__description.sql, R__, B1__ or U1__"))
            continue
        if match["prefix"] != "U":
            _take(match, file, named, options, parts)
    refuse_duplicates(parts)
    return parts


def order_of(version: str) -> tuple[int, ...]:
    """Part by part as numbers; a missing part is 0, so ``1`` is ``1.0``."""
    numbers = [int(part) for part in re.split(r"[._]", version)]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _take(
    match: re.Match[str], file: SourceFile, named: Mapping[str, SourceFile], options: Options,
    parts: Parts,
) -> None:  # fmt: skip
    title = match["title"].replace("_", " ")
    tx_mode = _configured(named.get(f"{file.name}.conf"), parts)
    text = _replaced(file, options, parts)
    if match["repeatable"]:
        part = Part(file, title, (title,), title, "repeatable", file.text, text, tx_mode=tx_mode)
        parts.parts.append(part)
        return
    if parts.refuse(digits_finding(file, max(re.split(r"[._]", match["version"]), key=len))):
        return
    order = order_of(match["version"])
    if len(order) > PARTS_MAX:
        parts.refuse(file.finding("MG108", None, f"the version has more than {PARTS_MAX} parts"))
        return
    kind: Kind = "checkpoint" if match["prefix"] == "B" else "versioned"
    version = ".".join(map(str, order))
    parts.parts.append(Part(file, version, order, title, kind, file.text, text, tx_mode=tx_mode))


def _configured(conf: SourceFile | None, parts: Parts) -> TxMode | None:
    """``V1__x.sql.conf``: executeInTransaction, and nothing else."""
    if conf is None:
        return None
    tx_mode: TxMode | None = None
    at = 0
    for line in conf.text.split("\n"):
        match = CONF_LINE.fullmatch(line)
        if match is not None and match[1] == "executeInTransaction" and match[2].lower() in (
            "true", "false",
        ):  # fmt: skip
            tx_mode = "none" if match[2].lower() == "false" else None
        elif line.strip() and not line.lstrip().startswith("#"):
            parts.refuse(
                conf.finding("MG207", at, "only executeInTransaction can be set here",
                             "take the other settings out")
            )  # fmt: skip
        at += len(line) + 1
    return tx_mode


def _replaced(file: SourceFile, options: Options, parts: Parts) -> str:
    """The text with its placeholders' values."""
    values = options.placeholders
    if values == "off":
        return file.text
    known = values if isinstance(values, Mapping) else {}

    def value(match: re.Match[str]) -> str:
        if match[1] in known:
            return known[match[1]]
        parts.refuse(
            file.finding(
                "MG110", match.start(), f"placeholder ${{{match[1]}}} has no value",
                "give it with --placeholder NAME=VALUE, or switch them off with --placeholders-off",
            )
        )  # fmt: skip
        return match[0]

    return PLACEHOLDER.sub(value, file.text)
