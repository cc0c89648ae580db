"""Where a plan's transactions begin and end."""

from __future__ import annotations

from dataclasses import replace

from ptahk.executor.planning.groups import number
from ptahk.executor.planning.model import ObjectId, Step

PLAIN = Step("ALTER", "AlterTable", ObjectId("table", ("public", "t")))
ALONE = replace(PLAIN, transaction=False, lock_timeout_s=0)
AFTER = replace(PLAIN, commit_before=True)
CHECK = replace(PLAIN, kind="CheckData")


def groups(*steps: Step, capacity: int = 6400) -> list[int]:
    return [statement.group for statement in number(steps, capacity)[0]]


def test_neighbours_share_a_transaction() -> None:
    assert groups(PLAIN, PLAIN, PLAIN) == [1, 1, 1]


def test_what_stands_alone_has_a_group_of_its_own() -> None:
    assert groups(PLAIN, ALONE, ALONE, PLAIN) == [1, 2, 3, 4]


def test_a_commit_that_is_asked_for_is_made() -> None:
    assert groups(PLAIN, AFTER, PLAIN) == [1, 2, 2]


def test_checks_are_apart() -> None:
    assert groups(CHECK, CHECK, PLAIN) == [1, 1, 2]


def test_each_alone_where_that_is_asked_for() -> None:
    steps = [CHECK, CHECK, PLAIN, PLAIN, ALONE]
    statements, forced = number(steps, 6400, alone=True)
    assert [statement.group for statement in statements] == [1, 1, 2, 3, 4]
    assert not forced


def test_a_group_fits_a_quarter_of_the_lock_table() -> None:
    statements, forced = number([PLAIN] * 10, 24)
    assert forced
    assert [statement.group for statement in statements] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert not number([PLAIN] * 3, 24)[1]


def test_numbers_and_timeouts() -> None:
    statements, _ = number([PLAIN, ALONE], 6400)
    assert [statement.index for statement in statements] == [1, 2]
    assert [statement.lock_timeout_s for statement in statements] == [None, 0]
