"""Random pairs of schemas: whatever A and B are, plan, apply, plan empty.

``--budget 10`` tries ten times as many. A failing case names its seed, of which ``generate.py``
makes the same pair everywhere.
"""

from __future__ import annotations

import psycopg
import pytest

from ptahk.executor.dialects.postgres.declaration import declaration
from tests.executor import generate
from tests.executor.planning_kit import Bench, DataRefused, bench, shared_bench
from tests.kit.budget import scaled

__all__ = ["bench", "shared_bench"]

BATCH = 10
PAIRS = 120
"""Of each version in a default run; each with and without rows by turns."""


def _seeds(batch: int) -> range:
    return range(batch * BATCH, (batch + 1) * BATCH)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Batches, so that workers share the cases and a failure names few seeds."""
    if "batch" in metafunc.fixturenames:
        metafunc.parametrize("batch", range(scaled(PAIRS) // BATCH or 1))


@pytest.mark.pg(15, 17, 18)
def test_pairs(bench: Bench, batch: int) -> None:
    """Ends converged, or refuses because of rows, never otherwise."""
    for seed in _seeds(batch * 3 + (bench.version - 15) // 2 % 3):
        bench.empty()
        pair = generate.pair(seed, bench.version)
        bench.live.run(pair.old)
        bench.declared.run(pair.new)
        if seed % 2:
            _insert(bench, pair.tables)
        try:
            made = bench.converge()
        except (DataRefused, psycopg.DataError, psycopg.IntegrityError):
            if not seed % 2:
                raise
            continue
        except Exception as error:
            error.add_note(f"seed {seed} on PostgreSQL {bench.version}")
            raise
        assert made.refusals == (), seed
        if seed % 5 == 0:
            _adopt(bench, seed)


def _insert(bench: Bench, tables: tuple[str, ...]) -> None:
    """Two rows of defaults where a table takes them."""
    for table in tables:
        for _ in range(2):
            try:
                bench.live.conn.execute(f"INSERT INTO {table} DEFAULT VALUES".encode())
            except psycopg.Error:
                break


def _adopt(bench: Bench, seed: int) -> None:
    """What the live side prints of itself declares just that."""
    written = declaration(bench.live.catalog(sorted(bench.live.schemas())))
    bench.declared.empty()
    bench.declared.run(written)
    assert [s.sql for s in bench.plan().statements] == [], seed
