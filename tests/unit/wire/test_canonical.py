"""RFC 8785's own examples, and properties against the plain JSON reader."""

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.wire import canonical
from ptahk.wire.canonical import CanonicalError, decode, encode

# RFC 8785, appendix B: bits of a double, and its only spelling.
RFC_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-canonical.INTEGER_MAX, canonical.INTEGER_MAX)
    | st.floats(-canonical.INTEGER_MAX, canonical.INTEGER_MAX)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS)
def test_numbers_of_the_rfc(bits: str, text: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical._number(value) == text


def test_the_example_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '\u20ac$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert encode(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf16_unit() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "ö": 7}
    keys = list(json.loads(encode(value)))
    assert keys == ["\r", "1", "\u0080", "ö", "\u20ac", "\U0001f600", "\ufb33"]


@given(JSON)
def test_what_is_written_is_read_back(value: object) -> None:
    data = encode(value)
    again = decode(data)
    assert again == value
    assert encode(again) == data


@given(JSON)
def test_both_writers_agree(value: object) -> None:
    assert "".join(canonical._slow(value)).encode() == encode(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives(value: float) -> None:
    assert float(canonical._number(value)) == value


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 1e300, float(2**53), 2**53, -(2**53), b"x",
     {1: 2}, {None: 1}, {1, 2}, "\ud800",
     {"a": ["\udc00"]}, {"\ud800": 1}, [object()]],
)  # fmt: skip
def test_refused_values(value: object) -> None:
    with pytest.raises(CanonicalError):
        encode(value)


def test_endless_values_are_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(CanonicalError, match="deeper"):
        encode(loop)


def test_a_refusal_names_the_place_and_not_the_value() -> None:
    with pytest.raises(CanonicalError, match=r"\$\.a\[1\]\.b: integer") as caught:
        encode({"a": [0, {"b": 12345678901234567890}]})
    assert "1234567890" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"a":1}', b'{"x":{"a":1,"a":2}}', b"NaN", b"[Infinity]", b"-Infinity", b"1e999",
     b"", b"{", b"[1,]", b"\xff", b"\xef\xbb\xbf1", b'"\\ud800"', b'{"\\uDC00":1}', b"'a'", b"01",
     b"[" * 100_000, b"1" * 5000, b'"\n"', b"1 2"],
)  # fmt: skip
def test_text_that_is_not_strict(data: bytes) -> None:
    with pytest.raises(CanonicalError):
        decode(data)


def test_escaped_pairs_are_text() -> None:
    assert decode(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_the_bound_comes_before_the_parse() -> None:
    with pytest.raises(CanonicalError, match="longer than 3"):
        decode(b"[{{{", bytes_max=3)


@given(st.binary(max_size=200))
def test_hostile_bytes_never_raise_anything_else(data: bytes) -> None:
    try:
        value = decode(data)
    except CanonicalError:
        return
    assert value == json.loads(data)
