"""The revision rows of an imported history, the same on every engine. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptahk import __version__
from ptahk.errors import Refused
from ptahk.executor.filerun import REPEATABLE, Attempt
from ptahk.migrations.foreign.baseline import Baseline, Imported
from ptahk.migrations.foreign.tables import Content


def rows_of(attempt: Attempt, baseline: Baseline, server: str) -> Iterator[dict[str, Any]]:
    """Columns and values of each row to insert, times and user aside."""
    for ordinal, row in enumerate(baseline.rows, start=1):
        total = len(row.migration.statements) if row.migration is not None else 0
        yield {
            "stream": attempt.stream,
            "version": (REPEATABLE if row.kind == "repeatable" else "") + row.version,
            "ordinal": ordinal,
            "kind": row.kind,
            "state": "applied",
            "description": row.description,
            "file": row.file,
            "format": attempt.layout,
            "checksum": row.checksum,
            "token_digest": row.token_digest,
            "raw_digest": _raw(row),
            "tx_mode": row.migration.tx_mode if row.migration is not None else "file",
            "total": total,
            "applied": total,
            "executor": __version__,
            "server": server,
            "claim": attempt.operation_id,
            "attempt": attempt.number,
            "sequence_digest": attempt.sequence_digest,
        }


def _raw(row: Imported) -> str | None:
    return row.migration.raw_digest if row.migration is not None and row.verified else None


def refuse_history(attempt: Attempt, rows: int) -> None:
    """A history is imported once. :raises Refused: the stream has rows already."""
    if rows:
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
