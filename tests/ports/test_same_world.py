"""The memory is allowed only because it behaves as the stores do: random histories on both."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from ptahk.backends.local.objects import LocalObjects
from ptahk.engine.ports import Change, Document, Objects, PortError
from tests.kit.budget import scaled
from tests.kit.memory import MemoryClock, MemoryObjects

HISTORIES = scaled(60)
STEPS = 60
KINDS = ("PtahSchema", "PtahPlan", "ConfigMap", "Lease")
NAMES = ("a", "b", "c")


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


class History:
    """One random history. Uids are given, so that both worlds hold equal documents."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.seen: list[Document] = []
        self.made = 0

    def fresh(self) -> Document:
        self.made += 1
        metadata: dict[str, Any] = {
            "namespace": self.dice.choice(("n", "m")),
            "name": self.dice.choice(NAMES),
            "uid": uid(self.made if self.dice.random() < 0.9 else 1),
        }
        if self.dice.random() < 0.3:
            metadata["finalizers"] = ["f/1"]
        if self.dice.random() < 0.3:
            metadata["labels"] = {"color": self.dice.choice(("red", "blue"))}
        if self.seen and self.dice.random() < 0.5:
            owners = self.dice.sample(self.seen, k=min(len(self.seen), self.dice.randint(1, 2)))
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": o["kind"], "name": "x", "uid": o["metadata"]["uid"]}
                for o in owners
            ]
        kind = self.dice.choice(KINDS)
        document = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        document["spec"] = {"n": self.dice.randrange(3)}
        if kind == "ConfigMap":
            document["immutable"] = self.dice.random() < 0.5
        return document

    def changed(self) -> Document:
        """A document as somebody once saw it, with a change or none."""
        document = self.dice.choice(self.seen[-8:])
        document = {**document, "metadata": dict(document["metadata"])}
        change = self.dice.randrange(7)
        if change == 0:
            document["spec"] = {"n": self.dice.randrange(3)}
        elif change == 1:
            document["metadata"]["finalizers"] = self.dice.choice(([], ["f/1"], ["f/2"]))
        elif change == 2:
            document["metadata"]["annotations"] = {"x": str(self.dice.randrange(3))}
        elif change == 3:
            document["status"] = self.dice.choice(({"n": 1}, {"n": 2}, None))
        elif change == 4:
            document["metadata"].pop(self.dice.choice(("resourceVersion", "uid")), None)
        return document

    def step(self) -> Callable[[Objects], Any]:
        verb = self.dice.choice(("create", "replace", "replace", "replace_status", "delete"))
        if verb == "create" or not self.seen:
            document = self.fresh()
            return lambda objects: objects.create(document)
        document = self.changed()
        return lambda objects: getattr(objects, verb)(document)


def answer(action: Callable[[Objects], Any], objects: Objects) -> Any:
    try:
        return action(objects)
    except PortError as error:
        return type(error)


def everything(objects: Objects) -> list[tuple[Document, ...]]:
    found = [objects.list(kind) for kind in KINDS]
    found += [objects.list(kind, "n", {"color": "red"}) for kind in KINDS]
    return found


def told(since: dict[str, Document], changes: list[Change]) -> dict[str, Document]:
    """What a watcher that started with ``since`` holds in the end."""
    held = dict(since)
    for change in changes:
        key = change.document["metadata"]["namespace"] + "/" + change.document["metadata"]["name"]
        if change.type == "Deleted":
            held.pop(key, None)
        else:
            held[key] = change.document
    return held


def by_name(documents: tuple[Document, ...]) -> dict[str, Document]:
    return {f"{d['metadata']['namespace']}/{d['metadata']['name']}": d for d in documents}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_memory_and_local_store_agree(seed: int) -> None:
    dice = random.Random(seed)
    clock = MemoryClock()
    memory, local = MemoryObjects(clock), LocalObjects.in_memory(clock)
    history = History(dice)
    since, before = memory.resource_version, {kind: by_name(memory.list(kind)) for kind in KINDS}
    for number in range(STEPS):
        clock.advance(1)
        action = history.step()
        mine, theirs = answer(action, memory), answer(action, local)
        if not isinstance(mine, dict) or "resourceVersion" in mine.get("metadata", {}):
            assert type(mine) is type(theirs), (seed, number)
        if isinstance(mine, dict):
            history.seen.append(mine)
        else:
            assert mine == theirs, (seed, number)
        assert everything(memory) == everything(local), (seed, number)
        assert memory.resource_version == local.resource_version, (seed, number)
        if number % 20 == 10:
            since = memory.resource_version
            before = {kind: by_name(memory.list(kind)) for kind in KINDS}
    for kind in KINDS:
        now = by_name(memory.list(kind))
        assert told(before[kind], list(memory.watch(kind, None, since, 0.0))) == now
        assert told(before[kind], list(local.watch(kind, None, since, 0.0))) == now
    local.close()
