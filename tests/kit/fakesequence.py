"""The migrations of a ``FakeDatabase``: the real choice of what runs, over rows in memory.

A line is a file of one statement; a line that starts with ``!`` cannot run in a transaction. What
matters is exact: a file's row is ``running`` before its work, a file in one transaction commits
with its row and the ledger's progress, and a statement outside stands between two marks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ptahk.engine.model import source
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY
from ptahk.errors import PtahkError
from ptahk.executor import sequences
from ptahk.executor.dialect import Dialect, Session
from ptahk.migrations import plans
from ptahk.migrations.history import Row, RowKind
from ptahk.migrations.model import Migration

if TYPE_CHECKING:
    from tests.kit.fakedb import Execution, FakeDatabase

_NAME = re.compile(r"(?:TABLE|CONCURRENTLY) (\w+)")


def files_of(lines: Sequence[str]) -> dict[str, str]:
    """A file of each line, in order."""
    return {f"{n}_{line.strip('!')}.sql": _text(line) for n, line in enumerate(lines, start=1)}


def _text(line: str) -> str:
    if line.startswith("!"):
        return f"-- ptahk:txmode none\nCREATE INDEX CONCURRENTLY {line[1:]} ON t (a);\n"
    return f"CREATE TABLE {line} ();\n"


def line_of_file(file: str) -> str:
    """The name in a file's name: its line, without the mark of one outside a transaction."""
    return file.removesuffix(".sql").partition("_")[2]


def line_of(sql: str) -> str:
    """The line that a statement is of."""
    found = _NAME.search(sql)
    assert found is not None, sql
    return ("!" if "CONCURRENTLY" in sql else "") + found[1]


@dataclass
class _Rows:
    """The engine's part, as far as choosing needs it."""

    db: FakeDatabase

    def rows(self, session: Any, stream: str) -> list[Row]:
        found = [row for (name, _), row in self.db.revisions.items() if name == stream]
        return sorted(found, key=lambda row: row.ordinal)

    def entries(self, session: Any, stream: str) -> list[dict[str, Any]]:
        return [{"version": row.version, "ordinal": row.ordinal} for row in self.rows(None, stream)]

    def require(self, session: Any) -> None:
        return None

    def mend(self, session: Any, stream: str) -> None:
        for key, row in self.db.revisions.items():
            whole = row.running is None and row.applied == row.total > 0
            if key[0] == stream and row.state == "running" and whole:
                self.db.revisions[key] = dataclasses.replace(row, state="applied")

    def watched(self, session: Any, stream: str) -> None:
        """Nothing was imported from another tool."""

    def any_stream(self, session: Any) -> bool:
        return bool(self.db.revisions)

    def occupied(self, session: Any) -> bool:
        return bool(self.db.live)

    def foreign_table(self, session: Any, stream: str) -> None:
        """Nothing was imported from another tool."""

    def other_streams(self, session: Any, stream: str) -> list[str]:
        return sorted({name for name, _ in self.db.revisions} - {stream})

    def drift(self, bench: Any, migrations: Sequence[Migration]) -> dict[str, Any]:
        """As the real ones: what the files give against what is there."""
        return self.db.drift([line_of(s.text) for each in migrations for s in each.statements])


@dataclass
class _Dialect:
    rows: _Rows

    def sequences(self) -> _Rows:
        return self.rows


@dataclass(frozen=True)
class _Identity:
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Session:
    identity: _Identity = _Identity()


def _of(run: Execution) -> tuple[Dialect, Session, list[tuple[str, str]] | None]:
    data = next((item.data for item in run.order.inputs if item.name == SOURCE_KEY), None)
    files = None if data is None else list(source.decode(data))
    return cast("Dialect", _Dialect(_Rows(run.db))), cast("Session", _Session()), files


def _refused(error: PtahkError) -> Exception:
    from tests.kit.fakedb import Refused

    return Refused(error.reason, error.message, error.exit_code)


def history(run: Execution, document: dict[str, Any]) -> Iterator[str]:
    """What is pending."""
    dialect, session, files = _of(run)
    try:
        spec = run.order.spec
        sequences.read_history(dialect, session, spec, files, document, lambda exclude: None)
    except PtahkError as error:
        raise _refused(error) from None
    yield "planned"


def steps(run: Execution, document: dict[str, Any]) -> Iterator[str]:
    """The durable steps of one command."""
    match document["command"]:
        case "history":
            yield from history(run, document)
        case "apply":
            yield from apply(run, document)
        case _:
            run.fence(document)
            yield "fenced"
            prove(run, document)


def prove(run: Execution, document: dict[str, Any]) -> None:
    """The rows of the attempt, then the history."""
    dialect, session, files = _of(run)
    sequences.prove(dialect, session, run.order.spec, files, document)


def apply(run: Execution, document: dict[str, Any]) -> Iterator[str]:
    """Run the approved files."""
    db, spec = run.db, run.order.spec
    dialect, session, files = _of(run)
    data = next(item.data for item in run.order.inputs if item.name == PLAN_KEY)
    assert files is not None and spec.migration is not None
    try:
        selected = sequences.select(
            dialect, session, spec, source.unpack(data, 1 << 20), files, document
        )
    except PtahkError as error:
        raise _refused(error) from None
    if selected is None:
        document.update(statementsTotal=0, statementsDone=0, mutationStarted=False, row=None)
        return
    chosen = selected[1]
    total = plans.total(chosen)
    run.begin(total)
    run.mutation_started = True
    document["statementsTotal"] = total
    yield "started"
    before = 0
    if chosen.rows:
        _record(run, spec.migration.stream, chosen.rows)
        db.rows[spec.operation_id]["statementsDone"] = total
    for migration in chosen.migrations:
        done = chosen.done if migration is chosen.migrations[0] else 0
        yield from _File(run, document, migration, before, spec.migration.stream).steps(done)
        before += len(migration.statements)
    run.finish_apply(document, total)
    yield "finished"
    assert db.session is run


def _record(run: Execution, stream: str, given: Sequence[dict[str, Any]]) -> None:
    rows = run.db.revisions
    for row in given:
        key = (stream, row["version"])
        told = f"record {row['version']} {row['state']}"
        run.db.effects.append((run.order.spec.operation_id, told))
        ordinal = rows[key].ordinal if key in rows else len(rows) + 1
        rows[key] = Row(
            row["version"], row["kind"], row["state"], ordinal, row["file"], row["checksum"],
            row["tokenDigest"], row["txMode"], row["total"], row["applied"], None,
            run.order.spec.operation_id,
        )  # fmt: skip


@dataclass
class _File:
    run: Execution
    document: dict[str, Any]
    migration: Migration
    before: int
    stream: str

    @property
    def ledger(self) -> dict[str, Any]:
        return self.run.db.rows[self.run.order.spec.operation_id]

    def _row(self, **changes: Any) -> None:
        key = (self.stream, self.migration.version)
        rows = self.run.db.revisions
        rows[key] = dataclasses.replace(rows[key], **changes)

    def steps(self, done: int) -> Iterator[str]:
        rows, each = self.run.db.revisions, self.migration
        ordinal = max((row.ordinal for row in rows.values()), default=0) + 1
        kind: RowKind = "executed"
        rows[self.stream, each.version] = Row(
            each.version, kind, "running", ordinal, each.file, each.checksum, each.token_digest,
            each.tx_mode, len(each.statements), done, None, self.run.order.spec.operation_id,
        )  # fmt: skip
        yield "running"
        self.run.in_time(self.document, self.ledger)
        if each.tx_mode == "file":
            yield from self._sent(self._whole)
            return
        for number in range(done + 1, len(each.statements) + 1):
            yield from self._alone(number)
        self._row(state="applied")
        yield "statement"

    def _alone(self, number: int) -> Iterator[str]:
        self._row(running=number)
        self.ledger["statementRunning"] = self.before + number
        yield "running"
        self.run.in_time(self.document, self.ledger)
        yield from self._sent(lambda: self._effect(number))
        yield "effect"
        self._row(applied=number, running=None)
        self.ledger.update(statementsDone=self.before + number, statementRunning=None)
        yield "statement"

    def _sent(self, commit: Callable[[], None]) -> Iterator[str]:
        self.run.landing = commit
        self.run.in_flight = self.migration.statements[0].text
        yield "sent"
        self.run.landing = self.run.in_flight = None
        failing = [
            sql for sql in (item.text for item in self.migration.statements)
            if line_of(sql) in self.run.db.failing
        ]  # fmt: skip
        if failing:
            alone = self.migration.tx_mode == "none"
            state = "failed" if not alone else "unknown"
            self._row(state=state)
            self.run.failed(self.document, self.ledger, "StatementFailed", failing[0])
        commit()

    def _effect(self, number: int) -> None:
        sql = self.migration.statements[number - 1].text
        db = self.run.db
        db.before_effect(self.run, sql)
        db.effects.append((self.run.order.spec.operation_id, sql))
        db.live.append(line_of(sql))

    def _whole(self) -> None:
        total = len(self.migration.statements)
        for number in range(1, total + 1):
            self._effect(number)
        self._row(state="applied", applied=total)
        self.ledger["statementsDone"] = self.before + total
