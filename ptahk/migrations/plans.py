"""What of a directory would run, or be recorded, and the plan bytes that say so (C-7.3). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ptahk.errors import Refused, UsageError
from ptahk.migrations import history, reading, rules, words
from ptahk.migrations.findings import Finding
from ptahk.migrations.history import History, Row
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import REPEATABLE, Migration
from ptahk.migrations.model import Sequence as Directory
from ptahk.wire import canonical, digest

Action = Literal["run", "resume", "baseline", "import", "repair", "settle"]
REASONS: Final[Mapping[str, str]] = {
    "dirty": "HistoryDirty",
    "modified": "HistoryModified",
    "ahead": "HistoryAhead",
    "outOfOrder": "HistoryOutOfOrder",
}
"""Verdict that runs nothing → reason."""
_VERDICT_NUMBERS: Final[Mapping[str, str]] = {
    "dirty": "MG60", "modified": "MG61", "ahead": "MG62", "outOfOrder": "MG63",
}  # fmt: skip
_LOSES: Final = frozenset({"DROP", "TRUNCATE", "DELETE"})
_GRANTS: Final = frozenset({"GRANT", "REVOKE", "REASSIGN"})
_SAFE: Final = frozenset(
    {"CREATE", "INSERT", "COMMENT", "SET", "SELECT", "COPY", "ANALYZE", "BEGIN", "COMMIT", "START"}
)
_PLAN_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an Apply would do."""

    action: Action
    migrations: tuple[Migration, ...] = ()
    done: int = 0
    """Statements of the first file that an earlier attempt applied."""
    covered: tuple[dict[str, Any], ...] = ()
    """Rows that the first file, a checkpoint, stands for."""
    rows: tuple[dict[str, Any], ...] = ()
    """Rows to record instead of running files (C-11.17)."""
    approval: bool = False
    """No policy stands in for a person."""
    engine: Any = "postgresql"
    notes: tuple[str, ...] = ()
    """What a person reads beside the statements."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing would."""

    reason: str
    message: str
    hint: str | None = None


def choose(
    directory: Directory, rows: Sequence[Row], judged: History, *, change: Mapping[str, str],
    ahead: str, occupied: bool,
) -> Chosen | Refusal:  # fmt: skip
    """Choose.

    :param change: what was asked for; ``action`` and its arguments, or how far to run.
    :param ahead: ``policy.ahead``.
    :param occupied: user objects are there and nothing accounts for them (C-11.4).
    :raises UsageError: a version or an operation is asked for that is not there.
    """
    postgresql = directory.engine == "postgresql"
    settled = [history.settled(row, postgresql) for row in rows]
    match change.get("action", "run"):
        case "run":
            return _run(directory, settled, judged, change, ahead, occupied)
        case "baseline":
            return _baseline(directory, settled, judged, change)
        case "repair":
            return _repair(directory, settled, judged, change)
        case "settle":
            return _settle(directory, rows, change)
        case other:
            raise UsageError(f"unknown action (change={other[:40]})", field="change")


def _run(
    directory: Directory, rows: Sequence[Row], judged: History, change: Mapping[str, str],
    ahead: str, occupied: bool,
) -> Chosen | Refusal:  # fmt: skip
    if judged.verdict == "dirty":
        return _resume(directory, rows, judged)
    accepted = judged.verdict == "ahead" and ahead == "Accept"
    if judged.verdict in REASONS and not accepted:
        return _refusal(judged)
    pending = list(_selected(directory, judged.pending, change))
    if occupied and pending:
        return Refusal(
            "DatabaseNotEmpty",
            "the database has objects, and no history says which files made them",
            "record what is there with ptahk baseline --to VERSION, or --from TOOL where another "
            "tool has its history; or use an empty database",
        )
    covered: tuple[dict[str, Any], ...] = ()
    if pending and pending[0].kind == "checkpoint":
        first = pending[0]
        covered = tuple(
            _row(each, "covered", "applied")
            for each in judged.covered
            if each.version != first.version
        )
    late = any(each.header.out_of_order for each in pending) and judged.needs_approval
    return Chosen("run", tuple(pending), covered=covered, approval=late, engine=directory.engine)


def _refusal(judged: History) -> Refusal:
    prefix = _VERDICT_NUMBERS[judged.verdict]
    found = [each for each in judged.findings if each.number.startswith(prefix) and each.refuses]
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    first: Finding = found[0]
    text = f"{first.where}: {first.message} ({first.number}){more}"
    return Refusal(REASONS[judged.verdict], text, first.hint or judged.next_step)


def _resume(directory: Directory, rows: Sequence[Row], judged: History) -> Chosen | Refusal:
    """The one partial run may be resumed, if nothing else is unsettled (C-11.3)."""
    dirty = [each for each in judged.findings if each.number.startswith("MG60")]
    partial = judged.partial
    if partial is None or len(dirty) != 1:
        unknown = [each for each in dirty if each.number != "MG601"]
        first = (unknown or dirty)[0]
        text = f"{first.where}: {first.message} ({first.number})"
        return Refusal("HistoryDirty", text, first.hint)
    migration = _find(directory, partial)
    if migration is None:
        return Refusal(
            "HistoryDirty",
            f"{partial.file}: version {partial.version} stopped after {partial.applied} of "
            f"{partial.total} statements, and its file is gone",
            "put the file back, then plan again: the plan is its resume",
        )
    return Chosen(
        "resume", (migration,), done=partial.applied, approval=True, engine=directory.engine
    )


def _find(directory: Directory, row: Row) -> Migration | None:
    repeatable = row.kind == "repeatable"
    for each in directory.migrations:
        if each.version == row.version and (each.kind == "repeatable") == repeatable:
            return each
    return None


def _selected(
    directory: Directory, pending: Sequence[Migration], change: Mapping[str, str]
) -> Sequence[Migration]:
    to, limit = change.get("to"), change.get("limit")
    kept = list(pending)
    if to is not None:
        last = _version(directory, to)
        kept = [each for each in kept if each.kind != "repeatable" and each.order <= last.order]
    if limit is not None:
        if not limit.isdigit() or int(limit) < 1:
            raise UsageError(f"not a count of files (limit={limit[:20]})", field="limit")
        kept = kept[: int(limit)]
    return kept


def _version(directory: Directory, version: str) -> Migration:
    bare = version.lstrip("0") or version
    for each in directory.versioned:
        if each.version in (version, bare):
            return each
    raise UsageError(
        f"no such version (version={version[:80]}): the directory has "
        f"{len(directory.versioned)}",
        reason="InvalidSource", field="to",
    )  # fmt: skip


def _row(
    migration: Migration, kind: str, state: str, *, applied: int | None = None, note: str = "",
) -> dict[str, Any]:  # fmt: skip
    total = len(migration.statements)
    return {
        "version": (REPEATABLE if migration.kind == "repeatable" else "") + migration.version,
        "kind": kind,
        "state": state,
        "file": migration.file,
        "description": migration.description,
        "checksum": migration.checksum,
        "tokenDigest": migration.token_digest,
        "rawDigest": migration.raw_digest,
        "txMode": migration.tx_mode,
        "total": total,
        "applied": total if applied is None else applied,
        "note": note or None,
        "append": [],
    }


def _baseline(
    directory: Directory, rows: Sequence[Row], judged: History, change: Mapping[str, str]
) -> Chosen | Refusal:
    if judged.verdict == "dirty":
        return _refusal(judged)
    last = _version(directory, change.get("to", ""))
    there = {row.version for row in rows if row.state == "applied"}
    found = [
        _row(each, "baseline", "applied", note=said(change))
        for each in directory.versioned
        if each.order <= last.order and each.version not in there
    ]
    return _recorded("baseline", found, directory)


def said(change: Mapping[str, str]) -> str:
    """The person of a change, and their reason."""
    person, reason = change.get("person", ""), change.get("reason", "")
    return f"{person}: {reason}" if person and reason else person or reason


def _recorded(
    action: Action, rows: Sequence[dict[str, Any]], directory: Directory
) -> Chosen | Refusal:
    if not rows:
        return Refusal("NothingToRecord", "the history already says all of it", None)
    return Chosen(action, rows=tuple(rows), approval=True, engine=directory.engine)


def _repair(
    directory: Directory, rows: Sequence[Row], judged: History, change: Mapping[str, str]
) -> Chosen | Refusal:
    """Accept the edit of one version; its row gets the digests of the file as it is now."""
    migration = _version(directory, change.get("version", ""))
    row = next(
        (each for each in rows if each.version == migration.version and each.state == "applied"),
        None,
    )
    if row is None or row.checksum == migration.checksum:
        text = f"version {migration.version} is not applied, or not with another text"
        return Refusal("NothingToRecord", text)
    made = _row(migration, row.kind, "applied", applied=len(migration.statements),
                note=said(change))  # fmt: skip
    return _recorded("repair", [made], directory)


def _settle(
    directory: Directory, rows: Sequence[Row], change: Mapping[str, str]
) -> Chosen | Refusal:
    """A person's word on one run that stopped within a file (C-11.14).

    :param rows: as they stand in the database, which tells who ended a run.
    """
    operation, word = change.get("operation", ""), change.get("as", "")
    postgresql = directory.engine == "postgresql"
    found = [(each, history.settled(each, postgresql)) for each in rows if each.claim == operation]
    stood, row = next(
        ((raw, each) for raw, each in found if each.state in ("partial", "unknown")), (None, None)
    )
    if row is None or stood is None:
        text = f"operation {operation[:64]} left no file that is not settled"
        return Refusal("NothingToRecord", text)
    statement = word in ("applied", "not-applied")
    if statement != (row.state == "unknown"):
        need = "--statement applied or not-applied" if row.state == "unknown" else (
            "--resolved or --abandon"
        )  # fmt: skip
        return Refusal(
            "HistoryDirty", f"version {row.version} is {row.state}", f"settle it with {need}"
        )
    migration = _find(directory, row)
    if word == "applied" and (migration is None or migration.checksum != row.checksum):
        return Refusal(
            "HistoryDirty",
            f"{row.file}: what was run of version {row.version} is not what the directory has",
            "put the file back as it was run, then say what took effect; edit it afterwards",
        )
    made = _settled_row(migration, row, word, said(change))
    if word == "applied" and migration is not None:
        made |= _applied(migration, row, directory.engine, died=stood.state == "running")
    return _recorded("settle", [made], directory)


def _settled_row(
    migration: Migration | None, row: Row, word: str, note: str
) -> dict[str, Any]:  # fmt: skip
    base: dict[str, Any] = {
        "version": (REPEATABLE if row.kind == "repeatable" else "") + row.version,
        "kind": row.kind, "state": "partial", "file": row.file,
        "description": "" if migration is None else migration.description,
        "checksum": row.checksum, "tokenDigest": row.token_digest, "rawDigest": None,
        "txMode": row.tx_mode, "total": row.total, "applied": row.applied, "note": note or None,
        "append": [],
    }  # fmt: skip
    if word == "abandon":
        return base | {"state": "failed", "applied": 0}
    if word == "resolved":
        return base | {"state": "applied", "kind": "resolved"}
    if word == "not-applied" and not row.applied:
        return base | {"state": "failed"}
    return base


def _applied(migration: Migration, row: Row, engine: Any, *, died: bool) -> dict[str, Any]:
    """How far a file came whose unseen statement took effect.

    A unit is recorded as a whole, so its word is about the whole: a mark on the first statement of
    LOCK … UNLOCK says nothing of the others. Only a session that lived has told how far it came
    between the locks.
    """
    at = row.running if row.running is not None else row.applied + 1
    mode: Any = "file" if row.tx_mode == "file" else "none"
    units = rules.units(migration.statements, mode, engine)
    unit = next((each for each in units if each.first <= at <= each.last), None)
    done = at
    if unit is not None and (died or unit.kind != "locked"):
        done = unit.last
    if done >= row.total:
        return {"state": "applied", "applied": row.total}
    digests = [reading.statement_digest(each) for each in migration.statements[row.applied : done]]
    return {"applied": done, "append": digests}


def total(chosen: Chosen) -> int:
    """Statements, or rows, as the ledger counts them."""
    return len(chosen.rows) or sum(len(each.statements) for each in chosen.migrations)


def _documents(chosen: Chosen) -> list[dict[str, Any]]:
    if chosen.rows:
        return [dict(row) for row in chosen.rows]
    found = [dict(reading.document(each)) for each in chosen.migrations]
    if chosen.done:
        found[0]["done"] = chosen.done
    return found


def sequence_digest(chosen: Chosen) -> digest.SequenceDigest:
    """What plan and approval bind (C-9.3)."""
    return digest.sequence_digest(_documents(chosen))


def encode(
    directory: Directory, chosen: Chosen, change: Mapping[str, str], fingerprint: str
) -> bytes:
    """The plan bytes: every statement for a person, and what is bound."""
    return canonical.encode(
        {
            "version": 1,
            "statements": list(statements(chosen)),
            "sequence": {
                "action": chosen.action,
                "approval": chosen.approval,
                "change": dict(change),
                "format": directory.format,
                "files": _documents(chosen),
                "history": fingerprint,
                "directory": {each.file: each.raw_digest for each in directory.migrations},
            },
        }
    )


def decode(data: bytes) -> dict[str, Any]:
    """Plan bytes. :raises Refused: ``InvalidPlan``."""
    try:
        found = canonical.decode(data, bytes_max=_PLAN_BYTES_MAX)
        wanted = {"action", "approval", "change", "format", "files", "history", "directory"}
        if found["version"] == 1 and found["sequence"].keys() == wanted:
            return dict(found)
    except (canonical.CanonicalError, KeyError, TypeError, AttributeError):
        pass
    raise Refused("the plan's bytes are not a migration's plan", reason="InvalidPlan")


def changed(directory: Directory, approved: Mapping[str, str]) -> str | None:
    """The first file that differs from those that were approved, and how; None: none does."""
    here = {each.file: each.raw_digest for each in directory.migrations}
    for name in sorted(here.keys() | approved.keys()):
        if name not in approved:
            return f"{name} was added"
        if name not in here:
            return f"{name} is gone"
        if here[name] != approved[name]:
            return f"{name} was changed"
    return None


def statements(chosen: Chosen) -> Iterator[dict[str, Any]]:
    """Every statement as a plan's statements are written (C-7.3)."""
    index = 0
    for row in chosen.rows:
        index += 1
        sql = f"-- record version {row['version']} as {row['kind']}, {row['state']}"
        if row["state"] == "partial":
            sql += f" after {row['applied']} of {row['total']} statements"
        yield _statement(index, sql, "record", row["file"], "safe", row["note"] or "", 1, True)
    group = 0
    for migration in chosen.migrations:
        done = chosen.done if migration is chosen.migrations[0] else 0
        for unit in rules.units(migration.statements, migration.tx_mode, chosen.engine):
            if unit.last <= done:
                continue
            group += 1
            for number in range(max(unit.first, done + 1), unit.last + 1):
                index += 1
                found = migration.statements[number - 1]
                yield _statement(
                    index, found.text, " ".join(words.words(found, 2)).strip() or "SQL",
                    f"{migration.file}:{found.line}", severity(found),
                    _reason(migration, number, found), group, unit.kind != "alone",
                    migration.header.lock_timeout_s,
                )  # fmt: skip


def _reason(migration: Migration, number: int, statement: Statement) -> str:
    data = ""
    if statement.data is not None:
        data = f", with {statement.data.count(chr(10))} lines of data"
    name = "repeatable" if migration.kind == "repeatable" else "version"
    return f"{name} {migration.version}, statement {number} of {len(migration.statements)}{data}"


def severity(statement: Statement) -> str:
    """By its first words; what it calls, nobody sees."""
    first = words.words(statement, 8)
    if first[0] in _LOSES or (first[0] == "ALTER" and "DROP" in first):
        return "destructive"
    if first[0] in _GRANTS:
        return "privilege"
    return "safe" if first[0] in _SAFE else "warning"


def _statement(
    index: int, sql: str, kind: str, where: str, level: str, reason: str, group: int,
    transaction: bool, lock_s: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "index": index, "sql": sql, "kind": kind, "object": where, "severity": level, "lock": "",
        "reason": reason, "group": {"number": group, "transaction": transaction},
        "timeouts": {"lockSeconds": lock_s},
    }  # fmt: skip


def summary(chosen: Chosen) -> dict[str, Any]:
    """What a person reads beside the statements."""
    listed = list(statements(chosen))
    found = Counter(item["severity"] for item in listed)
    notes = list(chosen.notes)
    if chosen.action == "resume":
        first = chosen.migrations[0]
        notes.append(
            f"resumes {first.file} after statement {chosen.done} of {len(first.statements)}"
        )
    notes += [f"{each.file}: BEGIN … COMMIT around it is taken off" for each in chosen.migrations
              if each.wrapped]  # fmt: skip
    return {
        "scope": [],
        "statements": len(listed),
        "severities": {
            name: found.get(name, 0) for name in ("safe", "warning", "privilege", "destructive")
        },
        "destructive": False,
        "privileges": False,
        "setup": [],
        "sizes": {},
        "notes": notes,
        "timingsSeconds": {},
    }
