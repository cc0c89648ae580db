"""``ptahk completion``: scripts that complete without starting ptahk."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.kit import ROOT, Ptahk

FILES = {"bash": "ptahk.bash", "zsh": "_ptahk", "fish": "ptahk.fish"}


@pytest.mark.parametrize("shell", FILES)
def test_the_kept_scripts_are_fresh(ptahk: Ptahk, shell: str) -> None:
    answer = ptahk.run("completion", shell)
    assert answer.code == 0, answer
    kept = ROOT / "completions" / FILES[shell]
    assert answer.out == kept.read_text(), "stale; run: make completions"


def complete(script: str, *words: str) -> list[str]:
    """What bash offers for the last of ``words``."""
    quoted = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _ptahk\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_bash_completes(ptahk: Ptahk) -> None:
    script = ptahk.run("completion", "bash").out
    assert {"plan", "apply", "release-lock"} <= set(complete(script, "ptahk", ""))
    assert complete(script, "ptahk", "ap") == ["apply", "approve"]
    assert "--auto-approve" in complete(script, "ptahk", "apply", "--au")
    assert complete(script, "ptahk", "plan", "-o", "") == ["table", "json", "yaml", "sql"]
    assert complete(script, "ptahk", "plan", "--output", "j") == ["json"]
    assert "README.md" in complete(script, "ptahk", "plan", "--schema", "READ")
    assert complete(script, "ptahk", "plan", "--name", "") == [""] or not complete(
        script, "ptahk", "plan", "--name", ""
    )
    assert {"realm", "target", "plan"} <= set(complete(script, "ptahk", "digest", ""))
    assert "--key" in complete(script, "ptahk", "digest", "realm", "--")
    assert set(complete(script, "ptahk", "completion", "")) >= set(FILES)


def test_the_scripts_name_every_command(ptahk: Ptahk) -> None:
    names = complete(ptahk.run("completion", "bash").out, "ptahk", "")
    for shell in ("zsh", "fish"):
        text = ptahk.run("completion", shell).out
        for name in names:
            if not name.startswith("-"):
                assert name in text


def test_an_unknown_shell(ptahk: Ptahk) -> None:
    assert "tcsh" in ptahk.run("completion", "tcsh").refusal(2)
