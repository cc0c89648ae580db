"""Runs single operations as real runner and executor processes, without an engine."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gzip
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.wire import digest, frame, jobspec
from ptahk.wire.jobspec import FencedAttempt, JobPolicy, JobSpec

REALM = "sha256:" + "a" * 64
OTHER_REALM = "sha256:" + "b" * 64
RUNNER = (sys.executable, "-m", "ptahk.runner")
Source = str | Sequence[tuple[str, str]]


def at(seconds: float) -> str:
    """RFC 3339 of a moment relative to now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


@dataclass(frozen=True)
class Done:
    """One operation's frame."""

    spec: JobSpec
    frame: dict[str, Any]
    exit_code: int
    output: bytes = field(repr=False)
    termination: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        """The executor's document."""
        found = self.frame["result"]
        assert isinstance(found, dict), self.frame["error"]
        return found

    @property
    def reason(self) -> str | None:
        """Of the error, if there was one."""
        error = self.frame["error"]
        return None if error is None else str(error["reason"])

    @property
    def message(self) -> str:
        """Of the error."""
        return str(self.frame["error"]["message"])

    @property
    def plan_bytes(self) -> bytes:
        """Of a plan."""
        return gzip.decompress(base64.b64decode(self.result["planBytes"]))

    @property
    def statements(self) -> list[dict[str, Any]]:
        """Of a plan."""
        found = json.loads(self.plan_bytes)["statements"]
        assert isinstance(found, list)
        return found


@dataclass
class Started:
    """A running operation."""

    spec: JobSpec
    process: subprocess.Popen[bytes]
    folder: Path

    def wait(self) -> Done:
        """Its frame, after it has ended."""
        output, errors = self.process.communicate(timeout=120)
        decoder = frame.Decoder(self.spec.operation_id, self.spec.epoch)
        decoder.feed(output)
        found = decoder.finish()
        assert isinstance(found, frame.Frame), (found, output[-500:], errors[-2000:])
        termination = json.loads((self.folder / "termination").read_bytes())
        code = self.process.returncode
        return Done(self.spec, found.document, code, output + errors, termination)


@dataclass
class Operator:
    """One store's view of one database: numbers its epochs, starts its operations."""

    url: str
    folder: Path
    store_uid: str = field(default_factory=lambda: secrets.token_hex(8))
    environment: Mapping[str, str] = field(default_factory=dict)
    runner: Sequence[str] = RUNNER
    policy: JobPolicy = field(default_factory=JobPolicy)
    number: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every JobSpec."""
    running: list[Started] = field(default_factory=list)

    def start(
        self,
        operation: str,
        *,
        source: Source | None = None,
        plan: bytes | None = None,
        deadline_s: int = 60,
        grace_s: int = 9,
        url: str | None = None,
        **changes: Any,
    ) -> Started:
        """Start an operation; ``changes`` are fields of its JobSpec."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))
        given: dict[str, Any] = {
            "operation": operation,
            "family": "schema",
            "engine": "postgresql",
            "operation_id": secrets.token_hex(16),
            "attempt": 1,
            "job_name": f"ptahk-op-{operation.lower()}-1",
            "holder": REALM,
            "store_uid": self.store_uid,
            "store_kind": "local",
            "resource_uid": "resource",
            "coordination_digest": REALM,
            "dispatch_not_after": at(deadline_s / 2),
            "execution_not_after": at(deadline_s),
            "active_deadline_seconds": deadline_s,
            "termination_grace_period_seconds": grace_s,
            "policy": self.policy,
            "inputs": self._inputs(folder, source, plan),
        }
        if operation != "Observe" and "epoch" not in changes:
            self.number += 1
            given["epoch"] = f"{self.number}.{secrets.token_hex(8)}"
        given["known_number"] = self.number
        if operation == "Apply":
            given["plan_coordination_digest"] = changes.get("coordination_digest", REALM)
        if plan is not None:
            given["plan_digest"] = digest.plan_content_digest(plan)
        spec = JobSpec(**(given | dict(self.defaults) | changes))
        (folder / jobspec.JOB_FILE).write_bytes(jobspec.encode(spec))
        environment = {
            **jobspec.scrubbed(os.environ),
            jobspec.DATABASE_URL: url or self.url,
            **self.environment,
        }
        process = subprocess.Popen(
            [*self.runner, "--job", str(folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started = Started(spec, process, folder)
        self.running.append(started)
        return started

    @staticmethod
    def _inputs(folder: Path, source: Source | None, plan: bytes | None) -> dict[str, str]:
        found: dict[str, bytes] = {}
        if source is not None:
            files = [("schema.sql", source)] if isinstance(source, str) else source
            bundle = {"files": [{"name": name, "text": text} for name, text in files]}
            found[jobspec.SOURCE_FILE] = gzip.compress(json.dumps(bundle).encode())
        if plan is not None:
            found[jobspec.PLAN_FILE] = gzip.compress(plan)
        for name, data in found.items():
            (folder / name).write_bytes(data)
        return {name: jobspec.input_digest(data) for name, data in found.items()}

    def policy_with(self, **changes: Any) -> JobPolicy:
        """Its policy, with other values."""
        return dataclasses.replace(self.policy, **changes)

    def observe(self, source: Source | None = None, **changes: Any) -> Done:
        """Observe to its end."""
        return self.start("Observe", source=source, **changes).wait()

    def plan(self, source: Source, **changes: Any) -> Done:
        """Plan to its end."""
        return self.start("Plan", source=source, **changes).wait()

    def start_apply(self, planned: Done, **changes: Any) -> Started:
        """Start what was planned."""
        result = planned.result
        given: dict[str, Any] = {
            "plan": planned.plan_bytes,
            "target_identity": planned.frame["targetIdentity"],
            "server_identity": result["serverIdentity"],
            "observed_fingerprint": result["observedFingerprint"],
            "desired_fingerprint": result["desiredFingerprint"],
            "scope": tuple(result["summary"]["scope"]),
        }
        return self.start("Apply", **(given | changes))

    def apply(self, planned: Done, **changes: Any) -> Done:
        """Apply to its end."""
        return self.start_apply(planned, **changes).wait()

    def prove(self, attempt: JobSpec, planned: Done, source: Source, **changes: Any) -> Done:
        """Fence an attempt, observe and plan."""
        assert attempt.epoch is not None and attempt.plan_digest is not None
        fenced = FencedAttempt(
            attempt.operation_id,
            attempt.epoch,
            attempt.plan_digest,
            attempt.execution_not_after,
        )
        given: dict[str, Any] = {
            "epoch": attempt.epoch,
            "target_identity": planned.frame["targetIdentity"],
            "server_identity": planned.result["serverIdentity"],
            "fenced": fenced,
        }
        return self.start("Prove", source=source, **(given | changes)).wait()

    def converge(self, source: Source, **changes: Any) -> tuple[Done, Done, Done]:
        """Plan, apply and prove; every one must end well and the proof must find nothing left."""
        planned = self.plan(source, **changes)
        assert planned.reason is None, planned.frame["error"]
        applied = self.apply(planned, **changes)
        assert applied.reason is None, applied.frame["error"]
        proved = self.prove(applied.spec, planned, source, **changes)
        assert proved.reason is None, proved.frame["error"]
        assert proved.statements == [], proved.statements
        return planned, applied, proved

    def end(self) -> None:
        """Leave no process behind."""
        for started in self.running:
            with contextlib.suppress(ProcessLookupError):
                started.process.kill()
            started.process.wait()
            for stream in (started.process.stdout, started.process.stderr):
                if stream is not None:
                    stream.close()


@contextlib.contextmanager
def operator(url: str, folder: Path, **changes: Any) -> Iterator[Operator]:
    """An operator whose processes end with the block."""
    made = Operator(url, folder, **changes)
    try:
        yield made
    finally:
        made.end()


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
