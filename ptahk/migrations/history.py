"""What the revision rows say about a directory: findings, one verdict, what is pending. Pure.

The order of the verdicts is the rule (C-11.1): rows that are not settled make the rest unreliable,
and an edited past makes order meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ptahk.migrations.findings import Finding
from ptahk.migrations.layouts import flyway
from ptahk.migrations.model import Format, Migration, Order
from ptahk.migrations.model import Sequence as Directory
from ptahk.wire import digest

RowKind = Literal["executed", "baseline", "covered", "imported", "repeatable", "resolved"]
RowState = Literal["running", "applied", "failed", "partial", "unknown"]
Verdict = Literal["dirty", "modified", "ahead", "outOfOrder", "pending", "nothingPending"]

NEXT: Final[dict[Verdict, str]] = {
    "dirty": "settle the run first: resume it, or ptahk acknowledge --operation ID",
    "modified": "put the file back as it was applied, and make the change in a new file",
    "ahead": "deploy the newer files, or set policy.ahead to Accept where an application was "
    "rolled back",
    "outOfOrder": "ptahk migrate rebase VERSION, or '-- ptahk:out-of-order' in the file",
    "pending": "plan, then apply",
    "nothingPending": "nothing",
}
"""What a person should do about each verdict."""


@dataclass(frozen=True, slots=True)
class Row:
    """One revision row, as far as a verdict needs it."""

    version: str
    kind: RowKind
    state: RowState
    ordinal: int
    """Order of application within the stream."""
    file: str
    checksum: str | None = None
    """None: imported without evidence."""
    token_digest: str | None = None
    tx_mode: str = "file"
    total: int = 0
    applied: int = 0
    running: int | None = None
    """Number of the statement whose effect is not recorded."""
    claim: str | None = None
    """Operation id of the attempt that wrote it."""


@dataclass(frozen=True, slots=True)
class History:
    """The judgement."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    pending: tuple[Migration, ...]
    """What would run now, in order, whatever the verdict."""
    covered: tuple[Migration, ...]
    """Files that the pending checkpoint stands for."""
    needs_approval: bool
    """A file out of order is among them: no policy stands in for a person (C-11.3)."""
    partial: Row | None = None
    """The run that may be resumed."""

    @property
    def next_step(self) -> str:
        return NEXT[self.verdict]


def settled(row: Row, postgresql: bool) -> Row:
    """A row that its executor left ``running``, as what it proves; the lock is held by the reader.

    In ``file`` mode on PostgreSQL row and work commit together, so nothing was applied. Otherwise
    the intent mark decides.
    """
    if row.state != "running":
        return row
    state: RowState = "unknown" if row.running is not None else "partial"
    if row.running is None and row.applied == row.total > 0:
        # Every effect is recorded; only the last mark is missing.
        state = "applied"
    elif (row.tx_mode == "file" and postgresql) or (row.running is None and row.applied == 0):
        state = "failed"
    return _with_state(row, state)


def _with_state(row: Row, state: RowState) -> Row:
    return Row(
        row.version, row.kind, state, row.ordinal, row.file, row.checksum, row.token_digest,
        row.tx_mode, row.total, row.applied, row.running, row.claim,
    )  # fmt: skip


def fingerprint(stream: str, rows: Sequence[Row], foreign: str | None) -> str:
    """C-11.15: neither times nor users.

    :param foreign: digest of another tool's history table, where one was imported.
    """
    ordered = sorted(rows, key=lambda row: row.ordinal)
    items = [
        [row.version, row.kind, row.state, row.checksum, row.applied, row.running]
        for row in ordered
    ]
    return digest.history_fingerprint({"stream": stream, "rows": items, "foreign": foreign})


def judge(
    directory: Directory,
    rows: Sequence[Row],
    *,
    empty: bool = False,
    foreign_moved: bool = False,
) -> History:
    """Compare a directory with its stream's rows.

    :param rows: settled ones (``settled``), of one stream.
    :param empty: the database has no user object: a checkpoint may stand for what it covers.
    :param foreign_moved: the table that a history was imported from changed afterwards.
    """
    postgresql = directory.engine == "postgresql"
    rows = [settled(row, postgresql) for row in rows]
    last = _last(rows)
    applied = {key[1]: row for key, row in last.items() if key[0] != "repeatable" and _done(row)}
    files = {each.version: each for each in directory.versioned} | _ran(directory, applied)
    dirty = list(_dirty(last.values(), foreign_moved))
    modified = list(_modified(directory, files, applied))
    ahead = list(_ahead(directory, files, applied))
    late, allowed = _late(directory, files, applied)
    covered, checkpoint = _checkpoint(directory, rows, empty)
    pending = [
        each
        for each in directory.versioned
        if each.version not in applied and each not in covered and each not in late
    ]
    pending = ([checkpoint] if checkpoint is not None else []) + pending
    pending += [each for each in directory.repeatable if _changed(each, last)]
    verdict: Verdict = "pending" if pending else "nothingPending"
    held: tuple[tuple[Verdict, list[Finding]], ...] = (
        ("dirty", dirty),
        ("modified", [each for each in modified if each.refuses]),
        ("ahead", ahead),
        ("outOfOrder", list(_out_of_order(late, applied, directory))),
    )
    for name, found in reversed(held):
        verdict = name if found else verdict
    findings = (*dirty, *modified, *ahead, *held[3][1])
    partial = next((row for row in last.values() if row.state == "partial"), None)
    return History(
        verdict, findings, tuple(pending), tuple(covered), bool(allowed), partial
    )  # fmt: skip


def _last(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """The last row of each version, and of each repeatable."""
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row.ordinal):
        kind = "repeatable" if row.kind == "repeatable" else "versioned"
        last[kind, row.version] = row
    return last


def _ran(directory: Directory, applied: dict[str, Row]) -> dict[str, Migration]:
    """The checkpoints that ran, by version: their rows are not of the file beside them."""
    found = [each for each in directory.migrations if each.kind == "checkpoint"]
    return {
        each.version: each
        for each in found
        if each.version in applied and applied[each.version].file == each.file
    }


def _done(row: Row) -> bool:
    return row.state == "applied"


def order_of(layout: Format, version: str, file: str) -> Order:
    """How a recorded version sorts, also where its file is gone."""
    if layout == "flyway":
        return flyway.order_of(version)
    if layout in ("atlas", "dbmate"):
        return (file or version,)
    return (int(version),) if version.isdigit() else (-1,)


def _dirty(rows: Sequence[Row] | Any, foreign_moved: bool) -> Iterator[Finding]:
    if foreign_moved:
        yield Finding(
            "MG604", "", 0, 0, "another tool's history table moved after it was imported",
            "stop running that tool on this database, then baseline again",
        )  # fmt: skip
    for row in rows:
        if row.state == "partial":
            yield Finding(
                "MG601", row.file, 0, 0,
                f"version {row.version} stopped after {row.applied} of {row.total} statements",
                "apply again to resume it, or ptahk acknowledge --operation "
                f"{row.claim or 'ID'} --resolved or --abandon",
            )  # fmt: skip
        elif row.state == "unknown":
            at = row.running if row.running is not None else row.applied + 1
            yield Finding(
                "MG602", row.file, 0, 0,
                f"version {row.version}: nobody saw how statement {at} of {row.total} ended",
                f"ptahk acknowledge --operation {row.claim or 'ID'} --statement applied or "
                "not-applied",
            )  # fmt: skip


def _modified(
    directory: Directory, files: dict[str, Migration], applied: dict[str, Row]
) -> Iterator[Finding]:
    newest = max((each.order for each in directory.versioned), default=None)
    by_checksum = {each.checksum: each for each in directory.versioned}
    for version, row in applied.items():
        migration = files.get(version)
        if migration is None:
            order = order_of(directory.format, version, row.file)
            if row.kind != "covered" and newest is not None and order < newest:
                yield Finding(
                    "MG612", row.file, 0, 0, f"version {version} was applied and its file is gone",
                    "put the file back",
                )  # fmt: skip
        elif row.checksum is not None and row.checksum != migration.checksum:
            yield _edited(row, migration, by_checksum.get(row.checksum))


def _edited(row: Row, migration: Migration, other: Migration | None) -> Finding:
    version = migration.version
    if other is not None and other is not migration:
        return Finding(
            "MG613", migration.file, 0, 0,
            f"version {version} was applied with what is {other.file} now",
            "give both files their numbers back",
        )  # fmt: skip
    if row.token_digest is not None and row.token_digest == migration.token_digest:
        return Finding(
            "MG614", migration.file, 0, 0,
            f"version {version} has other comments or white space than when it was applied",
        )  # fmt: skip
    return Finding(
        "MG611", migration.file, 0, 0, f"version {version} was edited after it was applied",
        f"put it back, or ptahk migrate repair {version} --accept-edit",
    )  # fmt: skip


def _ahead(
    directory: Directory, files: dict[str, Migration], applied: dict[str, Row]
) -> Iterator[Finding]:
    newest = max((each.order for each in directory.versioned), default=None)
    for version, row in applied.items():
        order = order_of(directory.format, version, row.file)
        if version not in files and (newest is None or order > newest):
            yield Finding(
                "MG621", row.file, 0, 0,
                f"the database has version {version}, and the directory ends before it",
                "deploy the newer files, or set policy.ahead to Accept",
            )  # fmt: skip


def _late(
    directory: Directory, files: dict[str, Migration], applied: dict[str, Row]
) -> tuple[list[Migration], list[Migration]]:
    """(refused, allowed by their own header): files below the newest version applied."""
    orders = [
        files[version].order if version in files else order_of(directory.format, version, row.file)
        for version, row in applied.items()
    ]
    if not orders:
        return [], []
    newest = max(orders)
    below = [
        each for each in directory.versioned if each.version not in applied and each.order < newest
    ]
    allowed = [each for each in below if each.header.out_of_order]
    return [each for each in below if not each.header.out_of_order], allowed


def _out_of_order(
    late: Sequence[Migration], applied: dict[str, Row], directory: Directory
) -> Iterator[Finding]:
    if not late:
        return
    newest = max(applied.values(), key=lambda r: order_of(directory.format, r.version, r.file))
    for migration in late:
        yield Finding(
            "MG631", migration.file, 0, 0,
            f"version {migration.version} was never applied, and {newest.version} was",
            f"ptahk migrate rebase {migration.version}, or '-- ptahk:out-of-order' in the file",
        )  # fmt: skip


def _checkpoint(
    directory: Directory, rows: Sequence[Row], empty: bool
) -> tuple[list[Migration], Migration | None]:
    """On an empty database without a row, the newest checkpoint stands for the files up to it."""
    checkpoints = [each for each in directory.migrations if each.kind == "checkpoint"]
    if rows or not empty or not checkpoints:
        return [], None
    newest = max(checkpoints, key=lambda each: each.order)
    return [each for each in directory.versioned if each.order <= newest.order], newest


def _changed(migration: Migration, last: dict[tuple[str, str], Row]) -> bool:
    """A repeatable runs where its last row is not this text, applied."""
    row = last.get(("repeatable", migration.version))
    return row is None or not _done(row) or row.checksum != migration.checksum
