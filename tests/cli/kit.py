"""Runs ptahk as a real process, reads its documents, and gives it a terminal where it matters."""

from __future__ import annotations

import errno
import functools
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
PTAHK = (sys.executable, "-m", "ptahk")
WAIT_S = 120.0
"""No command of these tests takes this long, on however slow a machine."""

_FILES = {
    "Plan": "plan",
    "DriftReport": "drift-report",
    "ApplyResult": "apply-result",
    "Status": "status",
    "History": "history",
    "Census": "census",
    "LockReport": "lock-report",
    "Approval": "approval",
    "Acknowledgement": "acknowledgement",
    "Digest": "digest",
    "LedgerSql": "ledger-sql",
    "Validation": "validation",
    "DirectoryChange": "directory-change",
    "Migration": "migration",
    "MigrationStatus": "migration-status",
    "Error": "error",
}


@functools.cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    """The validator of one kind of document."""
    schema = json.loads((SCHEMAS / f"{_FILES[kind]}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, registry=Registry())


@dataclass(frozen=True)
class Answer:
    """How one process ended."""

    code: int
    out: str
    err: str

    def document(self, kind: str) -> dict[str, Any]:
        """Standard output as one document of ``kind``, validated against its schema."""
        value: dict[str, Any] = json.loads(self.out)
        assert value["kind"] == kind, (value, self.err)
        validator(kind).validate(value)
        return value

    def refusal(self, code: int, reason: str | None = None) -> str:
        """The one error line of a command that failed with ``code`` (and gave ``reason``)."""
        assert self.code == code, self
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self
        assert "Traceback" not in self.err, self
        if reason is not None:
            assert self.document("Error")["reason"] == reason, self
        return lines[0]


@dataclass
class Ptahk:
    """A user of ptahk: a state directory and an environment."""

    state: Path
    environment: dict[str, str] = field(default_factory=dict)
    cwd: Path = ROOT
    secrets: tuple[str, ...] = ()
    """Texts that no output may hold; every answer is checked."""
    started: list[subprocess.Popen[str]] = field(default_factory=list, repr=False)

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a process."""
        kept = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT")
        found = {name: os.environ[name] for name in kept if name in os.environ}
        return {
            **found,
            "PTAHK_STATE": str(self.state),
            "PYTHONPATH": str(ROOT),
            **self.environment,
            **(extra or {}),
        }

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start a process. ``finish`` waits for it; ``end`` kills what no ``finish`` waited for."""
        process = subprocess.Popen(
            [*PTAHK, *arguments],
            env=self.env(env),
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Kill what a failing test left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def finish(self, process: subprocess.Popen[str]) -> Answer:
        """Wait for a process that ``start`` gave."""
        try:
            out, err = process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"ptahk did not end: {out}{err}") from None
        answer = Answer(process.returncode, out, err)
        for secret in self.secrets:
            assert secret not in out + err, "a secret was printed"
        return answer

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> Answer:
        """Run one command to its end, without a terminal."""
        process = subprocess.Popen(
            [*PTAHK, *arguments],
            env=self.env(env),
            cwd=self.cwd,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if stdin is not None:
            assert process.stdin is not None
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        return self.finish(process)

    def terminal(self, *arguments: str, **env: str) -> Terminal:
        """Run one command on a pseudo-terminal."""
        return Terminal([*PTAHK, *arguments], self.env({"TERM": "xterm-256color", **env}), self.cwd)


class Terminal:
    """A process on a pseudo-terminal, and what it printed so far."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._pid, self._handle = pty.fork()
        if self._pid == 0:
            try:
                os.chdir(cwd)
                os.execve(argv[0], list(argv), dict(env))
            finally:
                os._exit(127)
        self.raw = ""
        self.code: int | None = None

    @property
    def text(self) -> str:
        """What was printed, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.raw).replace("\r\n", "\n")

    def expect(self, pattern: str) -> None:
        """Wait until what was printed holds ``pattern``."""
        self._read(lambda: re.search(pattern, self.text) is not None, pattern)

    def send(self, text: str) -> None:
        """Type."""
        os.write(self._handle, text.encode())

    def end(self) -> int:
        """Wait for the process's end. :returns: the exit code."""
        self._read(lambda: False, None)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._handle)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def _read(self, enough: Any, what: str | None) -> None:
        end = time.monotonic() + WAIT_S
        while not enough():
            ready, _, _ = select.select([self._handle], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the terminal never showed {what!r}: {self.text}"
            try:
                data = os.read(self._handle, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                assert what is None, f"ended without showing {what!r}: {self.text}"
                return
            self.raw += data.decode(errors="replace")
