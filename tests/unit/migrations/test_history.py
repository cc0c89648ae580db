"""Each verdict, what it says to a person, and that order decides between them (C-11.1)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.migrations import history, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.history import Row


def directory_of(*versions: int, texts: dict[int, str] | None = None) -> Any:
    given_ = texts or {}
    files = [SourceFile(f"{v}_a.sql", given_.get(v, f"SELECT {v};")) for v in versions]
    return reading.read(files, engine="postgresql", layout="ptahk").directory


FULL = directory_of(*range(1, 10))
BY_VERSION = {each.version: each for each in FULL.migrations}


def row(version: int, ordinal: int | None = None, **changes: Any) -> Row:
    of = BY_VERSION[str(version)]
    found = Row(
        str(version), "executed", "applied", ordinal or version, of.file, of.checksum,
        of.token_digest, "file", 1, 1,
    )  # fmt: skip
    return dataclasses.replace(found, **changes)


def judged(directory: Any, rows: list[Row], **options: Any) -> Any:
    return history.judge(directory, rows, **options)


def pending(found: Any) -> list[str]:
    return [each.version for each in found.pending]


@pytest.mark.parametrize(
    ("versions", "rows", "verdict", "numbers", "waiting"),
    [
        ((1, 2), [], "pending", [], ["1", "2"]),
        ((1, 2, 3), [row(1), row(2)], "pending", [], ["3"]),
        ((1, 2), [row(1), row(2)], "nothingPending", [], []),
        ((1, 2), [row(1), row(2), row(3)], "ahead", ["MG621"], []),
        ((1, 2, 4), [row(1), row(4)], "outOfOrder", ["MG631"], []),
        ((2, 3), [row(1), row(2)], "modified", ["MG612"], ["3"]),
        ((1, 2), [row(1, checksum="sha256:x", token_digest="y")], "modified", ["MG611"], ["2"]),
        ((1, 2), [row(1, state="partial", applied=2, total=5)], "dirty", ["MG601"], ["1", "2"]),
        ((1,), [row(1, state="unknown", applied=2, running=3, total=5)], "dirty", ["MG602"], ["1"]),
        # The branch is behind: renumbering 3 would be wrong advice.
        ((1, 2, 3), [row(1), row(2), row(4)], "ahead", ["MG621", "MG631"], []),
        ((1, 2), [row(1, state="failed", applied=0)], "pending", [], ["1", "2"]),
    ],
)
def test_verdicts(
    versions: tuple[int, ...], rows: list[Row], verdict: str, numbers: list[str],
    waiting: list[str],
) -> None:  # fmt: skip
    found = judged(directory_of(*versions), rows)
    assert (found.verdict, [each.number for each in found.findings]) == (verdict, numbers)
    assert pending(found) == waiting
    assert found.next_step == history.NEXT[found.verdict]
    assert all(each.hint for each in found.findings)


def test_a_running_row_of_one_transaction_proves_that_nothing_was_applied() -> None:
    stale = row(2, state="running", applied=0)
    assert history.settled(stale, postgresql=True).state == "failed"
    assert judged(directory_of(1, 2), [row(1), stale]).verdict == "pending"
    none = row(2, state="running", tx_mode="none", total=3)
    assert history.settled(dataclasses.replace(none, applied=0), True).state == "failed"
    assert history.settled(dataclasses.replace(none, applied=2), True).state == "partial"
    marked = dataclasses.replace(none, applied=2, running=3)
    assert history.settled(marked, True).state == "unknown"
    # On the MySQL family a statement of one transaction may have committed by itself.
    assert history.settled(dataclasses.replace(stale, running=1), False).state == "unknown"


def test_two_files_that_swapped_numbers_are_told_apart_from_an_edit() -> None:
    swapped = directory_of(1, 2, texts={1: "SELECT 2;", 2: "SELECT 1;"})
    found = judged(swapped, [row(1), row(2)])
    assert (found.verdict, [each.number for each in found.findings]) == (
        "modified", ["MG613", "MG613"],
    )  # fmt: skip


def test_a_cosmetic_edit_is_told_and_stops_nothing() -> None:
    edited = directory_of(1, 2, texts={1: "-- why\nSELECT   1;\n"})
    found = judged(edited, [row(1)])
    assert (found.verdict, [each.number for each in found.findings]) == ("pending", ["MG614"])


def test_a_foreign_history_that_moved_is_dirty() -> None:
    found = judged(directory_of(1), [row(1, kind="imported", checksum=None)], foreign_moved=True)
    assert (found.verdict, found.findings[0].number) == ("dirty", "MG604")


def test_a_file_out_of_order_runs_by_its_own_header_and_with_a_person() -> None:
    allowed = directory_of(1, 2, 4, texts={2: "-- ptahk:out-of-order\nSELECT 2;"})
    found = judged(allowed, [row(1), row(4)])
    assert (found.verdict, pending(found), found.needs_approval) == ("pending", ["2"], True)
    assert not judged(directory_of(1, 2), [row(1)]).needs_approval


def test_a_checkpoint_stands_for_the_files_up_to_it_on_an_empty_database() -> None:
    files = [
        SourceFile("1_a.sql", "SELECT 1;"), SourceFile("2_b.sql", "SELECT 2;"),
        SourceFile("2_c.checkpoint.sql", "SELECT 12;"), SourceFile("3_d.sql", "SELECT 3;"),
    ]  # fmt: skip
    directory = reading.read(files, engine="postgresql").required()
    fresh = judged(directory, [], empty=True)
    assert [each.file for each in fresh.pending] == ["2_c.checkpoint.sql", "3_d.sql"]
    assert [each.file for each in fresh.covered] == ["1_a.sql", "2_b.sql"]
    used = judged(directory, [], empty=False)
    assert [each.file for each in used.pending] == ["1_a.sql", "2_b.sql", "3_d.sql"]


@pytest.mark.parametrize("beside", [True, False])
def test_a_checkpoint_that_ran_is_held_against_its_own_row(beside: bool) -> None:
    files = [
        SourceFile("1_a.sql", "SELECT 1;"), SourceFile("2_c.checkpoint.sql", "SELECT 12;"),
        SourceFile("3_d.sql", "SELECT 3;"),
    ]  # fmt: skip
    files += [SourceFile("2_b.sql", "SELECT 2;")] if beside else []
    directory = reading.read(files, engine="postgresql").required()
    ran = next(each for each in directory.migrations if each.kind == "checkpoint")
    rows = [
        Row("2", "executed", "applied", 1, ran.file, ran.checksum, ran.token_digest),
        Row("1", "covered", "applied", 2, "1_a.sql", directory.versioned[0].checksum),
    ]
    assert pending(judged(directory, rows)) == ["3"]
    edited = dataclasses.replace(rows[0], checksum="sha256:old", token_digest="sha256:old")
    found = judged(directory, [edited, rows[1]])
    assert (found.verdict, found.findings[0].file) == ("modified", "2_c.checkpoint.sql")


def test_a_repeatable_runs_against_its_last_row() -> None:
    files = [SourceFile("V1__a.sql", "SELECT 1;"), SourceFile("R__v.sql", "SELECT 'v2';")]
    directory = reading.read(files, engine="postgresql").required()
    repeatable = directory.repeatable[0]
    one = Row("1", "executed", "applied", 1, "V1__a.sql", directory.versioned[0].checksum)
    old = Row("v", "repeatable", "applied", 2, "R__v.sql", "sha256:old")
    assert [each.file for each in judged(directory, [one, old]).pending] == ["R__v.sql"]
    new = dataclasses.replace(old, ordinal=3, checksum=repeatable.checksum)
    assert judged(directory, [one, old, new]).verdict == "nothingPending"
    back = dataclasses.replace(old, ordinal=4)
    assert judged(directory, [one, new, back]).verdict == "pending"
    failed = dataclasses.replace(new, ordinal=5, state="failed")
    assert judged(directory, [one, failed]).verdict == "pending"


def test_the_fingerprint_sees_what_counts_and_nothing_else() -> None:
    def of(*rows: Row, foreign: str | None = None) -> str:
        return history.fingerprint("default", rows, foreign)

    base = of(row(1), row(2))
    assert base == of(row(2), row(1)) == of(row(1, claim="x"), row(2, file="other"))
    others = {
        of(row(1)), of(row(1), row(2, state="failed")), of(row(1), row(2, applied=0)),
        of(row(1), row(2, running=1)), of(row(1), row(2, checksum="x")),
        of(row(1), row(2, kind="imported")), of(row(1), row(2), foreign="f"),
        history.fingerprint("other", [row(1), row(2)], None),
    }  # fmt: skip
    assert len(others) == 8 and base not in others


versions = st.sets(st.integers(1, 9))


@given(versions, versions)
def test_nothing_that_was_applied_is_ever_pending(here: set[int], there: set[int]) -> None:
    found = judged(directory_of(*sorted(here)), [row(v) for v in sorted(there)])
    waiting = {int(version) for version in pending(found)}
    assert waiting <= here - there
    assert all(version > max(there, default=0) for version in waiting)
    if found.verdict == "pending":
        assert waiting == here - there and (there <= here)
    if found.verdict == "nothingPending":
        assert here == there
