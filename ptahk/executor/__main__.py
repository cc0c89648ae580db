"""``python -m ptahk.executor``: one command document in, one database session, one result out.

The input stays open; when it ends the runner is gone, and so is our business here (I4).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pwd
import signal
import sys
import threading
from types import FrameType
from typing import Any, Final

from ptahk import __version__
from ptahk.errors import InternalError, PtahkError, UsageError
from ptahk.executor.budget import Budget
from ptahk.wire import jobspec, protocol
from ptahk.wire.jobspec import JobSpec

COMMAND_BYTES_MAX: Final = 96 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


def main() -> int:
    """Run one command. :returns: the exit code, 0 only where the result is ok."""
    if sys.flags.optimize:
        print("error: ptahk refuses to run under -O", file=sys.stderr)
        return InternalError.exit_code
    # One command, then the process ends: looking for cycles among a schema's facts costs more than
    # reading them, and bounded inputs bound the memory.
    gc.disable()
    # The live facts are read while the declaration is loaded: neither thread may keep the other
    # from the next answer for long.
    sys.setswitchinterval(0.0005)
    try:
        command = _read_command()
        spec = jobspec.from_document(command["job"])
        budget = Budget(float(command["budgetSeconds"]))
    except (ValueError, KeyError, TypeError) as error:
        print(f"error: not a command document ({type(error).__name__})", file=sys.stderr)
        return InternalError.exit_code
    _watch(budget)
    result = _head(command, spec)
    try:
        url = _url(spec, jobspec.DATABASE_URL)
        dev_url = _url(spec, jobspec.DEV_DATABASE_URL, required=False)
        # Late: the driver and the planner are most of the start.
        from ptahk.executor.operations import run

        assert url is not None, "required"
        run(command, spec, budget, url, dev_url, result)
    except PtahkError as error:
        result["error"] = _error(error)
    except Exception as error:  # a fault of our own; the runner shows its name, never its text
        _trace()
        result["error"] = _error(
            InternalError(f"executor: unhandled {type(error).__name__} during {spec.operation}")
        )
    result["ok"] = "error" not in result
    _write(protocol.encode(result))
    return 0 if result["ok"] else int(result["error"]["exitCode"])


def _trace() -> None:
    """Where it happened, for the runner's bounded and redacted tail of our error output."""
    import traceback

    traceback.print_exc(limit=-12)


def _read_command() -> dict[str, Any]:
    data = bytearray()
    while not data.endswith(b"\n"):
        chunk = os.read(0, _CHUNK)
        if not chunk or len(data) > COMMAND_BYTES_MAX:
            raise ValueError("no whole line")
        data += chunk
    command = json.loads(data)
    if command["version"] != jobspec.PROTOCOL_VERSION:
        raise ValueError("another protocol version")
    if command["command"] not in protocol.COMMANDS:
        raise ValueError("an unknown command")
    return dict(command)


def _watch(budget: Budget) -> None:
    """Stop on SIGTERM, and when the runner is gone."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        budget.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)

    def until_end_of_input() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                continue
        budget.request_stop()

    threading.Thread(target=until_end_of_input, daemon=True).start()


def _head(command: dict[str, Any], spec: JobSpec) -> dict[str, Any]:
    head: dict[str, Any] = {
        "version": jobspec.PROTOCOL_VERSION,
        "command": command["command"],
        "ok": False,
        "executorVersion": __version__,
        "startNonce": command["startNonce"],
        "serverIdentity": None,
        "serverVersion": None,
        "timeline": None,
        "targetIdentity": command.get("targetIdentity"),
        "ledger": None,
        "clockOffsetSeconds": None,
    }
    if spec.operation == "Apply":
        head |= {
            "result": "refused",
            "statementsTotal": 0,
            "statementsDone": 0,
            "mutationStarted": False,
            "row": None,
            "notes": [],
        }
    return head


def _url(spec: JobSpec, name: str, required: bool = True) -> str | None:
    """The URL from the environment, where our reading and the driver's agree (C-8.5)."""
    url = os.environ.pop(name, None)
    if not url:
        if required:
            raise UsageError(f"no database URL ({name} is not set)", reason="NoDatabaseURL")
        return None
    try:
        user: str | None = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = None
    # Late: the driver is most of the start.
    from ptahk.executor import dialect

    dialect.of(spec.engine).check_url(url, name, spec, user)
    return url


def _error(error: PtahkError) -> dict[str, Any]:
    out: dict[str, Any] = {
        "reason": error.reason,
        "message": error.message,
        "exitCode": error.exit_code,
    }
    for name in ("field", "hint", "sqlstate", "file", "line"):
        value = getattr(error, name, None)
        if value is not None:
            out[name] = value
    return out


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The result is out. Freeing a schema's facts one by one would only keep the runner waiting.
    os._exit(code)
