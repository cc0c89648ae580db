"""``python -m ptahk.runner --job DIR``: the first process of every Job (C-9.1 to C-9.5).

Reads the Job (its document is ``DIR/job.json``, or in a Pod ``PTAHK_JOB``), refuses by the one
guard, starts the executor with the URL in its environment, imposes the deadline, and prints
exactly one frame.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ptahk
from ptahk.errors import InternalError, OutcomeUnknown, PtahkError, Refused, UsageError
from ptahk.runner import guard
from ptahk.runner.child import STDERR_BYTES_MAX, Child, Ended
from ptahk.runner.inputs import Inputs, read_inputs, read_spec
from ptahk.runner.output import redacted, termination_path, write_all, write_summary
from ptahk.runner.signals import Stop
from ptahk.wire import digest, dsn, frame, jobspec, protocol
from ptahk.wire.jobspec import JobSpec
from ptahk.wire.protocol import ErrorDocument, FramePayload
from ptahk.wire.redact import Redactor

EXECUTOR_ARGV: Final = (sys.executable, "-I", "-m", "ptahk.executor")
_MARGIN_S: Final = 5.0
"""The child's own deadline is this much, or a tenth, earlier, so that it can still report."""


@dataclass(slots=True)
class Attempt:
    """What happened so far; the frame is made of it, whatever comes."""

    spec: JobSpec
    start_nonce: str
    began_s: float
    target_identity: str | None = None
    child_started: bool = False
    result: dict[str, Any] | None = None
    error: ErrorDocument | None = None

    def refuse(self, error: PtahkError) -> None:
        self.error = error_document(error)

    @property
    def mutation_started(self) -> bool:
        """True unless no mutating statement can have been sent."""
        if not (self.spec.mutates and self.child_started):
            return False
        return self.result is None or self.result.get("mutationStarted") is not False

    @property
    def certain(self) -> bool:
        if not self.mutation_started:
            return True
        return self.result is not None and self.result.get("result") not in (None, "unknown")

    @property
    def exit_code(self) -> int:
        return 0 if self.error is None else self.error["exitCode"]


def error_document(error: PtahkError) -> ErrorDocument:
    """A refusal or failure as the frame carries it."""
    out: ErrorDocument = {
        "reason": error.reason,
        "message": error.message,
        "exitCode": error.exit_code,
    }
    if error.field is not None:
        out["field"] = error.field
    if error.hint is not None:
        out["hint"] = error.hint
    return out


def main(argv: Sequence[str] | None = None, executor_argv: Sequence[str] | None = None) -> int:
    """Run one Job.

    :param argv: ``--job DIR``.
    :param executor_argv: the child's command line (tests); default is our own executor.
    :returns: the exit code; 0 only where the result is ok.
    """
    if sys.flags.optimize:
        print("error: ptahk refuses to run under -O", file=sys.stderr)
        return InternalError.exit_code
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 2 or arguments[0] != "--job":
        print("usage: python -m ptahk.runner --job DIR", file=sys.stderr)
        return UsageError.exit_code
    stop = Stop()
    stop.install()
    directory, environment = arguments[1], dict(os.environ)
    try:
        spec = read_spec(directory, environment)
    except PtahkError as error:
        # Without the operation id there is no frame to write.
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code
    # os.urandom is what `secrets` calls; importing that would load hmac, random and base64 too.
    attempt = Attempt(spec, os.urandom(16).hex(), time.monotonic())
    redactor = Redactor.of_environment(environment)
    try:
        ready = _prepare(attempt, directory, environment)
        _run(attempt, ready, environment, executor_argv or EXECUTOR_ARGV, stop, redactor)
    except PtahkError as error:
        attempt.refuse(error)
    except Exception as error:
        attempt.refuse(InternalError(f"runner: unhandled {type(error).__name__}"))
    return _report(attempt, directory, environment, redactor)


@dataclass(frozen=True, slots=True)
class Ready:
    """What was checked and is to be given to the child."""

    command: dict[str, Any]
    urls: dict[str, str]


def _prepare(attempt: Attempt, directory: str, environment: Mapping[str, str]) -> Ready:
    """Check everything that can be checked without the database."""
    spec = attempt.spec
    inputs = read_inputs(directory, spec)
    url = environment.get(jobspec.DATABASE_URL)
    if not url:
        raise UsageError(
            f"no database URL ({jobspec.DATABASE_URL} is not set)", reason="NoDatabaseURL"
        )
    target = dsn.read(url, engine=spec.engine, os_user=_user_name()).identity
    attempt.target_identity = digest.target_identity_digest(target.bound)
    found = guard.Found(
        target_identity=target.digest,
        engine=target.engine,
        plan_digest=_plan_digest(inputs),
        source_digest=_source_digest(inputs),
        sequence=_sequence(spec, inputs),
        snapshot_digest=_snapshot_digest(spec, environment),
    )
    guard.admit(spec, found, time.time())
    urls = {jobspec.DATABASE_URL: url}
    if environment.get(jobspec.DEV_DATABASE_URL):
        urls[jobspec.DEV_DATABASE_URL] = environment[jobspec.DEV_DATABASE_URL]
    plan = inputs.plan_bytes
    command: dict[str, Any] = {
        "version": jobspec.PROTOCOL_VERSION,
        "command": spec.operation.lower(),
        "job": jobspec.to_document(spec),
        "startNonce": attempt.start_nonce,
        "targetIdentity": attempt.target_identity,
        "source": inputs.source,
        "planBytes": None if plan is None else b64encode(plan).decode("ascii"),
    }
    return Ready(command, urls)


def _plan_digest(inputs: Inputs) -> str | None:
    plan = inputs.plan_bytes
    return None if plan is None else digest.plan_content_digest(plan)


def _sequence(spec: JobSpec, inputs: Inputs) -> tuple[str, str] | None:
    """What the bytes of a migration's plan say of their sequence and history; None: nothing."""
    if spec.migration is None or inputs.plan_bytes is None:
        return None
    try:
        found = json.loads(inputs.plan_bytes)["sequence"]
        return digest.sequence_digest(found["files"]), str(found["history"])
    except (ValueError, KeyError, TypeError):
        return None


def _source_digest(inputs: Inputs) -> str | None:
    if inputs.source is None:
        return None
    return digest.source_digest((item["name"], item["text"]) for item in inputs.source["files"])


def _snapshot_digest(spec: JobSpec, environment: Mapping[str, str]) -> str | None:
    """C-14.3: what shapes this process, read again here; nothing on a cluster."""
    if spec.local_snapshot_digest is None:
        return None
    return digest.local_snapshot_digest(
        jobspec.local_snapshot(
            interpreter=sys.executable,
            version=ptahk.__version__,
            user=_user_name() or str(os.geteuid()),
            host=os.uname().nodename,
            environment=environment,
        )
    )


def _user_name() -> str | None:
    """The operating-system user that libpq falls back to; None where the system names none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def _run(
    attempt: Attempt,
    ready: Ready,
    environment: Mapping[str, str],
    executor_argv: Sequence[str],
    stop: Stop,
    redactor: Redactor,
) -> None:
    """Start the child and take its result in."""
    spec = attempt.spec
    alive = environment.get(jobspec.ALIVE_FD)
    grace_s = spec.termination_grace_period_seconds * 2 / 3
    if stop.requested:
        raise Refused("stopped on request before the child was started", reason="Stopped")
    # The last thing before the exec: nothing above may have used the time up (I12).
    budget_s = guard.within_deadlines(spec, time.time())
    command = {**ready.command, "budgetSeconds": budget_s - min(_MARGIN_S, budget_s / 10)}
    try:
        child = Child(
            executor_argv,
            {**jobspec.scrubbed(environment), **ready.urls},
            int(alive) if alive else None,
        )
    except OSError as error:
        raise InternalError(f"the executor cannot be started: {error.strerror}") from None
    attempt.child_started = True
    ended = child.run(
        protocol.encode(command),
        budget_s=budget_s,
        grace_s=grace_s,
        stop=stop,
        size_max=protocol.RESULT_BYTES_MAX,
    )
    _take(attempt, ended, redactor)


def _take(attempt: Attempt, ended: Ended, redactor: Redactor) -> None:
    if ended.too_large:
        raise _lost(attempt, "its result is larger than a frame may be", "ResultTooLarge")
    try:
        result = protocol.decode_result(ended.stdout, attempt.spec.operation.lower())
    except protocol.ProtocolError:
        how = "at its deadline" if ended.overran else f"with exit code {ended.exit_code}"
        last = _last_line(ended, redactor)
        detail = f" ({last})" if last else ""
        raise _lost(attempt, f"it ended {how}{detail}", "ExecutorLost") from None
    attempt.result = redacted(result, redactor)
    if not result["ok"]:
        attempt.error = redacted(result["error"], redactor)
        if attempt.error["exitCode"] == InternalError.exit_code:
            attempt.error["hint"] = _last_line(ended, redactor)
    elif ended.exit_code != 0:
        # B9: a result and an exit code that disagree are no result.
        attempt.result = None
        raise _lost(attempt, f"exit code {ended.exit_code} beside a good result", "ExecutorLost")


def _last_line(ended: Ended, redactor: Redactor) -> str:
    """What a crashed child said last: bounded and redacted."""
    kept = ended.stderr
    if len(kept) >= STDERR_BYTES_MAX:
        kept = kept.partition(b"\n")[2]  # what was cut may begin in the middle of a secret
    text = kept.decode("utf-8", "replace").strip()
    return redactor.text(text.rsplit("\n", 1)[-1], 300)


def _lost(attempt: Attempt, why: str, reason: str) -> PtahkError:
    text = f"the executor left no usable result: {why}"
    if attempt.spec.mutates:
        return OutcomeUnknown(
            text, reason=reason, hint="the proof reads from the database's ledger what happened"
        )
    return InternalError(text, reason=reason)


def _report(
    attempt: Attempt, directory: str, environment: Mapping[str, str], redactor: Redactor
) -> int:
    """Print the one frame and write the summary; the exit code is the frame's."""
    spec = attempt.spec
    try:
        data = frame.encode(spec.operation_id, spec.epoch, _payload(attempt, environment))
    except PtahkError as error:  # too large: say so in a frame that is not
        attempt.result = None
        attempt.error = error_document(_lost(attempt, error.message, error.reason))
        data = frame.encode(spec.operation_id, spec.epoch, _payload(attempt, environment))
    code = attempt.exit_code
    try:
        write_all(1, data)
        frame_digest: str | None = frame.digest_of(data)
    except OSError:
        frame_digest = None
        code = code or OutcomeUnknown.exit_code
    summary = frame.Summary(
        operation_id=spec.operation_id,
        mutation_started=attempt.mutation_started,
        certain=attempt.certain,
        frame_digest=frame_digest,
        error=None if attempt.error is None else redactor.text(attempt.error["reason"]),
    )
    write_summary(termination_path(directory, environment), summary)
    return code


def _payload(attempt: Attempt, environment: Mapping[str, str]) -> FramePayload:
    spec = attempt.spec
    return {
        "version": jobspec.PROTOCOL_VERSION,
        "operationId": spec.operation_id,
        "epoch": spec.epoch,
        "operation": spec.operation,
        "attempt": spec.attempt,
        "podUid": environment.get(jobspec.POD_UID, ""),
        "startNonce": attempt.start_nonce,
        "mutationStarted": attempt.mutation_started,
        "outcomeCertain": attempt.certain,
        "exitCode": attempt.exit_code,
        "targetIdentity": attempt.target_identity,
        "durationSeconds": round(time.monotonic() - attempt.began_s, 3),
        "error": attempt.error,
        "result": attempt.result,
    }


if __name__ == "__main__":
    sys.exit(main())
