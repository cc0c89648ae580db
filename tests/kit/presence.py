"""What becomes of a test whose server or input is not here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.kit.installs import NeedsRoot, ServerMissing

SUBSET_ENV = "PTAHK_TEST_SUBSET"
_T = TypeVar("_T")


def present(start: Callable[[], _T]) -> _T:
    """What ``start`` answers. What is missing fails the test, unless a subset was asked for, or
    nobody but root could have it."""
    try:
        return start()
    except NeedsRoot as missing:
        pytest.skip(str(missing))
    except (ServerMissing, FileNotFoundError) as missing:
        if os.environ.get(SUBSET_ENV) == "1":
            pytest.skip(str(missing))
        raise
