"""What ``ptahk migrate`` and ``ptahk digest sequence`` do: documents, and their text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ptahk import __version__
from ptahk.commands import _directory, _render
from ptahk.commands._text import Document, Line, count, visible
from ptahk.errors import UsageError
from ptahk.migrations import compared, naming, reading, rules, sums
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import TITLES, Finding, InvalidSource
from ptahk.migrations.model import ENGINES, FORMATS, Engine, Format, Migration
from ptahk.migrations.model import Sequence as Directory

FUTURE: Final = timedelta(hours=24)
_STAMP: Final = "%Y%m%d%H%M%S"
SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

Placeholders = Mapping[str, str] | str | None


def _engine(text: str) -> Engine:
    for engine in ENGINES:
        if text.lower() == engine or (engine, text.lower()) == ("postgresql", "postgres"):
            return engine
    raise UsageError(f"unknown engine (engine={text}): one of {', '.join(ENGINES)}", field="engine")


def _layout(text: str | None) -> Format | None:
    for layout in FORMATS:
        if text is not None and text.lower() == layout:
            return layout
    if text is None:
        return None
    raise UsageError(f"unknown layout (format={text}): one of {', '.join(FORMATS)}", field="format")


def _now() -> datetime:
    return datetime.now(UTC)


def _found(
    on_disk: _directory.OnDisk, engine: str, layout: str | None, values: Placeholders = None
) -> reading.Found:
    return reading.read(
        on_disk.files,
        engine=_engine(engine),
        layout=_layout(layout),
        placeholders=values,
        latest=(_now() + FUTURE).strftime(_STAMP),
        before=on_disk.findings,
    )


def required(directory: str, engine: str, layout: str | None, values: Placeholders) -> Directory:
    """A directory that can be run. :raises InvalidSource: it cannot, with the first finding."""
    return _found(_directory.read(directory), engine, layout, values).required()


def validate(
    directory: str, engine: str, layout: str | None, values: Placeholders, base: str | None
) -> dict[str, Any]:
    """The ``Validation`` document."""
    on_disk = _directory.read(directory)
    found = _found(on_disk, engine, layout, values)
    findings = list(found.findings)
    if base is not None and found.directory is not None:
        findings += _since(directory, base, on_disk, found.directory, values)
    sequence = None
    if found.directory is not None and not any(each.refuses for each in found.findings):
        sequence = reading.sequence_digest(found.directory)
    migrations = found.directory.migrations if found.directory is not None else ()
    errors = sum(each.refuses for each in findings)
    return _render.document(
        "Validation",
        directory=directory,
        engine=_engine(engine),
        format=None if found.directory is None else found.directory.format,
        base=base,
        sequence=sequence,
        findings=[each.document() for each in findings],
        summary={
            "files": len(migrations),
            "statements": sum(len(each.statements) for each in migrations),
            "errors": errors,
            "warnings": len(findings) - errors,
        },
    )


def _since(
    directory: str, base: str, on_disk: _directory.OnDisk, now: Directory, values: Placeholders
) -> list[Finding]:
    """What the branch did to files that were merged."""
    merged, fork = _directory.of_git(directory, base)
    before: list[SourceFile] = []
    for name, data in merged.files.items():
        read = _text_of(name, data)
        if read is not None:
            before.append(read)
    there = reading.read(before, engine=now.engine, layout=now.format, placeholders=values)
    running = {each.file for each in now.migrations}
    running |= {each.file for each in there.directory.migrations} if there.directory else set()
    here = {file.name: file.text for file in on_disk.files if file.name in running}
    texts = {file.name: file.text for file in before if file.name in running}
    left = merged if fork is None else fork
    old = {
        name: read.text
        for name, data in left.files.items()
        if (read := _text_of(name, data)) is not None
    }
    ignored = {each.file: each.header.ignore for each in now.migrations}
    return [
        each
        for each in compared.compare(now, here, texts, old, there.directory, base)
        if each.number not in ignored.get(each.file, {})
    ]


def _text_of(name: str, data: bytes) -> SourceFile | None:
    try:
        return SourceFile(name, data.decode("utf-8"))
    except UnicodeDecodeError:
        return None  # it could never run, and its replacement is looked at by itself


def new(directory: str, name: str, engine: str, layout: str | None) -> dict[str, Any]:
    """Make the next migration's files."""
    on_disk = _directory.read(directory)
    found = _found(on_disk, engine, layout)
    wanted = found.directory.format if found.directory is not None else _layout(layout)
    if wanted is None:
        if any(each.number != "MG101" for each in found.findings):
            raise InvalidSource(found.findings)
        wanted = "ptahk"
    migrations = found.directory.migrations if found.directory is not None else ()
    version = naming.next_version(wanted, migrations, _now().strftime(_STAMP))
    texts = naming.new_files(wanted, version, name)
    _refuse_unsummed(found, on_disk)
    for path, text in texts.items():
        _directory.write(directory, path, text, new=True)
    changed = _write_sum(directory, engine, wanted)
    return _change("new", directory, wanted, written=[*texts], sum_name=changed)


def rebase(
    directory: str, versions: Sequence[str], engine: str, layout: str | None
) -> dict[str, Any]:
    """Move migrations to the end."""
    on_disk = _directory.read(directory)
    found = _found(on_disk, engine, layout)
    _refuse_unsummed(found, on_disk)
    if found.directory is None:
        raise InvalidSource(found.findings)
    directory_ = found.directory
    migrations = list(directory_.versioned)
    renames: list[tuple[str, str]] = []
    for version in versions:
        migration = _one(directory_, version)
        if migration.kind != "versioned":
            raise UsageError(f"not a version that can move (VERSION={version})", field="VERSION")
        number = naming.next_version(directory_.format, migrations, _now().strftime(_STAMP))
        renames += naming.moved(directory_.format, on_disk.files, migration, number)
        migrations.append(_renumbered(migration, number, directory_.format))
    for old, name in renames:
        _directory.rename(directory, old, name)
    changed = _write_sum(directory, engine, directory_.format)
    return _change("rebase", directory, directory_.format, renamed=renames, sum_name=changed)


def _renumbered(migration: Migration, version: str, layout: Format) -> Migration:
    import dataclasses

    order = (int(version.lstrip("0") or "0"),) if layout != "atlas" else (version,)
    return dataclasses.replace(migration, version=version, order=order, file=f"{version}_x.sql")


def _refuse_unsummed(found: reading.Found, on_disk: _directory.OnDisk) -> None:
    """A sum that does not fit is never made to fit on the way: somebody must look at it."""
    wrong = [each for each in found.findings if each.number == "MG111"]
    if wrong or on_disk.findings:
        raise InvalidSource(wrong or on_disk.findings)


def sum_file(directory: str, engine: str, layout: str | None, *, check: bool) -> dict[str, Any]:
    """Write the sum file, or say whether it would change."""
    on_disk = _directory.read(directory)
    _directory.refuse(on_disk.findings)
    found = _found(on_disk, engine, layout)
    if found.directory is None:
        raise InvalidSource(found.findings)
    name, text = _sum_of(on_disk.files, found.directory)
    stored = next((file.text for file in on_disk.files if file.name == name), None)
    changed = stored is None or stored.replace("\r\n", "\n") != text
    if changed and not check:
        _directory.write(directory, name, text, new=False)
    return _change(
        "check" if check else "hash", directory, found.directory.format,
        sum_name=name, changed=changed,
    )  # fmt: skip


def _sum_of(files: Sequence[SourceFile], directory: Directory) -> tuple[str, str]:
    order = [each.file for each in directory.migrations]
    text = sums.write(directory.format, files, order)
    if text is None:
        raise UsageError(
            f"layout {directory.format} has no sum file", field="DIR",
            hint="The plan and its approval bind every file all the same.",
        )  # fmt: skip
    return sums.NAMES[directory.format], text


def _write_sum(directory: str, engine: str, layout: Format) -> str | None:
    """Bring the sum file up to date, where there is one or the layout is ptahk's own."""
    on_disk = _directory.read(directory)
    name = sums.NAMES.get(layout)
    there = any(file.name == name for file in on_disk.files)
    if name is None or not (there or layout == "ptahk"):
        return None
    found = reading.read(on_disk.files, engine=_engine(engine), layout=layout).directory
    if found is None:
        return None
    _, text = _sum_of(on_disk.files, found)
    _directory.write(directory, name, text, new=False)
    return name


def _change(
    action: str, directory: str, layout: Format, *, written: Sequence[str] = (),
    renamed: Sequence[tuple[str, str]] = (), sum_name: str | None = None, changed: bool = True,
) -> dict[str, Any]:  # fmt: skip
    return _render.document(
        "DirectoryChange",
        action=action,
        directory=directory,
        format=layout,
        written=list(written),
        renamed=[{"from": old, "to": name} for old, name in renamed],
        sum=sum_name,
        changed=changed,
    )


def show(directory: str, version: str, engine: str, layout: str | None) -> dict[str, Any]:
    """The ``Migration`` document of one file."""
    found = required(directory, engine, layout, "off")
    migration = _one(found, version)
    units = rules.units(migration.statements, migration.tx_mode, found.engine)
    of = {
        number: (index, unit)
        for index, unit in enumerate(units, start=1)
        for number in range(unit.first, unit.last + 1)
    }
    return _render.document(
        "Migration",
        file=migration.file,
        version=migration.version,
        migrationKind=migration.kind,
        description=migration.description,
        format=found.format,
        engine=found.engine,
        txMode=migration.tx_mode,
        checksum=migration.checksum,
        tokenDigest=migration.token_digest,
        wrapped=migration.wrapped,
        statements=[
            {
                "number": number,
                "line": statement.line,
                "column": statement.column,
                "unit": of[number][0],
                "unitKind": of[number][1].kind,
                "sql": statement.text,
                "dataLines": None if statement.data is None else statement.data.count("\n"),
            }
            for number, statement in enumerate(migration.statements, start=1)
        ],
    )


def _one(directory: Directory, version: str) -> Migration:
    bare = version.lstrip("0") or version
    for migration in directory.migrations:
        if migration.kind != "checkpoint" and migration.version in (version, bare):
            return migration
    raise UsageError(
        f"no such version (VERSION={version}): the directory has "
        f"{count(len(directory.migrations), 'migration')}", field="VERSION",
    )  # fmt: skip


def change_lines(document: Document) -> Iterator[Line]:
    """What was written, one name a line."""
    for name in document["written"]:
        yield f"{document['directory']}/{visible(name)}", ""
    for each in document["renamed"]:
        yield f"{visible(each['from'])} -> {visible(each['to'])}", ""
    if document["action"] == "check":
        fits = "does not fit" if document["changed"] else "fits"
        yield f"{document['sum']} {fits} the files", "bad" if document["changed"] else "good"
    elif document["sum"] is not None:
        yield f"{document['sum']} {'written' if document['changed'] else 'unchanged'}", "dim"


def validation_lines(document: Document) -> Iterator[Line]:
    """A line a finding, then the sum of them."""
    for each in document["findings"]:
        where = "directory" if each["file"] is None else visible(each["file"])
        if each["line"] is not None:
            where += f":{each['line']}:{each['column']}"
        bad = each["severity"] == "error"
        text = f"{where}: {each['severity']} {each['number']}: {visible(each['message'])}"
        yield text, "bad" if bad else "warning"
        if each["hint"]:
            yield f"  {visible(each['hint'])}", "dim"
    total = document["summary"]
    layout = document["format"] or "no layout"
    read = f"{count(total['files'], 'file')}, {count(total['statements'], 'statement')}"
    wrong = f"{count(total['errors'], 'error')}, {count(total['warnings'], 'warning')}"
    yield f"{layout}: {read}, {wrong}", "bad" if total["errors"] else "good"
    if document["sequence"]:
        yield f"sequence {document['sequence']}", "dim"


def statement_lines(document: Document) -> Iterator[Line]:
    """Each statement under a heading with its place and unit."""
    yield (
        (
            f"{visible(document['file'])}: version {document['version']}, "
            f"txmode {document['txMode']}, {count(len(document['statements']), 'statement')}"
        ),
        "bold",
    )
    for each in document["statements"]:
        yield (
            (
                f"-- {each['number']} at {each['line']}:{each['column']}, unit {each['unit']} "
                f"({each['unitKind']})"
            ),
            "dim",
        )
        for line in visible(each["sql"]).split("\n"):
            yield line, ""
        if each["dataLines"] is not None:
            yield f"-- {count(each['dataLines'], 'line')} of data", "dim"


def sarif_text(document: Document) -> str:
    """SARIF 2.1.0 of a ``Validation``."""
    numbers = sorted({each["number"] for each in document["findings"]})
    results = []
    for each in document["findings"]:
        region = {} if each["line"] is None else {
            "region": {"startLine": each["line"], "startColumn": each["column"]}
        }  # fmt: skip
        uri = document["directory"] if each["file"] is None else (
            f"{document['directory'].rstrip('/')}/{each['file']}"
        )  # fmt: skip
        hint = f" ({each['hint']})" if each["hint"] else ""
        results.append(
            {
                "ruleId": each["number"],
                "level": each["severity"],
                "message": {"text": f"{each['message']}{hint}"},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}],
            }
        )
    driver = {
        "name": "ptahk",
        "version": __version__,
        "rules": [
            {"id": number, "shortDescription": {"text": TITLES[number]}} for number in numbers
        ],
    }
    value = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(value, indent=2) + "\n"
