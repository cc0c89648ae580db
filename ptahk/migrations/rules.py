"""How a file runs, and what in it may not run: transaction mode, units, refusals. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.migrations import words
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import Finding
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Engine, Format, Part, TxMode

NONE_HEADERS: Final[Mapping[Format, str]] = {
    "ptahk": "write '-- ptahk:txmode none' above the first statement",
    "atlas": "write '-- atlas:txmode none' as the first line, and an empty line",
    "goose": "write '-- +goose NO TRANSACTION'",
    "dbmate": "write '-- migrate:up transaction:false'",
    "flyway": "write 'executeInTransaction=false' into the file's .sql.conf",
    "diesel": "write 'run_in_transaction = false' into the folder's metadata.toml",
    "golang-migrate": "put the statement into a file of its own, or name it VERSION_x.autocommit."
    "up.sql",
}
_KEEP_OUT: Final = "take it out of the file"


@dataclass(frozen=True, slots=True)
class Unit:
    """Statements whose progress is recorded together.

    ``kind``: ``plain`` runs with its progress in one transaction, ``alone`` is bracketed by an
    intent mark, ``transaction`` and ``locked`` are BEGIN … COMMIT and LOCK … UNLOCK of the file.
    """

    kind: str
    first: int
    """Number of its first statement, from 1."""
    last: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A file as it runs."""

    tx_mode: TxMode
    statements: tuple[Statement, ...]
    all: tuple[Statement, ...]
    """With a wrapper that was taken off."""
    wrapped: bool
    findings: tuple[Finding, ...]


def judge(
    part: Part,
    statements: Sequence[Statement],
    layout: Format,
    engine: Engine,
    default_mode: TxMode,
) -> Judged:
    """Settle the transaction mode, take a wrapper off, and find what may not run."""
    judge_ = _Judge(part, layout, engine)
    mode = part.tx_mode or (default_mode if engine == "postgresql" else "auto")
    kept = tuple(statements)
    wrapped = False
    if mode != "none" and _is_wrapped(kept):
        judge_.find(kept[0], 1, "MG412", "BEGIN … COMMIT around the whole file is taken off: "
                    "the file and its record commit together")  # fmt: skip
        kept, wrapped = kept[1:-1], True
    if engine == "postgresql":
        mode = judge_.mode_on_postgresql(mode, kept)
    else:
        mode = judge_.mode_on_mysql(mode, part.tx_mode, kept)
    judge_.look(mode, kept)
    return Judged(mode, kept, tuple(statements), wrapped, tuple(judge_.findings))


def units(statements: Sequence[Statement], tx_mode: TxMode, engine: Engine) -> list[Unit]:
    """The units of a file in ``none``; of one in ``file`` all of it is one."""
    if tx_mode == "file":
        return [Unit("plain", 1, len(statements))] if statements else []
    out: list[Unit] = []
    begun: tuple[str, int] | None = None
    for number, statement in enumerate(statements, start=1):
        if begun is not None:
            kind, first = begun
            closes = words.closes_transaction if kind == "transaction" else words.unlocks_tables
            if closes(statement):
                out.append(Unit(kind, first, number))
                begun = None
        elif words.opens_transaction(statement):
            begun = ("transaction", number)
        elif engine != "postgresql" and words.locks_tables(statement):
            begun = ("locked", number)
        else:
            out.append(Unit(_kind(statement, engine), number, number))
    if begun is not None:  # refused when the file was read
        out.append(Unit(begun[0], begun[1], len(statements)))
    return out


def _kind(statement: Statement, engine: Engine) -> str:
    if engine == "postgresql":
        single = words.alone_on_postgresql(statement) is not None
        return "alone" if single or words.may_commit_inside(statement) else "plain"
    return "plain" if words.data_only(statement) else "alone"


def _is_wrapped(statements: Sequence[Statement]) -> bool:
    if len(statements) < 2 or not words.plain_begin(statements[0]):
        return False
    if not words.closes_transaction(statements[-1]):
        return False
    return not any(words.controls_transaction(each) for each in statements[1:-1])


class _Judge:
    def __init__(self, part: Part, layout: Format, engine: Engine) -> None:
        self.part = part
        self.layout = layout
        self.engine = engine
        self.findings: list[Finding] = []
        text = part.file.text if part.text is None else part.text
        self._shown = SourceFile(part.file.name, text)

    def find(
        self, statement: Statement, number: int, code: str, message: str,
        hint: str | None = None, at: int | None = None,
    ) -> None:  # fmt: skip
        """Keep a finding about one statement."""
        line, column = statement.line, statement.column
        if at is not None and at > statement.start:
            line, column = statement.place_of(at - statement.start + 1)
        self.findings.append(
            Finding(code, self.part.file.name, line, column, message, hint, number)
        )

    def mode_on_postgresql(self, mode: TxMode, statements: Sequence[Statement]) -> TxMode:
        """``file``, unless the file says otherwise or holds one such statement and nothing else."""
        if mode == "none":
            return "none"
        alone = [words.alone_on_postgresql(each) for each in statements]
        if not any(alone):
            return "file"
        if len(statements) == 1:
            return "none"
        if self.layout == "flyway" and all(alone) and self.part.tx_mode is None:
            return "none"
        number = "MG410" if self.layout == "flyway" else "MG401"
        for index, (statement, what) in enumerate(zip(statements, alone, strict=True), start=1):
            if what is not None:
                self.find(
                    statement, index, number, f"{what} cannot run in a transaction",
                    NONE_HEADERS[self.layout],
                )  # fmt: skip
        return "file"

    def mode_on_mysql(
        self, mode: TxMode, told: TxMode | None, statements: Sequence[Statement]
    ) -> TxMode:
        """DDL commits implicitly there: a file is one transaction only where it has none."""
        if mode == "none":
            return "none"
        other = next((each for each in statements if not words.data_only(each)), None)
        if other is None:
            return "file"
        if told == "file" and self.layout == "ptahk":
            self.find(
                other, statements.index(other) + 1, "MG401",
                "this statement commits by itself, so the file cannot be one transaction",
                "take '-- ptahk:txmode file' out, or put the statement into a file of its own",
            )  # fmt: skip
        return "none"

    def look(self, mode: TxMode, statements: Sequence[Statement]) -> None:
        """Refusals of each statement, and of the units."""
        postgresql = self.engine == "postgresql"
        for number, statement in enumerate(statements, start=1):
            for objection in words.objections(statement, postgresql):
                if objection.allow is not None and objection.allow in self.part.header.allow:
                    continue
                self.find(
                    statement, number, objection.number, objection.message,
                    self._lift(objection), objection.at,
                )  # fmt: skip
        for number, code, message, hint in self._control(mode, statements):
            self.find(statements[number - 1], number, code, message, hint)

    def _lift(self, objection: words.Objection) -> str:
        if objection.allow is None:
            return _KEEP_OUT
        if self.layout == "ptahk":
            return f"write '-- ptahk:allow {objection.allow}' above the first statement"
        return f"{_KEEP_OUT}; the ptahk layout can allow it ({objection.allow})"

    def _control(
        self, mode: TxMode, statements: Sequence[Statement]
    ) -> Iterator[tuple[int, str, str, str | None]]:
        """Transaction control, and pairs that do not close."""
        begun: tuple[str, int] | None = None
        for number, statement in enumerate(statements, start=1):
            text = " ".join(words.words(statement, 2))
            if words.two_phase(statement):
                yield number, "MG402", f"{text} outlives the session", _KEEP_OUT
            elif mode == "file" and words.controls_transaction(statement):
                yield (
                    number,
                    "MG402",
                    f"{text} within a file that is one transaction",
                    (NONE_HEADERS[self.layout]),
                )
            elif mode == "file":
                continue
            elif begun is not None and begun[0] == "transaction":
                if words.closes_transaction(statement):
                    begun = None
                elif words.controls_transaction(statement):
                    yield number, "MG402", f"{text} between BEGIN and COMMIT", _KEEP_OUT
                elif _kind(statement, self.engine) == "alone":
                    yield (
                        number,
                        "MG401",
                        "a statement that commits by itself, within a transaction of the file",
                        "move it out of BEGIN … COMMIT",
                    )
            elif begun is not None:
                begun = None if words.unlocks_tables(statement) else begun
            elif words.opens_transaction(statement):
                begun = ("transaction", number)
            elif words.controls_transaction(statement):
                yield number, "MG402", f"{text} without its BEGIN", _KEEP_OUT
            elif self.engine != "postgresql" and words.locks_tables(statement):
                begun = ("locked", number)
        if begun is not None:
            what = "BEGIN has no COMMIT" if begun[0] == "transaction" else "LOCK TABLES has no end"
            yield begun[1], "MG411", what, "close it within the file"
