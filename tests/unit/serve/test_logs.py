"""One JSON object a line."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from ptahk.engine.ports import Key
from ptahk.serve.logs import configure, fields


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The root logger writes here, and afterwards where it did."""
    root, ours = logging.getLogger(), logging.getLogger("ptahk")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    stream = io.StringIO()
    configure(stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_line_with_its_fields(stream: io.StringIO) -> None:
    key = Key("PtahSchema", "apps", "db")
    logging.getLogger("ptahk.serve").info("two\nlines", extra=fields(key=key, count=3))
    (line,) = lines(stream)
    assert line["message"] == "two\nlines"
    assert (line["level"], line["logger"]) == ("info", "ptahk.serve")
    assert (line["key"], line["count"]) == ("PtahSchema/apps/db", 3)
    assert str(line["time"]).endswith("Z")


def test_a_traceback_stays_on_the_line_and_is_bounded(stream: io.StringIO) -> None:
    try:
        raise ValueError("x" * 100_000)
    except ValueError:
        logging.getLogger("ptahk").exception("failed")
    (line,) = lines(stream)
    assert "x" * 10 in str(line["traceback"])
    assert len(stream.getvalue()) < 10_000


def test_other_libraries_only_warn(stream: io.StringIO) -> None:
    logging.getLogger("urllib3").info("a connection")
    logging.getLogger("urllib3").warning("a broken one")
    assert [line["message"] for line in lines(stream)] == ["a broken one"]
