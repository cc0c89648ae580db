"""The documents between runner, executor and engine (C-9.9), typed. Pure.

One command document goes to the executor's standard input, one result document comes back on its
standard output; the runner wraps the result in the frame's payload. ``docs/executor-protocol.md``
is the prose of this module.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from ptahk.wire.jobspec import PROTOCOL_VERSION

Command = Literal["observe", "plan", "apply", "prove", "history"]
COMMANDS: Final[tuple[Command, ...]] = ("observe", "plan", "apply", "prove", "history")
RESULT_BYTES_MAX: Final = 24 * 1024 * 1024
"""Most bytes of one result document; above it the runner reports ``ResultTooLarge``."""

ApplyOutcome = Literal["applied", "alreadyConverged", "stale", "refused", "failed", "unknown"]
"""``stale`` and ``refused``: nothing ran and no ``started`` row. ``failed``: the executor believes
nothing is left of it, or names what is. All but ``stale`` are evidence, not the verdict (C-5.7)."""
RowState = Literal["started", "finished", "fenced"]


class ProtocolError(ValueError):
    """A result document that is not one of this protocol version."""


class ErrorDocument(TypedDict):
    """Why a command did not do its work. Redacted text only."""

    reason: str
    message: str
    exitCode: int
    field: NotRequired[str]
    sqlstate: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]
    hint: NotRequired[str]


class LedgerRow(TypedDict):
    """One attempt as the database keeps it (C-6.11). Times are the database's."""

    operationId: str
    storeUid: str
    storeKind: str
    serverIdentity: str
    coordinationDigest: str
    number: int
    epoch: str
    startNonce: str | None
    """None: a tombstone written before any start."""
    planDigest: str
    notAfter: str
    state: RowState
    statementsTotal: int
    statementsDone: int
    statementRunning: int | None
    """Index of a statement outside a transaction whose effect is not known from this row."""
    outcome: str | None
    """``applied``, ``failed`` or, of a fenced row, None."""
    resultDigest: str | None
    startedAt: str | None
    finishedAt: str | None
    fencedAt: str | None


class FrozenFinding(TypedDict):
    """Why the realm is frozen (C-6.14)."""

    reason: Literal["UnknownNumber", "ForeignCluster"]
    message: str
    number: int
    storeUid: str
    operationId: str


class LedgerReport(TypedDict):
    """The ledger as this session found it (C-6.16)."""

    present: bool
    writable: bool
    creatable: bool
    highestNumber: int
    """Over every store on this server identity; 0 for none (C-6.14)."""
    binding: str | None
    """The recorded coordination digest (C-6.15)."""
    unfinished: list[LedgerRow]
    """Rows in state ``started`` on this server identity, newest first, at most 16."""
    frozen: list[FrozenFinding]


class DriftItem(TypedDict):
    """One difference between live and declared."""

    category: str
    object: str
    severity: str
    detail: NotRequired[str]


class DriftDocument(TypedDict):
    """C-10.1: advisory."""

    digest: str
    counts: dict[str, int]
    highest: str | None
    items: list[DriftItem]


class PlanSummary(TypedDict):
    """What a person reads beside the statements; nothing here is bound by the fingerprint."""

    scope: list[str]
    """Schemas that the plan covers (C-10.6); goes into the Apply's JobSpec."""
    statements: int
    severities: dict[str, int]
    destructive: bool
    privileges: bool
    setup: list[str]
    """Set-up steps that an Apply takes before the first statement (C-6.16)."""
    sizes: dict[str, int]
    """Statement index (as text) → bytes of its table (C-10.8)."""
    notes: list[str]
    timingsSeconds: dict[str, float]


class Result(TypedDict):
    """Common head of every result document. ``error`` is there exactly when ``ok`` is false."""

    version: int
    command: str
    ok: bool
    executorVersion: str
    startNonce: str
    serverIdentity: str | None
    """``postgresql/SYSTEM_IDENTIFIER/DATABASE_OID`` (C-6.14); None before the connection."""
    serverVersion: int | None
    timeline: int | None
    targetIdentity: str | None
    ledger: LedgerReport | None
    clockOffsetSeconds: float | None
    """Database's clock minus ours (C-3.7)."""
    error: NotRequired[ErrorDocument]


class ObserveResult(Result):
    drift: NotRequired[DriftDocument | None]
    """None where no source was given (``observe -o sql``)."""
    scopeFingerprint: NotRequired[str]
    observedFingerprint: NotRequired[str]
    declaration: NotRequired[str]


class PlanResult(Result):
    planBytes: NotRequired[str]
    """Base64 of gzip of the plan bytes (C-7.3)."""
    planDigest: NotRequired[str]
    observedFingerprint: NotRequired[str]
    desiredFingerprint: NotRequired[str]
    drift: NotRequired[DriftDocument]
    scopeFingerprint: NotRequired[str]
    summary: NotRequired[PlanSummary]


class ApplyResult(Result):
    result: ApplyOutcome
    statementsTotal: int
    statementsDone: int
    statement: NotRequired[int]
    """Index of the failing or undecided statement."""
    mutationStarted: bool
    """True once the ledger's ``started`` row may have been committed."""
    row: LedgerRow | None
    notes: list[str]
    """What a person should know: ledger created, foreign attempts fenced, lock retries."""


class FenceDocument(TypedDict):
    tombstone: bool
    """The row now stands as ``fenced`` or ``finished``: a late process refuses."""
    row: LedgerRow | None
    """The claim's row as it was found, before the fence changed it; None: nothing started."""


class ProveResult(PlanResult):
    """A fence, then an observation and a plan in one Job (C-6.9). The engine judges."""

    fence: NotRequired[FenceDocument]
    run: NotRequired[dict[str, Any]]
    """Of a migration: ``{files: [...]}``, the revision rows that the attempt wrote, settled."""
    history: NotRequired[SequenceHistory]


class SequenceHistory(TypedDict):
    """A migration directory against its stream's rows, read under the lock (C-11.1)."""

    verdict: str
    reason: str | None
    """Why nothing may run; None: nothing speaks against it."""
    message: str
    nextStep: str
    fingerprint: str
    """Of the history (C-11.15)."""
    format: str
    applied: int
    pending: int
    findings: list[dict[str, Any]]
    unsettled: dict[str, Any] | None
    """The row that is partial or unknown: its state, claim, version, file and counts."""
    files: list[dict[str, Any]]
    """The directory's files, in order."""
    entries: list[dict[str, Any]]
    """The stream's rows, with times and errors."""


class SequenceChosen(TypedDict):
    """What the plan bytes beside it would run or record."""

    digest: str
    action: str
    approval: bool
    change: dict[str, str]
    files: int


class HistoryResult(Result):
    """Of a schema: the ledger as an account, for a person's question; read without the lock. Of a
    migration: the history, and a plan where something may run."""

    rows: NotRequired[list[LedgerRow]]
    """The newest rows, newest first, of this server and of copies; empty without a ledger."""
    history: NotRequired[SequenceHistory]
    sequence: NotRequired[SequenceChosen]
    planBytes: NotRequired[str]
    planDigest: NotRequired[str]
    summary: NotRequired[PlanSummary]
    drift: NotRequired[DriftDocument]
    """What the applied files give when they run again, against the live schema."""
    driftRefused: NotRequired[dict[str, str]]
    """Reason and message, where that could not be compared."""
    findings: NotRequired[list[dict[str, Any]]]
    """What a replay of the directory alone found."""


class FramePayload(TypedDict):
    """The frame's one JSON document, written by the runner (C-5.1)."""

    version: int
    operationId: str
    epoch: str | None
    operation: str
    attempt: int
    podUid: str
    startNonce: str
    mutationStarted: bool
    """False only where no mutating statement can have been sent."""
    outcomeCertain: bool
    """The result says what happened; false: only the ledger can (C-5.7)."""
    exitCode: int
    targetIdentity: str | None
    durationSeconds: float
    error: ErrorDocument | None
    """The runner's own refusal or the executor's error."""
    result: dict[str, Any] | None


class CommandDocument(TypedDict):
    """What the runner writes to the executor's standard input: one line. The input then stays
    open; its end means that the runner is gone (I4)."""

    version: int
    command: str
    job: dict[str, Any]
    """A JobSpec document (``jobspec.to_document``)."""
    startNonce: str
    targetIdentity: str
    """Digest of the URL's route as the runner read it; echoed."""
    budgetSeconds: float
    """What is left of the execution deadline at the start of the child."""
    source: dict[str, Any] | None
    """``{"files": [{"name", "text"}]}``."""
    planBytes: str | None
    """Base64 of the plan bytes."""


def encode(document: object) -> bytes:
    """One document as bytes: ASCII JSON and one newline."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode("ascii") + b"\n"


def decode_result(data: bytes, command: str) -> dict[str, Any]:
    """Check the head of a result document.

    :raises ProtocolError: on anything but one document of this version for ``command``.
    """
    if len(data) > RESULT_BYTES_MAX:
        raise ProtocolError("result document is too large")
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("result is not one JSON document") from error
    if not isinstance(value, dict):
        raise ProtocolError("result is not an object")
    if value.get("version") != PROTOCOL_VERSION or value.get("command") != command:
        raise ProtocolError("result is of another version or command")
    if not isinstance(value.get("ok"), bool) or (value["ok"] == ("error" in value)):
        raise ProtocolError("result has no verdict")
    if not value["ok"]:
        _check_error(value["error"])
    return cast("dict[str, Any]", value)


def _check_error(error: object) -> None:
    if not isinstance(error, dict):
        raise ProtocolError("result has a malformed error")
    texts = (error.get("reason"), error.get("message"))
    if not all(isinstance(text, str) and text for text in texts):
        raise ProtocolError("result has a malformed error")
    # 0 would make a Job complete that did not do its work; above 255 the system takes a part of it.
    if type(error.get("exitCode")) is not int or not 0 < error["exitCode"] < 256:
        raise ProtocolError("result has a malformed error")


def _no_constant(name: str) -> Any:
    raise ValueError(name)
