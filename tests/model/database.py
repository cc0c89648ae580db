"""Jobs, executors and the database of a state, moved one durable step at a time.

The ledger, lock, refusals and frames are the kit's (``tests/kit/fakedb.py``): a part is thawed into
it, one step is taken, and what came of it is a part again. Steps are kept by their parts.
"""

import dataclasses
import json
from typing import Any, NamedTuple

from ptahk.engine.model.fields import parse_time
from ptahk.engine.ports import JobOrder
from tests.kit import toy
from tests.kit.auditor import Violation, _need
from tests.kit.fakedb import Execution, FakeDatabase, Refused
from tests.model.effects import ordered
from tests.model.parts import NOW, Interned, Part, aged_text
from tests.sim.auditor import EffectAuditor

WAITING, CONNECTED, BEGUN, SENT, DONE, CLOSED = range(6)
"""What a run did last: nothing; it has the lock; row or tombstone; a statement is on its way; the
statement is committed; the row is finished."""
RUNS, ENDED, DIED = range(3)
PHASES = ("connects", "begins", "sends", "commits", "closes", "ends")
"""What a run does next."""
MARKS = ("a", "b", "a2", "b2")
"""What the toys declare; the second of each after a person's edit."""


class Run(NamedTuple):
    """One process of a Job's Pod."""

    pod: str
    nonce: str
    phase: int = WAITING
    text: str = ""
    """Its result document so far."""
    state: int = RUNS


class Job(NamedTuple):
    """One Job."""

    order: Part
    uid: str
    runs: tuple[Run, ...]
    pods: tuple[str, ...]
    present: bool = True
    failed: bool = False
    ttl_s: int | None = None
    lost: bool = False
    output: tuple[str, ...] | None = None
    """(``frame``, ``cut`` or ``noise``, Pod, payload) of the run that ended first."""


class Base(NamedTuple):
    """The database."""

    rows: tuple[tuple[str, str], ...] = ()
    live: tuple[str, ...] = ()
    effects: tuple[tuple[str, int, str], ...] = ()
    """(operation id, statement number, start nonce) of each."""
    session: tuple[str, Part] | None = None
    """Start nonce and order of the process whose session holds the lock."""
    in_flight: str | None = None
    """What the session's client has sent and nobody has answered."""


class Step(NamedTuple):
    """What a step made of both."""

    job: Part
    database: Part


class _Database(FakeDatabase):
    """The kit's, with the auditor of effects at its door."""

    effects_seen: EffectAuditor

    def before_effect(self, run: Execution, statement: str) -> None:
        self.effects_seen.effect(run, statement, False)


class Thawed(NamedTuple):
    database: _Database
    run: Execution


class Executors:
    """Moves what runs.

    :param local: a Job ends with the last of its processes; on a cluster with its first Pod.
    """

    def __init__(self, interned: Interned, local: bool) -> None:
        self.interned, self.local = interned, local
        self._steps: dict[Any, Step | Violation] = {}
        self._aged: dict[tuple[Part, int], Part] = {}

    def job(self, job: Job) -> Part:
        """A Job as a part, with what the engine sees of it as ``extra``."""
        part = self.interned.of("job", job, (job.order,), repr(job[1:]))
        if part.extra is None:
            part.extra = self._shown(job)
        return part

    def base(self, base: Base) -> Part:
        """A database as a part."""
        children = () if base.session is None else (base.session[1],)
        nonce = None if base.session is None else base.session[0]
        text = repr((base.rows, base.live, base.effects, nonce, base.in_flight))
        return self.interned.of("database", base, children, text)

    def _shown(self, job: Job) -> Part:
        terminal = job.output is not None or job.failed
        output: Any = job.output
        if job.lost or not job.pods or (job.output is None and job.failed):
            output = ("lost",)
        content = (
            job.order, job.uid, terminal, job.ttl_s, job.pods, output if terminal else None,
            not job.present,
        )  # fmt: skip
        return self.interned.of("shown", content, (job.order,), repr(content[1:]))

    def step(self, job: Part, index: int, database: Part, fault: str = "") -> Step:
        """The run's next durable step.

        :param fault: ``fails``: the server refuses the statement; ``cut``: its session is ended.
        :raises Violation: an effect that may not be.
        """
        key = (job, index, database, fault)
        found = self._steps.get(key)
        if found is None:
            try:
                found = self._step(job.content, index, database.content, fault)
            except Violation as violation:
                found = violation
            self._steps[key] = found
        if isinstance(found, Violation):
            raise found
        return found

    def _step(self, job: Job, index: int, base: Base, fault: str) -> Step:
        run = job.runs[index]
        thawed = self._thaw(base, job.order.extra, run)
        document = json.loads(run.text) if run.text else {}
        phase, ended = run.phase, False
        try:
            if fault == "cut":
                raise Refused("ConnectionLost", "the connection was lost", 6)
            phase, ended = self._move(thawed, document, phase, fault)
        except Refused as refused:
            thawed.run.refuse(document, refused)
            ended = True
        text = json.dumps(document, sort_keys=True)
        if ended:
            thawed.run.end_session()
            payload = json.dumps(thawed.run.payload(document), sort_keys=True)
            moved = self._ended(job, index, ("frame", run.pod, payload))
        else:
            runs = list(job.runs)
            runs[index] = run._replace(phase=phase, text=text)
            moved = job._replace(runs=tuple(runs))
        return Step(self.job(moved), self._freeze(thawed, base, job.order, phase == SENT, ended))

    def _move(
        self, thawed: Thawed, document: dict[str, Any], phase: int, fault: str
    ) -> tuple[int, bool]:
        run, spec = thawed.run, thawed.run.order.spec
        if phase == WAITING:
            run.begin_document(document)
            if spec.operation == "Apply" and parse_time(spec.dispatch_not_after) <= NOW:
                raise Refused("DispatchExpired", "the dispatch deadline has passed")
            run.connect(document)
            if spec.operation == "Observe":
                run._read(document)
                return phase, True
            return CONNECTED, False
        if phase == CONNECTED and spec.operation == "Prove":
            run.fence(document)
            return BEGUN, False
        if spec.operation == "Prove":
            run.read_proof(document)
            return phase, True
        return self._apply(thawed, document, phase, fault)

    def _apply(
        self, thawed: Thawed, document: dict[str, Any], phase: int, fault: str
    ) -> tuple[int, bool]:
        run, database = thawed.run, thawed.database
        if phase == CONNECTED:
            if run.begin_apply(document) is None:
                return phase, True
            row = database.rows[run.order.spec.operation_id]
            _need(7, parse_time(row["notAfter"]) > NOW, "a ledger row after notAfter")
            _need(9, database.session is run, "a ledger row without the lock")
            return BEGUN, False
        row = database.rows[run.order.spec.operation_id]
        statement = _statement(run.order)
        if phase == BEGUN:
            run.in_time(document, row)
            run.in_flight = statement
            return SENT, False
        if phase == SENT:
            run.in_flight = None
            if fault == "fails":
                run.failed(document, row, "StatementFailed", f"{statement} failed")
            run._commit(statement)
            return DONE, False
        if phase == DONE:
            run.finish_apply(document, 1)
            return CLOSED, False
        return phase, True

    def _thaw(self, base: Base, order: JobOrder, run: Run) -> Thawed:
        database = _Database(lambda: NOW, live=list(base.live))
        database.names = toy.NAMES
        database.plans = {toy.plan_digest(mark): (f"create {mark}",) for mark in MARKS}
        database.rows = {name: json.loads(text) for name, text in base.rows}
        execution = Execution(database, order, run.pod, run.nonce)
        execution.mutation_started = order.spec.operation == "Apply" and run.phase >= BEGUN
        if base.session is not None:
            nonce, holder = base.session
            own = nonce == run.nonce
            database.session = execution if own else Execution(database, holder.extra, "", nonce)
        auditor = database.effects_seen = EffectAuditor()
        runs = {run.nonce: execution}
        for name, index, nonce in base.effects:
            auditor.count[name, index] = auditor.count.get((name, index), 0) + 1
            auditor.sessions[name] = runs.setdefault(nonce, Execution(database, order, "", nonce))
            row = database.rows[name]
            store = row["storeUid"]
            auditor.ran[store] = max(auditor.ran.get(store, 0), row["number"])
        return Thawed(database, execution)

    def _freeze(self, thawed: Thawed, base: Base, order: Part, sent: bool, ended: bool) -> Part:
        database, run = thawed
        effects = list(base.effects)
        if database.effects:
            number = database.rows[run.order.spec.operation_id]["statementsDone"]
            effects.append((run.order.spec.operation_id, number, run.nonce))
        session = base.session
        if database.session is None:
            session = None
        elif database.session is run:
            session = (run.nonce, order)
        rows = tuple(
            (name, json.dumps(row, sort_keys=True)) for name, row in database.rows.items()
        )  # fmt: skip
        mine = session is not None and session[0] == run.nonce
        in_flight = run.in_flight if mine and sent else None if mine else base.in_flight
        return self.base(
            Base(rows, tuple(database.live), tuple(sorted(effects)), session,
                 in_flight if session is not None else None)
        )  # fmt: skip

    def _ended(self, job: Job, index: int, output: tuple[str, ...], died: bool = False) -> Job:
        """A run is over, and its Job where nothing else counts."""
        runs = list(job.runs)
        runs[index] = runs[index]._replace(state=DIED if died else ENDED, text="")
        ended = job._replace(runs=tuple(runs))
        waits = self.local and any(run.state == RUNS for run in runs)
        return ended if job.output is not None or waits else ended._replace(output=output)

    def die(self, job: Part, index: int) -> Part:
        """The process ends without a frame; its session lives on."""
        run = job.content.runs[index]
        return self.job(self._ended(job.content, index, ("noise", run.pod, ""), died=True))

    def end_session(self, database: Part, lands: bool) -> Part:
        """The server notices that the lock's client is dead; what it had sent may commit.

        :raises Violation: an effect that may not be.
        """
        base = database.content
        assert base.session is not None
        nonce, order = base.session
        if lands:
            thawed = self._thaw(base, order.extra, Run("", nonce, SENT))
            thawed.run.in_flight = base.in_flight
            thawed.run.land()
            database = self._freeze(thawed, base, order, False, False)
        return self.base(database.content._replace(session=None, in_flight=None))

    def land(self, database: Part) -> Part:
        """What is in flight commits; the session goes on."""
        base = database.content
        nonce, order = base.session
        thawed = self._thaw(base, order.extra, Run("", nonce, SENT))
        thawed.run.in_flight = base.in_flight
        thawed.run.land()
        return self._freeze(thawed, base, order, False, False)

    def aged(self, part: Part, seconds: int) -> Part:
        """An order, a Job or a database so much later."""
        found = self._aged.get((part, seconds))
        if found is None:
            found = self._aged[part, seconds] = self._later(part, seconds)
        return found

    def _later(self, part: Part, seconds: int) -> Part:
        if part.kind == "order":
            return ordered(self.interned, _later_order(part.extra, seconds))
        if part.kind == "job":
            job: Job = part.content
            runs = tuple(run._replace(text=aged_text(run.text, seconds)) for run in job.runs)
            output = job.output and tuple(aged_text(text, seconds) for text in job.output)
            order = self.aged(job.order, seconds)
            return self.job(job._replace(order=order, runs=runs, output=output))
        base: Base = part.content
        rows = tuple((name, aged_text(text, seconds)) for name, text in base.rows)
        session = base.session and (base.session[0], self.aged(base.session[1], seconds))
        return self.base(base._replace(rows=rows, session=session))


def _statement(order: JobOrder) -> str:
    digests = {str(toy.plan_digest(mark)): mark for mark in MARKS}
    return f"create {digests[str(order.spec.plan_digest)]}"


def _later_order(order: JobOrder, seconds: int) -> JobOrder:
    spec = order.spec
    changes: dict[str, Any] = {
        name: aged_text(getattr(spec, name), seconds)
        for name in ("dispatch_not_after", "execution_not_after")
    }
    if spec.fenced is not None:
        late = aged_text(spec.fenced.not_after, seconds)
        changes["fenced"] = dataclasses.replace(spec.fenced, not_after=late)
    return dataclasses.replace(order, spec=dataclasses.replace(spec, **changes))


__all__ = ["Base", "Executors", "Job", "Run"]
