"""What may happen in a state: the free moves, and those that count as faults.

Two processes, two resources in one realm, a database and a Job controller. A free move is one that
happens in a world without faults too: a pass, a step of an executor, the arrival of what is still
under way, the end of a dead client's session, a person who puts right what was put wrong. Time
passes freely only where nothing else can happen any more; at any other moment that is a fault.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ptahk.backends.local import documents
from ptahk.engine.model.resource import LEASE
from ptahk.engine.ports import Document, Key, Memory, PortError, Store
from tests.kit import toy
from tests.kit.auditor import Violation
from tests.model import parts
from tests.model.ages import Ages
from tests.model.audit import Audit, nothing, status_of
from tests.model.beginning import NAMES, resource, uid
from tests.model.database import PHASES, RUNS, Base, Executors, Job, Run
from tests.model.effects import Effect, arrive
from tests.model.parts import Interned, Part, State
from tests.model.passes import (
    FATES,
    Done,
    Passes,
    Question,
    View,
    remembered,
)

TICK_S, LEAP_S, SKEW_S = 40, 100, 60
"""Past the deadlines and a third of a Lease, or past a whole Lease too."""
LOOK_MOVES_MAX = 40


class Move(NamedTuple):
    """Something that happens."""

    label: str
    kind: str
    """Of a fault; empty where it is free."""
    state: State | Violation


class Config(NamedTuple):
    """Which world."""

    name: str
    local: bool = False
    """A local store: it acts on requests alone, and a create is certain."""
    kinds: tuple[str, ...] | None = None
    """Faults that may happen; None: all."""


CONFIGS = {item.name: item for item in (Config("cluster"), Config("local", local=True))}

KINDS = (
    *FATES, "held", "restart", "skew", "tick", "leap", "surroundings", "dies", "fails", "cut",
    "twin", "again", "job-deleted", "job-orphaned", "job-replaced", "node-lost",
    "log-lost", "log-cut", "suspend", "edit", "delete",
)  # fmt: skip
"""Every kind of fault."""


class World:
    """The moves of one configuration."""

    def __init__(self, config: Config, memo: bool = True) -> None:
        self.config = config
        self.interned = Interned()
        self.executors = Executors(self.interned, config.local)
        self.audit = Audit(self.interned)
        store = Store(
            uid="00000000-0000-4000-b000-000000000001",
            kind="local" if config.local else "cluster",
            coordination_namespace="local" if config.local else "ptahk-system",
            automatic=not config.local,
        )
        self.passes = Passes(self.interned, store, config.local, memo)
        self._owed: dict[Part, tuple[tuple[str, ...], tuple[str, ...], str | None]] = {}
        self.empty = remembered(self.interned, Memory(), {}, 0, 0.0, False)

    # -- the beginning ------------------------------------------------------------------------

    def initial(self) -> State:
        """Two resources, looked at once, with nothing under way."""
        stored = tuple(
            self.interned.document(
                documents.created(resource(name, self.config.local), uid=uid(name), rv=1,
                                  now="2026-01-01T00:00:00Z")
            ) for name in NAMES
        )  # fmt: skip
        state = State(
            stored, (), self.executors.base(Base()), (self.empty, self.empty), (None, None), (),
            nothing(self.interned), 0,
        )  # fmt: skip
        if self.config.local:
            return state
        for name in NAMES:
            state = self._looked(state, name)
        return state

    def _looked(self, state: State, name: str) -> State:
        """One resource, until its first look at the database is over."""
        for _ in range(LOOK_MOVES_MAX):
            found = status_of(_document(state, name))
            if found.last_observation is not None and found.active_operation is None:
                return state
            for move in self.free(state):
                assert isinstance(move.state, State)
                if move.label.startswith((f"m0 {name}", "run")) and move.state != state:
                    state = move.state
                    break
        raise Violation("invariant 31: the first look does not end")

    # -- free moves ---------------------------------------------------------------------------

    def free(self, state: State) -> Iterator[Move]:
        """What may happen without a fault, but for time."""
        for index, part in enumerate(state.late):
            yield self._try(f"late {part.content[0]} arrives", "", self._land, state, index)
        for number, job in enumerate(state.jobs):
            for index, run in enumerate(job.content.runs):
                if run.state == RUNS:
                    yield self._try(
                        _run_label(job, index), "", self._step, state, number, index, ""
                    )  # fmt: skip
        yield from self._dead_session(state)
        for process, name in self._passes(state):
            yield self._try(f"m{process} {name}", "", self._pass, state, process, name, None)
        for process, held in enumerate(state.held):
            if held is not None:
                yield self._try(f"m{process} goes on", "", self._resume, state, process, None)
        yield from self._put_right(state)

    def _passes(self, state: State) -> Iterator[tuple[int, str]]:
        """Who may look at what; of two equal processes the first."""
        names = [part.extra.key.name for part in state.documents if part.extra.key.kind == toy.KIND]
        for process, memory in enumerate(state.managers):
            if state.held[process] is not None:
                continue
            if process and state.held[0] is None and memory is state.managers[0]:
                continue
            for name in names:
                yield process, name

    def _dead_session(self, state: State) -> Iterator[Move]:
        base = state.database.content
        if base.session is None:
            return
        runs = [run for job in state.jobs for run in job.content.runs]
        if any(run.nonce == base.session[0] and run.state == RUNS for run in runs):
            return
        yield self._try("a dead session ends", "", self._end_session, state, False)
        if base.in_flight is not None:
            yield self._try("a dead client's statement commits", "", self._end_session, state, True)

    def _put_right(self, state: State) -> Iterator[Move]:
        for name in NAMES:
            part = _find(state, name)
            if part is not None and part.extra.document["spec"].get("suspend"):
                yield self._try(f"{name} goes on", "", self._edit, state, name, {"suspend": False})
        for process, memory in enumerate(state.managers):
            if memory.content[4]:
                yield self._try(f"m{process}'s clock is right", "", self._skew, state, process, 0)

    def _try(self, label: str, kind: str, act: Callable[..., State], *given: Any) -> Move:
        try:
            return Move(label, kind, act(*given))
        except Violation as violation:
            return Move(label, kind, violation)

    # -- passes -------------------------------------------------------------------------------

    def _question(self, state: State, process: int, name: str, plan: Any) -> Question:
        view = View(
            {part.extra.key: part for part in state.documents},
            {job.content.order.extra.name: job.extra for job in state.jobs},
        )
        return Question(
            Key(toy.KIND, "local", name), view, view, state.managers[process], plan,
            self._draws(state), _versions(state), state.surroundings,
        )  # fmt: skip

    def _draws(self, state: State) -> tuple[int, int, int]:
        names = parts.used(state)
        kinds = (parts.OPERATION, parts.NONCE, parts.EPOCH)
        found = [parts.fresh(names, kind) for kind in kinds]
        return found[0], found[1], found[2]

    def _pass(self, state: State, process: int, name: str, plan: Any) -> State:
        done = self.passes.run(self._question(state, process, name, plan))
        return self._took(state, process, done)

    def writes(self, state: State, process: int, name: str) -> int:
        """How many writes this process's next pass over this resource sends."""
        return self.passes.run(self._question(state, process, name, None)).writes

    def _took(self, state: State, process: int, done: Done) -> State:
        same = done.memory is state.managers[process] and state.held[process] is None
        if same and not done.effects:
            return state
        managers = list(state.managers)
        managers[process] = done.memory
        held = tuple(None if i == process else item for i, item in enumerate(state.held))
        state = state._replace(managers=tuple(managers), held=held)
        return self._happened(state, done.effects) if done.effects else state

    def _hold(self, state: State, process: int, name: str) -> State:
        question = self._question(state, process, name, None)
        shown = tuple(job.extra for job in state.jobs)
        names = " ".join(
            parts.drawn(kind, number) for kind, number in
            zip((parts.OPERATION, parts.NONCE, parts.EPOCH), question.draws, strict=True)
        )  # fmt: skip
        content = (name, state.documents, shown, question.draws, state.surroundings, 0)
        return self._held(state, process, content, names)

    def _held(self, state: State, process: int, content: Any, names: str) -> State:
        text = f"{content[0]} {names} {content[4]} {content[5]}"
        part = self.interned.of("held", content, (*content[1], *content[2]), text)
        held = tuple(part if i == process else item for i, item in enumerate(state.held))
        return state._replace(held=held)

    def _resume(self, state: State, process: int, plan: Any) -> State:
        return self._took(
            state, process, self.passes.run(self._late_question(state, process, plan))
        )

    def _late_question(self, state: State, process: int, plan: Any) -> Question:
        part = state.held[process]
        assert part is not None
        name, stored, shown, draws, surroundings, age_s = part.content
        view = View(
            {item.extra.key: item for item in stored},
            {item.content[0].extra.name: item for item in shown},
        )
        live = self._question(state, process, name, None)
        others = [item for index, item in enumerate(state.held) if index != process]
        versions = _versions(state._replace(held=(*others, None)))
        return Question(
            live.key, view, live.view, state.managers[process], plan, draws, versions,
            surroundings, age_s,
        )  # fmt: skip

    # -- what a pass or an arrival makes of a state -------------------------------------------

    def _happened(self, state: State, effects: tuple[Effect, ...]) -> State:
        stored = {part.extra.key: part for part in state.documents}
        shown = {job.content.order.extra.name: job.extra for job in state.jobs}
        jobs, late, seen = list(state.jobs), list(state.late), state.seen
        marks: dict[str, str] = {}
        for effect in effects:
            seen = self.audit.effect(effect, stored, shown, state.database, seen, marks)
            if effect.verb in ("status", "replace", "create", "delete"):
                _store(stored, effect)
                if effect.verb == "status" and effect.after is not None:
                    claim = status_of(effect.after).active_operation
                    if claim is not None and claim.dispatch_started:
                        marks[claim.dispatch_nonce or ""] = claim.operation_id
            elif effect.verb == "made":
                assert effect.after is not None
                jobs.append(self._new_job(state._replace(jobs=tuple(jobs)), effect.after))
            elif effect.verb == "ttl":
                jobs = [self._with_ttl(job, effect) for job in jobs]
            elif effect.verb == "late":
                assert effect.after is not None
                late.append(effect.after)
        found = tuple(part for _, part in sorted(stored.items()))
        return self._tidy(
            state._replace(documents=found, jobs=tuple(jobs), late=tuple(late), seen=seen)
        )

    def _new_job(self, state: State, order: Part) -> Part:
        names = parts.used(state)
        pod = f"pod-{parts.fresh(names, 'pod-')}"
        run = Run(pod, parts.drawn(parts.RUN, parts.fresh(names, parts.RUN)))
        uid = f"job-{parts.fresh(names, 'job-')}"
        return self.executors.job(Job(order, uid, (run,), (pod,)))

    def _with_ttl(self, part: Part, effect: Effect) -> Part:
        job: Job = part.content
        if job.order.extra.name != effect.name or not job.present:
            return part
        return self.executors.job(job._replace(ttl_s=effect.number))

    def _tidy(self, state: State) -> State:
        """Without what nobody can meet any more: Jobs past their TTL, marks of what changed."""
        named: set[str] = set()
        owed: set[str] = set()
        pinned: set[str | None] = set()
        for part in state.documents:
            if part.extra.key.kind == toy.KIND:
                jobs_named, waits, uid = self._debts(part)
                named.update(jobs_named)
                owed.update(waits)
                pinned.add(uid)
        session = state.database.content.session
        jobs = tuple(job for job in state.jobs if _matters(job.content, named, session))
        lease = next((item for item in state.documents if item.extra.key.kind == LEASE), None)
        mark = "" if lease is None else f"{lease.extra.uid}/{lease.extra.version}"
        managers = tuple(
            memory if memory is self.empty else self._recent(memory, mark, owed, pinned)
            for memory in state.managers
        )
        state = state._replace(jobs=jobs, managers=managers)
        return state._replace(seen=self._recalled(state))

    def _debts(self, part: Part) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
        """Jobs that a resource names, what it waits for, the Job whose result it wants."""
        found = self._owed.get(part)
        if found is None:
            status = status_of(part)
            claim, owed = status.active_operation, status.pending_observation
            found = self._owed[part] = (
                tuple(item.job_name for item in (claim, owed) if item is not None),
                () if owed is None else (f"wait/{owed.operation_id}",),
                None if claim is None else claim.job_uid,
            )
        return found

    def _recent(
        self, memory: Part, mark: str, owed: set[str], pinned: set[str | None]
    ) -> Part:  # fmt: skip
        """Without marks of what has changed, and results that nobody asks for any more."""
        watched, results, *rest = memory.content
        kept = tuple(
            item for item in watched
            if (item[1] == mark if item[0].startswith("lease/") else item[0] in owed)
        )  # fmt: skip
        wanted = tuple(item for item in results if item[0] in pinned)
        if (kept, wanted) == (watched, results):
            return memory
        return self.interned.of("memory", (kept, wanted, *rest))

    def _recalled(self, state: State) -> Part:
        """What the auditor need not know any more is forgotten: nothing bears these names."""
        created, dispatched = state.seen.content
        if not created and not dispatched:
            return state.seen
        names: set[str] = set()
        for part in (*state.documents, *state.jobs, *state.late, *state.held):
            if part is not None:
                names.update(part.tokens)
        kept = tuple(item for item in created if item[:6] in names)
        holders = tuple(item for item in dispatched if item[1][:6] in names)
        return self.interned.of("seen", (kept, holders))

    def _land(self, state: State, index: int) -> State:
        part = state.late[index]
        verb, more, (about,) = part.content
        state = state._replace(late=state.late[:index] + state.late[index + 1 :])
        if verb == "made":
            standing = {job.content.order.extra.name for job in state.jobs if job.content.present}
            if about.extra.name in standing:
                return state
            return self._happened(state, (Effect("made", after=about, name=about.extra.name),))
        if verb == "ttl":
            name, uid, ttl_s = more
            if not any(job.content.uid == uid for job in state.jobs):
                return state
            return self._happened(state, (Effect("ttl", name=name, number=ttl_s),))
        stored = {item.extra.key: item for item in state.documents}
        try:
            effect = arrive(
                self.interned, verb, about.extra.document, stored, _versions(state)
            )  # fmt: skip
        except PortError:
            return state
        return self._happened(state, (effect,))

    # -- executors ----------------------------------------------------------------------------

    def _step(self, state: State, number: int, index: int, fault: str) -> State:
        step = self.executors.step(state.jobs[number], index, state.database, fault)
        return self._with_job(state, number, step.job)._replace(database=step.database)

    def _with_job(self, state: State, number: int, job: Part) -> State:
        jobs = (*state.jobs[:number], job, *state.jobs[number + 1 :])
        return state._replace(jobs=jobs)

    def _end_session(self, state: State, lands: bool) -> State:
        return self._tidy(
            state._replace(database=self.executors.end_session(state.database, lands))
        )

    # -- people, clocks -----------------------------------------------------------------------

    def _edit(self, state: State, name: str, changes: dict[str, Any]) -> State:
        part = _document(state, name)
        document: Document = part.extra.document
        spec = {**document["spec"], **changes}
        return self._write(state, part, "replace", document | {"spec": spec})

    def _write(self, state: State, part: Part, verb: str, document: Document) -> State:
        stored = {item.extra.key: item for item in state.documents}
        effect = arrive(self.interned, verb, document, stored, _versions(state))
        return self._happened(state, (effect,))

    def _delete(self, state: State, name: str) -> State:
        part = _document(state, name)
        return self._write(state, part, "delete", part.extra.document)

    def _skew(self, state: State, process: int, seconds: int) -> State:
        content = state.managers[process].content
        memory = self.interned.of("memory", (*content[:4], seconds))
        managers = tuple(memory if i == process else item for i, item in enumerate(state.managers))
        return state._replace(managers=managers)

    def later(self, state: State, seconds: int) -> State:
        """Time passes, right after each process has looked at everything."""
        managers = tuple(
            memory if held is not None else self._watched(state, process, memory)
            for process, (memory, held) in enumerate(zip(state.managers, state.held, strict=True))
        )
        aged = Ages(self.interned, self.executors).state
        return self._tidy(aged(state._replace(managers=managers), seconds))

    def _watched(self, state: State, process: int, memory: Part) -> Part:
        """What this process has seen stand as it stands now."""
        for part in state.documents:
            if part.extra.key.kind == toy.KIND:
                question = self._question(state, process, part.extra.key.name, (1, "down"))
                question.memory = memory
                memory = self.passes.run(question, keep=True).memory
        return memory

    def resolved(self, state: State) -> bool:
        """Nothing is owed, held, open or under way, and each resource has what it declares."""
        if state.late or any(item is not None for item in state.held):
            return False
        if any(run.state == RUNS for job in state.jobs for run in job.content.runs):
            return False
        base = state.database.content
        if base.session is not None or any('"state": "started"' in text for _, text in base.rows):
            return False
        return all(self._rests(part) for part in state.documents)

    def _rests(self, part: Part) -> bool:
        document = part.extra.document
        if part.extra.key.kind == LEASE:
            return document["spec"].get("holderIdentity") is None
        status = status_of(part)
        debts = (status.active_operation, status.pending_observation, status.pending_lock_release)
        if any(item is not None for item in debts) or "deletionTimestamp" in document["metadata"]:
            return False
        if document["spec"].get("suspend") or status.frozen is not None:
            return False
        if self.config.local:
            return status.request is not None
        settled = [item.settled for item in status.history if item.type == "Touch"]
        return any(item is not None and item.type == "Succeeded" for item in settled)


def _find(state: State, name: str) -> Part | None:
    wanted = Key(toy.KIND, "local", name)
    return next((part for part in state.documents if part.extra.key == wanted), None)


def _document(state: State, name: str) -> Part:
    found = _find(state, name)
    assert found is not None
    return found


def _store(stored: dict[Key, Part], effect: Effect) -> None:
    about = effect.after or effect.before
    assert about is not None
    if effect.after is None:
        stored.pop(about.extra.key, None)
    else:
        stored[about.extra.key] = effect.after


def _versions(state: State) -> frozenset[tuple[Key, str]]:
    """Resource versions that copies under way still bear."""
    found: set[tuple[Key, str]] = set()
    for part in state.held:
        if part is not None:
            found.update((item.extra.key, item.extra.version) for item in part.content[1])
    for part in state.late:
        about = part.content[2][0]
        if about.kind == "document":
            found.add((about.extra.key, about.extra.version))
    return frozenset(found)


def _matters(job: Job, named: set[str], session: Any) -> bool:
    """Somebody may still meet this Job."""
    if job.present and job.ttl_s is None:
        return True
    if job.order.extra.name in named or any(run.state == RUNS for run in job.runs):
        return True
    return session is not None and any(run.nonce == session[0] for run in job.runs)


def _run_label(job: Part, index: int) -> str:
    content: Job = job.content
    run = content.runs[index]
    name = f"{content.order.extra.spec.operation} of {content.order.extra.owner['name']}"
    return f"run {name}/{index}: {PHASES[run.phase]}"
