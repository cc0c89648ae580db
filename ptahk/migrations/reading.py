"""A directory's files → a sequence that can be run, or findings. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ptahk.migrations import detect, files, sums
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import Finding, InvalidSource
from ptahk.migrations.layouts import atlas, dbmate, diesel, flyway, golang, goose, ptahk
from ptahk.migrations.layouts.common import Options, Parts
from ptahk.migrations.lexing import mysql, postgres
from ptahk.migrations.lexing.tokens import LexError, Statement
from ptahk.migrations.model import (
    FORMATS,
    Engine,
    Format,
    Header,
    Migration,
    Part,
    TxMode,
)
from ptahk.migrations.model import (
    Sequence as Directory,
)
from ptahk.migrations.rules import Judged, judge
from ptahk.wire import digest

_LAYOUTS: Final[Mapping[Format, Callable[[Sequence[SourceFile], Options], Parts]]] = {
    "ptahk": ptahk.read,
    "atlas": atlas.read,
    "golang-migrate": golang.read,
    "goose": goose.read,
    "dbmate": dbmate.read,
    "flyway": flyway.read,
    "diesel": diesel.read,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A directory as far as it could be read."""

    directory: Directory | None
    """None: not even its layout is known, or nothing in it runs."""
    findings: tuple[Finding, ...]
    """All of them, in the order of files and places."""

    def required(self) -> Directory:
        """The directory. :raises InvalidSource: a finding refuses it."""
        refusing = [finding for finding in self.findings if finding.refuses]
        if refusing:
            raise InvalidSource(refusing)
        assert self.directory is not None, "else a finding says why"
        return self.directory


def read(
    given: Sequence[SourceFile],
    *,
    engine: Engine,
    layout: Format | None = None,
    placeholders: Mapping[str, str] | str | None = None,
    default_mode: TxMode = "file",
    latest: str = "",
    before: Sequence[Finding] = (),
) -> Found:
    """Read a directory.

    :param given: its files, sum files included.
    :param layout: names the layout; None: it is detected.
    :param default_mode: ``policy.transactionMode``, for files that say nothing themselves.
    :param latest: the latest version that is no time in the future, 14 digits; ``""``: not asked.
    :param before: what was wrong with files that could not be read at all.
    """
    options = Options(engine, layout is not None, placeholders)
    findings = [*before, *_too_much(given)]
    if layout is None:
        detected = detect.detect(given, options)
        if isinstance(detected, Finding):
            return Found(None, (*findings, detected))
        layout = detected
    assert layout in FORMATS, "a parser of the caller's"
    parts = _LAYOUTS[layout](given, options)
    findings += parts.findings
    if not parts.parts and not findings:
        text = f"the directory has no migration of layout {layout} for {engine}"
        findings.append(Finding("MG101", "", 0, 0, text, "--format names another layout"))
    migrations: list[Migration] = []
    for part in parts.parts:
        migration, found = _migration(part, layout, options, default_mode)
        findings += found
        if latest:
            ahead = ptahk.future(part, latest)
            findings += [ahead] if ahead is not None else []
        if migration is not None:
            migrations.append(migration)
    migrations.sort(key=lambda each: (each.kind == "repeatable", each.order, each.kind))
    findings += sums.verify(layout, given, [each.file for each in migrations])
    kept = _kept(findings, migrations)
    warnings = tuple(each for each in kept if not each.refuses)
    directory = Directory(layout, engine, tuple(migrations), warnings)
    return Found(directory, tuple(kept))


_CHECKPOINT: Final = "checkpoint"
_BY_NAME: Final = frozenset({"MG102", "MG103", "MG108", "MG109", "MG112"})


def by_names(
    given: Sequence[SourceFile], *, engine: Engine, layout: Format | None = None
) -> list[Finding]:
    """What is wrong with a directory by the names of its files and by what tells its layout.

    Every finding of it is one of ``read``, for either make of a family; no statement is read, so
    that it costs next to nothing.
    """
    options = Options(engine, layout is not None)
    findings = list(_too_much(given))
    if layout is None:
        detected = detect.detect(given, options)
        if isinstance(detected, Finding):
            return [*findings, detected]
        layout = detected
    # A header may say that a file is a checkpoint, which shares its version with another one.
    bare = [SourceFile(file.name, file.text if _CHECKPOINT in file.text else "") for file in given]
    named = _LAYOUTS[layout](bare, options).findings
    return [*findings, *(each for each in named if each.number in _BY_NAME)]


def sequence_digest(directory: Directory) -> digest.SequenceDigest:
    """What plan and approval bind (C-9.3): every file by its bytes."""
    return digest.sequence_digest([document(each) for each in directory.migrations])


def document(migration: Migration) -> dict[str, object]:
    """One file of the sequence as its digest sees it."""
    return {
        "file": migration.file,
        "version": migration.version,
        "kind": migration.kind,
        "checksum": migration.checksum,
        "rawDigest": migration.raw_digest,
        "txMode": migration.tx_mode,
    }


def statement_digest(statement: Statement) -> str:
    """One statement by its tokens, as a resume compares it."""
    return digest.token_digest([_tokens(statement)])


def _tokens(statement: Statement) -> list[str]:
    found = [token.text for token in statement.tokens]
    return found if statement.data is None else [*found, statement.data]


def _too_much(given: Sequence[SourceFile]) -> Iterator[Finding]:
    total = sum(len(file.text) for file in given)
    if total > files.TOTAL_BYTES_MAX:
        text = f"the directory has {total} characters, more than {files.TOTAL_BYTES_MAX}"
        yield Finding("MG107", "", 0, 0, text, "baseline, and start a new directory")


def _migration(
    part: Part, layout: Format, options: Options, default_mode: TxMode
) -> tuple[Migration | None, list[Finding]]:
    own = Parts()
    if layout != "ptahk":
        switched = ptahk.ignored(part.file, options, own)
        part = dataclasses.replace(
            part, header=dataclasses.replace(part.header, ignore=switched.ignore)
        )
    try:
        statements = list(_split(part, options.engine))
    except LexError as error:
        finding = _lexed(part, error)
        return None, [*own.findings, finding]
    judged = judge(part, statements, layout, options.engine, default_mode)
    return _assemble(part, judged), [*own.findings, *judged.findings]


def _lexed(part: Part, error: LexError) -> Finding:
    if part.text is None:
        return part.file.finding(error.number, error.at, error.message, error.hint)
    shown = SourceFile(part.file.name, part.text)
    return shown.finding(error.number, error.at, error.message, error.hint)


def _split(part: Part, engine: Engine) -> Iterator[Statement]:
    """The statements, one segment between two forced boundaries after the other."""
    split = postgres.split if engine == "postgresql" else mysql.split
    text = part.file.text if part.text is None else part.text
    ends = [*part.cuts, len(text)]
    start = 0
    for end in ends:
        yield from split(part.file.name, text, start, end, part.header.delimiter)
        start = end


def _assemble(part: Part, judged: Judged) -> Migration:
    up = part.file.text if part.up is None else part.up
    return Migration(
        version=part.version,
        order=part.order,
        description=part.description,
        file=part.file.name,
        kind=part.kind,
        tx_mode=judged.tx_mode,
        checksum=files.checksum(up),
        token_digest=digest.token_digest([_tokens(each) for each in judged.all]),
        raw_digest=files.sha256(part.file.raw),
        statements=judged.statements,
        header=part.header,
        source=part.file,
        wrapped=judged.wrapped,
    )


def _kept(findings: Sequence[Finding], migrations: Sequence[Migration]) -> list[Finding]:
    """Without those that their file switches off with a reason, each once, in order."""
    headers: dict[str, Header] = {each.file: each.header for each in migrations}
    out: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        header = headers.get(finding.file)
        if header is not None and finding.number in header.ignore:
            continue
        key = (finding.file, finding.line, finding.column, finding.number, finding.message)
        out.setdefault(key, finding)
    return sorted(out.values(), key=lambda each: (each.file, each.line, each.column, each.number))
