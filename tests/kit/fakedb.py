"""A database and its executor in memory: an attempt ledger, a lock, objects, and nothing else.

Objects are lines of text; the declaration is a list of lines; a plan creates the missing and drops
the surplus ones, one statement a line. A line that starts with ``!`` runs outside a transaction.
What matters is exact: the order lock, identity, state, ledger, statements of C-9.8, the refusals
of C-6.11, and the tombstone. It speaks ``wire.protocol`` inside real frames.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine.model import source
from ptahk.engine.model.fields import parse_time
from ptahk.engine.model.job import JobOrder
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY
from ptahk.wire import canonical, digest, frame

TARGET = "sha256:" + "7" * 64
SERVER = "postgresql/1/1"


class Died(Exception):
    """The process ends without a frame."""


class Refused(Exception):
    """A check before the ledger row refused."""

    def __init__(self, reason: str, message: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.reason, self.message, self.exit_code = reason, message, exit_code


Step = Callable[[JobOrder, str], None]
"""Called with the name of each durable step of an executor; raises Died to end it there."""


@dataclass
class FakeDatabase:
    """Everything that survives a process."""

    now: Callable[[], datetime]
    live: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: list[tuple[str, str]] = field(default_factory=list)
    """(operation id, statement) of every effect, in order."""
    identity: str = SERVER
    target: str = TARGET
    lock_holder: str | None = None
    down: bool = False
    clock_offset_s: float = 0.0
    creatable: bool = True
    binding: str | None = None
    frozen: list[dict[str, Any]] = field(default_factory=list)
    plans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Plan digest → statements, for Jobs without a plan file."""
    names: dict[str, str] = field(default_factory=dict)
    """JobSpec operation → the claim's type, where a family has words of its own."""
    step: Step = lambda order, name: None
    starts: int = 0

    def work(self, order: JobOrder, pod: str) -> tuple[bytes, bytes | None]:
        """One process of a Job: its log and its termination message."""
        self.starts += 1
        nonce = f"{self.starts:032x}"
        run = _Run(self, order, nonce)
        try:
            result = run.result()
        except Died:
            return b"noise of a process that ended\n", None
        error = result.get("error")
        payload = {
            "version": 1,
            "operationId": order.spec.operation_id,
            "epoch": order.spec.epoch,
            "operation": self.names.get(order.spec.operation, order.spec.operation),
            "attempt": order.spec.attempt,
            "podUid": pod,
            "startNonce": nonce,
            "mutationStarted": run.mutation_started,
            "outcomeCertain": error is None,
            "exitCode": 0 if error is None else error["exitCode"],
            "targetIdentity": self.target,
            "durationSeconds": 0.1,
            "error": error,
            "result": result,
        }
        log = b"noise\n" + frame.encode(order.spec.operation_id, order.spec.epoch, payload)
        return log, None

    def fingerprint(self, lines: list[str]) -> str:
        return digest.state_fingerprint(sorted(lines))


@dataclass
class _Run:
    db: FakeDatabase
    order: JobOrder
    nonce: str
    mutation_started: bool = False

    def result(self) -> dict[str, Any]:
        spec, db = self.order.spec, self.db
        command = spec.operation.lower()
        document: dict[str, Any] = {
            "version": 1,
            "command": command,
            "ok": True,
            "executorVersion": "fake-1",
            "startNonce": self.nonce,
            "serverIdentity": None,
            "serverVersion": 170000,
            "timeline": 1,
            "targetIdentity": db.target,
            "ledger": None,
            "clockOffsetSeconds": None,
        }
        try:
            self._step("start")
            self._connect(document)
            getattr(self, f"_{command}")(document)
        except Refused as refused:
            document["ok"] = False
            document["error"] = {
                "reason": refused.reason,
                "message": refused.message,
                "exitCode": refused.exit_code,
            }
            if command == "apply":
                document.setdefault("result", "refused")
                document.update(
                    statementsTotal=0, statementsDone=0, mutationStarted=False, row=None
                )
        return document

    def _step(self, name: str) -> None:
        self.db.step(self.order, name)

    def _connect(self, document: dict[str, Any]) -> None:
        db, spec = self.db, self.order.spec
        if db.down:
            raise Refused("Unreachable", "the server does not answer", 6)
        document["serverIdentity"] = db.identity
        document["clockOffsetSeconds"] = db.clock_offset_s
        if spec.operation in ("Plan", "Apply", "Prove") and db.lock_holder is not None:
            document["ledger"] = self._ledger()
            raise Refused("LockHeld", f"the lock is held by {db.lock_holder}")
        if spec.server_identity not in (None, db.identity):
            raise Refused("ServerIdentityMismatch", f"the server is {db.identity}")
        document["ledger"] = self._ledger()

    def _ledger(self) -> dict[str, Any]:
        rows = self.db.rows.values()
        return {
            "present": bool(self.db.rows),
            "writable": bool(self.db.rows),
            "creatable": self.db.creatable,
            "highestNumber": max((row["number"] for row in rows), default=0),
            "binding": self.db.binding,
            "unfinished": [dict(row) for row in rows if row["state"] == "started"],
            "frozen": list(self.db.frozen),
        }

    def _declared(self) -> list[str]:
        data = next(item.data for item in self.order.inputs if item.name == SOURCE_KEY)
        text = "\n".join(text for _, text in source.decode(data))
        return [line for line in text.splitlines() if line]

    def _observe(self, document: dict[str, Any]) -> None:
        live = self.db.live
        document["observedFingerprint"] = self.db.fingerprint(live)
        document["scopeFingerprint"] = self.db.fingerprint(live)
        if self.order.spec.declaration:
            document["declaration"] = "\n".join(live)
        if any(item.name == SOURCE_KEY for item in self.order.inputs):
            document["drift"] = self._drift()

    def _drift(self) -> dict[str, Any]:
        missing = [line for line in self._declared() if line not in self.db.live]
        surplus = [line for line in self.db.live if line not in self._declared()]
        items = [
            {"category": "missing", "object": line, "severity": "safe"} for line in missing
        ] + [{"category": "surplus", "object": line, "severity": "warning"} for line in surplus]
        counts = {"missing": len(missing), "surplus": len(surplus)}
        highest = "warning" if surplus else "safe" if missing else None
        return {
            "digest": digest.drift_digest(items),
            "counts": {key: value for key, value in counts.items() if value},
            "highest": highest,
            "items": items,
        }

    def _plan(self, document: dict[str, Any]) -> None:
        declared, live = self._declared(), self.db.live
        statements = [f"create {line}" for line in declared if line not in live]
        statements += [f"drop {line}" for line in live if line not in declared]
        raw = canonical.encode({"version": 1, "statements": statements})
        self._observe(document)
        document.update(
            planBytes=source.base64_text(source.pack(raw)),
            planDigest=digest.plan_content_digest(raw),
            desiredFingerprint=self.db.fingerprint(declared),
            summary={
                "scope": ["public"],
                "statements": len(statements),
                "severities": {},
                "destructive": any(item.startswith("drop ") for item in statements),
                "privileges": False,
                "setup": [],
                "sizes": {},
                "notes": [],
                "timingsSeconds": {},
            },
        )

    def _statements(self) -> tuple[str, ...]:
        spec = self.order.spec
        for item in self.order.inputs:
            if item.name == PLAN_KEY:
                raw = source.unpack(item.data, 1 << 20)
                assert digest.plan_content_digest(raw) == spec.plan_digest
                return tuple(json.loads(raw)["statements"])
        if spec.explicit_key and spec.rebind:
            self.db.binding = spec.coordination_digest
            return ()
        return self.db.plans[spec.plan_digest or ""]

    def _apply(self, document: dict[str, Any]) -> None:
        db, spec = self.db, self.order.spec
        statements = self._statements()
        live = db.fingerprint(db.live)
        if spec.desired_fingerprint == live:
            document.update(
                result="alreadyConverged", statementsTotal=len(statements), statementsDone=0,
                mutationStarted=False, row=None,
            )  # fmt: skip
            return
        if spec.observed_fingerprint not in (None, live):
            document["result"] = "stale"
            text = f"the state is not {spec.observed_fingerprint} any more"
            raise Refused("StalePlan", text)
        self._start(len(statements))
        row = db.rows[spec.operation_id]
        self.mutation_started = True
        self._step("started")
        for statement in statements:
            outside = "!" in statement
            if outside:
                row["statementRunning"] = row["statementsDone"] + 1
                self._step("running")
            self._effect(statement)
            row["statementsDone"] += 1
            row["statementRunning"] = None
            self._step("statement")
        row["state"], row["outcome"] = "finished", "applied"
        self._step("finished")
        document.update(
            result="applied", statementsTotal=len(statements), statementsDone=len(statements),
            mutationStarted=True, row=dict(row),
        )  # fmt: skip

    def _effect(self, statement: str) -> None:
        verb, _, line = statement.partition(" ")
        self.db.effects.append((self.order.spec.operation_id, statement))
        if verb == "create":
            self.db.live.append(line)
        else:
            self.db.live.remove(line)

    def _start(self, total: int) -> None:
        """C-6.11, in one transaction."""
        db, spec = self.db, self.order.spec
        if spec.operation_id in db.rows:
            raise Refused("AttemptExists", "the ledger has a row of this operation")
        number = spec.number or 0
        if any(row["number"] >= number for row in db.rows.values()):
            raise Refused("StaleEpoch", "a number as high is recorded")
        if db.now() + timedelta(seconds=db.clock_offset_s) >= parse_time(spec.execution_not_after):
            raise Refused("DispatchExpired", "the deadline has passed")
        db.rows[spec.operation_id] = self._row(spec.operation_id, total, "started", self.nonce)

    def _row(self, operation_id: str, total: int, state: str, nonce: str | None) -> dict[str, Any]:
        spec = self.order.spec
        fenced = spec.fenced
        number = int(fenced.epoch.split(".")[0]) if fenced is not None else spec.number
        return {
            "operationId": operation_id,
            "storeUid": spec.store_uid,
            "storeKind": spec.store_kind,
            "serverIdentity": self.db.identity,
            "coordinationDigest": spec.coordination_digest,
            "number": number,
            "epoch": fenced.epoch if fenced is not None else spec.epoch,
            "startNonce": nonce,
            "planDigest": spec.plan_digest,
            "notAfter": spec.execution_not_after,
            "state": state,
            "statementsTotal": total,
            "statementsDone": 0,
            "statementRunning": None,
            "outcome": None,
            "resultDigest": None,
            "startedAt": None,
            "finishedAt": None,
            "fencedAt": None,
        }

    def _prove(self, document: dict[str, Any]) -> None:
        db, fenced = self.db, self.order.spec.fenced
        assert fenced is not None
        row = db.rows.get(fenced.operation_id)
        found = None if row is None else dict(row)
        if row is None:
            db.rows[fenced.operation_id] = self._row(fenced.operation_id, 0, "fenced", None)
        elif row["state"] == "started":
            row["state"] = "fenced"
        document["fence"] = {"tombstone": True, "row": found}
        self._step("fenced")
        if any(item.name == SOURCE_KEY for item in self.order.inputs):
            self._plan(document)
        elif not self.db.plans:
            raise Refused("NoSource", "a plan needs a declaration")
