"""One real ``run_pass`` over a state, as a function of exactly what it reads.

``Passes.run`` makes the ports of one process out of a state's parts, lets the engine's own
``run_pass`` loose on them, and answers with what became durable, in order. Because the answer
follows from what was read alone, it is kept by the exact parts that were read (stored texts,
Jobs as they show themselves, memory, clock, names to draw) and by what was to go wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from ptahk.backends.local import documents
from ptahk.engine import driver
from ptahk.engine.model.resource import LEASE
from ptahk.engine.ports import (
    AlreadyExists,
    Change,
    Collected,
    Document,
    Indeterminate,
    JobOrder,
    JobView,
    Key,
    Memory,
    NotFound,
    PodView,
    Ports,
    Store,
    Unavailable,
    Watched,
)
from tests.kit.faults import Killed
from tests.kit.scenario import FAMILIES
from tests.model import parts
from tests.model.effects import Effect, arrive, late, ordered, outcome_of, view
from tests.model.parts import NOW, Interned, Part

Fate = Literal["kill-before", "kill-after", "lost", "void", "late", "down"]
FATES: tuple[Fate, ...] = ("kill-before", "kill-after", "lost", "void", "late", "down")
Plan = tuple[int, Fate] | None
"""Number of the write that something happens to, from 1, and what; None: nothing."""

MONOTONIC_S = 1_000_000.0


class Done(NamedTuple):
    """What a pass came to."""

    effects: tuple[Effect, ...]
    memory: Part
    step: str
    writes: int
    """How many writes it sent."""


@dataclass
class View:
    """What one reading sees."""

    documents: dict[Key, Part]
    jobs: dict[str, Part]
    """Name → the Job as it shows itself: (order, uid, terminal, ttl, pods, output)."""


@dataclass
class Question:
    """Everything that a pass depends on."""

    key: Key
    view: View
    live: View
    """What its writes meet; ``view`` itself, unless the pass was held up."""
    memory: Part
    plan: Plan
    draws: tuple[int, int, int]
    versions: frozenset[tuple[Key, str]] = frozenset()
    """Resource versions that copies under way still bear."""
    surroundings: int = 0
    age_s: int = 0
    """How long ago the reading was."""


def remembered(interned: Interned, memory: Memory, found: Mapping[str, Any], skew_s: int,
               now_s: float, keep: bool) -> Part:  # fmt: skip
    """A process's memory as a part: what makes no difference is left out.

    A mark that was just set says nothing yet, so it is kept (``keep``) only where time passes now.
    """
    watched = []
    for what, seen in sorted(memory.watched.items()):
        age = min(parts.AGE_MAX_S, int(now_s - seen.since_s))
        if age > 0 or keep:
            watched.append((what, seen.mark, age))
    results = tuple(sorted((uid, found[uid]) for uid in memory.results if uid in found))
    content = (
        tuple(watched), results, tuple(sorted(memory.published)),
        tuple(sorted(memory.sources.items())), skew_s,
    )  # fmt: skip
    return interned.of("memory", content)


class Passes:
    """Runs passes, and remembers what each came to.

    :param memo: False: every pass is run for real.
    """

    def __init__(self, interned: Interned, store: Store, certain: bool, memo: bool = True) -> None:
        self.interned, self.store, self.certain, self.memo = interned, store, certain, memo
        self.asked = 0
        self.ran = 0
        self._known: dict[Any, tuple[int, dict[Any, Done]]] = {}

    def run(self, question: Question, keep: bool = False) -> Done:
        """What this pass comes to."""
        self.asked += 1
        if not self.memo or question.view is not question.live:
            self.ran += 1
            return _Pass(self, question, keep).run()
        view, key = question.view, question.key
        own = tuple(part for name, part in view.jobs.items() if _owner(part) == key.name)
        lease = tuple(part for name, part in view.documents.items() if name.kind == LEASE)
        base = (
            key, view.documents.get(key), lease, own, question.memory, question.plan,
            question.versions, question.surroundings, question.age_s, keep,
        )  # fmt: skip
        entry = self._known.get(base)
        if entry is not None:
            done = entry[1].get(self._more(entry[0], question))
            if done is not None:
                return done
        self.ran += 1
        run = _Pass(self, question, keep)
        done = run.run()
        needs = (1 if run.read_others else 0) + (2 if run.drew else 0)
        if entry is None:
            entry = self._known[base] = (needs, {})
        elif needs & ~entry[0]:
            entry = self._known[base] = (needs | entry[0], {})
        entry[1][self._more(entry[0], question)] = done
        return done

    def _more(self, needs: int, question: Question) -> Any:
        return (
            tuple(question.view.documents.values()) if needs & 1 else None,
            question.draws if needs & 2 else None,
        )


def _owner(shown: Part) -> str:
    return str(shown.content[0].extra.owner["name"])


class _Pass:
    """The world of one pass: clock, dice, store and Jobs of one process."""

    def __init__(self, passes: Passes, question: Question, keep: bool) -> None:
        self.passes, self.question, self.keep = passes, question, keep
        self.interned = passes.interned
        self.effects: list[Effect] = []
        self.writes = 0
        self.read_others = self.read_own = self.went_on = False
        self.names = [
            parts.drawn(kind, number)
            for kind, number in zip(
                (parts.OPERATION, parts.NONCE, parts.EPOCH), question.draws, strict=True
            )
        ]
        self.found: dict[str, Any] = {}
        self.view = question.view
        self.documents = dict(question.view.documents)
        self.jobs = dict(question.view.jobs)

    # -- clock, dice, surroundings, recorder -------------------------------------------------

    def now(self) -> datetime:
        skew_s = self.question.memory.content[4]
        return NOW + timedelta(seconds=skew_s - self.question.age_s)

    def monotonic(self) -> float:
        return MONOTONIC_S - self.question.age_s

    def operation_id(self) -> str:
        return self.names[0]

    def nonce(self) -> str:
        return self.names[1]

    def epoch_bits(self) -> str:
        return self.names[2]

    def snapshot(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any]:
        return {"interpreter": f"/python{self.question.surroundings}"}

    def event(self, key: Key, type: str, reason: str, text: str) -> None:
        return

    @property
    def drew(self) -> bool:
        """A name that was drawn stands in what it did."""
        names = {name[:6] for name in self.names}
        texts = [part for effect in self.effects for part in (effect.after,) if part is not None]
        return any(names.intersection(part.tokens) for part in texts)

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Done:
        question = self.question
        memory = self._memory()
        objects, jobs = _Objects(self), _Jobs(self)
        ports = Ports(
            store=self.passes.store, objects=objects, jobs=jobs, surroundings=self, clock=self,
            entropy=self, recorder=self, memory=memory,
        )  # fmt: skip
        skew_s = question.memory.content[4]
        try:
            result = driver.run_pass(ports, question.key, families=FAMILIES)
        except Killed:
            empty = remembered(self.interned, Memory(), {}, skew_s, 0.0, False)
            return Done(tuple(self.effects), empty, "killed", self.writes)
        after = remembered(
            self.interned, memory, self.found, skew_s, self.monotonic(), self.keep
        )  # fmt: skip
        return Done(tuple(self.effects), after, result.step, self.writes)

    def _memory(self) -> Memory:
        watched, results, published, sources, _ = self.question.memory.content
        memory = Memory(published=set(published), sources=dict(sources))
        for what, mark, age in watched:
            memory.watched[what] = Watched(mark, self.monotonic() - age)
        for uid, described in results:
            self.found[uid] = described
            memory.results[uid] = outcome_of(described)
        return memory

    def go_on(self) -> None:
        """A pass that was held up sees the world as it is, from here on."""
        live = self.question.live
        if live is not self.view and not self.went_on:
            self.documents, self.jobs = dict(live.documents), dict(live.jobs)
        self.went_on = True

    # -- writes ------------------------------------------------------------------------------

    def write(self, send: Any, sent: Effect | None = None) -> Any:
        """One write, with what is to happen to it.

        :param send: ``send(True)`` does it; ``send(False)`` only says what would still arrive.
        :param sent: what counts from the moment of sending on, whatever becomes of it.
        """
        self.writes += 1
        self.go_on()
        plan = self.question.plan
        fate = plan[1] if plan is not None and plan[0] == self.writes else None
        if fate == "kill-before":
            raise Killed
        if sent is not None:
            self.effects.append(sent)
        if fate == "down":
            raise Unavailable("down")
        if fate == "void":
            raise Indeterminate("the answer was lost")
        if fate == "late":
            self.effects.append(send(False))
            raise Indeterminate("the answer was lost")
        answer = send(True)
        if fate == "kill-after":
            raise Killed
        if fate == "lost":
            raise Indeterminate("the answer was lost")
        return answer


class _Objects:
    """The Objects port."""

    def __init__(self, run: _Pass) -> None:
        self.run = run

    def get(self, key: Key) -> Document:
        run = self.run
        if key.kind in FAMILIES and key != run.question.key:
            run.read_others = True
        if key == run.question.key:
            if run.read_own:
                run.go_on()  # it looks again, so it comes to that after it was held up
            run.read_own = True
        found = run.documents.get(key)
        if found is None:
            raise NotFound(str(key))
        document: Document = found.extra.document
        return document

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        run = self.run
        run.read_others = True
        found = [part.extra for key, part in sorted(run.documents.items()) if key.kind == kind]
        return tuple(
            item.document for item in found
            if namespace in (None, item.key.namespace)
            and documents.matches(item.document, labels or {})
        )  # fmt: skip

    def create(self, document: Document) -> Document:
        return self._write("create", document)

    def replace(self, document: Document) -> Document:
        return self._write("replace", document)

    def replace_status(self, document: Document) -> Document:
        return self._write("status", document)

    def delete(self, document: Document) -> None:
        self._write("delete", document)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        return iter(())

    def _write(self, verb: str, document: Document) -> Document:
        run = self.run

        def send(arrives: bool) -> Any:
            if not arrives:
                return late(run.interned, verb, run.interned.document(document))
            effect = arrive(run.interned, verb, document, run.documents, run.question.versions)
            run.effects.append(effect)
            return document if effect.after is None else effect.after.extra.document

        answer: Document = run.write(send)
        return answer


class _Jobs:
    """The Jobs port."""

    def __init__(self, run: _Pass) -> None:
        self.run = run

    @property
    def creation_certain(self) -> bool:
        return self.run.passes.certain

    def create(self, order: JobOrder) -> JobView:
        run = self.run
        part = ordered(run.interned, order)

        def send(arrives: bool) -> Any:
            if not arrives:
                return late(run.interned, "made", part)
            if order.name in run.jobs:
                raise AlreadyExists(order.name)
            effect = Effect("made", after=part, name=order.name)
            run.effects.append(effect)
            shown = run.interned.of("shown", (part, "new", False, None, (), None, False), (part,))
            run.jobs[order.name] = shown
            return view(shown)

        answer: JobView = run.write(send, Effect("job", after=part, name=order.name))
        return answer

    def observe(self, namespace: str, name: str) -> JobView | None:
        found = self.run.jobs.get(name)
        return None if found is None or found.content[6] else view(found)

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        found = self.run.jobs.get(name)
        described: Any = ("lost",)
        if found is not None and found.content[1] == uid and found.content[5] is not None:
            described = (*found.content[5], _owner_of(found))
        self.run.found[uid] = described
        return outcome_of(described)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        run = self.run

        def send(arrives: bool) -> Any:
            found = run.jobs.get(name)
            if not arrives:
                about = found.content[0] if found is not None else run.documents[run.question.key]
                return late(run.interned, "ttl", about, name, uid, ttl_s)
            if found is None or found.content[6] or found.content[1] != uid:
                raise NotFound(name)
            run.effects.append(Effect("ttl", name=name, number=ttl_s))
            return None

        run.write(send)

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        found = self.run.jobs.get(name)
        if found is None or uid not in (None, found.content[1]):
            return ()
        return tuple(PodView(pod) for pod in found.content[4])


def _owner_of(shown: Part) -> tuple[str, str | None]:
    spec = shown.content[0].extra.spec
    return spec.operation_id, spec.epoch


__all__ = ["FATES", "Done", "Effect", "Passes", "Question", "View", "arrive"]
