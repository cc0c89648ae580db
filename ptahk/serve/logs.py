"""Structured logs: one JSON object a line on standard error. No secret ever reaches a log call."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from ptahk.engine.ports import Key, Recorder

LOG = logging.getLogger(__name__)

FIELDS = "fields"
"""Attribute of a record with what is said beside the message: ``extra=fields(...)``."""
TEXT_MAX = 4096


def fields(**values: Any) -> dict[str, dict[str, Any]]:
    """``extra`` for a log call: plain values beside the message."""
    return {FIELDS: values}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:TEXT_MAX],
        }
        for key, value in getattr(record, FIELDS, {}).items():
            line.setdefault(key, value if isinstance(value, bool | int | float) else str(value))
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))[-TEXT_MAX:]
        return json.dumps(line, ensure_ascii=False)


def configure(*, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send our own records, and other libraries' warnings, to one stream."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ptahk").setLevel(logging.DEBUG if verbose else logging.INFO)


class LoggedRecorder:
    """A Recorder that logs what it passes on."""

    def __init__(self, inner: Recorder) -> None:
        self._inner = inner

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        level = logging.WARNING if type == "Warning" else logging.INFO
        LOG.log(level, text or reason, extra=fields(key=key, reason=reason))
        self._inner.event(key, type, reason, text)
