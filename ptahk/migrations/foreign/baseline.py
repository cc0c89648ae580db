"""A tool's history and a directory → the rows of a baseline, or why there is none. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ptahk.migrations.findings import Finding, refuse
from ptahk.migrations.foreign import evidence, recorded
from ptahk.migrations.foreign.recorded import Recorded
from ptahk.migrations.foreign.tables import Content
from ptahk.migrations.history import RowKind
from ptahk.migrations.layouts import flyway
from ptahk.migrations.model import Migration
from ptahk.migrations.model import Sequence as Directory


@dataclass(frozen=True, slots=True)
class Imported:
    """One revision row to write, ``applied``."""

    version: str
    kind: RowKind
    """``imported``, ``covered`` or ``repeatable``."""
    description: str
    file: str
    migration: Migration | None
    """None: its file is gone, and a baseline covers it."""
    verified: bool
    """The tool's own data says that this file was run; only then it has a checksum."""

    @property
    def checksum(self) -> str | None:
        return self.migration.checksum if self.migration is not None and self.verified else None

    @property
    def token_digest(self) -> str | None:
        return self.migration.token_digest if self.migration is not None and self.verified else None


@dataclass(slots=True)
class Baseline:
    """What would be written of a tool's history."""

    content: Content
    rows: list[Imported] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def unverified(self) -> tuple[Imported, ...]:
        """Rows that nothing but the tool's word is known of."""
        return tuple(row for row in self.rows if row.kind == "imported" and not row.verified)

    def required(self, *, accept_unverified: bool) -> None:
        """It may be written.

        :raises InvalidSource: the history did not end well, a recorded version has no file or
            another one (MG701 to MG703), or something is unverified and that was not accepted
            (MG705).
        """
        refuse(self.findings)
        if self.unverified and not accept_unverified:
            names = ", ".join(row.version for row in self.unverified[:5])
            more = len(self.unverified) - 5
            text = f"{names} and {more} more" if more > 0 else names
            refuse([
                Finding(
                    "MG705", "", 0, 0,
                    f"nothing in {self.content.table} tells which text was run of {text}",
                    "look at them, then --accept-unverified",
                )
            ])  # fmt: skip


def of(directory: Directory, content: Content) -> Baseline:
    """Map a tool's history to a directory."""
    told = recorded.read(content)
    out = Baseline(content, findings=told.findings)
    if not out.findings:
        _Mapping(directory, told.recorded, out).run()
    order = {migration.file: at for at, migration in enumerate(directory.migrations)}
    out.rows.sort(key=lambda row: order.get(row.file, -1) if row.migration else -1)
    return out


class _Mapping:
    def __init__(self, directory: Directory, given: list[Recorded], out: Baseline) -> None:
        self.directory = directory
        self.given = given
        self.out = out
        self.files = [each for each in directory.migrations if each.kind != "checkpoint"]
        self.found = {
            each.version: migration
            for each in given
            if (migration := self._file_of(each)) is not None
        }

    def run(self) -> None:
        chain: Mapping[str, str] = {}
        if self.directory.format == "atlas":
            chain = evidence.chains(self.directory.migrations, self.given, self.found)
        for each in self.given:
            if each.means == "up-to":
                self._up_to(each)
                continue
            if each.means == "covers":
                self._covers(each)
            migration = self.found.get(each.version)
            if migration is None:
                self._without_file(each)
                continue
            if each.means == "covers" and each.proof is None:
                continue  # among those that it covers
            proven = evidence.proves(each, migration, chain) if self._tells(each) else None
            if proven is False and each.means != "repeatable":
                self._find(
                    "MG703", migration.file,
                    f"version {each.version} is not the text that {self.out.content.tool} ran",
                    f"put the file back as it was run; or, if it was meant, repair the "
                    f"checksum with {self.out.content.tool} first",
                )  # fmt: skip
                continue
            self._take(migration, verified=proven is True)

    def _tells(self, each: Recorded) -> bool:
        """A chain names files; in another layout they have other names."""
        return each.proof != "chain" or self.directory.format == "atlas"

    def _file_of(self, each: Recorded) -> Migration | None:
        same = _same_version(each.version)
        repeatable = each.means == "repeatable"
        for migration in self.files:
            if (migration.kind == "repeatable") != repeatable:
                continue
            if migration.version == each.version or (not repeatable and same(migration)):
                return migration
        return None

    def _up_to(self, each: Recorded) -> None:
        """Every file up to there is assumed; the last one must be there."""
        if each.version not in self.found and not self._covered(each.version):
            self._missing(each)
            return
        for migration in self.directory.versioned:
            if _not_above(migration.version, each.version):
                self._take(migration, verified=False)

    def _covers(self, each: Recorded) -> None:
        own = self.found.get(each.version)
        named = {migration.file for migration in self.found.values()}
        for migration in self.directory.versioned:
            below = _not_above(migration.version, each.version)
            run = migration.file in named and migration is not own
            if below and not run and not (migration is own and each.proof is not None):
                self._row("covered", migration, verified=False)

    def _without_file(self, each: Recorded) -> None:
        if each.means in ("covers", "repeatable"):
            return
        if not self._covered(each.version):
            self._missing(each)
            return
        self.out.rows.append(
            Imported(each.version, "covered", each.description, each.file, None, False)
        )

    def _covered(self, version: str) -> bool:
        """A baseline of the tool's, or a checkpoint of the directory's, stands for it."""
        points = [each.version for each in self.directory.migrations if each.kind == "checkpoint"]
        points += recorded.covering(self.given)
        return any(_not_above(version, point) for point in points)

    def _take(self, migration: Migration, *, verified: bool) -> None:
        kind: RowKind = "repeatable" if migration.kind == "repeatable" else "imported"
        self._row(kind, migration, verified=verified)

    def _row(self, kind: RowKind, migration: Migration, *, verified: bool) -> None:
        self.out.rows.append(
            Imported(migration.version, kind, migration.description, migration.file, migration,
                     verified)
        )  # fmt: skip

    def _missing(self, each: Recorded) -> None:
        self._find(
            "MG702", each.file,
            f"{self.out.content.tool} recorded version {each.version}, and no file has it",
            "put the file back, or write a checkpoint that stands for it",
        )  # fmt: skip

    def _find(self, number: str, file: str, message: str, hint: str) -> None:
        self.out.findings.append(Finding(number, file, 0, 0, message, hint))


def _key(version: str) -> Sequence[int] | None:
    """Part by part as numbers; None: it is none of these."""
    with contextlib.suppress(ValueError):
        return flyway.order_of(version)
    return None


def _same_version(version: str) -> Callable[[Migration], bool]:
    key = _key(version)
    return lambda migration: key is not None and _key(migration.version) == key


def _not_above(version: str, limit: str) -> bool:
    one, two = _key(version), _key(limit)
    return version <= limit if one is None or two is None else list(one) <= list(two)
