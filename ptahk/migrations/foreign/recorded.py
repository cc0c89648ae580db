"""What the rows of a tool's history say: versions, evidence, and what did not end well. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ptahk.migrations.findings import Finding
from ptahk.migrations.foreign.tables import Content, Tool

Means = Literal["applied", "up-to", "covers", "repeatable"]
"""``up-to``: every version up to this one; ``covers``: this one stands for all below it."""
Proof = Literal["crc32", "chain", "sha256"]
_RESOLVED: Final = 4
_BASELINE: Final = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """One version that a tool says it ran."""

    version: str
    means: Means = "applied"
    description: str = ""
    file: str = ""
    """As the tool names it, where it does."""
    proof: Proof | None = None
    evidence: str = ""
    """What the file's own value of that proof must be."""


@dataclass(slots=True)
class Recording:
    """A history as a tool recorded it."""

    recorded: list[Recorded] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def refuse(self, content: Content, message: str) -> None:
        """What a baseline must not be made of."""
        self.findings.append(
            Finding(
                "MG701", "", 0, 0, f"{content.table} ({content.tool}): {message}",
                f"settle it with {content.tool}, or repair the database and the table by hand",
            )
        )  # fmt: skip


def read(content: Content) -> Recording:
    """The history of a table's rows."""
    out = Recording()
    _READERS[content.tool](content, out)
    return out


def _golang_migrate(content: Content, out: Recording) -> None:
    if len(content.rows) > 1:
        out.refuse(content, f"{len(content.rows)} rows, where the tool keeps one")
        return
    for version, dirty in content.rows:
        if dirty:
            out.refuse(content, f"version {version} is dirty")
        elif int(str(version)) >= 0:  # -1: everything was taken down again
            out.recorded.append(Recorded(str(version), "up-to"))


def _versions(content: Content, out: Recording) -> None:
    out.recorded += [Recorded(str(row[0])) for row in content.rows]


def _goose(content: Content, out: Recording) -> None:
    """The newest row of a version counts; version 0 marks that the table was made."""
    newest: dict[str, bool] = {}
    for _, version, applied in content.rows:
        newest.pop(str(version), None)
        newest[str(version)] = bool(applied)
    for version, applied in sorted(newest.items(), key=lambda item: int(item[0])):
        if version != "0" and applied:
            out.recorded.append(Recorded(version))


def _ptah(content: Content, out: Recording) -> None:
    for version, description, state, applied, total, error, checksum in content.rows:
        if state != "applied" or applied != total:
            cause = f": {error}" if error else ""
            out.refuse(
                content, f"version {version} is {state}, {applied} of {total} statements{cause}"
            )
            continue
        proof: Proof | None = "sha256" if checksum else None
        out.recorded.append(
            Recorded(str(version), "applied", str(description or ""), "", proof,
                     str(checksum or ""))
        )  # fmt: skip


def _atlas(content: Content, out: Recording) -> None:
    for version, description, kind, applied, total, error, hashed in content.rows:
        if str(version).startswith("."):
            continue  # the tool's own note
        bits = int(str(kind))
        if (error or applied != total) and not bits & _RESOLVED:
            out.refuse(content, f"version {version}: {applied} of {total} statements were applied")
            continue
        means: Means = "covers" if bits & _BASELINE else "applied"
        chain = str(hashed or "")
        out.recorded.append(
            Recorded(str(version), means, str(description or ""), "", "chain" if chain else None,
                     chain)
        )  # fmt: skip


def _flyway(content: Content, out: Recording) -> None:
    """The highest rank of a script counts; what undid or deleted it takes it away again."""
    versions: dict[str, Recorded] = {}
    repeatables: dict[str, Recorded] = {}
    for rank, version, description, kind, script, checksum, success in content.rows:
        if kind == "SCHEMA":
            continue
        if not success:
            out.refuse(content, f"{script} (rank {rank}) failed")
            continue
        made = _flyway_row(version, description, str(kind), str(script), checksum)
        if version is None:
            repeatables.pop(made.version, None)
            if kind != "DELETE":
                repeatables[made.version] = made
        elif kind == "DELETE" or str(kind).startswith("UNDO"):
            versions.pop(str(version), None)
        else:
            versions.pop(str(version), None)
            versions[str(version)] = made
    out.recorded += [*versions.values(), *repeatables.values()]


def _flyway_row(version: Any, description: Any, kind: str, script: str, checksum: Any) -> Recorded:
    means: Means = "covers" if "BASELINE" in kind else "applied"
    proof: Proof | None = None if checksum is None or kind == "BASELINE" else "crc32"
    if version is None:
        return Recorded(str(description), "repeatable", str(description), script, proof,
                        str(checksum))  # fmt: skip
    return Recorded(str(version), means, str(description), script, proof, str(checksum))


_READERS: Final[Mapping[Tool, Callable[[Content, Recording], None]]] = {
    "golang-migrate": _golang_migrate,
    "dbmate": _versions,
    "diesel": _versions,
    "goose": _goose,
    "ptah": _ptah,
    "atlas": _atlas,
    "flyway": _flyway,
}


def covering(recorded: list[Recorded]) -> Iterator[str]:
    """Versions that stand for all below them."""
    return (each.version for each in recorded if each.means == "covers")
