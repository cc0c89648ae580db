"""What kubectl is told when Tab is pressed behind ``kubectl ptahk``."""

import pytest

from ptahk.cli import COMMANDS, table
from ptahk.commands import _completions

NODES = tuple(_completions.read(table()))


def answered(*words: str) -> tuple[list[str], str]:
    *lines, directive = _completions.kubectl(NODES, words).splitlines()
    return [line.partition("\t")[0] for line in lines], directive


def test_commands_by_their_beginning() -> None:
    assert answered("") == (list(COMMANDS), ":4")
    assert answered("pl") == (["plan"], ":4")
    assert answered("digest", "") == (["realm", "target", "plan", "sequence"], ":4")
    assert answered("no", "such", "x") == ([], ":4")


def test_every_candidate_has_a_line_of_help() -> None:
    lines = _completions.kubectl(NODES, ("",)).splitlines()[:-1]
    assert all("\t" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "wanted", "directive"),
    [
        (("plan", "--output", ""), ["table", "json", "yaml", "sql"], ":4"),
        (("plan", "schema/x", "-o", "j"), ["json"], ":4"),
        (("plan", "-f", ""), [], ":0"),
        (("plan", "--all-n"), ["--all-namespaces"], ":4"),
        (("completion", ""), ["bash", "zsh", "fish"], ":4"),
        (("plan", "--context", ""), [], ":4"),
    ],
)
def test_options_and_their_values(
    words: tuple[str, ...], wanted: list[str], directive: str
) -> None:
    assert answered(*words) == (wanted, directive)
