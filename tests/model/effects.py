"""What a write or a request comes to in a state: the store's rules, orders and views of Jobs."""

import json
from typing import Any, NamedTuple

from ptahk.backends.local import documents
from ptahk.engine.ports import (
    AlreadyExists,
    Collected,
    Document,
    JobOrder,
    JobView,
    Key,
    Lost,
    NotFound,
    NotYet,
    Result,
    key_of,
)
from ptahk.wire import frame, jobspec
from tests.model.parts import Interned, Part

CREATED = "2026-01-01T00:00:00Z"


class Effect(NamedTuple):
    """One thing that a pass did, or sent on its way."""

    verb: str
    """``status``, ``replace``, ``create``, ``delete``; ``job``: sent; ``made``: the Job stands;
    ``ttl``; ``late``: the request will still arrive."""
    before: Part | None = None
    after: Part | None = None
    name: str = ""
    number: int = 0


def late(interned: Interned, verb: str, about: Part, *more: Any) -> Effect:
    """A request that will still arrive."""
    part = interned.of("late", (verb, more, (about,)), (about,), f"{verb} {more}")
    return Effect("late", after=part)


def arrive(
    interned: Interned, verb: str, document: Document, stored: dict[Key, Part],
    versions: frozenset[tuple[Key, str]],
) -> Effect:  # fmt: skip
    """A write reaches the store, which is changed.

    :raises PortError: as the store answers.
    """
    key = key_of(document)
    old = stored.get(key)
    if verb == "create":
        if old is not None:
            raise AlreadyExists(str(key))
        uid = f"00000000-0000-4000-8000-{len(key.name):06d}{len(stored):06d}"
        new = documents.created(document, uid=uid, rv=_version(key, "", versions), now=CREATED)
        return _stored(interned, verb, key, None, new, stored)
    if old is None:
        raise NotFound(str(key))
    version = _version(key, old.extra.version, versions)
    before: Document = old.extra.document
    found: Document | None
    if verb == "status":
        found = documents.with_status(before, document, rv=version)
    elif verb == "replace":
        found = documents.replaced(before, document, rv=version)
    else:
        documents.check_expected(before, document["metadata"], needed=True)
        found = documents.marked_deleted(before, rv=version, now=CREATED)
    return _stored(interned, verb, key, old, found, stored)


def _stored(
    interned: Interned, verb: str, key: Key, old: Part | None, new: Document | None,
    stored: dict[Key, Part],
) -> Effect:  # fmt: skip
    if new is None:
        del stored[key]
        return Effect(verb, old)
    part = interned.document(new)
    stored[key] = part
    return Effect(verb, old, part)


def _version(key: Key, current: str, taken: frozenset[tuple[Key, str]]) -> int:
    number = 1
    while str(number) == current or (key, str(number)) in taken:
        number += 1
    return number


def ordered(interned: Interned, order: JobOrder) -> Part:
    """An order as a part."""
    text = f"{order.name} {sorted(order.annotations.items())} {jobspec.encode(order.spec)!r}"
    part = interned.of("order", text, (), text)
    part.extra = order
    return part


def view(shown: Part) -> JobView:
    """What ``observe`` answers."""
    found: JobView | None = shown.extra
    if found is None:
        order, uid, terminal, ttl_s = shown.content[:4]
        found = JobView(order.extra.name, uid, dict(order.extra.annotations), terminal, ttl_s)
        shown.extra = found
    return found


def outcome_of(described: Any) -> Collected:
    """What was collected, from how a state writes it: ``frame``, ``cut``, ``noise``, ``lost``."""
    word = described[0]
    if word == "lost":
        return Lost("the log is gone")
    if word == "running":
        return NotYet("it is running")
    pod = described[1]
    if word == "noise":
        return Result(b"noise of a process that ended\n", None, pod)
    text, (operation, epoch) = described[2], described[3]
    output = b"noise\n" + frame.encode(operation, epoch, json.loads(text))
    return Result(output if word == "frame" else output[: len(output) // 2], None, pod)
