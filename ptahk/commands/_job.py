"""One Job of a command's own: a child that reads the database, or fences, for a person.

It changes no user object, so it needs no claim; the URL reaches the database only
through the runner and its executor, as in every Job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ptahk.commands import _resource
from ptahk.commands._drive import CLASSES, store_faults
from ptahk.commands._wiring import World
from ptahk.engine.families.migration.jobs import sequence_of
from ptahk.engine.families.migration.wanted import policy_document
from ptahk.engine.model.fields import format_time
from ptahk.engine.model.job import JobInput
from ptahk.engine.model.migration import MigrationSpec
from ptahk.engine.model.plan import PlanSpec
from ptahk.engine.model.resource import SOURCE_KEY
from ptahk.engine.ports import Document, JobOrder, Lost, NotYet, object_reference
from ptahk.errors import InternalError, OperationFailed
from ptahk.wire import digest, frame
from ptahk.wire.jobspec import FencedAttempt, JobPolicy, JobSpec, Operation, input_digest

DEADLINE_S = 60
REPLAY_S = 900
"""Every file of a directory runs again, and some of them twice."""
GRACE_S = 30


Fenced = tuple[FencedAttempt, str, PlanSpec]
"""The attempt, its epoch, and its plan: target and server that the fence must meet."""


def spec_of(
    world: World, owner: Document, operation: Operation, fenced: Fenced | None = None
) -> JobSpec:
    """What a Job about a stored resource is told.

    :param fenced: with ``Prove``, and with nothing else.
    """
    wanted = _resource.checked(owner)
    operation_id = world.ports.entropy.operation_id()
    uid = owner["metadata"]["uid"]
    realm = wanted.target.coordination_digest
    now = world.ports.clock.now()
    end = format_time(now + timedelta(seconds=DEADLINE_S))
    inputs = digest.input_fingerprint(operation, {"realm": realm})
    return JobSpec(
        operation=operation,
        family="schema",
        engine=digest.engine_family(wanted.target.engine),
        make=digest.engine_make(wanted.target.engine),
        operation_id=operation_id,
        attempt=1,
        job_name=digest.job_name(operation, uid, operation_id, inputs, 1),
        holder=digest.holder(uid, operation_id),
        store_uid=world.ports.store.uid,
        store_kind=world.ports.store.kind,
        resource_uid=uid,
        coordination_digest=realm,
        dispatch_not_after=end,
        execution_not_after=end,
        active_deadline_seconds=DEADLINE_S,
        termination_grace_period_seconds=GRACE_S,
        explicit_key=wanted.target.explicit_key,
        policy=JobPolicy(coordination_timeout_seconds=wanted.coordination_timeout_s),
        **_bindings(fenced),
    )


def _bindings(fenced: Fenced | None) -> dict[str, Any]:
    if fenced is None:
        return {}
    attempt, epoch, plan = fenced
    return {
        "fenced": attempt,
        "epoch": epoch,
        "target_identity": plan.bound("targetIdentityDigest"),
        "server_identity": plan.server_identity,
    }


def reading_history(world: World, owner: Document, data: bytes) -> JobSpec:
    """What a Job is told that compares a migration directory with the database.

    :param data: the directory, as a source bundle.
    """
    return _of_directory(world, owner, data, {})


def replaying(world: World, owner: Document, data: bytes) -> JobSpec:
    """What a Job is told that runs a directory again in scratch, and looks at no history."""
    plain = _of_directory(world, owner, data, {"replay": "check"})
    end = format_time(world.ports.clock.now() + timedelta(seconds=REPLAY_S))
    return replace(
        plain, dispatch_not_after=end, execution_not_after=end, active_deadline_seconds=REPLAY_S
    )


def _of_directory(
    world: World, owner: Document, data: bytes, more: Mapping[str, Any]
) -> JobSpec:  # fmt: skip
    plain = spec_of(world, owner, "History")
    wanted = _resource.checked(owner)
    assert isinstance(wanted, MigrationSpec), "of a migration"
    policy = policy_document(wanted)
    mode = policy["transactionMode"]
    return replace(
        plain,
        family="migration",
        migration=replace(sequence_of({"policy": policy}), **more),
        policy=replace(plain.policy, transaction_mode=mode),
        inputs={SOURCE_KEY: input_digest(data)},
    )


def run(
    world: World,
    owner: Document,
    spec: JobSpec,
    enough: Callable[[dict[str, Any]], bool] = lambda result: False,
    source: bytes | None = None,
) -> dict[str, Any]:
    """Run one Job to its end. :returns: the executor's result document.

    :param source: the bundle that the Job's only input is.

    :param enough: says of the result of a Job that failed that it holds what was wanted.
    :raises PtahkError: it refused or failed.
    """
    metadata = owner["metadata"]
    order = JobOrder(
        namespace=metadata["namespace"],
        name=spec.job_name,
        owner=object_reference(owner),
        annotations={},
        spec=spec,
        inputs=() if source is None else (JobInput(SOURCE_KEY, "", source),),
        surroundings={},
        url_from={},
    )
    jobs = world.ports.jobs
    with store_faults():
        job = jobs.create(order)
        while not job.terminal:
            world.jobs.wait(spec.active_deadline_seconds)
            found = jobs.observe(metadata["namespace"], spec.job_name)
            if found is None:
                raise InternalError("the Job's directory is gone")
            job = found
        output = jobs.collect(metadata["namespace"], spec.job_name, job.uid)
        jobs.expire(metadata["namespace"], spec.job_name, job.uid, 0)
    if isinstance(output, NotYet | Lost):
        raise InternalError(f"the Job's result is gone: {output.message}")
    decoder = frame.Decoder(spec.operation_id, spec.epoch)
    decoder.feed(output.output)
    found_frame = decoder.finish()
    if isinstance(found_frame, frame.Refused):
        raise InternalError(f"the Job left no result: {found_frame.message}")
    payload = found_frame.document
    error = payload.get("error")
    if error is not None and not enough(payload.get("result") or {}):
        kind = CLASSES.get(error["exitCode"], OperationFailed)
        raise kind(
            error["message"],
            reason=error["reason"],
            field=error.get("field"),
            hint=error.get("hint"),
        )
    result: dict[str, Any] = payload["result"]
    return result
