"""What users rely on around the code: version, licence, exit codes, entry points, CI."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ptahk
from ptahk import errors

ROOT = Path(__file__).resolve().parents[2]
EXIT_CODES = {2, 3, 4, 5, 6, 70}


def _pyproject() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(project, dict)
    return project


def test_the_changelog_is_of_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ptahk.__version__


def test_the_licence_is_there_in_full() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert _pyproject()["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_ci_is_make_test_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    code = [line for line in lines if line and not line.startswith("#")]
    assert code[-1] == "exec make test"
    assert len(code) == 3


def _classes() -> list[type[errors.PtahkError]]:
    return [
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.PtahkError)
    ]


def test_every_error_has_an_exit_code_of_the_table() -> None:
    assert {kind.exit_code for kind in _classes()} == EXIT_CODES


def test_an_unknown_outcome_shares_its_code_with_nothing() -> None:
    unknown = [kind for kind in _classes() if kind.exit_code == errors.OutcomeUnknown.exit_code]
    assert all(issubclass(kind, errors.OutcomeUnknown) for kind in unknown)


def test_no_two_errors_share_a_reason() -> None:
    reasons = [kind.default_reason for kind in _classes() if kind is not errors.PtahkError]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("module", ["ptahk", "ptahk.runner", "ptahk.executor"])
def test_an_entry_point_refuses_to_run_without_assertions(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", module], input="", check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "-O" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
