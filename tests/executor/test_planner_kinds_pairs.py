"""Random pairs of schemas of the kinds beside tables; see ``generate_kinds``."""

from __future__ import annotations

import psycopg
import pytest

from ptahk.executor.dialects.postgres.declaration import declaration
from tests.executor import generate_kinds
from tests.executor.planning_kit import Bench, DataRefused, bench, shared_bench
from tests.kit.budget import scaled

__all__ = ["bench", "shared_bench"]

BATCH = 10
PAIRS = 120
"""Of each version in a default run; ``--budget 10`` tries ten times as many."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Batches, so that workers share the cases and a failure names few seeds."""
    if "batch" in metafunc.fixturenames:
        metafunc.parametrize("batch", range(scaled(PAIRS) // BATCH or 1))


@pytest.mark.pg(15, 17, 18)
def test_pairs(bench: Bench, batch: int) -> None:
    """Ends converged, or refuses because of rows, never otherwise."""
    first = (batch * 3 + (bench.version - 15) // 2 % 3) * BATCH
    for seed in range(first, first + BATCH):
        bench.empty()
        pair = generate_kinds.pair(seed, bench.version)
        bench.live.run(pair.old)
        bench.declared.run(pair.new)
        for table in pair.tables:
            _insert(bench, table)
        try:
            made = bench.converge()
        except (DataRefused, psycopg.DataError, psycopg.IntegrityError):
            if not pair.tables:
                raise
            continue
        except Exception as error:
            error.add_note(f"seed {seed} on PostgreSQL {bench.version}")
            raise
        assert made.refusals == (), seed
        if seed % 5 == 0:
            _adopt(bench, seed)


def _insert(bench: Bench, table: str) -> None:
    """A row of defaults, if the table takes one."""
    try:
        bench.live.conn.execute(f"INSERT INTO {table} (id) VALUES (1)".encode())
    except psycopg.Error:
        bench.live.conn.rollback()


def _adopt(bench: Bench, seed: int) -> None:
    """What the live side prints of itself declares just that."""
    written = declaration(bench.live.catalog(sorted(bench.live.schemas())))
    bench.declared.empty()
    bench.declared.run(written)
    assert [s.sql for s in bench.plan().statements] == [], seed
