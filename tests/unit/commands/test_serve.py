"""What ``ptahk serve`` refuses before it looks for a cluster."""

import pytest

from ptahk.commands.serve import by_digest, identity, lease_duration, parse_address
from ptahk.errors import UsageError

DIGEST = "sha256:" + "a" * 64


def test_addresses() -> None:
    assert parse_address("127.0.0.1:8080") == ("127.0.0.1", 8080)
    assert parse_address(":0") == ("0.0.0.0", 0)
    assert parse_address("[::1]:9") == ("::1", 9)


@pytest.mark.parametrize("text", ["", "8080", "host", "host:x", "::1:8080", "h:99999", "[x]:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        parse_address(text)


def test_an_image_is_named_by_digest() -> None:
    assert by_digest(f"registry.example/ptahk@{DIGEST}") == f"registry.example/ptahk@{DIGEST}"
    for image in (None, "", "ptahk:1.0", "ptahk@sha256:12", f" x@{DIGEST} "):
        with pytest.raises(UsageError):
            by_digest(image)


def test_the_lease_is_bounded() -> None:
    assert lease_duration("30s") == 30
    for text in ("1s", "2.5s", "11m", "0"):
        with pytest.raises(UsageError):
            lease_duration(text)


def test_no_two_processes_have_one_identity() -> None:
    assert identity() != identity()
