"""The strict URI grammar under ``dsn``: one reading, or a refusal (C-8.5).

libpq, Python, JDBC and browsers disagree on where a password ends that holds a raw ``@ / ? #``,
on what ``+`` means, and on half-written addresses. Whatever two of them could read differently is
refused here, and no message quotes the URL: its parts may be pieces of a password.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ptahk.errors import UsageError

URL_CHARS_MAX = 8192
HOST_CHARS_MAX = 253
PORT_MAX = 65535

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


def refuse(part: str, why: str, hint: str | None = None) -> UsageError:
    """The one shape of this module's errors: names the part and the rule, never a value."""
    return UsageError(
        f"database URL refused ({part}): {why}", reason="InvalidUrl", field=part, hint=hint
    )


@dataclass(frozen=True, slots=True, repr=False)
class Parts:
    """The decoded parts of a URL. Holds the password, so its repr shows nothing.

    An absent part is None; an empty one is refused, except ``query`` and ``password``.
    """

    scheme: str
    user: str | None
    password: str | None
    host: str | None
    port: str | None
    path: str | None
    query: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return "Parts(***)"


def split(url: str) -> Parts:
    """Take a URL apart.

    :raises UsageError: it has no single reading.
    """
    _refuse_characters(url)
    match = _SCHEME.fullmatch(url)
    if match is None:
        raise refuse(
            "scheme", "it does not begin with postgresql://, mysql:// or another SCHEME://"
        )
    scheme, rest = match.groups()
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if "@" in rest[len(authority) :] or authority.count("@") > 1:
        raise refuse(
            "userinfo",
            "a raw @, / or ? stands where readers disagree on the end of the password",
            "Percent-encode them: @ is %40, / is %2F, ? is %3F.",
        )
    path, mark, query = rest[len(authority) :].partition("?")
    user, password, server = _userinfo(authority)
    host, port = _server(server)
    return Parts(
        scheme=scheme,
        user=user,
        password=password,
        host=host,
        port=port,
        path=_path(path),
        query=tuple(_query(query)) if mark else (),
    )


def decode(text: str, part: str) -> str:
    """Percent-decoding, once, of UTF-8.

    :raises UsageError: a bad escape, or one of a control character.
    """
    if text.count("%") != len(_PERCENT.findall(text)):
        raise refuse(part, "a % is not followed by two hexadecimal digits")
    raw = bytearray()
    position = 0
    for match in _PERCENT.finditer(text):
        raw += text[position : match.start()].encode("utf-8")
        raw.append(int(match[0][1:], 16))
        position = match.end()
    raw += text[position:].encode("utf-8")
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse(part, "its escapes are not UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise refuse(part, "an escape stands for a control character")
    return value


def _refuse_characters(url: str) -> None:
    if len(url) > URL_CHARS_MAX:
        raise refuse("url", f"it is longer than {URL_CHARS_MAX} characters")
    if not url:
        raise refuse("url", "it is empty")
    if url[-1] in "\r\n":
        raise refuse("url", "it ends with a newline")
    if not url.isprintable() or " " in url:
        raise refuse(
            "url",
            "a raw space, control or invisible character stands in it",
            "Percent-encode it: a space is %20.",
        )
    if "#" in url:
        raise refuse(
            "url", "a raw # stands in it, which readers disagree on", "Percent-encode it as %23."
        )


def _userinfo(authority: str) -> tuple[str | None, str | None, str]:
    userinfo, mark, server = authority.rpartition("@")
    if not mark:
        return None, None, server
    user, colon, password = userinfo.partition(":")
    if any(character in userinfo for character in "[]\\"):
        raise refuse(
            "userinfo",
            "a raw [, ] or backslash stands in it",
            "Percent-encode them: [ is %5B, ] is %5D, \\ is %5C.",
        )
    if not user:
        raise refuse("user", "the user name before the password or the @ is empty")
    # libpq takes an empty password for none.
    secret = decode(password, "password") if colon and password else None
    return decode(user, "user"), secret, server


def _server(server: str) -> tuple[str | None, str | None]:
    if server.startswith("["):
        address, bracket, rest = server[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise refuse("host", "the brackets of its IPv6 address are not closed")
        address = decode(address, "host")
        if _ipv6(address) is None:
            raise refuse("host", "what stands in brackets is not an IPv6 address")
        return address, _port(rest)
    if "[" in server or "]" in server:
        raise refuse("host", "a bracket stands in the middle of it")
    if "," in server:
        raise refuse("host", "several hosts or ports are named; an operation has one target")
    if server.count(":") > 1:
        raise refuse(
            "host",
            "a bare IPv6 address cannot be told from a port",
            "Write it in brackets: [::1].",
        )
    host, colon, port = server.partition(":")
    return (decode(host, "host") if host else None), _port(colon + port)


def _port(text: str) -> str | None:
    """The port after its colon; digits are checked where all spellings of a port meet."""
    if not text:
        return None
    if text == ":":
        raise refuse("port", "a colon stands before an empty port")
    return decode(text[1:], "port")


def _path(path: str) -> str | None:
    if path in ("", "/"):
        return None
    if "/" in path[1:]:
        raise refuse("dbname", "a raw / stands in the database name", "Percent-encode it as %2F.")
    return decode(path[1:], "dbname")


def _query(query: str) -> Iterator[tuple[str, str]]:
    if not query:
        return
    for number, pair in enumerate(query.split("&"), 1):
        name, mark, value = pair.partition("=")
        if not mark or "=" in value or not name:
            raise refuse(
                f"parameter {number}",
                "it is not one NAME=VALUE",
                "Percent-encode what belongs to the value: = is %3D, & is %26.",
            )
        if "+" in pair:
            raise refuse(
                f"parameter {number}",
                "a raw + stands in it, which some read as a space",
                "Percent-encode it: + is %2B, a space is %20.",
            )
        yield decode(name, f"parameter {number}"), decode(value, f"parameter {number}")


def port(text: str) -> int:
    """A decimal port, 1 to 65535.

    :raises UsageError: several, or another spelling.
    """
    if "," in text:
        raise refuse("port", "several hosts or ports are named; an operation has one target")
    if _PORT.fullmatch(text) is None or int(text) > PORT_MAX:
        # Never quoted: behind a raw slash in a password it is the password's beginning.
        raise refuse("port", f"it is not a plain number from 1 to {PORT_MAX}")
    return int(text)


def host(text: str) -> tuple[str, bool]:
    """The one spelling of a TCP host, and whether it differs from ``text``.

    :raises UsageError: no host name and no address, or an address in a spelling that readers
        understand differently (``127.1``, ``010.0.0.1``, ``0x7f.0.0.1``).
    """
    if "," in text:
        raise refuse("host", "several hosts or ports are named; an operation has one target")
    if ":" in text:
        address = _ipv6(text)
        if address is None:
            raise refuse("host", "it holds a colon, but it is not an IPv6 address")
        return address, address != text
    labels = text.removesuffix(".").split(".")
    if len(text) > HOST_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise refuse("host", "it is neither a host name, an address nor a socket's directory")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            raise refuse("host", "an IPv4 address is four plain decimal numbers") from None
        return text, False
    return text.lower(), text.lower() != text


def _ipv6(text: str) -> str | None:
    """RFC 5952's spelling, with the zone as it is. By hand: Python's own has changed."""
    address, mark, zone = text.partition("%")
    if mark and not re.fullmatch(r"[A-Za-z0-9_.-]{1,32}", zone):
        return None
    try:
        packed = ipaddress.IPv6Address(address).packed
    except ValueError:
        return None
    groups = [f"{packed[i] << 8 | packed[i + 1]:x}" for i in range(0, 16, 2)]
    text_all = ":".join(groups)
    zeros = max(re.findall(r"(?:(?<=:)|^)0(?::0)+(?=:|$)", text_all), key=len, default="")
    if zeros:
        left, _, right = text_all.partition(zeros)
        text_all = f"{left.removesuffix(':')}::{right.removeprefix(':')}"
    return text_all + mark + zone
