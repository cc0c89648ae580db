"""Random pairs of schemas on MySQL and MariaDB: whatever A and B are, plan, apply, plan empty.

``--budget 10`` tries ten times as many. A failing case names its seed, of which ``my_generate.py``
makes the same pair everywhere.
"""

from __future__ import annotations

from contextlib import suppress

import pymysql
import pytest

from ptahk.executor.dialects.mysql.declaration import declaration
from tests.executor import my_generate
from tests.executor.my_planning_kit import DataRefused, MyBench, my_bench, shared_my_bench
from tests.kit.budget import scaled

__all__ = ["my_bench", "shared_my_bench"]

BATCH = 10
PAIRS = 200
"""Of each make in a default run; each with and without rows by turns."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Batches, so that workers share the cases and a failure names few seeds."""
    if "batch" in metafunc.fixturenames:
        metafunc.parametrize("batch", range(scaled(PAIRS) // BATCH or 1))


def test_pairs(my_bench: MyBench, batch: int) -> None:
    """Ends converged, or refuses because of rows, never otherwise."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        my_bench.empty()
        pair = my_generate.pair(seed, my_bench.mariadb)
        try:
            _try(my_bench, pair, seed)
        except Exception as error:
            error.add_note(f"seed {seed} on {my_bench.make}")
            raise


def _try(bench: MyBench, pair: my_generate.Pair, seed: int) -> None:
    bench.build(pair.old)
    if seed % 2:
        _insert(bench, pair.tables)
    try:
        made = bench.converge(pair.new)
    except (DataRefused, pymysql.DataError, pymysql.IntegrityError, pymysql.OperationalError):
        if not seed % 2:
            raise
        return
    assert made.refusals == ()
    if seed % 5 == 0:
        again = bench.plan(declaration(bench.live()))
        assert [s.sql for s in again.statements] == []


def _insert(bench: MyBench, tables: tuple[str, ...]) -> None:
    """Rows of what the server takes for empty, where a table takes them."""
    bench.run("SET SESSION foreign_key_checks = 0, sql_mode = ''")
    for table in tables:
        for number in (1, 2):
            with suppress(pymysql.MySQLError):
                bench.run(f"INSERT INTO `{table}` (id) VALUES ({number})")
    bench.run("SET SESSION foreign_key_checks = 1, sql_mode = DEFAULT")
