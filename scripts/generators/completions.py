"""Shell completions, as ``ptahk completion SHELL`` prints them."""

import os
import subprocess
import sys

_FILES = {
    "bash": "completions/ptahk.bash",
    "zsh": "completions/_ptahk",
    "fish": "completions/ptahk.fish",
}


def files() -> dict[str, str]:
    """The completion script of each shell, by path."""
    return {path: _print(shell) for shell, path in _FILES.items()}


def _print(shell: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ptahk", "completion", shell],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    return done.stdout
