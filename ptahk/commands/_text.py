"""The text layout of each document: what a person reads. Pure.

Input is the JSON document of the command (``docs/schemas``), so that text can say nothing that
JSON does not. Output is lines of (text, style); :mod:`ptahk.commands._render` prints them. A style
only repeats what the words say: colour never carries meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

Style = Literal["", "bold", "dim", "good", "warning", "privilege", "bad"]
Line = tuple[str, Style]
Document = Mapping[str, Any]

SEVERITY_STYLES: Mapping[str, Style] = {
    "safe": "good",
    "warning": "warning",
    "privilege": "privilege",
    "destructive": "bad",
}
SEVERITIES = ("safe", "warning", "privilege", "destructive")
ITEMS_SHOWN_MAX = 200
"""Most differences that a table lists; JSON carries what the report has."""
_KEPT = {"\n", "\t"}


def visible(text: str) -> str:
    """``text`` with control and bidirectional marks spelled out.

    Names and SQL come from a database: raw, an escape sequence in one would drive the terminal
    that shows it, and an approver would read something else than what is approved.
    """
    if text.isprintable():
        return text  # as nearly all are; nothing hidden is printable
    return "".join(
        character
        if character in _KEPT or not _hidden(character)
        else f"\\x{ord(character):02x}"
        if ord(character) < 0x100
        else f"\\u{ord(character):04x}"
        for character in text
    )


def _hidden(character: str) -> bool:
    code = ord(character)
    return (
        code < 0x20
        or 0x7F <= code <= 0x9F
        or 0x200B <= code <= 0x200F
        or 0x202A <= code <= 0x202E
        or 0x2060 <= code <= 0x2069
        or code == 0xFEFF
    )


def size(size_bytes: int) -> str:
    """A size as a person reads it: ``0 B``, ``12 KiB``, ``1.5 GiB``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count(number: int, noun: str) -> str:
    """``1 statement``, ``2 statements``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def title(resource: Document) -> str:
    """``schema/NAME`` as the command line names a resource."""
    family = {"PtahSchema": "schema", "PtahMigration": "migration"}.get(resource["kind"], "?")
    return f"{family}/{visible(resource['name'])}"


def plan_sql(document: Document) -> Iterator[Line]:
    """Only the statements, each ended by a semicolon."""
    for statement in document["statements"]:
        yield _terminated(statement["sql"]), ""


def _terminated(sql: str) -> str:
    text = visible(sql).strip()
    return text if text.endswith(";") else text + ";"


def plan(document: Document) -> Iterator[Line]:
    """Each statement with severity, lock, reason and size, then the summary."""
    statements = document["statements"]
    if not statements:
        yield f"{title(document['resource'])}: nothing to change.", "good"
        yield from _plan_tail(document)
        return
    for statement in statements:
        yield from _statement(statement, len(statements))
        yield "", ""
    yield summary_line(document), "bold"
    yield from _plan_tail(document)


def _statement(statement: Document, total: int) -> Iterator[Line]:
    style = SEVERITY_STYLES.get(statement["severity"], "")
    head = f"-- {statement['index']}/{total}  {statement['kind']}  {statement['object']}"
    yield f"{visible(head)}  [{statement['severity']}]", style
    facts = []
    if statement["lock"]:
        facts.append(f"lock: {statement['lock']}")
    if statement.get("sizeBytes") is not None:
        facts.append(f"size: {size(statement['sizeBytes'])}")
    if not statement["group"]["transaction"]:
        facts.append("outside a transaction")
    if facts:
        yield visible(f"--   {'   '.join(facts)}"), "dim"
    if statement["reason"]:
        yield visible(f"--   reason: {statement['reason']}"), style
    yield _terminated(statement["sql"]), ""


def summary_line(document: Document) -> str:
    """``3 statements in 1 transaction: 2 safe, 1 destructive.``"""
    summary = document["summary"]
    groups = {
        statement["group"]["number"]
        for statement in document["statements"]
        if statement["group"]["transaction"]
    }
    alone = sum(1 for item in document["statements"] if not item["group"]["transaction"])
    places = []
    if groups:
        places.append(f"in {count(len(groups), 'transaction')}")
    if alone:
        places.append(f"{alone} outside a transaction")
    severities = ", ".join(
        f"{summary['severities'][name]} {name}"
        for name in SEVERITIES
        if summary["severities"].get(name)
    )
    where = f" {' and '.join(places)}" if places else ""
    return f"{count(summary['statements'], 'statement')}{where}: {severities}."


def _plan_tail(document: Document) -> Iterator[Line]:
    summary = document["summary"]
    for step in summary["setup"]:
        yield visible(f"Set-up before the first statement: {step}"), ""
    if not _atomic(document):
        yield "Not atomic: what a transaction committed stays when a later one fails.", "warning"
    for note in summary["notes"]:
        yield visible(f"Note: {note}"), ""
    yield f"Plan fingerprint: {document['fingerprint']}", ""
    if document["changes"] and document["approval"]["required"]:
        reasons = ", ".join(document["approval"]["reasons"])
        yield f"An approval is needed ({reasons}).", ""


def _atomic(document: Document) -> bool:
    return len({item["group"]["number"] for item in document["statements"]}) <= 1


def drift(document: Document) -> Iterator[Line]:
    """The drift report, by category."""
    name = title(document["resource"])
    if document["inSync"]:
        migrated = document["resource"]["kind"] == "PtahMigration"
        wanted = "what the applied files give" if migrated else "as declared"
        yield f"{name}: the database is {wanted}.", "good"
        return
    total = sum(document["counts"].values())
    highest = document["highest"]
    yield (
        f"{name}: {count(total, 'difference')}, highest severity {highest}.",
        SEVERITY_STYLES.get(highest, "bold"),
    )
    for category in sorted(document["counts"]):
        yield visible(f"  {category}: {document['counts'][category]}"), "bold"
        for item in document["items"]:
            if item["category"] == category:
                detail = f": {item['detail']}" if item.get("detail") else ""
                yield (
                    visible(f"    {item['object']}{detail}  [{item['severity']}]"),
                    SEVERITY_STYLES.get(item["severity"], ""),
                )
    if document["itemsDropped"]:
        yield f"  … and {document['itemsDropped']} more", "dim"


_OUTCOMES = {
    "Applied": "applied and proved",
    "AlreadyConverged": "already as the plan wants it; nothing was run",
    "Converged": "as declared; whether this apply did it is not known",
    "NoChanges": "nothing to change",
}


def apply_result(document: Document) -> Iterator[Line]:
    """How an apply ended well; what ended badly is an error."""
    outcome = document["outcome"]
    text = f"{title(document['resource'])}: {_OUTCOMES[outcome]}"
    if outcome == "Applied":
        text += f" ({count(document['statementsDone'], 'statement')})"
    yield text + ".", "good"
    if document["message"]:
        yield visible(f"  {document['message']}"), ""
    if document["plan"]:
        yield f"  plan: {document['plan']}", "dim"
    if document["operationId"]:
        yield f"  operation: {document['operationId']}", "dim"
    if document["nextStep"]:
        yield visible(f"  next: {document['nextStep']}"), "bold"


PHASE_STYLES: Mapping[str, Style] = {
    "InSync": "good",
    "Drifted": "warning",
    "AwaitingApproval": "warning",
    "Blocked": "bad",
    "Failed": "bad",
    "Unknown": "bad",
    "Frozen": "bad",
}


def status(document: Document) -> Iterator[Line]:
    """Phase, conditions, claims, what is owed and the next step, one block a resource."""
    if not document["resources"]:
        yield "No resources.", ""
    for position, resource in enumerate(document["resources"]):
        if position:
            yield "", ""
        place = visible(_place(resource))
        yield (
            f"{title(resource)}  {resource['phase']}{place}",
            PHASE_STYLES.get(resource["phase"], "bold"),
        )
        for condition in resource["conditions"]:
            yield (
                visible(
                    f"  {condition['type']}={condition['status']} {condition['reason']}: "
                    f"{condition['message']}"
                ),
                "",
            )
        operation = resource["activeOperation"]
        if operation:
            yield _operation(operation), ""
        for owed in resource["owed"]:
            yield visible(f"  owed: {owed}"), "warning"
        if resource["plan"]:
            yield f"  plan: {resource['plan']['fingerprint']}", "dim"
        yield visible(f"  next: {resource['nextStep']}"), "bold"


def _place(resource: Document) -> str:
    """The database of a local run without a key; else the namespace."""
    if resource["database"]:
        return f"  {resource['database']}"
    namespace = str(resource["namespace"])
    return "" if namespace.startswith("local-") else f"  in namespace {namespace}"


def _operation(operation: Document) -> str:
    state = "dispatched" if operation["dispatched"] else "not dispatched"
    outcome = f", {operation['outcome']}" if operation.get("outcome") else ""
    return (
        f"  running: {operation['type']} {operation['operationId']} "
        f"since {operation['startedAt']} ({state}{outcome})"
    )


def history(document: Document) -> Iterator[Line]:
    """The account: operations, kept plans, and the database's own ledger where it was read."""
    yield title(document["resource"]), "bold"
    yield "Operations, newest first:", "bold"
    yield from table(
        ("finished", "operation", "id", "outcome", "approver"),
        (
            (
                item["finishedAt"] or "",
                item["type"],
                item["operationId"],
                item["outcome"],
                item["approver"] or "",
            )
            for item in document["operations"]
        ),
    )
    yield "Plans, newest first:", "bold"
    yield from table(
        ("created", "statements", "fingerprint"),
        (
            (item["createdAt"], str(item["statements"]), item["fingerprint"])
            for item in document["plans"]
        ),
    )
    if document["ledger"] is None:
        return
    yield "The database's own ledger, newest first:", "bold"
    yield from table(
        ("number", "operation", "state", "done", "started", "finished"),
        (
            (
                str(row["number"]),
                row["operationId"],
                row["state"],
                f"{row['statementsDone']}/{row['statementsTotal']}",
                row["startedAt"] or "",
                row["finishedAt"] or row["fencedAt"] or "",
            )
            for row in document["ledger"]
        ),
    )


def census(document: Document) -> Iterator[Line]:
    """Every realm with its claimants, conflicts first."""
    for realm in document["realms"]:
        mark = f"CONFLICT ({realm['reason']})" if realm["conflict"] else "ok"
        yield f"{realm['digest']}  {realm['engine']}  {mark}", "bad" if realm["conflict"] else ""
        for claimant in realm["claimants"]:
            facts = [
                word
                for word, holds in (
                    ("sharedRealm", claimant["sharedRealm"]),
                    ("suspended", claimant["suspended"]),
                    ("claims nothing", not claimant["claims"]),
                    (f"running {claimant['activeOperation']}", claimant["activeOperation"]),
                    ("owes a proof", claimant["pendingObservation"]),
                )
                if holds
            ]
            place = f"{claimant['namespace']}/{claimant['name']}"
            tail = f"  ({', '.join(facts)})" if facts else ""
            yield visible(f"  {claimant['kind']} {place}{tail}"), ""
    summary = document["summary"]
    yield (
        f"{count(summary['realms'], 'realm')}, {count(summary['claimants'], 'claimant')}, "
        f"{count(summary['conflicts'], 'conflict')}.",
        "bad" if summary["conflicts"] else "good",
    )


def lock_report(document: Document) -> Iterator[Line]:
    """Who holds the realm, what the claim, its process and the database say, and the verdict."""
    yield f"realm {document['realm']}", "bold"
    lease = document["lease"]
    if lease is None:
        yield "  Lease: nobody holds it", ""
    else:
        yield (
            f"  Lease: held by {lease['holder']} at epoch {lease['epoch']} "
            f"since {lease['acquired']}, renewed {lease['renewed']}",
            "",
        )
    claim = document["claim"]
    if claim is not None:
        state = "dispatched" if claim["dispatched"] else "not dispatched"
        yield (
            f"  claim: {claim['type']} {claim['operationId']} of {title(claim['resource'])} "
            f"({state})",
            "",
        )
    if document["process"] is not None:
        running = "is still running" if document["process"]["running"] else "has ended"
        yield f"  its process: {running}", "bad" if document["process"]["running"] else ""
    row = document["ledgerRow"]
    if row is not None:
        yield (
            f"  ledger: {row['state']}, {row['statementsDone']} of "
            f"{count(row['statementsTotal'], 'statement')} done",
            "",
        )
    style: Style = "bad" if document["verdict"] == "Refused" else "good"
    yield visible(f"{document['verdict']}: {document['message']}"), style


def approval(document: Document) -> Iterator[Line]:
    """What was approved."""
    yield f"{title(document['resource'])}: approved {document['fingerprint']}.", "good"
    yield visible(f"  by {document['approver']} at {document['createdAt']}"), "dim"
    if document["nextStep"]:
        yield visible(f"  next: {document['nextStep']}"), "bold"


def acknowledgement(document: Document) -> Iterator[Line]:
    """What was acknowledged."""
    yield f"{title(document['resource'])}: acknowledged {document['what']}.", "good"
    yield visible(f"  reason: {document['reason']}"), "dim"
    if document["nextStep"]:
        yield visible(f"  next: {document['nextStep']}"), "bold"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[Line]:
    """Plain columns, two spaces apart; ``(none)`` where there is no row."""
    cells = [tuple(visible(cell) for cell in row) for row in rows]
    if not cells:
        yield "  (none)", "dim"
        return
    widths = [max(len(row[i]) for row in (head, *cells)) for i in range(len(head))]
    for position, row in enumerate((head, *cells)):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {line}".rstrip(), "dim" if position == 0 else ""
