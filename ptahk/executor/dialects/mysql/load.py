"""Loads a declaration into a scratch database, and says where it went wrong.

The session works in the scratch database meanwhile, with foreign key checks off, so that tables may
come in any order; afterwards every reference must have found its table. What the declaration SET
for itself is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql import settings
from ptahk.executor.dialects.mysql.declared import Prepared, Reader
from ptahk.executor.dialects.mysql.joining import Batch, joined
from ptahk.executor.dialects.mysql.lexer import Server, Statement, split
from ptahk.executor.planning.model import Catalog, Query

Run = Callable[[str], object]
"""Runs one statement; raises what the driver raises."""
Begun = Callable[[str], AbstractContextManager[None]]
"""Runs one statement beside what the block does; raises what the driver raises at its end."""

_LOST: Final = frozenset({2006, 2013, 2055, 4031, 1927, 1053, 0})
"""The connection is gone: not the declaration's fault."""


class SourceError(UsageError):
    """The declaration does not load: the server's message with file and line (exit 2)."""

    default_reason = "InvalidSource"

    def __init__(self, statement: Statement, message: str, code: int = 0) -> None:
        where = f"{statement.file}:{statement.line}"
        super().__init__(f"{where}: {message}", field=where)
        self.code = code
        self.file = statement.file
        self.line = statement.line


@dataclass(slots=True)
class Loaded:
    """What a load found beside the objects themselves."""

    notes: list[str] = field(default_factory=list)
    stated: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By ``kind name``: what the declaration itself says of definers and schedules."""
    places: dict[str, str] = field(default_factory=dict)
    """``FILE:LINE`` of what was created, by ``kind name``."""
    statements: int = 0


def load(
    run: Run,
    begun: Begun,
    query: Query,
    files: Sequence[tuple[str, str]],
    *,
    scratch: str,
    target: str,
    server: Server,
    check: Callable[[], object] = lambda: None,
) -> Loaded:
    """Run a declaration in the scratch database, which must be the session's current one.

    :param files: (name, text) in loading order.
    :param scratch: the scratch database.
    :param target: the name of the database that is planned.
    :param check: called before each statement; raises where the operation must end.
    :raises UsageError: with file and line: it does not parse, or may not be run here.
    """
    fold = str(query("SELECT @@lower_case_table_names")[0][0]) != "0"
    reader = Reader(scratch, target, fold)
    loaded = Loaded()
    kept = _settings(query)
    run("SET SESSION foreign_key_checks = 0")
    try:
        batches = joined(_prepared(reader, files, server))
        following = next(batches, None)
        while (each := following) is not None:
            check()
            following = _send(begun, each, batches)
            for part in each.parts:
                note(loaded, part)
    finally:
        _put_back(run, kept, _settings(query))
    if reader.data:
        loaded.notes.append(
            f"{reader.data} statements that change rows were left out (the first is "
            f"{reader.first_data}): a declaration holds schema only"
        )
    return loaded


def _prepared(
    reader: Reader, files: Sequence[tuple[str, str]], server: Server
) -> Iterator[Prepared]:
    """What is run, as far as it is asked for."""
    for name, text in files:
        for statement in split(name, text, server):
            prepared = reader.prepare(statement)
            if prepared is not None:
                yield prepared


def _send(begun: Begun, batch: Batch, others: Iterator[Batch]) -> Batch | None:
    """Run one, and read on to the next while the server is at work.

    :raises UsageError: it does not load, or else the next one may not be run.
    """
    following, refused = None, None
    try:
        with begun(batch.sql):
            try:
                following = next(others, None)
            except UsageError as error:
                refused = error
    except pymysql.MySQLError as error:
        _explain(begun, batch, error)
    if refused is not None:
        raise refused
    return following


def _explain(begun: Begun, batch: Batch, error: pymysql.MySQLError) -> None:
    """Why one was refused; of several at once each by itself, until one is refused.

    :raises UsageError: as the server says it, at its place in the declaration.
    :raises pymysql.MySQLError: the connection is gone.
    """
    code = int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
    if code in _LOST:
        raise error
    if len(batch.parts) == 1:
        message = str(error.args[1] if len(error.args) > 1 else error).replace("\n", " ")
        raise SourceError(batch.parts[0].source, message, code) from None
    for part in batch.parts:
        try:
            with begun(part.sql):
                pass
        except pymysql.MySQLError as alone:
            _explain(begun, Batch(part.sql, (part,)), alone)


def note(loaded: Loaded, prepared: Prepared) -> None:
    """Keep what a statement that was sent says of its object."""
    loaded.statements += 1
    if not prepared.kind:
        return
    name = f"{prepared.kind} {prepared.name}"
    source = prepared.source
    loaded.places.setdefault(name, f"{source.file}:{source.line}")
    stated = {"definer": prepared.definer} if prepared.definer else {}
    if source.words(1)[0] != "ALTER":
        loaded.stated[name] = stated
    else:
        loaded.stated.setdefault(name, {}).update(stated)
    loaded.stated[name].update(prepared.facts)


def _settings(query: Query) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in sorted({*settings.RUN, "foreign_key_checks"}))
    rows = query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    return {str(name): str(value) for name, value in rows}


def _put_back(run: Run, kept: dict[str, str], now: dict[str, str]) -> None:
    """Only what changed: some of these need a right to be set at all."""
    changed = {name: value for name, value in kept.items() if now.get(name) != value}
    if not changed:
        return
    assigned = ", ".join(
        f"SESSION {name} = {value if value.isdigit() or value in ('ON', 'OFF') else _text(value)}"
        for name, value in sorted(changed.items())
    )
    run(f"SET {assigned}")


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def state(catalog: Catalog, loaded: Loaded) -> Catalog:
    """The facts of the scratch database with what the declaration states.

    :raises UsageError: a foreign key references a table that is not declared.
    """
    tables = {oid.name[0] for oid in catalog.objects if oid.kind == "table"}
    lower = {name.lower() for name in tables}
    for oid, facts in catalog.objects.items():
        if oid.kind != "foreign key":
            continue
        there = facts["references"]
        if "schema" in facts or (there not in tables and there.lower() not in lower):
            place = loaded.places.get(f"table {oid.name[0]}", "")
            named = ".".join(filter(None, (facts.get("schema"), there)))
            raise UsageError(
                f"{place}: {oid} references table {named}, which is not declared",
                reason="InvalidSource",
                field=place or str(oid),
            )
    return Catalog(
        catalog.objects,
        catalog.depends,
        catalog.sizes_bytes,
        {**catalog.context, "stated": loaded.stated},
    )
