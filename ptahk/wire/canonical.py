"""RFC 8785 canonical JSON: the only encoder that a hash may be fed from (C-7.1).

Two documents are the same to ptahk exactly when these bytes are equal, so everything that two
readers could understand differently is refused here instead of being written: numbers that a
double cannot hold, NaN, lone surrogates, keys that are not text, and (when reading) a key that
stands twice. Strings are taken as they are: no Unicode normalisation (RFC 8785, 3.1).
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

INTEGER_MAX = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 7493, 2.2)."""

DEPTH_MAX = 200
"""Deepest nesting that is written or read; none of our documents needs a tenth of it."""

DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
"""Largest document that ``decode`` looks at unless its caller names a smaller bound."""

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_SURROGATE_ESCAPE = r"\\u[dD][89a-fA-F]"


class CanonicalError(ValueError):
    """A value that has no canonical form, or text that is not strict JSON.

    The message names the place and the kind of trouble, never the value: it may be a secret.
    """


def encode(value: Any) -> bytes:
    """The canonical bytes of ``value``: UTF-8, no white space, keys sorted by UTF-16 unit.

    :param value: dict (text keys), list, tuple, str, int, float, bool or None, nested freely.
    :raises CanonicalError: no canonical form exists. Numbers beyond ±(2**53 - 1) are among
        these, so that whatever is written can be read and written again: write them as text.
    """
    plain = _check(value, "$", 0)
    if not plain:
        return _utf8("".join(_slow(value)))
    return _utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True))


def decode(data: bytes | str, *, bytes_max: int = DOCUMENT_BYTES_MAX) -> Any:
    """Read strict JSON: no duplicate key, no NaN or infinity, no lone surrogate, no BOM.

    :param data: the document; bytes must be UTF-8.
    :param bytes_max: refuse anything longer, before it is parsed.
    :raises CanonicalError: anything else; never another exception.
    """
    if len(data) > bytes_max:
        raise CanonicalError(f"document is longer than {bytes_max} bytes")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except CanonicalError:
        raise
    except RecursionError:
        raise CanonicalError("document is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise CanonicalError(f"document is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise CanonicalError(f"not JSON at {place}: {error.msg}") from None
    except ValueError:
        raise CanonicalError("a number has too many digits") from None
    if re.search(_SURROGATE_ESCAPE, text):
        _refuse_surrogates(value)
    return value


def _check(value: Any, path: str, depth: int) -> bool:
    """Refuse what has no canonical form; tell whether ``json.dumps`` writes the rest rightly."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        if -INTEGER_MAX <= value <= INTEGER_MAX:
            return True
        raise CanonicalError(f"{path}: integer beyond 2**53 - 1; write it as text")
    if depth >= DEPTH_MAX:
        raise CanonicalError(f"{path}: nested deeper than {DEPTH_MAX}")
    if kind is dict:
        plain = True
        for key, item in value.items():
            if type(key) is not str:
                raise CanonicalError(f"{path}: key of type {type(key).__name__}, not str")
            if not key.isascii() and max(key) > "\uffff":
                # UTF-16 order and code point order differ from here on.
                plain = False
            if type(item) is not str and not _check(item, f"{path}.{key}", depth + 1):
                plain = False
        return plain
    if kind is list or kind is tuple:
        plain = True
        for index, item in enumerate(value):
            if type(item) is not str and not _check(item, f"{path}[{index}]", depth + 1):
                plain = False
        return plain
    if kind is float:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:  # NaN and the infinities among them
            raise CanonicalError(f"{path}: not a number within 2**53 - 1; write it as text")
        return False
    if isinstance(value, str):  # a StrEnum member is its text
        return True
    raise CanonicalError(f"{path}: {kind.__name__} has no JSON form")


def _slow(value: Any) -> list[str]:
    """The same text piece by piece, for the rare documents that ``json.dumps`` gets wrong."""
    if isinstance(value, dict):
        parts = ["{"]
        for number, key in enumerate(sorted(value, key=_utf16)):
            parts.append("," if number else "")
            parts.append(json.dumps(key, ensure_ascii=False))
            parts.append(":")
            parts.extend(_slow(value[key]))
        return [*parts, "}"]
    if isinstance(value, list | tuple):
        parts = ["["]
        for number, item in enumerate(value):
            parts.append("," if number else "")
            parts.extend(_slow(item))
        return [*parts, "]"]
    if isinstance(value, float):
        return [_number(value)]
    return [json.dumps(value, ensure_ascii=False)]


def _number(value: float) -> str:
    """A double as ECMAScript writes it (RFC 8785, 3.2.2.3), from Python's shortest digits."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point -= 1 + len(fraction) - len(fraction.lstrip("0"))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise CanonicalError("a string holds a lone surrogate") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CanonicalError("an object has the same key twice")
    return found


def _no_constant(_name: str) -> Any:
    raise CanonicalError("NaN and Infinity are not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise CanonicalError("a number is too large for a double")
    return value


def _refuse_surrogates(value: Any) -> None:
    _utf8(json.dumps(value, ensure_ascii=False))
