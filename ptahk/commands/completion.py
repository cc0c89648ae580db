"""``ptahk completion SHELL``: print the completion script of a shell."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import OneOf

SHELLS = ("bash", "zsh", "fish")
_shell = OneOf(*SHELLS)


def completion(
    context: typer.Context,
    shell: Annotated[
        str, typer.Argument(parser=_shell, metavar="bash|zsh|fish", help="The shell.")
    ],
) -> None:
    """Print the completion script of bash, zsh or fish."""
    from ptahk.commands import _completions, _render

    nodes = tuple(_completions.read(context.find_root().command))
    _render.write(_completions.SHELLS[shell](nodes))
