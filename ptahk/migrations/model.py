"""A migration directory as read: ordered files, split into statements. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import Finding
from ptahk.migrations.lexing.tokens import Statement

Format = Literal["ptahk", "atlas", "golang-migrate", "goose", "dbmate", "flyway", "diesel"]
Engine = Literal["postgresql", "mysql", "mariadb"]
Kind = Literal["versioned", "repeatable", "checkpoint"]
TxMode = Literal["file", "none", "auto"]

FORMATS: Final[tuple[Format, ...]] = (
    "ptahk", "atlas", "golang-migrate", "goose", "dbmate", "flyway", "diesel",
)  # fmt: skip
ENGINES: Final[tuple[Engine, ...]] = ("postgresql", "mysql", "mariadb")

REPEATABLE: Final = "R__"
"""Prefix of a repeatable's key, which no version has."""

Order = tuple[Any, ...]
"""Sorts the versions of one layout."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about how it runs."""

    tx_mode: TxMode | None = None
    lock_timeout_s: float | None = None
    statement_timeout_s: float | None = None
    delimiter: str = ";"
    checkpoint: bool = False
    out_of_order: bool = False
    allow: frozenset[str] = frozenset()
    requires: tuple[str, ...] = ()
    """Read-only queries that must return true before the file starts."""
    ignore: Mapping[str, str] = field(default_factory=dict)
    """Number of a finding → why it does not count here."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a layout makes of one file, before it is split."""

    file: SourceFile
    version: str
    order: Order
    description: str
    kind: Kind = "versioned"
    up: str | None = None
    """The part to run, as it stands; None: the whole file."""
    text: str | None = None
    """The file's text with all but the part to run blanked, so that places stay; None: as is."""
    cuts: tuple[int, ...] = ()
    """Offsets at which a statement ends whatever the lexer says."""
    tx_mode: TxMode | None = None
    header: Header = field(default_factory=Header)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the sequence."""

    version: str
    order: Order
    description: str
    file: str
    kind: Kind
    tx_mode: TxMode
    checksum: str
    """Of the part to run, the same in every checkout (C-11.7)."""
    token_digest: str
    """Tells a cosmetic edit from a real one."""
    raw_digest: str
    """Of the file's bytes; what plan and approval bind."""
    statements: tuple[Statement, ...]
    header: Header
    source: SourceFile
    wrapped: bool = False
    """BEGIN and COMMIT around the whole file were taken off."""

    @property
    def key(self) -> str:
        """How its rows are keyed: the version, of a repeatable its name."""
        return self.version


@dataclass(frozen=True, slots=True)
class Sequence:
    """A directory that can be run."""

    format: Format
    engine: Engine
    migrations: tuple[Migration, ...]
    """In order: versioned and checkpoints first, repeatables last."""
    findings: tuple[Finding, ...] = ()
    """Warnings."""

    @property
    def versioned(self) -> tuple[Migration, ...]:
        return tuple(each for each in self.migrations if each.kind == "versioned")

    @property
    def repeatable(self) -> tuple[Migration, ...]:
        return tuple(each for each in self.migrations if each.kind == "repeatable")
