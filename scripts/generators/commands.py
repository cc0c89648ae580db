"""``docs/commands.md``: a hand-written head, and every command with its options."""

from collections.abc import Iterator
from pathlib import Path

from ptahk import cli
from ptahk.commands import _completions

HEAD = Path(__file__).resolve().parents[2] / "docs" / "commands.head.md"


def files() -> dict[str, str]:
    """The page."""
    lines = [HEAD.read_text(encoding="utf-8").rstrip(), ""]
    for node in _completions.read(cli.table()):
        if node.path:
            lines += _command(node)
    return {"docs/commands.md": "\n".join(lines).rstrip() + "\n"}


def _command(node: _completions.Node) -> Iterator[str]:
    arguments = "".join(f" {argument.metavar}" for argument in node.arguments)
    tail = " COMMAND" if node.children else arguments
    yield f"{'#' * (len(node.path) + 1)} ptahk {' '.join(node.path)}{tail}"
    yield ""
    yield node.help
    yield ""
    flags = [flag for flag in node.flags if "--help" not in flag.names]
    if not flags:
        return
    yield "| option | what it does |"
    yield "| --- | --- |"
    for flag in flags:
        names = ", ".join(f"`{name}`" for name in flag.names)
        metavar = f" {flag.metavar}" if flag.takes_value and flag.metavar else ""
        cell = (names + metavar).replace("|", "\\|")
        yield f"| {cell} | {flag.help.replace('|', chr(92) + '|')} |"
    yield ""
