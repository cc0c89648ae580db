"""States as values: interned parts, and one canonical name for every equal world.

A state is a tuple of parts: a stored document, a Job, the database, a process's memory, a request
that is still under way. Equal contents are one part, so a state costs a few references, and what
was found out about a part is kept with it.

Names that dice chose (operation ids, nonces, epochs, uids and what is digested from them) are
*tokens*: a part's text is split into a skeleton and its tokens, and ``key`` renames the tokens of
a whole state in the order in which they appear. So two worlds that differ in names alone are one.
Names are drawn as the smallest number that the state does not use, which keeps them few.
Resource versions are compared for equality alone, so a key says only which copies of a document
are the stored one. Times are kept relative to a ``NOW`` that stands still: ``aged`` moves them. A
moment that no decision reads (of history, conditions and evidence: they are for people) makes no
other world, nor does how long ago a deadline passed.
"""

import hashlib
import json
import re
from array import array
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ptahk.engine.model.fields import format_time, parse_time
from ptahk.engine.ports import Document, Key, key_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = format_time(NOW)
AGE_MAX_S = 120
"""Whatever is older is equally old: more than every duration of this small world."""

OPERATION, NONCE, EPOCH, RUN = "0a", "0b", "0c", "0d"
DIGITS = {OPERATION: 32, NONCE: 32, EPOCH: 16, RUN: 32}
_TOKEN = re.compile(
    r"[0-9a-f]{4}(?:(?:0a){14}|(?:0b){14}|(?:0c){6}(?![0-9a-f])|(?:0d){14}|(?:0a){4}(?![0-9a-f]))"
    r"|[0-9a-f]{32,64}|\b(?:job|pod)-\d+\b"
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_FOR_PEOPLE = re.compile(
    r'"(?:lastTransitionTime|finishTime|acquireTime|dispatchTime|time|startedAt)": "[^"]*"'
)
_DEADLINE = re.compile(r'((?:[nN]otAfter|not_after)\\?": *\\?")([^"\\]*)')
DERIVED: dict[str, str] = {}
"""Digests over drawn names (holders, Job names, intents) → what of which operation: names too."""


_DRAWN = frozenset(kind * 4 for kind in DIGITS)


def drawn(kind: str, number: int) -> str:
    """The n-th name of a kind."""
    return f"{number:04x}" + kind * ((DIGITS[kind] - 4) // 2)


class Part:
    """One interned piece of a state."""

    __slots__ = ("content", "extra", "kind", "skeleton", "tokens")
    skeleton: int
    tokens: tuple[str, ...]

    def __init__(self, kind: str, content: Any, text: str, children: tuple["Part", ...]) -> None:
        self.kind, self.content = kind, content
        names: dict[str, int] = {}

        def taken(match: re.Match[str]) -> str:
            word = match[0]
            what = ""
            if word in DERIVED:
                what, token = DERIVED[word][0], DERIVED[word][1:]
            elif word[0] in "jp":
                token = word
            elif word[4:12] in _DRAWN:
                token = word[:6]
            else:
                return word
            return f"\0{what}{names.setdefault(token, len(names))}\0"

        plain = kind + "\1" + _TOKEN.sub(taken, _DEADLINE.sub(_passed, text))
        for child in children:
            for token in child.tokens:
                plain += f"\1{names.setdefault(token, len(names))}"
            plain += f"\1{child.skeleton}"
        raw = hashlib.blake2b(plain.encode(), digest_size=8).digest()
        self.skeleton = int.from_bytes(raw, "big")
        self.tokens = tuple(names)
        self.extra: Any = None


class Interned:
    """The one part of each content."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Any], Part] = {}
        self._aged: dict[tuple[Part, int], Part] = {}
        self._documents: dict[int, Part] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, kind: str, content: Any, children: tuple[Part, ...] = (), text: str = "") -> Part:
        """The part of this content; ``text`` is its written form where ``repr`` is not."""
        found = self._known.get((kind, content))
        if found is None:
            found = Part(kind, content, text or repr(content), children)
            self._known[kind, content] = found
        return found

    def document(self, document: Document) -> Part:
        """A stored document. Never changed by anybody from here on."""
        found = self._documents.get(id(document))
        if found is not None:
            return found
        _learn(document)
        metadata = document["metadata"]
        version = metadata.get("resourceVersion", "")
        plain = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        text = json.dumps({**document, "metadata": plain}, sort_keys=True)
        part = self._known.get(("document", (text, version)))
        if part is None:
            part = Part("document", (text, version), _decisive(document, plain), ())
            part.extra = Stored(key_of(document), document, metadata.get("uid", ""), version)
            self._known["document", (text, version)] = part
            self._documents[id(document)] = part
        return part

    def aged(self, part: Part, seconds: int) -> Part:
        """The document so much later."""
        found = self._aged.get((part, seconds))
        if found is None:
            text, version = part.content
            document = json.loads(aged_text(text, seconds))
            document["metadata"]["resourceVersion"] = version
            found = self._aged[part, seconds] = self.document(document)
        return found


class Stored(NamedTuple):
    """What a document's part knows of it."""

    key: Key
    document: Document
    uid: str
    version: str


def aged_text(text: str, seconds: int) -> str:
    """Every moment in the text so much earlier, but none earlier than makes a difference."""
    floor = NOW - timedelta(seconds=AGE_MAX_S)

    def moved(match: re.Match[str]) -> str:
        moment = parse_time(match[0]) - timedelta(seconds=seconds)
        return format_time(max(moment, floor))

    return _MOMENT.sub(moved, text)


def _decisive(document: Document, metadata: dict[str, Any]) -> str:
    """The document's text without the moments that no decision reads."""
    status = document.get("status")
    if status and status.get("history"):
        kept = [
            {name: item for name, item in entry.items() if not name.endswith("Time")}
            for entry in status["history"]
        ]
        status = {**status, "history": kept}
    claim = (status or {}).get("activeOperation")
    if status and claim and claim.get("dispatchStarted"):
        # How long it waited is asked before its dispatch alone; its Job has the deadline.
        left = {k: v for k, v in claim.items() if k not in ("startTime", "dispatchNotAfter")}
        status = {**status, "activeOperation": left}
    if status:
        document = {**document, "status": status}
    text = json.dumps({**document, "metadata": metadata}, sort_keys=True)
    return _FOR_PEOPLE.sub("", text)


def _passed(match: re.Match[str]) -> str:
    return match[0] if match[2] > _NOW else match[1]


def _learn(document: Document) -> None:
    """Names that a claim's dice made, beside the dice themselves."""
    claim = (document.get("status") or {}).get("activeOperation")
    if claim:
        operation = claim["operationId"][:6]
        DERIVED[claim["jobName"].rpartition("-")[2]] = "J" + operation
        if claim["type"] != "Prove":
            DERIVED[claim["holder"].removeprefix("sha256:")] = "H" + operation
        intent = claim.get("intentDigest")
        if intent:
            DERIVED[intent.removeprefix("sha256:")] = "I" + operation


class State(NamedTuple):
    """One world, standing still."""

    documents: tuple[Part, ...]
    """By key."""
    jobs: tuple[Part, ...]
    database: Part
    managers: tuple[Part, ...]
    """What each process remembers."""
    held: tuple[Part | None, ...]
    """Of each process: a pass that has read and decided, and was held up."""
    late: tuple[Part, ...]
    """Requests whose answers were lost and that will still arrive."""
    seen: Part
    """What the auditor remembers."""
    surroundings: int


def key(state: State) -> int:
    """The state's canonical name, 64 bits."""
    names: dict[str, int] = {}
    words: list[int] = []

    def add(part: Part) -> None:
        words.append(part.skeleton)
        for token in part.tokens:
            words.append(names.setdefault(token, len(names)))

    for part in state.documents:
        add(part)
    for part in sorted(state.jobs, key=_skeleton):
        add(part)
    add(state.database)
    slots = list(zip(state.managers, state.held, strict=True))
    if len(slots) == 2 and _slot(slots[0]) > _slot(slots[1]):
        slots.reverse()  # processes are alike
    for memory, held in slots:
        add(memory)
        if held is not None:
            add(held)
            words.extend(_current(state, held.content[1]))
        words.append(held is not None)
    for part in sorted(state.late, key=_skeleton):
        add(part)
        words.extend(_current(state, part.content[2]))
    add(state.seen)
    words.append(state.surroundings)
    raw = hashlib.blake2b(array("Q", words).tobytes(), digest_size=8).digest()
    return int.from_bytes(raw, "big")


def _skeleton(part: Part) -> int:
    return part.skeleton


def _slot(slot: tuple[Part, Part | None]) -> tuple[int, int]:
    memory, held = slot
    return memory.skeleton, 0 if held is None else held.skeleton


def _current(state: State, parts: Iterable[Part]) -> Iterable[bool]:
    """Which of these copies are the stored ones."""
    stored = {part.extra.key: part.extra.version for part in state.documents}
    for part in parts:
        if part.kind == "document":
            yield stored.get(part.extra.key) == part.extra.version


def used(state: State) -> set[str]:
    """Every name in the state."""
    found: set[str] = set()
    for part in state.documents:
        found.update(part.tokens)
    for part in state.jobs:
        found.update(part.tokens)
    found.update(state.database.tokens)
    for held in (*state.managers, *state.held, *state.late):
        if held is not None:
            found.update(held.tokens)
    found.update(state.seen.tokens)
    return found


def fresh(names: set[str], prefix: str) -> int:
    """The smallest number whose name nobody bears: of dice (``0a``), or ``job-``, ``pod-``."""
    number = 1
    if prefix.endswith("-"):
        while f"{prefix}{number}" in names:
            number += 1
        return number
    while f"{number:04x}{prefix}" in names:
        number += 1
    return number
