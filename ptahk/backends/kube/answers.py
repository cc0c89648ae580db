"""What an API server's answer means: status code and reason → the port's errors.

An error here says whether something was done, and nothing else: ``Indeterminate`` where it may
have been, another only where the server itself said that it did nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Document,
    Forbidden,
    Indeterminate,
    Invalid,
    NotFound,
    PortError,
    Unavailable,
)

TEXT_MAX = 1000
"""Characters of a message that are kept."""

_BEFORE_API = frozenset({401, 404, 429})
"""Said without a Status object too, by an API server or by who stands before it: not passed on."""

_GONE_UID = "UID in object meta:"


class Expired(Invalid):
    """The resourceVersion or continue token is too old: list again."""


class NotServed(Unavailable):
    """The cluster does not serve this kind: its CRD is missing, or too old."""


class Throttled(Unavailable):
    """429: the server did nothing and asks to wait."""

    def __init__(self, text: str, retry_after_s: float) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class Unauthenticated(Unavailable):
    """401: the server did nothing, for it did not accept the credentials."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer of the API server."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    what: str = ""
    """Method and path, for messages."""
    write: bool = False

    def document(self) -> Document:
        """The body as one JSON object.

        :raises Indeterminate: it is none, and the request was a write.
        :raises Unavailable: it is none, and the request was a read.
        """
        found = _json(self.body)
        if found is None:
            unreadable(self.write, f"{self.what}: the answer is no JSON object")
        return found


def unreadable(write: bool, text: str) -> NoReturn:
    """The answer cannot be used: what was asked may have been done if it was a write."""
    raise Indeterminate(text) if write else Unavailable(text)


def check(answer: Answer) -> Answer:
    """The answer itself, if it is a success.

    :raises PortError: what it means, if not.
    """
    if 200 <= answer.status < 300:
        return answer
    raise _refusal(answer)


def refusal_of(status: Document, what: str) -> PortError:
    """What a ``Status`` object in a watch means: nothing was done, for it was a read."""
    code = status.get("code")
    code = code if type(code) is int else 500
    return _refusal(Answer(code, {}, json.dumps(status).encode(), what))


def _refusal(answer: Answer) -> PortError:
    status = _json(answer.body) or {}
    reason = status.get("reason")
    text = f"{answer.what}: {_message(answer, status)}"
    if answer.write and status.get("kind") != "Status" and answer.status not in _BEFORE_API:
        # Somebody in between says so, who may have passed the request on.
        return Indeterminate(text)
    match answer.status:
        case 400 | 405 | 406 | 413 | 415 | 422:
            return Expired(text) if reason in ("Expired", "Gone") else Invalid(text)
        case 401:
            return Unauthenticated(f"{text} (the credentials were not accepted)")
        case 403:
            return Forbidden(text)
        case 404:
            return _not_found(answer, status, text)
        case 409:
            return _conflict(answer, status, text)
        case 410:
            return Expired(text)
        case 429:
            return Throttled(text, _retry_after_s(answer, status))
    return Indeterminate(text) if answer.write else Unavailable(text)


def _not_found(answer: Answer, status: Document, text: str) -> PortError:
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if not details.get("name"):
        # No object is named: it is the path that the server does not know.
        return NotServed(f"{text} (the cluster does not serve this kind: are the CRDs installed?)")
    if details.get("kind") == "namespaces" and answer.write and "/namespaces/" in answer.what:
        return Invalid(text)
    return NotFound(text)


def _conflict(answer: Answer, status: Document, text: str) -> PortError:
    reason, message = status.get("reason"), status.get("message")
    if reason == "AlreadyExists":
        return AlreadyExists(text)
    if isinstance(message, str) and message.rstrip().endswith(_GONE_UID):
        # The uid was compared with that of no object at all.
        return NotFound(text)
    if reason == "Conflict":
        return Conflict(text)
    return Indeterminate(text) if answer.write else Unavailable(text)


def _retry_after_s(answer: Answer, status: Document) -> float:
    details = status.get("details")
    asked: Any = answer.headers.get("retry-after")
    if asked is None and isinstance(details, dict):
        asked = details.get("retryAfterSeconds")
    try:
        return min(max(float(asked), 0.0), 60.0)
    except (TypeError, ValueError):
        return 1.0


def _message(answer: Answer, status: Document) -> str:
    message = status.get("message")
    if not isinstance(message, str) or not message:
        message = answer.body[: 4 * TEXT_MAX].decode("utf-8", "replace")
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    text = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + " [cut]"
    return f"{answer.status}: {text}" if text else str(answer.status)


def _json(body: bytes) -> Document | None:
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def parse_event(line: bytes) -> Document | None:
    """One line of a watch; None where it is no JSON object."""
    return _json(line)
