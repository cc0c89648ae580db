"""What the operations ask of an engine. Each package of ``dialects`` has a module ``dialect``.

The commands, their order and what a result says are the operations'; sessions, ledgers, plans and
statements are the dialect's.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from ptahk.errors import PtahkError, UsageError
from ptahk.executor.budget import Budget
from ptahk.migrations.foreign.tables import Content, Tool
from ptahk.migrations.history import Row
from ptahk.migrations.model import Migration
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from ptahk.wire.protocol import LedgerReport, LedgerRow

Files = Sequence[tuple[str, str]]


class Identity(Protocol):
    """Which server and database a session talks to; its text is compared (C-6.14)."""

    @property
    def version(self) -> int: ...

    @property
    def timeline(self) -> int | None: ...

    @property
    def notes(self) -> Sequence[str]:
        """What the account could not see of the server, and what to grant."""


class Session(Protocol):
    """One physical session, which nothing reconnects (C-9.6)."""

    @property
    def identity(self) -> Identity: ...

    @property
    def lost(self) -> bool: ...

    @property
    def in_transaction(self) -> bool: ...

    def lock(self, wait_s: float) -> None:
        """Take the database's lock and prove it (C-9.8)."""

    def settle(self, seconds: float) -> None:
        """Time for the last writes of an ended operation."""

    def close(self) -> None:
        """End the session, which is the unlock."""


class Sequences(Protocol):
    """What the operations of a migration ask of an engine (C-11)."""

    def rows(self, session: Any, stream: str) -> list[Row]:
        """The revision rows of a stream in order; empty where there is no table."""

    def entries(self, session: Any, stream: str) -> list[dict[str, Any]]:
        """The same as an account, with times and errors."""

    def any_stream(self, session: Any) -> bool:
        """Some stream has a row."""

    def watched(self, session: Any, stream: str) -> tuple[str, bool] | None:
        """Digest of another tool's table that the history was imported from, and whether it moved
        since (C-11.9); None: it was not imported."""

    def foreign_table(self, session: Any, stream: str) -> tuple[str, str] | None:
        """Schema and name of the table that the history was imported from."""

    def other_streams(self, session: Any, stream: str) -> list[str]:
        """Names of the other streams that have a row, the first few."""

    def drift(self, bench: Any, migrations: Sequence[Migration]) -> dict[str, Any]:
        """How the live schema differs from what these files give, run again in scratch."""

    def compare(
        self, bench: Any, one: Sequence[Migration], other: Sequence[Migration]
    ) -> dict[str, Any] | None:
        """How what the others give differs from what the first give; None: there are no others."""

    def find(self, session: Any, tool: Tool | None, named: str | None) -> Content:
        """The history that another tool recorded here."""

    def occupied(self, session: Any) -> bool:
        """The database has an object of a user's (C-11.4)."""

    def require(self, session: Any) -> None:
        """The rows may be written, or their table made (C-6.16)."""

    def require_import(self, session: Any) -> None:
        """The digest of another tool's table may be kept, or its own table made."""

    def mend(self, session: Any, stream: str) -> None:
        """Write the mark that is missing of files that are recorded whole; behind a fence."""

    def admit(self, session: Any, spec: JobSpec) -> None:
        """What refuses an Apply whatever it would run."""

    def start(
        self, session: Any, spec: JobSpec, nonce: str, total: int, out: dict[str, Any]
    ) -> None:
        """Commit the ledger's row, and make the revision table where it is missing."""

    def run(
        self, session: Any, spec: JobSpec, layout: str, migrations: Sequence[Migration],
        done: int, covered: Sequence[dict[str, Any]],
    ) -> None:  # fmt: skip
        """Run files, or the rest of the first after ``done`` statements; ``covered`` are rows that
        commit with the last statement of the first."""

    def record(
        self, session: Any, spec: JobSpec, layout: str, given: Sequence[dict[str, Any]]
    ) -> None:
        """Write rows alone, with the end of the attempt, in one transaction (C-11.17)."""

    def adopt(
        self, session: Any, spec: JobSpec, layout: str, content: Content,
        given: Sequence[dict[str, Any]], *, again: bool,
    ) -> None:  # fmt: skip
        """Write an imported history, with the end of the attempt, in one transaction (C-11.9).

        ``again``: the stream was imported before."""

    def finish(self, session: Any, spec: JobSpec, total: int) -> None:
        """Close the attempt as applied."""

    def record_failure(self, session: Any, spec: JobSpec, out: dict[str, Any]) -> None:
        """Close the attempt as failed, where that can be written."""

    def row_of(self, session: Any, spec: JobSpec) -> LedgerRow | None:
        """The ledger's row of this attempt; None where it cannot be read."""


class Dialect(Protocol):
    """The module ``dialect`` of an engine's package."""

    Error: type[Exception]
    """What the driver raises where the server refused something."""

    def check_url(self, url: str, name: str, spec: JobSpec, user: str | None) -> None:
        """Refuse a URL that the driver reads otherwise than ``wire.dsn`` (C-8.5)."""

    def preload(self) -> None:
        """Import the planner, while the server answers."""

    def connect(self, url: str, spec: JobSpec, budget: Budget) -> Any:
        """Open the one session."""

    def clock(self, session: Any) -> float:
        """The database's clock, seconds since the epoch."""

    def is_direct(self, session: Any) -> bool:
        """Whether nothing stands between us and the server, as the server itself says."""

    def refuse_pooler(self, session: Any, url: str, timeout_s: float) -> None:
        """Find what shares sessions among clients (C-9.7)."""

    def apply(
        self, session: Any, spec: JobSpec, plan: bytes, nonce: str, out: dict[str, Any]
    ) -> None:
        """Run a plan's bytes."""

    def rebind(self, session: Any, spec: JobSpec, nonce: str, out: dict[str, Any]) -> None:
        """Accept another coordination digest."""

    def recent(self, session: Any) -> list[LedgerRow]:
        """The ledger's newest rows."""

    def report(self, session: Any, spec: JobSpec) -> LedgerReport:
        """The ledger as this session finds it."""

    def fence(self, session: Any, spec: JobSpec, attempt: FencedAttempt) -> LedgerRow | None:
        """Write the tombstone (C-6.9)."""

    def bench(
        self, session: Any, url: str, dev_url: str | None, spec: JobSpec, cache_dir: str | None
    ) -> Any:
        """What planning works with."""

    def observe(self, bench: Any, files: Files | None, out: dict[str, Any]) -> None:
        """Drift and fingerprints."""

    def plan(self, bench: Any, files: Files, out: dict[str, Any], for_proof: bool) -> None:
        """A plan."""

    def sequences(self) -> Sequences:
        """The engine's part of running migrations."""

    def unexpected(self, error: Exception) -> PtahkError:
        """A read of ours that the server refused: by right, by a timeout, or by a surprise."""


_PACKAGES = {"postgresql": "postgres", "mysql": "mysql"}


def of(engine: str) -> Dialect:
    """The dialect of an engine family; only its own driver is imported.

    :raises UsageError: ``EngineNotSupported``: its driver is not installed here.
    """
    try:
        module = import_module(f"ptahk.executor.dialects.{_PACKAGES[engine]}.dialect")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("ptahk"):
            raise
        raise UsageError(
            f"engine not supported here (engine={engine}): {error.name} is not installed",
            reason="EngineNotSupported",
            field="engine",
        ) from None
    return cast("Dialect", module)
