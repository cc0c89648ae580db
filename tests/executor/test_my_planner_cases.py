"""One case per micro-change on MySQL and MariaDB, in both directions."""

from __future__ import annotations

import pytest

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql.quote import ident
from tests.executor.my_planner_cases import BOTH, MARIADB, MYSQL, MyCase
from tests.executor.my_planning_kit import MyBench, my_bench, shared_my_bench

__all__ = ["my_bench", "shared_my_bench"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cases of both makes, and of each what it alone has."""
    if "case" in metafunc.fixturenames:
        cases = [*BOTH, *MYSQL, *MARIADB]
        metafunc.parametrize("case", cases, ids=lambda case: case.name.replace(" ", "-"))


def test_case(my_bench: MyBench, case: MyCase) -> None:
    """Plan, apply, plan empty; there with rows, and back without."""
    if case in (MYSQL if my_bench.mariadb else MARIADB):
        # The other make has no such thing, and says so where it is declared.
        with pytest.raises(UsageError):
            for text in (case.new, case.old):
                my_bench.declared(text)
        return
    my_bench.build(case.old)
    if case.rows:
        my_bench.run(case.rows)
    assert my_bench.converge(case.new).refusals == ()
    my_bench.run("SET SESSION foreign_key_checks = 0")
    for name, kind in my_bench.query("SHOW FULL TABLES"):
        if kind == "BASE TABLE":
            my_bench.run(f"DELETE FROM {ident(name)}")
    my_bench.run("SET SESSION foreign_key_checks = 1")
    assert my_bench.converge(case.old).refusals == ()
