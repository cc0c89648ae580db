"""How much the property, fuzz and kill suites try.

``pytest --budget 10`` (or ``PTAHK_TEST_BUDGET=10``) tries ten times as much as the default run.
"""

import os

ENV = "PTAHK_TEST_BUDGET"


def scaled(number: int) -> int:
    """The default number of cases, times the budget of this run; at least one."""
    return max(1, round(number * float(os.environ.get(ENV, "1"))))
