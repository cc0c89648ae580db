"""One table of figures, and whether the bounds hold."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure. ``bound`` None: shown, not checked."""

    name: str
    figure: float
    unit: str
    """``s``, ``ms``, ``µs`` or ``x`` (a ratio)."""
    bound: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.bound is None or self.figure <= self.bound


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(values: Iterable[float]) -> float:
    """The middle one: a busy moment does not move it."""
    return statistics.median(values)


def _number(value: float, unit: str) -> str:
    if unit == "x":
        return f"x{value:.2f}"
    digits = 2 if unit == "s" else 0
    return f"{value:.{digits}f} {unit}"


def table(rows: Sequence[Row]) -> str:
    """The rows as text, aligned."""
    lines = [("what", "figure", "at most", "", "")]
    for row in rows:
        bound = "" if row.bound is None else _number(row.bound, row.unit)
        verdict = "" if row.bound is None else ("ok" if row.holds else "MISSED")
        lines.append((row.name, _number(row.figure, row.unit), bound, verdict, row.note))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
