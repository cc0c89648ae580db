"""Another tool's history, the same on every engine: when it is written, whether it moved. Pure."""

from __future__ import annotations

from typing import Any

from ptahk.errors import Refused
from ptahk.executor.filerun import Attempt
from ptahk.migrations.foreign.tables import Content


def refuse_history(attempt: Attempt, rows: int, *, again: bool) -> None:
    """What is imported into is what was looked at.

    :param again: the stream was imported before, and that is known.
    :raises Refused: the stream has rows already.
    """
    if rows and not again:
        raise Refused(
            f"stream {attempt.stream} has a history already ({rows} rows): none is imported",
            reason="HistoryMoved",
            hint="import into another stream, or plan again",
        )


def watched(recorded: tuple[Any, ...], found: Content | None) -> tuple[str, bool]:
    """The digest of when it was imported, and whether the table has moved since.

    :param recorded: tool, schema, name and digest, as they were kept.
    :param found: what it holds now; None: it is gone, so nobody runs the tool on it.
    """
    digest = str(recorded[3])
    return digest, found is not None and found.digest != digest
