"""Text → documents: bounded, unambiguous, and each error with its line and without a value."""

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.api import documents
from ptahk.api.documents import read_documents
from ptahk.errors import UsageError


def values(text: str) -> list[object]:
    return [read.value for read in read_documents(text.encode(), "f.yaml")]


def refusal(text: str | bytes) -> str:
    with pytest.raises(UsageError) as raised:
        read_documents(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    assert raised.value.reason == "InvalidManifest"
    return raised.value.message


def test_several_documents_and_empty_ones() -> None:
    assert values("---\na: 1\n---\n---\n# nothing\n---\n- x\n...\n") == [{"a": 1}, ["x"]]
    assert values("") == []
    assert values("\ufeffa: 1") == [{"a": 1}]


def test_scalars_follow_the_core_schema() -> None:
    text = """
    - [yes, on, no, y, 2026-01-01, 0x10, 010, 1_000, .5, +1, 12:30:00, '1', "true"]
    - [true, False, null, ~, 0, -7, 1.5, 1e3]
    - {empty: }
    """
    words, typed, empty = values(text)[0]  # type: ignore[misc]
    assert all(isinstance(word, str) for word in words)
    assert typed == [True, False, None, None, 0, -7, 1.5, 1000.0]
    assert empty == {"empty": None}


def test_json_is_read_as_json() -> None:
    value = {"a": ["\U0001f600", "x\ty", {"b": None}], "c": -1.5}
    assert values(json.dumps(value)) == [value]
    assert values(json.dumps(value, indent="\t")) == [value]
    assert "stands twice" in refusal('{"a": 1,\n "a": 2}')


def test_aliases_are_copies() -> None:
    (value,) = values("a: &x {n: [1]}\nb: *x\n")
    assert value == {"a": {"n": [1]}, "b": {"n": [1]}}
    assert value["a"] is not value["b"]  # type: ignore[index]


def test_lines_of_fields() -> None:
    (read,) = read_documents(b"# c\na:\n  b:\n  - 1\n  - c: 2\n", "f.yaml")
    assert read.line == 2
    assert read.lines[".a.b[1].c"] == 5


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\nb: 2\na: s3cret", 3, "stands twice"),
        ("a: 1\nb: *x", 2, "alias names no anchor"),
        ("&a [*a]", 1, "alias names no anchor"),
        ("a: !!python/object:os.system s3cret", 1, "tags"),
        ("a: !!binary s3cret", 1, "tags"),
        ("!x {a: 1}", 1, "tags"),
        ("a: &a {b: 1}\nc:\n  <<: *a", 3, "merge keys"),
        ("? [a]\n: 1", 1, "not plain text"),
        ("a: 1\n\tb: s3cret", 2, "not YAML"),
        ("a: [1, s3cret", 2, "not YAML"),
        ("a: 's3cret", 1, "not YAML"),
        ("a: s3cret: x", 1, "not YAML"),
        ("a: s3cret\x07", 1, "not YAML"),
        ("a: 1e999", 1, "too large"),
    ],
)
def test_what_is_refused(text: str, line: int, why: str) -> None:
    message = refusal(text)
    assert f"(f.yaml:{line})" in message
    assert why in message
    assert "s3cret" not in message


def test_bytes_that_are_not_text() -> None:
    assert "(f.yaml:2): it is not UTF-8" in refusal(b"a: 1\nb: \xff\n")
    assert "larger than" in refusal(b" " * (documents.TEXT_BYTES_MAX + 1))


def test_bombs_are_bounded() -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert "more than" in refusal(laughs)
    long = "x" * 100_000
    assert "too much text" in refusal(f"a: &a {long}\nb: [{', '.join(['*a'] * 1000)}]")
    for deep in ("[" * 100_000, "{a: " * 100_000, "- " * 100_000, '{"a":' * 100_000):
        assert re.search("deeper than|nesting depth", refusal(deep))
    assert "more than" in refusal("- 1\n" * (documents.NODES_MAX + 1))
    assert "documents" in refusal("---\na: 1\n" * (documents.DOCUMENTS_MAX + 1))


def test_a_deep_json_text_is_refused() -> None:
    depth = sys.getrecursionlimit() * 2
    assert "deeper than" in refusal('{"a":' * depth + "1" + "}" * depth)


@given(st.binary(max_size=200) | st.text("[]{}&*!|>'\"%@`#-:?,ab \n\t~<", max_size=60))
def test_no_text_raises_anything_else(text: bytes | str) -> None:
    raw = text if isinstance(text, bytes) else text.encode()
    try:
        read_documents(raw, "f.yaml")
    except UsageError as error:
        assert error.reason == "InvalidManifest"
