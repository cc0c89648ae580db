"""Whether a file is what another tool recorded of it, as far as the tool kept evidence. Pure."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence

from ptahk.migrations import files, sums
from ptahk.migrations.foreign.recorded import Recorded
from ptahk.migrations.lexing.tokens import BOM
from ptahk.migrations.model import Migration

_LINE_END = re.compile(r"\r\n|\r|\n")


def crc32(text: str) -> int:
    """Flyway's: over the lines without their ends, BOM dropped, as a signed 32-bit number."""
    value = 0
    for line in _LINE_END.split(text.removeprefix(BOM)):
        value = zlib.crc32(line.encode("utf-8"), value)
    return value - (1 << 32) if value >= 1 << 31 else value


def sha256s(migration: Migration) -> frozenset[str]:
    """Every plain SHA-256 that a tool may have taken of a file: of its bytes, or of its text with
    LF alone."""
    raw = hashlib.sha256(migration.source.raw).hexdigest()
    normal = hashlib.sha256(files.normal(migration.source.text).encode()).hexdigest()
    return frozenset({raw, normal, migration.checksum.removeprefix("sha256:")})


def chains(
    migrations: Sequence[Migration], recorded: Sequence[Recorded], found: Mapping[str, Migration]
) -> Mapping[str, str]:
    """Atlas's chained hash of each recorded version.

    Over all files, or over the recorded ones alone where a file was added in between: whichever
    fits them all; where neither does, the first.

    :param found: the file of each recorded version.
    """
    wanted = {each.version: each.evidence for each in recorded if each.proof == "chain"}
    every = _chain(migrations)
    names = {migration.file for migration in found.values()}
    alone = _chain([each for each in migrations if each.file in names])
    for hashes in (every, alone):
        of = {
            version: hashes.get(found[version].file, "") for version in wanted if version in found
        }
        if all(of[version] == wanted[version] for version in of):
            return of
    return {version: every.get(found[version].file, "") for version in wanted if version in found}


def _chain(migrations: Sequence[Migration]) -> dict[str, str]:
    return dict(sums.atlas_chain([each.source for each in migrations]))


def proves(recorded: Recorded, migration: Migration, chain: Mapping[str, str]) -> bool | None:
    """Whether the evidence says that this file was run.

    :param chain: of ``chains``.
    :returns: None: nothing tells.
    """
    if recorded.proof == "crc32":
        return str(crc32(migration.source.text)) == recorded.evidence
    if recorded.proof == "chain":
        return chain.get(recorded.version) == recorded.evidence.removeprefix("h1:")
    if recorded.proof == "sha256":
        plain = recorded.evidence.lower().removeprefix("sha256:")
        return True if plain in sha256s(migration) else None  # which text it took, nobody says
    return None
