"""Prints documents: JSON, YAML, or lines of text, in colour on a terminal. Imports rich late.

The result goes to standard output, and nothing else does; progress and messages go to standard
error (cli.md, Common).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from ptahk.commands._options import Common
from ptahk.commands._text import Document, Line, Style, visible
from ptahk.errors import output_failed

API_VERSION = "cli.ptahk.dev/v1"

Layout = Callable[[Document], Iterable[Line]]

_RICH: Mapping[Style, str] = {
    "bold": "bold",
    "dim": "dim",
    "good": "green",
    "warning": "yellow",
    "privilege": "magenta",
    "bad": "bold red",
}


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """A command's JSON document with its head."""
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


def emit(value: Document, layout: Layout, common: Common) -> None:
    """Print the result as ``--output`` asks.

    :param layout: the text of ``value``, for ``table`` (and for ``sql``, which is text as well).
    """
    if common.output == "json":
        write(json.dumps(value, indent=2) + "\n")
    elif common.output == "yaml":
        write(to_yaml(value))
    else:
        write_lines(layout(value), no_color=common.no_color)


def to_yaml(value: Document) -> str:
    """YAML of a document, keys in the document's order."""
    import yaml

    text: str = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=False, width=100)
    return text


def write(text: str) -> None:
    """Text to standard output, flushed, so that a broken pipe shows here and not at exit."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_failed(error) from None


def colourful(stream: TextIO, *, no_color: bool) -> bool:
    """Whether ``stream`` is a terminal that may be coloured (also https://no-color.org)."""
    return stream.isatty() and not no_color and not os.environ.get("NO_COLOR")


def write_lines(
    lines: Iterable[Line], *, no_color: bool = False, stream: TextIO | None = None
) -> None:
    """Lines of text to ``stream`` (standard output), in colour where it is a terminal."""
    out = stream or sys.stdout
    if out is sys.stdout and not colourful(out, no_color=no_color):
        write("".join(text + "\n" for text, _ in lines))
        return
    if not colourful(out, no_color=no_color):
        for text, _ in lines:
            out.write(text + "\n")
        out.flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, soft_wrap=True, highlight=False, markup=False, emoji=False)
    for text, style in lines:
        console.print(Text(text, style=_RICH.get(style, "")))
    out.flush()


class Messages:
    """Progress and messages on standard error, one line each, silent with ``--quiet``."""

    def __init__(self, common: Common) -> None:
        self._quiet = common.quiet
        self._verbose = common.verbose
        self._no_color = common.no_color
        self._last = ""

    def step(self, text: str) -> None:
        """A step that has become durable. Said once, however often a pass reports it."""
        if text != self._last:
            self._last = text
            self._say(text, "dim")

    def note(self, text: str, style: Style = "") -> None:
        """A message that a person should see."""
        self._say(text, style)

    def always(self, text: str) -> None:
        """What must be said even with ``--quiet``: something is still running."""
        self._write([(visible(text), "")])

    def detail(self, text: str) -> None:
        """Only with ``--verbose``."""
        if self._verbose:
            self._say(text, "dim")

    def lines(self, lines: Iterable[Line]) -> None:
        """A block that is no result, as the plan before its approval."""
        if not self._quiet:
            self._write(lines)

    def _say(self, text: str, style: Style) -> None:
        if not self._quiet:
            self._write([(visible(text), style)])

    def _write(self, lines: Iterable[Line]) -> None:
        try:
            write_lines(lines, no_color=self._no_color, stream=sys.stderr)
        except OSError:
            # A log on a full disk, or a reader that left, must not stop an apply half-way.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
