"""Masks secrets in any text that leaves a process (C-9.5, invariant 30).

Two nets. The first knows the secrets and looks for every spelling of them: as it is, percent-,
JSON-, SQL-, shell- and HTML-escaped, base64 and hexadecimal. The second knows none and looks for
places where a credential stands: the userinfo of a URL, ``password=…``, ``PASSWORD '…'``.
Too much masking is a nuisance, too little is a leak; in doubt this masks.
"""

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote_to_bytes

MASK = "***"

SHORT = 4
"""A secret below this many characters is masked only where it stands as a word of its own:
otherwise a password ``a`` would mask every a of a message."""

BASE64_MIN = 6
"""Shorter secrets have no characteristic base64 in the middle of other data."""

TEXT_MAX = 1 << 20
"""Characters that ``text`` returns at most, unless its caller names a smaller bound."""

LINE_MAX = 1 << 16
"""Characters of one line of a child's output that are kept."""

SECRET_MAX = 4096
"""A longer secret is masked by this many first characters."""

CUT = " [cut]"

_VALUE = 2000  # characters of an unknown credential; bounds the work on hostile text
_USERINFO = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]{{0,30}}:(?://|\\/\\/))[^\s'\"<>]{{0,{_VALUE}}}@")
_WORDS = r"(?:ssl)?pass(?:word|wd|phrase)|pwd|(?:oauth_)?client_secret|scram_(?:client|server)_key"
_PARTS = ("pass", "pwd", "client_secret", "scram_")
"""One of them is in each of those words."""
_QUOTED = rf"'(?:[^'\\\n]|\\.|''){{0,{_VALUE}}}'?|\"(?:[^\"\\\n]|\\.){{0,{_VALUE}}}\"?"
_ASSIGNED = re.compile(
    rf"(?i)((?<![a-z])(?:{_WORDS})\\?[\"']?\s{{0,8}}(?:=|%3d|:)\s{{0,8}})"
    rf"(?:\\[\"'][^\"'\n]{{0,{_VALUE}}}|{_QUOTED}|[^\s&'\",;]{{1,{_VALUE}}})"
)
_SQL_PASSWORD = re.compile(rf"(?i)(\bpassword\s{{1,8}}(?:e|u&)?)'(?:[^'\n]|''){{0,{_VALUE}}}'?")
_SECRET_QUERY = re.compile(rf"(?i)[?&](?:{_WORDS})=([^&#\s]*)")


def _may_name_a_credential(text: str) -> bool:
    """Whether one of ``_WORDS`` can be in it. What is not ASCII folds its case in its own way."""
    if not text.isascii():
        return True
    lower = text.lower()
    return any(part in lower for part in _PARTS)


class Redactor:
    """Knows the secrets of one process. Holds them, so its repr shows none."""

    __slots__ = ("_literals", "_percent", "_short")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        long: set[str] = set()
        percent: dict[str, None] = {}
        short: dict[str, None] = {}
        for secret in secrets:
            for part in (secret[:SECRET_MAX], *secret[:SECRET_MAX].split("\n")):
                if len(part) >= SHORT:
                    long.update(form for form in _forms(part) if form)
                    percent[_percent_pattern(part)] = None
                elif part:
                    forms = sorted(_forms(part), key=len, reverse=True)
                    short |= {rf"(?<!\w){re.escape(form)}(?!\w)": None for form in forms if form}
        self._literals = tuple(sorted(long, key=lambda form: (-len(form), form)))
        self._percent = tuple(re.compile(pattern) for pattern in percent)
        self._short = tuple(re.compile(pattern) for pattern in short)

    def __repr__(self) -> str:
        return "Redactor(***)"

    @classmethod
    def of_urls(cls, *urls: str) -> "Redactor":
        """Knows every secret of these database URLs, well-formed or not."""
        return cls(secret for url in urls for secret in secrets_of(url))

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Redactor":
        """Knows the secrets of every value that looks like a URL, and of every password."""
        return cls(_environment_secrets(environment))

    def text(self, text: str, limit: int = TEXT_MAX) -> str:
        """``text`` without its secrets, cut to ``limit`` characters afterwards."""
        given = text
        for literal in self._literals:
            if literal in text:
                text = text.replace(literal, MASK)
        if text is not given or "%" in text:  # without either it has the plain spelling alone
            for pattern in self._percent:
                text = pattern.sub(MASK, text)
        for pattern in self._short:
            text = pattern.sub(MASK, text)
        if "@" in text:
            text = _USERINFO.sub(rf"\g<1>{MASK}@", text)
        if _may_name_a_credential(text):
            text = _SQL_PASSWORD.sub(rf"\g<1>'{MASK}'", text)
            text = _ASSIGNED.sub(rf"\g<1>{MASK}", text)
        return text if len(text) <= limit else text[: max(0, limit - len(CUT))] + CUT

    def lines(self) -> "Lines":
        """A filter for a child's output, which comes in chunks."""
        return Lines(self)


class Lines:
    """Redacts a stream of bytes line by line, whatever the chunks.

    Nothing of a line is given out before its end is seen: half a secret matches no rule. A line
    beyond ``LINE_MAX`` characters is cut, and its rest dropped.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> str:
        """What can be shown after ``chunk``: whole lines only."""
        return self._take(self._decoder.decode(chunk), end=False)

    def finish(self) -> str:
        """The last line, if no newline ended it."""
        return self._take(self._decoder.decode(b"", final=True), end=True)

    def _take(self, text: str, *, end: bool) -> str:
        *whole, rest = text.split("\n")
        shown = []
        for line in whole:
            self._keep(line)
            shown.append(self._emit() + "\n")
        self._keep(rest)
        if end:
            shown.append(self._emit())
        return "".join(shown)

    def _keep(self, text: str) -> None:
        room = LINE_MAX - self._size
        if room > 0 and text:
            self._line.append(text[:room])
        self._size += len(text)

    def _emit(self) -> str:
        line, cut = "".join(self._line), self._size > LINE_MAX
        self._line, self._size = [], 0
        if cut:
            # The end may hold half a secret, in a spelling several times its length.
            line = line[: -LINE_MAX // 2]
        return self._redactor.text(line) + (CUT if cut else "")


def secrets_of(url: str) -> Iterator[str]:
    """What must never be shown of a database URL. Never raises: the URL may be anything."""
    url = url.strip("\r\n")
    found = {match[1] for match in _SECRET_QUERY.finditer(url)}
    _, mark, rest = url.partition("://")
    if mark:
        # Readers disagree on where a userinfo ends when its password holds an @, / or ?.
        for userinfo in {rest.partition("@")[0], rest.rpartition("@")[0]}:
            if "@" in rest:
                found.add(userinfo.partition(":")[2])
                found.add(userinfo.partition(":")[2].rpartition("@")[0])
                found.add(userinfo if ":" in userinfo else "")
    for secret in found - {""}:
        yield secret
        raw = unquote_to_bytes(secret.encode("utf-8", "surrogatepass"))
        yield raw.decode("utf-8", "replace")
        yield raw.decode("latin-1")


def _environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if "://" in value and "@" in value:
            yield from secrets_of(value)
        elif re.search(r"(?i)passw|secret|token", name) and 0 < len(value) <= SECRET_MAX:
            yield value


def _forms(secret: str) -> set[str]:
    """Whole-text spellings of one secret, each by one consistent rule."""
    escaped = json.dumps(secret)[1:-1]
    unicode_escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
    forms = {
        secret,
        escaped,
        unicode_escaped,
        escaped.replace("/", "\\/"),
        json.dumps(escaped)[1:-1],  # a document inside a document
        json.dumps(unicode_escaped, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        secret.replace("'", "''"),
        secret.replace("'", "''").replace("\\", "\\\\"),
        secret.replace('"', '""'),
        secret.replace("\\", "\\\\").replace("'", "\\'"),  # libpq's conninfo
        secret.replace("'", "'\\''"),
        secret.replace("'", "'\"'\"'"),
        re.sub(r"([^\w@%+=:,./-])", r"\\\1", secret, flags=re.ASCII),  # shell, character-wise
        _html(secret, "&#x27;"),
        _html(secret, "&#39;"),
    }
    raw = secret.encode("utf-8", "surrogatepass")
    for safe in ("", "/"):
        forms |= {quote(raw, safe=safe), quote_plus(raw, safe=safe)}
    if len(raw) >= SHORT:
        forms |= {raw.hex(), raw.hex().upper()}
    if len(raw) >= BASE64_MIN:
        forms |= _base64_forms(raw)
    return forms


def _html(secret: str, apostrophe: str) -> str:
    # By hand: the html module loads every named entity there is.
    text = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", apostrophe)


def _base64_forms(raw: bytes) -> set[str]:
    """The characters that the secret alone decides, at each of three alignments."""
    forms = set()
    for shift in range(3):
        start = (8 * shift + 5) // 6
        end = 8 * (shift + len(raw)) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(b"\0" * shift + raw).decode("ascii")[start:end])
    return forms


def _percent_pattern(secret: str) -> str:
    """Any mixture of plain and percent-encoded characters, in either case of the digits."""
    parts = []
    for character in secret:
        encoded = "".join(
            f"%(?i:{byte:02x})" for byte in character.encode("utf-8", "surrogatepass")
        )
        parts.append(f"(?:{re.escape(character)}|{encoded})")
    return "".join(parts)
