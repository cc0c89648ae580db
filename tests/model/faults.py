"""The moves that count as faults: what machines and people do wrong, one at a time."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from ptahk.engine.ports import Memory
from tests.model.beginning import NAMES
from tests.model.database import CONNECTED, RUNS, SENT, Job, Run
from tests.model.effects import ordered
from tests.model.parts import RUN, Part, State, drawn, fresh, used
from tests.model.passes import FATES, remembered
from tests.model.world import LEAP_S, SKEW_S, TICK_S, Move, World, _find

Act = tuple[Any, ...]
"""Label, kind, what does it, and its arguments."""
FOREIGN = {"ptahk.dev/operation-id": "x"}


class Faults:
    """Every fault that may happen in a state of this world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kinds = world.config.kinds

    def of(self, state: State) -> Iterator[Move]:
        """Every one, in an order that depends on the state alone."""
        for act in self._all(state):
            if self._wanted(act[1]):
                yield self.world._try(*act)

    def _wanted(self, *kinds: str) -> bool:
        return self.kinds is None or any(kind in self.kinds for kind in kinds)

    def _all(self, state: State) -> Iterator[Act]:
        yield from self._processes(state)
        yield from self._runs(state)
        yield from self._jobs(state)
        yield from self._time(state)
        yield from self._people(state)

    # -- processes ----------------------------------------------------------------------------

    def _processes(self, state: State) -> Iterator[Act]:
        world = self.world
        for process, name in world._passes(state) if self._wanted(*FATES, "held") else ():
            writes = world.writes(state, process, name)
            for number in range(1, writes + 1):
                for fate in self._fates(number, writes):
                    label = f"m{process} {name}, write {number}: {fate}"
                    plan = (number, fate)
                    yield label, fate, world._pass, state, process, name, plan
            if writes:
                label = f"m{process} {name} is held up before its write"
                yield label, "held", world._hold, state, process, name
        for process, held in enumerate(state.held):
            if held is not None:
                for fate in FATES:
                    label = f"m{process} goes on, write 1: {fate}"
                    yield label, fate, world._resume, state, process, (1, fate)
        for process, memory in enumerate(state.managers):
            if memory is not world.empty or state.held[process] is not None:
                yield f"m{process} starts anew", "restart", self._restart, state, process
            if not memory.content[4] and state.held[process] is None:
                for seconds in (SKEW_S, -SKEW_S):
                    label = f"m{process}'s clock is {seconds:+} s off"
                    yield label, "skew", world._skew, state, process, seconds

    def _fates(self, number: int, writes: int) -> Iterator[Any]:
        for fate in FATES:
            # A fork is there or it is not: a local create never comes late (C-6.9).
            if fate == "late" and number == 2 and writes == 2 and self.world.config.local:
                continue
            yield fate

    def _restart(self, state: State, process: int) -> State:
        skew_s = state.managers[process].content[4]
        empty = remembered(self.world.interned, Memory(), {}, skew_s, 0.0, False)
        managers = tuple(empty if i == process else item for i, item in enumerate(state.managers))
        held = tuple(None if i == process else item for i, item in enumerate(state.held))
        return self.world._tidy(state._replace(managers=managers, held=held))

    # -- executors and their sessions -----------------------------------------------------------

    def _runs(self, state: State) -> Iterator[Act]:
        world = self.world
        for number, part in enumerate(state.jobs):
            for index, run in enumerate(part.content.runs):
                if run.state != RUNS:
                    continue
                about = f"{_name(part)}/{index}"
                yield f"run {about} dies", "dies", self._dies, state, number, index
                if run.phase == SENT:
                    yield (f"run {about}: its statement fails", "fails", world._step, state, number,
                        index, "fails",
                    )  # fmt: skip
                if run.phase >= CONNECTED:
                    yield from self._session(state, number, index, about, run)

    def _session(
        self, state: State, number: int, index: int, about: str, run: Run
    ) -> Iterator[Act]:
        """The server ends the session of a living client; what was in flight is done, or not."""
        world = self.world
        yield f"run {about}: its session is cut", "cut", world._step, state, number, index, "cut"
        if run.phase == SENT and state.database.content.in_flight is not None:
            label = f"run {about}: its statement commits, its session is cut"
            yield label, "cut", self._cut_landed, state, number, index

    def _cut_landed(self, state: State, number: int, index: int) -> State:
        state = state._replace(database=self.world.executors.land(state.database))
        return self.world._step(state, number, index, "cut")

    def _dies(self, state: State, number: int, index: int) -> State:
        job = self.world.executors.die(state.jobs[number], index)
        return self.world._tidy(self.world._with_job(state, number, job))

    # -- Job controller and kubelet -----------------------------------------------------------

    def _jobs(self, state: State) -> Iterator[Act]:
        world = self.world
        for number, part in enumerate(state.jobs):
            job: Job = part.content
            if not job.present:
                continue
            name, local = _name(part), world.config.local
            acts = [("job-deleted", self._deleted), ("job-replaced", self._replaced)]
            if not local:
                acts += [("twin", self._twin), ("again", self._again)]
                acts += [("job-orphaned", self._orphaned)]
                if job.output is None and not job.failed:
                    acts.append(("node-lost", self._node_lost))
            if not job.lost:
                acts.append(("log-lost", self._log_lost))
            if job.output is not None and job.output[0] == "frame":
                acts.append(("log-cut", self._log_cut))
            for kind, act in acts:
                yield f"{name}: {kind}", kind, self._with, state, number, act

    def _with(self, state: State, number: int, act: Any) -> State:
        job = self.world.executors.job(act(state, state.jobs[number].content))
        return self.world._tidy(self.world._with_job(state, number, job))

    def _deleted(self, state: State, job: Job) -> Job:
        """The Job with its Pods; their sessions live on."""
        executors, part = self.world.executors, self.world.executors.job(job)
        for index, run in enumerate(job.runs):
            if run.state == RUNS:
                part = executors.die(part, index)
        dead: Job = part.content
        return dead._replace(present=False, pods=())

    def _orphaned(self, state: State, job: Job) -> Job:
        return job._replace(present=False)

    def _replaced(self, state: State, job: Job) -> Job:
        """Another Job stands under the name."""
        order = dataclasses.replace(job.order.extra, annotations=FOREIGN)
        return job._replace(order=self._order(order), uid=f"job-{fresh(used(state), 'job-')}")

    def _order(self, order: Any) -> Part:
        return ordered(self.world.interned, order)

    def _twin(self, state: State, job: Job) -> Job:
        """The Job controller makes a second Pod."""
        pod = f"pod-{fresh(used(state), 'pod-')}"
        return job._replace(runs=(*job.runs, self._run(state, pod)), pods=(*job.pods, pod))

    def _again(self, state: State, job: Job) -> Job:
        """The kubelet runs the container once more."""
        pod = job.pods[0] if job.pods else job.runs[0].pod
        return job._replace(runs=(*job.runs, self._run(state, pod)))

    def _run(self, state: State, pod: str) -> Run:
        return Run(pod, drawn(RUN, fresh(used(state), RUN)))

    def _node_lost(self, state: State, job: Job) -> Job:
        """The Job fails while its Pod's process goes on."""
        return job._replace(failed=True)

    def _log_lost(self, state: State, job: Job) -> Job:
        return job._replace(lost=True)

    def _log_cut(self, state: State, job: Job) -> Job:
        assert job.output is not None
        return job._replace(output=("cut", *job.output[1:]))

    # -- time and people ----------------------------------------------------------------------

    def _time(self, state: State) -> Iterator[Act]:
        world = self.world
        yield f"{TICK_S} s pass", "tick", world.later, state, TICK_S
        yield f"{LEAP_S} s pass", "leap", world.later, state, LEAP_S
        yield "surroundings change", "surroundings", self._surroundings, state

    def _surroundings(self, state: State) -> State:
        return state._replace(surroundings=1 - state.surroundings)

    def _people(self, state: State) -> Iterator[Act]:
        world = self.world
        for name in NAMES:
            part = _find(state, name)
            if part is None:
                continue
            spec = part.extra.document["spec"]
            if not spec.get("suspend"):
                suspended = {"suspend": True}
                yield f"{name} is suspended", "suspend", world._edit, state, name, suspended
            if spec["mark"] == name:
                edited = {"mark": f"{name}2"}
                yield f"{name} is edited", "edit", world._edit, state, name, edited
            if "deletionTimestamp" not in part.extra.document["metadata"]:
                yield f"{name} is deleted", "delete", world._delete, state, name


def _name(part: Part) -> str:
    job: Job = part.content
    return f"{job.order.extra.spec.operation} of {job.order.extra.owner['name']}"


__all__ = ["Faults"]
