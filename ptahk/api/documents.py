"""YAML or JSON text → plain documents, bounded and unambiguous, with the line of every field.

Read from the parser's events, not by a YAML constructor: no tags, no merge keys, no key twice, no
alias that unfolds without end, no nesting that exhausts a stack. Scalars follow YAML 1.2's core:
``yes``, ``on`` and dates are text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ptahk.errors import UsageError
from ptahk.wire import canonical

TEXT_BYTES_MAX: Final = 4 * 1024 * 1024
DOCUMENTS_MAX: Final = 1000
DEPTH_MAX: Final = 64
NODES_MAX: Final = 200_000
"""Most values in one text, counted after aliases are unfolded."""
UNFOLDED_CHARACTERS_MAX: Final = 4 * TEXT_BYTES_MAX
"""Most characters that aliases may unfold to."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})\Z")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?\Z")
_WORDS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Read:
    """One document of a text."""

    value: Any
    """Dicts, lists and scalars of its own; nothing is shared."""
    line: int
    """Where it begins, from 1."""
    lines: dict[str, int] = field(repr=False)
    """Line of each field, by path (``.spec.policy.exclude[2]``)."""


class _Refused(Exception):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


def read_documents(text: bytes, source: str) -> tuple[Read, ...]:
    """The documents of one YAML stream or JSON text, empty ones left out.

    :param source: names the text in errors: a file's name, or ``-``.
    :raises UsageError: names source, line and rule, never a value.
    """
    try:
        decoded = _decoded(text)
        if decoded.lstrip()[:1] == "{" and (read := _json(decoded)) is not None:
            return (read,)
        return tuple(_Reader(decoded).documents())
    except _Refused as refused:
        raise UsageError(
            f"cannot read the manifest ({source}:{refused.line}): {refused.why}",
            reason="InvalidManifest",
            field="-f",
        ) from None


def _json(text: str) -> Read | None:
    """The text as strict JSON, whose escapes YAML does not all know; None where it is not JSON."""
    try:
        value = canonical.decode(text, bytes_max=TEXT_BYTES_MAX)
    except canonical.CanonicalError:
        return None
    return Read(_Reader("").bounded(value), 1, {})


def _decoded(text: bytes) -> str:
    if len(text) > TEXT_BYTES_MAX:
        raise _Refused(1, f"it is larger than {TEXT_BYTES_MAX} bytes")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _Refused(line, "it is not UTF-8") from None


class _Reader:
    """Builds values from events. Recursion is bounded by ``DEPTH_MAX``."""

    def __init__(self, text: str) -> None:
        self._events = _events(text)
        self._anchors: dict[str, Any] = {}
        self._lines: dict[str, int] = {}
        self._nodes = 0
        self._characters = 0

    def bounded(self, value: Any) -> Any:
        """A copy of a value, within the bounds."""
        return self._unfolded(value, 1, 0)

    def documents(self) -> Iterator[Read]:
        count = 0
        for event in self._events:
            if type(event).__name__ != "DocumentStartEvent":
                continue
            count += 1
            line = _line(event)
            if count > DOCUMENTS_MAX:
                raise _Refused(line, f"it has more than {DOCUMENTS_MAX} documents")
            self._anchors, self._lines = {}, {}
            first = next(self._events)
            value = self._value(first, "", 0)
            if value is not None:
                yield Read(value, _line(first), self._lines)

    def _value(self, event: Any, path: str, depth: int) -> Any:
        line = _line(event)
        self._lines.setdefault(path, line)
        self._count(line, depth)
        kind = type(event).__name__
        if kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise _Refused(line, "an alias names no anchor before it")
            return self._unfolded(self._anchors[event.anchor], line, depth)
        if event.tag is not None and event.tag != "!":
            raise _Refused(line, "tags (!) are not read")
        value: Any
        if kind == "ScalarEvent":
            value = _scalar(event, line)
        elif kind == "SequenceStartEvent":
            value = self._sequence(path, depth)
        else:
            value = self._mapping(path, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _sequence(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            found.append(self._value(event, f"{path}[{len(found)}]", depth + 1))
        return found

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            line = _line(event)
            if type(event).__name__ != "ScalarEvent":
                raise _Refused(line, "a key is not plain text")
            key = str(event.value)
            if key == "<<" and event.implicit[0]:
                raise _Refused(line, "merge keys (<<) are not read: write the fields out")
            if key in found:
                raise _Refused(line, f"the key {key[:64]!r} stands twice")
            self._lines[f"{path}.{key}"] = line
            found[key] = self._value(next(self._events), f"{path}.{key}", depth + 1)
        return found

    def _unfolded(self, value: Any, line: int, depth: int) -> Any:
        """A copy for an alias; what it holds counts as if it were written out."""
        self._count(line, depth)
        if isinstance(value, dict):
            return {key: self._unfolded(item, line, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._unfolded(item, line, depth + 1) for item in value]
        if isinstance(value, str):
            self._characters += len(value)
            if self._characters > UNFOLDED_CHARACTERS_MAX:
                raise _Refused(line, "its aliases unfold to too much text")
        return value

    def _count(self, line: int, depth: int) -> None:
        self._nodes += 1
        if depth > DEPTH_MAX:
            raise _Refused(line, f"it is nested deeper than {DEPTH_MAX} levels")
        if self._nodes > NODES_MAX:
            raise _Refused(line, f"it has more than {NODES_MAX} values")


def _events(text: str) -> Iterator[Any]:
    """The parser's events. YAML's parser is a state machine, so it has no stack to exhaust."""
    # Imported late: most commands read no manifest.
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise _Refused(line, f"it is not YAML: {_problem(error)}") from None
    except yaml.YAMLError:
        raise _Refused(1, "it is not YAML: it holds characters that YAML forbids") from None


def _problem(error: Any) -> str:
    """The parser's own words without what it quotes of the text."""
    words = re.sub(r"(['\"]).*?\1", "…", str(error.problem or "syntax error"))
    return words[:200]


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(event: Any, line: int) -> Any:
    text = str(event.value)
    if not event.implicit[0]:  # quoted, or a block
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise _Refused(line, "a number is too large")
        return number
    return text
