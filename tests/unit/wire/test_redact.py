"""No spelling of a secret gets through; a message without one is left as it is."""

import base64
import html
import json
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptahk.wire import redact
from ptahk.wire.redact import MASK, Redactor, secrets_of

SECRET = "p@s\"s'w/o\\r$ d%é<&>"

ESCAPES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda s: quote(s, safe=""),
    "percent, lower": lambda s: quote(s, safe="").replace("%C3%A9", "%c3%a9"),
    "percent with /": lambda s: quote(s),
    "form": quote_plus,
    "every character": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "json": lambda s: json.dumps(s),
    "json, unicode": lambda s: json.dumps(s, ensure_ascii=False),
    "json twice": lambda s: json.dumps(json.dumps({"x": s})),
    "json, slash": lambda s: json.dumps(s).replace("/", "\\/"),
    "sql": lambda s: "'" + s.replace("'", "''") + "'",
    "sql, E": lambda s: "E'" + s.replace("\\", "\\\\").replace("'", "''") + "'",
    "conninfo": lambda s: "'" + s.replace("\\", "\\\\").replace("'", "\\'") + "'",
    "shell": shlex.quote,
    "repr": repr,
    "ascii": ascii,
    "html": html.escape,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64, shifted": lambda s: base64.b64encode(b"u:" + s.encode() + b"@h").decode(),
    "base64, url": lambda s: base64.urlsafe_b64encode(b"x" + s.encode()).decode(),
    "hexadecimal": lambda s: s.encode().hex(),
}


def shown(secret: str, text: str) -> list[str]:
    """Names of the decodings by which ``secret`` can be read from ``text``."""
    return [name for name, escape in ESCAPES.items() if escape(secret).strip("'\"") in text]


@pytest.mark.parametrize("name", sorted(ESCAPES))
def test_every_escape_is_masked(name: str) -> None:
    spelled = ESCAPES[name](SECRET)
    text = Redactor([SECRET]).text(f"before {spelled} after")
    assert MASK in text
    assert text.startswith("before ") and text.endswith(" after")
    assert shown(SECRET, text) == []


@given(
    st.text(st.characters(codec="utf-8"), min_size=4, max_size=20), st.sampled_from(sorted(ESCAPES))
)
@settings(max_examples=300)
def test_any_secret_in_any_escape(secret: str, name: str) -> None:
    assume(len(secret.encode()) >= redact.BASE64_MIN and len(set(secret)) > 1)
    spelled = ESCAPES[name](secret)
    text = Redactor([secret]).text(f"<{spelled}>")
    assert spelled.strip("'\"") not in text


@given(st.text(st.characters(codec="utf-8"), min_size=4, max_size=12), st.data())
def test_any_mixture_of_percent_escapes(secret: str, data: st.DataObject) -> None:
    parts = []
    for character in secret:
        encoded = "".join(f"%{byte:02x}" for byte in character.encode())
        parts.append(data.draw(st.sampled_from([character, encoded, encoded.upper()])))
    spelled = "".join(parts)
    assert spelled not in Redactor([secret]).text(f"x{spelled}y")


URLS = [
    f"postgresql://app:{quote(SECRET, safe='')}@h/d",
    "postgresql://app:hunter2pw@h:5432/d?sslmode=require",
    "postgresql://h/d?user=app&password=hunter2pw",
    "postgresql://app@h/d?sslpassword=hunter2pw",
    "postgresql://app:hun/ter2pw@h/d",
    "postgresql://app:hun@ter2pw@h/d",
    "postgresql://app:hun?ter2pw@h/d",
    "postgresql://app:hun#ter2pw@h/d",
    "postgresql://app:%zzhunter2pw@h/d",
    "postgresql://app:hunter2pw@h/d\n",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_is_masked_wherever_it_is_quoted(url: str) -> None:
    for redactor in (Redactor.of_urls(url), Redactor()):
        for text in (url, f'could not connect to "{url}": no', json.dumps({"url": url})):
            shown = redactor.text(text)
            assert "hunter2pw" not in shown
            assert "ter2pw" not in shown
            assert quote(SECRET, safe="") not in shown


def test_the_decoded_password_alone_is_masked() -> None:
    redactor = Redactor.of_urls(URLS[0])
    assert SECRET not in redactor.text(f'password "{SECRET}" is wrong')


def test_what_is_left_stays_readable() -> None:
    redactor = Redactor.of_urls("postgresql://app:hunter2pw@db/orders")
    text = 'connection to server at "db", port 5432 failed: FATAL: password authentication failed'
    assert redactor.text(text) == text
    assert redactor.text("see postgresql://app:hunter2pw@db/orders") == (
        f"see postgresql://{MASK}@db/orders"
    )


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2pw host=h",
        "PASSWORD = 'hunter2pw'",
        "password='hun\\'hunter2pw'",
        '{"password": "hunter2pw"}',
        '{\\"password\\": \\"hunter2pw\\"}',
        "?password=hunter2pw&x=1",
        "?password%3Dhunter2pw",
        "sslpassword: hunter2pw",
        "ALTER ROLE a PASSWORD 'hunter2pw'",
        "create user a encrypted password 'it''s hunter2pw'",
        "alter role a password E'hunter2pw'",
        "pwd=hunter2pw;",
        "https://x:hunter2pw@proxy:3128/",
        "https:\\/\\/x:hunter2pw@proxy\\/",
    ],
)
def test_places_where_a_credential_stands(text: str) -> None:
    assert "hunter2pw" not in Redactor().text(text)


def test_a_short_secret_is_masked_as_a_word() -> None:
    redactor = Redactor(["ab"])
    assert redactor.text("ab cab 'ab' a_ab %61b") == f"{MASK} cab '{MASK}' a_ab %61b"


def test_lines_of_a_secret_are_secrets() -> None:
    redactor = Redactor(["first line\nsecond line"])
    assert redactor.text("x second line y") == f"x {MASK} y"


@given(st.text(max_size=200))
def test_no_secret_no_change(text: str) -> None:
    assume("://" not in text and "p" not in text.lower())
    assert Redactor(["hunter2pw"]).text(text) == text


@given(st.text(alphabet="p:/@=' \"aswordhunter2pw\\", max_size=120))
def test_masking_is_stable(text: str) -> None:
    redactor = Redactor(["hunter2pw"])
    once = redactor.text(text)
    assert "hunter2pw" not in once
    assert "hunter2pw" not in redactor.text(once)


def test_output_is_bounded_after_masking() -> None:
    redactor = Redactor(["hunter2pw"])
    text = redactor.text("x" * 95 + "hunter2pw" + "y" * 50, limit=100)
    assert len(text) == 100
    assert "hunt" not in text
    assert text.endswith(redact.CUT)


def test_hostile_text_takes_no_time() -> None:
    redactor = Redactor(["%" * 40, "\\" * 40, "a" * 40])
    for text in ("a://" * 100_000, "%" * 400_000, "\\" * 400_000, "a" * 39 + "b" * 400_000,
                 "password='" * 40_000, "password" + " " * 400_000):  # fmt: skip
        redactor.text(text)


def test_a_repr_shows_nothing() -> None:
    assert "hunter2pw" not in repr(Redactor(["hunter2pw"]))


def test_the_environment() -> None:
    redactor = Redactor.of_environment(
        {"DATABASE_URL": "postgres://a:hunter2pw@h/d", "PGPASSWORD": "another", "HOME": "/root"}
    )
    assert redactor.text("hunter2pw another /root") == f"{MASK} {MASK} /root"


@given(st.lists(st.integers(0, 30), max_size=30))
def test_a_stream_in_any_chunks(sizes: list[int]) -> None:
    whole = "one hunter2pw\ntwo é hunter2pw\nthree hunter2pw".encode()
    lines = Redactor(["hunter2pw"]).lines()
    out, start = "", 0
    for size in sizes:
        out += lines.feed(whole[start : start + size])
        start += size
    out += lines.feed(whole[start:]) + lines.finish()
    assert out == f"one {MASK}\ntwo é {MASK}\nthree {MASK}"


def test_a_line_is_shown_once_it_is_whole() -> None:
    lines = Redactor(["hunter2pw"]).lines()
    assert lines.feed(b"hunter") == ""
    assert lines.feed(b"2pw\nhun") == f"{MASK}\n"
    assert lines.finish() == "hun"


def test_a_long_line_is_cut_and_not_kept() -> None:
    lines = Redactor(["hunter2pw"]).lines()
    out = lines.feed(b"x" * (redact.LINE_MAX - 3) + b"hunter2pw" * 100_000)
    out += lines.feed(b"\nnext\n")
    assert "hunt" not in out
    assert out.endswith(f"{redact.CUT}\nnext\n")
    assert len(out) < redact.LINE_MAX


@given(st.binary(max_size=300))
def test_hostile_bytes_never_raise(data: bytes) -> None:
    lines = Redactor(["hunter2pw"]).lines()
    lines.feed(data)
    lines.finish()
    for secret in secrets_of(data.decode("latin-1")):
        Redactor([secret])


PIECES = st.sampled_from(
    ["pass", "PassWord", "pa\u017f\u017fword", "pwd", "client_secret", "\u212aey", "=", ": ", "%3d",
     "'x y'", '"z"', "postgres://", "u:p", "@h", "%", "%70ass", "hunter22", "hunter%32", "a",
     " ", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(["hunter22", "pass", "a", "%70"]))
def test_what_is_not_looked_for_is_not_there(text: str, secret: str) -> None:
    """Every rule over every text gives the same as the rules that a text can need."""
    redactor = Redactor([secret])
    wanted = text
    for literal in redactor._literals:
        wanted = wanted.replace(literal, MASK)
    for pattern in (*redactor._percent, *redactor._short):
        wanted = pattern.sub(MASK, wanted)
    wanted = redact._USERINFO.sub(rf"\g<1>{MASK}@", wanted)
    wanted = redact._SQL_PASSWORD.sub(rf"\g<1>'{MASK}'", wanted)
    wanted = redact._ASSIGNED.sub(rf"\g<1>{MASK}", wanted)
    assert redactor.text(text) == wanted
