"""Standard streams that are closed or full: an exit code of ours, and no apply stopped half-way."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.cli.kit import PTAHK, WAIT_S, Ptahk
from tests.kit.databases import Database

Declare = Callable[..., str]

TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY);"


def _shell(user: Ptahk, arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m ptahk {arguments}', PTAHK[0]],
        env=user.env(),
        cwd=user.cwd,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_result_that_cannot_be_written(
    user: Ptahk, declare: Declare, database: Database, output: str
) -> None:
    done = _shell(user, f"plan -q --schema {declare(TABLE)} -o {output} >/dev/full")
    assert done.returncode == 70
    assert done.stderr.startswith("error: cannot write the result (standard output): ")
    assert "Traceback" not in done.stderr


def test_progress_that_cannot_be_written_stops_no_apply(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    done = _shell(user, f"apply --schema {declare(TABLE)} --auto-approve 2>/dev/full")
    assert done.returncode == 0
    assert "applied and proved" in done.stdout
    assert database.rows("SELECT count(*) FROM orders") == [(0,)]


def test_an_error_that_cannot_be_written_keeps_its_exit_code(user: Ptahk, declare: Declare) -> None:
    assert _shell(user, "plan --schema /nonexistent.sql 2>/dev/full").returncode == 2


def test_closed_streams(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(TABLE)
    assert _shell(user, f"apply --schema {schema} --auto-approve <&- >&- 2>&-").returncode == 0
    assert database.rows("SELECT count(*) FROM orders") == [(0,)]
    done = _shell(user, f"plan --schema {schema} --exit-code <&- 2>&-")
    assert done.returncode == 0
    assert "nothing to change" in done.stdout
