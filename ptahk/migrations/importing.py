"""Whether another tool's history may be imported, and the rows that it becomes (C-11.9). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ptahk.errors import UsageError
from ptahk.migrations import history
from ptahk.migrations.findings import InvalidSource
from ptahk.migrations.foreign.baseline import Baseline, Imported
from ptahk.migrations.foreign.tables import TOOLS, Tool
from ptahk.migrations.history import Row
from ptahk.migrations.model import REPEATABLE
from ptahk.migrations.model import Sequence as Directory
from ptahk.migrations.plans import Chosen, Refusal, said

ACTION: Final = "import"
AUTO: Final = "auto"
ACCEPTED: Final = "accepted"
"""Value of ``unverified`` in a change: a person takes the tool's word."""


def change(tool: str, *, accept_unverified: bool) -> dict[str, str]:
    """What ``baseline --from`` asks for, as a plan binds it.

    :param tool: a tool's name, or ``auto``.
    """
    told = {"action": ACTION, "from": tool}
    return told | ({"unverified": ACCEPTED} if accept_unverified else {})


def tool_of(asked: Mapping[str, str]) -> Tool | None:
    """Whose table is meant; None: whoever's.

    :raises UsageError: of no tool that ptahk knows.
    """
    named = asked.get("from", "")
    if named == AUTO:
        return None
    for tool in TOOLS:
        if tool == named:
            return tool
    raise UsageError(
        f"not a tool that ptahk knows (from={named[:40]}): {', '.join(TOOLS)} or {AUTO}",
        field="from",
    )


def choose(
    directory: Directory, rows: Sequence[Row], found: Baseline, asked: Mapping[str, str], *,
    known: str | None,
) -> Chosen | Refusal:  # fmt: skip
    """The rows to write of a history that was read.

    A stream that was imported before may be imported again: what it has of the tool is written
    anew, and the rest added. What ptahk ran itself stays as it is.

    :param found: what the tool's table says of this directory.
    :param known: digest of the table when the stream was imported from it; None: it was not.
    """
    settled = [history.settled(row, directory.engine == "postgresql") for row in rows]
    refused = _already(settled, found, known)
    if refused is not None:
        return refused
    try:
        found.required(accept_unverified=asked.get("unverified") == ACCEPTED)
    except InvalidSource as error:
        return Refusal("ForeignHistoryRefused", str(error), error.hint)
    there = {_key(row): row for row in settled if row.state == "applied"}
    made = [_document(each, said(asked)) for each in found.rows]
    kept = tuple(_kept(row, there.get(row["version"])) for row in made if _writes(row, there))
    if not kept:
        text = f"{found.content.table} ({found.content.tool}) says nothing that is not there"
        return Refusal("NothingToRecord", text)
    return Chosen(
        ACTION, rows=kept, approval=True, engine=directory.engine, notes=tuple(_notes(found))
    )


def _already(rows: Sequence[Row], found: Baseline, known: str | None) -> Refusal | None:
    """What of the stream's own rows speaks against it."""
    if rows and known is None:
        text = f"the stream has a history already ({len(rows)} rows), and not of another tool"
        return Refusal("NothingToRecord", text, "import into another stream (--stream)")
    if known == found.content.digest:
        return Refusal("NothingToRecord", f"{found.content.table} is imported, and did not move")
    unsettled = next((each for each in rows if each.state in ("partial", "unknown")), None)
    if unsettled is not None:
        return Refusal(
            "HistoryDirty", f"version {unsettled.version} is {unsettled.state}",
            "resume it, or settle it with ptahk acknowledge, then import",
        )  # fmt: skip
    there = {(REPEATABLE if row.kind == "repeatable" else "") + row.version for row in found.rows}
    gone = [row for row in rows if row.kind == "imported" and _key(row) not in there]
    if gone and not found.findings:
        names = ", ".join(row.version for row in gone[:5])
        return Refusal(
            "ForeignHistoryRefused",
            f"{found.content.tool} took back what was imported of it: {names}",
            f"run it again with {found.content.tool}, or put its rows back",
        )
    return None


def _writes(made: Mapping[str, Any], known: Mapping[str, Row]) -> bool:
    row = known.get(made["version"])
    return row is None or row.kind == "imported"


def _kept(made: dict[str, Any], row: Row | None) -> dict[str, Any]:
    """What a person accepted of a row since stays, where the tool proves nothing else."""
    if row is None or row.checksum is None or made["checksum"] is not None:
        return made
    return made | {"checksum": row.checksum, "tokenDigest": row.token_digest}


def _key(row: Row) -> str:
    return (REPEATABLE if row.kind == "repeatable" else "") + row.version


def _document(row: Imported, person: str) -> dict[str, Any]:
    """A row as ``plans`` records rows: what nothing proves has no digests."""
    migration = row.migration
    total = len(migration.statements) if migration is not None else 0
    doubt = row.kind == "imported" and not row.verified
    note = "; ".join(part for part in ("unverified" if doubt else "", person) if part)
    return {
        "version": (REPEATABLE if row.kind == "repeatable" else "") + row.version,
        "kind": row.kind,
        "state": "applied",
        "file": row.file,
        "description": row.description,
        "checksum": row.checksum,
        "tokenDigest": row.token_digest,
        "rawDigest": migration.raw_digest if migration is not None and row.verified else None,
        "txMode": migration.tx_mode if migration is not None else "file",
        "total": total,
        "applied": total,
        "note": note or None,
        "append": [],
    }


def _notes(found: Baseline) -> Iterator[str]:
    content = found.content
    yield f"imports the history of {content.tool} from {content.table}; the table stays as it is"
    doubtful = len(found.unverified)
    if doubtful:
        yield f"{doubtful} unverified: nothing tells which text was run"
