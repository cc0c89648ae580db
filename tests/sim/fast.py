"""Parses of one and the same stored document, done once.

More than half of a seed's time was reading the same documents again: every pass parses status, spec
and Lease anew, and most of them have not changed. The simulator's API server shares documents with
its readers and never changes one in place, so the very object is the key: what it was parsed to
stays true. A copied document is never found here, so the run with copies
(``test_a_seed_repeats_byte_for_byte``) parses everything, and must come to the same trace.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from ptahk.engine import gather, peers, perform
from ptahk.engine.families import schema
from ptahk.engine.model import fields
from ptahk.engine.model import lease as leases
from ptahk.engine.model import status as statuses
from ptahk.engine.model.status import HistoryEntry, Status

KEPT_MAX = 50_000


class Parses:
    """Document object → what a parser made of it. Holds the object, so its id stays its own."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def clear(self) -> None:
        self._known.clear()

    def learn(self, document: Any, parsed: Any) -> None:
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        self._known[id(document)] = (document, parsed)

    def once(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        """``parse``, remembered by its first argument; what raises is parsed again."""

        def parsed(document: Any, *rest: Any) -> Any:
            found = self._known.get(id(document))
            if found is not None:
                return found[1]
            result = parse(document, *rest)
            if document:
                self.learn(document, result)
            return result

        return parsed


STATUSES = Parses()
LEASES = Parses()
SPECS = Parses()
PLANS = Parses()
"""And approvals."""
ENTRIES = Parses()
"""Of a history: most of a status's text, and twenty operations old."""
_WRITTEN = Parses()


def _read_entry(document: Any) -> HistoryEntry:
    found = fields.read(HistoryEntry, document)
    _WRITTEN.learn(found, document)
    return found


_entry = ENTRIES.once(_read_entry)


def status(document: Any, uid: str) -> Status:
    """``statuses.parse``; an entry of the history that was seen before is not read again."""
    entries = document.get("history") if type(document) is dict else None
    if type(entries) is not list or len(entries) > statuses.HISTORY_KEPT:
        return statuses.parse(document, uid)
    found = statuses.parse({**document, "history": []}, uid)
    return dataclasses.replace(found, history=tuple(map(_entry, entries)))


def _rendered(render: Callable[[Status], dict[str, Any]]) -> Callable[[Status], dict[str, Any]]:
    """``render``; an entry of the history that was written before is not written again."""

    def written(status: Status) -> dict[str, Any]:
        document = render(dataclasses.replace(status, history=()))
        document["history"] = [_WRITTEN.once(fields.write)(entry) for entry in status.history]
        return document

    return written


@contextlib.contextmanager
def parsing_once() -> Iterator[None]:
    """The engine's parsers remember, for the time of one seed."""
    places: list[tuple[Any, str, Callable[..., Any]]] = [
        (gather, "parse", STATUSES.once(gather.parse)),
        (peers, "parse", STATUSES.once(peers.parse)),
        (gather, "parse_plan", PLANS.once(gather.parse_plan)),
        (gather, "parse_approval", PLANS.once(gather.parse_approval)),
        (leases, "parse", LEASES.once(leases.parse)),
        (schema, "parse_spec", SPECS.once(schema.parse_spec)),
        (perform, "render", _rendered(perform.render)),
    ]
    real = [(module, name, getattr(module, name)) for module, name, _ in places]
    try:
        for module, name, memo in places:
            setattr(module, name, memo)
        yield
    finally:
        for module, name, parse in real:
            setattr(module, name, parse)
        for parses in (STATUSES, LEASES, SPECS, PLANS, ENTRIES, _WRITTEN):
            parses.clear()
