"""Frozen dataclasses from and to JSON objects: strict, camelCase, no second set of models.

``read`` refuses what a dataclass does not name, so that a field written by a newer or a broken
writer stops us instead of being dropped (hazards F12, F16). Readers are built once a class.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from ptahk.engine.model.limits import Ge, Le, MaxLen, MinLen

T = TypeVar("T")
Reader = Callable[[Any], Any]
Check = Callable[[Any], str | None]
"""The rule that a value breaks, or None."""

TEXT_MAX = 4096
"""Longest text of one field of a status; messages are cut to it when written."""
_READERS: dict[Any, Reader] = {}
_WRITERS: dict[Any, tuple[tuple[str, str], ...] | None] = {}

ITEMS_MAX = 1000
"""Most items of one list, or entries of one map, that is read."""


@dataclass(frozen=True, slots=True)
class Matches:
    """A bound of a text: the whole of it matches ``regex``.

    The regex is within what Python and Go's RE2 read alike (no look-around, no ``\\d``), so that
    the CRDs carry the very same one.
    """

    regex: str
    words: str
    """The rule in words: ``must be …``."""


@dataclass(frozen=True, slots=True)
class Reads:
    """A type that is written in another form than it is kept in."""

    reader: Reader
    """JSON value → kept value. :raises FieldError: it is not of that form."""
    shape: str = ""
    """Names the type of the written form, where it is one of ``podshape.SHAPES``."""


class FieldError(ValueError):
    """A document is not what its kind says. Names the field and the rule, never the value."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path}: {rule}")
        self.path = path
        self.rule = rule


def read(cls: type[T], document: Any, path: str = "") -> T:
    """An instance of the dataclass ``cls`` from a JSON object.

    :raises FieldError: unknown, missing or mistyped fields, or a broken invariant.
    """
    try:
        return typing.cast("T", _reader(cls)(document))
    except FieldError as error:
        raise FieldError(f"{path}{error.path}", error.rule) from None


def write(value: Any) -> Any:
    """The JSON form of a dataclass, tuple, mapping or scalar. None fields are left out."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None or kind is float:
        return value
    writer = _writer(kind)
    if writer is not None:
        out = {}
        for name, key in writer:
            item = getattr(value, name)
            if item is not None:
                out[key] = write(item)
        return out
    if kind is datetime:
        return format_time(value)
    if isinstance(value, tuple | list):
        return [write(item) for item in value]
    if isinstance(value, Mapping):
        return {key: write(item) for key, item in value.items()}
    assert isinstance(value, str), f"no JSON form for {kind.__name__}"
    return str(value)


DURATION = r"0|([0-9]{1,4}h)?([0-9]{1,6}m)?([0-9]{1,8}(\.[0-9]{1,3})?s)?([0-9]{1,10}ms)?"
"""Bounded, so that no sum of a time and a duration leaves the calendar; never only ``""``."""
DURATION_LENGTH_MAX = 40
_DURATION = re.compile(
    r"(?:([0-9]{1,4})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,8}(?:\.[0-9]{1,3})?)s)?(?:([0-9]{1,10})ms)?"
)


def parse_duration(text: Any) -> float:
    """Seconds of ``10m``, ``1h30m``, ``3s``, ``500ms`` or ``0``. :raises FieldError: else."""
    if text == "0" or (type(text) is int and text == 0):
        return 0.0
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        raise FieldError("", "must be a duration as 3s, 10m or 1h30m")
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


Duration = Annotated[float, Reads(parse_duration)]
"""Written as a duration, read as seconds."""


def camel(name: str) -> str:
    """``coordination_digest`` → ``coordinationDigest``."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """Text no longer than ``limit`` characters, saying so where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")


def parse_time(text: str) -> datetime:
    """RFC 3339 UTC, ending in ``Z``. :raises ValueError: anything else."""
    if _TIME.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time in UTC")
    return datetime.fromisoformat(text)


def format_time(moment: datetime) -> str:
    """RFC 3339 UTC with microseconds, as a Lease's MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _writer(cls: Any) -> tuple[tuple[str, str], ...] | None:
    if cls not in _WRITERS:
        found = None
        if dataclasses.is_dataclass(cls):
            found = tuple((f.name, _key(f)) for f in dataclasses.fields(cls) if f.init)
        _WRITERS[cls] = found
    return _WRITERS[cls]


def _key(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata.get("key", camel(field.name)))


def _reader(cls: Any) -> Reader:
    if cls not in _READERS:
        _READERS[cls] = _build(cls)
    return _READERS[cls]


def _build(cls: Any) -> Reader:
    """The reader of one dataclass; places in error messages are put together on the way out."""
    hints = typing.get_type_hints(cls, include_extras=True)
    table: dict[str, tuple[str, type | None, Reader]] = {}
    required = set()
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        key = _key(field)
        hint = hints[field.name]
        table[key] = (field.name, _plain(hint), _of(hint))
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.add(key)

    def reader(document: Any) -> Any:
        if type(document) is not dict:
            raise FieldError("", "must be an object")
        found = {}
        for key, value in document.items():
            entry = table.get(key)
            if entry is None:
                raise FieldError(f".{str(key)[:64]}", "unknown field")
            name, plain, inner = entry
            if type(value) is plain:
                found[name] = value
                continue
            try:
                found[name] = inner(value)
            except FieldError as error:
                raise FieldError(f".{key}{error.path}", error.rule) from None
        missing = required - document.keys()
        if missing:
            raise FieldError(f".{min(missing)}", "required")
        try:
            return cls(**found)
        except FieldError:
            raise
        except ValueError as error:
            raise FieldError("", str(error)) from None

    return reader


def reader_of(hint: Any) -> Reader:
    """The reader of any type that a field may have."""
    return _of(hint)


def _plain(hint: Any) -> type | None:
    """The one type whose values are taken as they are."""
    if hasattr(hint, "__supertype__"):
        return _plain(hint.__supertype__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [item for item in typing.get_args(hint) if item is not type(None)]
        return _plain(inner[0]) if len(inner) == 1 else None
    return hint if hint in (str, int, bool) else None


def _of(hint: Any) -> Reader:
    origin = typing.get_origin(hint)
    if hasattr(hint, "__supertype__"):
        return _of(hint.__supertype__)
    if origin is typing.Annotated:
        first, *rest = hint.__metadata__
        if isinstance(first, Reads):
            return _bounded(first.reader, rest)
        return _bounded(_of(hint.__origin__), hint.__metadata__)
    if origin is typing.Literal:
        return _literal(typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        inner = [item for item in typing.get_args(hint) if item is not type(None)]
        assert len(inner) == 1, "only X | None"
        return _of(inner[0])
    if origin is tuple:
        return _items(_of(typing.get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        key, value = typing.get_args(hint)
        return _mapping(_of(key), _of(value))
    if dataclasses.is_dataclass(hint):
        return lambda value: _reader(hint)(value)
    if hint is datetime:
        return _moment
    if hint is Any:
        return lambda value: value
    return _scalar(hint)


def _bounded(inner: Reader, bounds: Iterable[Any]) -> Reader:
    """The reader of an ``Annotated`` type: what it reads is within every bound."""
    checks = [_check(bound) for bound in bounds]

    def reader(value: Any) -> Any:
        found = inner(value)
        for check in checks:
            rule = check(found)
            if rule is not None:
                raise FieldError("", rule)
        return found

    return reader


def _check(bound: Any) -> Check:
    match bound:
        case MaxLen(limit):
            return lambda value: _longest(value, limit)
        case MinLen(1):
            return lambda value: None if len(value) else "must not be empty"
        case Ge(limit):
            return lambda value: None if value >= limit else f"must be at least {limit}"
        case Le(limit):
            return lambda value: None if value <= limit else f"must be at most {limit}"
        case Matches(regex, words):
            pattern = re.compile(regex)
            return lambda value: None if pattern.fullmatch(value) else words
        case _:
            raise AssertionError(f"no such bound: {bound!r}")


def _longest(value: Any, limit: Any) -> str | None:
    unit = "characters" if isinstance(value, str) else "items"
    return None if len(value) <= limit else f"must be at most {limit} {unit}"


def _scalar(kind: type) -> Reader:
    wanted = {str: "text", int: "a whole number", bool: "true or false", float: "a number"}[kind]

    def reader(value: Any) -> Any:
        found = type(value)
        if found is kind or (kind is float and found is int):
            return value
        raise FieldError("", f"must be {wanted}")

    return reader


def _literal(choices: tuple[Any, ...]) -> Reader:
    allowed = frozenset(choices)

    def reader(value: Any) -> Any:
        if type(value) is str and value in allowed:
            return value
        raise FieldError("", f"must be one of {', '.join(sorted(allowed))}")

    return reader


def _items(inner: Reader) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) is not list:
            raise FieldError("", "must be a list")
        if len(value) > ITEMS_MAX:
            raise FieldError("", f"has more than {ITEMS_MAX} items")
        found = []
        for index, item in enumerate(value):
            try:
                found.append(inner(item))
            except FieldError as error:
                raise FieldError(f"[{index}]{error.path}", error.rule) from None
        return tuple(found)

    return reader


def _mapping(key_of: Reader, inner: Reader) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) is not dict:
            raise FieldError("", "must be an object")
        if len(value) > ITEMS_MAX:
            raise FieldError("", f"has more than {ITEMS_MAX} entries")
        found = {}
        for key, item in value.items():
            try:
                key_of(key)
            except FieldError as error:
                raise FieldError("", f"a key {error.rule}") from None
            try:
                found[key] = inner(item)
            except FieldError as error:
                raise FieldError(f".{key[:64]}{error.path}", error.rule) from None
        return found

    return reader


def _moment(value: Any) -> Any:
    if type(value) is not str:
        raise FieldError("", "must be a time")
    try:
        return parse_time(value)
    except ValueError as error:
        raise FieldError("", str(error)) from None
