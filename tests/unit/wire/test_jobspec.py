"""The Job's specification: strict both ways."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ptahk.wire import jobspec
from ptahk.wire.jobspec import FencedAttempt, JobPolicy, JobSpecError, SequenceJob
from tests.kit.sessions import FINGERPRINT, apply_spec

FULL = JobPolicy(
    schemas=("app",),
    exclude=("app.tmp_*",),
    protected_tables=("app.money",),
    renames=(("app.a", "app.b"),),
    transaction_mode="none",
    dev_template="tpl",
)


def test_encoding_is_read_back_and_stable() -> None:
    spec = apply_spec(policy=FULL, known_number=7)
    data = jobspec.encode(spec)
    assert jobspec.decode(data) == spec
    assert jobspec.encode(jobspec.decode(data)) == data
    assert json.loads(data)["policy"]["renames"] == [{"from": "app.a", "to": "app.b"}]


def test_derived_values() -> None:
    spec = apply_spec(12, operation_id="0123456789abcdef" * 2)
    assert spec.number == 12
    assert spec.mutates
    assert spec.application_name == "ptahk/apply/0123456789ab"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("protocolVersion", 2),
        ("operation", "Drop"),
        ("operationId", "xyz"),
        ("attempt", True),
        ("attempt", 0),
        ("epoch", "0.0123456789abcdef"),
        ("epoch", "1.xyz"),
        ("coordinationDigest", "sha256:00"),
        ("executionNotAfter", "2026-01-01 00:00:00"),
        ("terminationGracePeriodSeconds", 46),
        ("activeDeadlineSeconds", 90000),
        ("planDigest", None),
        ("observedFingerprint", None),
        ("targetIdentity", None),
        ("scope", []),
        ("inputs", {"../x": FINGERPRINT}),
        ("inputs", {"job.json": FINGERPRINT}),
        ("inputs", {"plan.json.gz": 5}),
        ("fenced", {}),
        ("jobName", "x" * 58),
        ("surprise", 1),
        ("rebind", 1),
        ("policy", {"surprise": 1}),
        ("policy", {"renames": [{"from": "a"}]}),
        ("policy", {"privileges": "Sometimes"}),
        ("policy", []),
    ],
)
def test_anything_else_is_refused_without_its_value(field: str, value: Any) -> None:
    document = json.loads(jobspec.encode(apply_spec()))
    document[field] = value
    with pytest.raises(JobSpecError) as refused:
        jobspec.decode(json.dumps(document).encode())
    assert "../x" not in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"attempt":1,"attempt":2}', b'{"attempt":NaN}', b"[" * 100_000, b"\xff"],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(JobSpecError):
        jobspec.decode(data)


def test_a_missing_field_is_named() -> None:
    document = json.loads(jobspec.encode(apply_spec()))
    del document["operationId"]
    with pytest.raises(JobSpecError, match="operationId"):
        jobspec.decode(json.dumps(document).encode())


def test_a_proof_names_what_it_fences() -> None:
    spec = apply_spec()
    assert spec.epoch is not None
    fenced = FencedAttempt(spec.operation_id, spec.epoch, FINGERPRINT, spec.execution_not_after)
    proof = apply_spec(operation="Prove", fenced=fenced)
    assert jobspec.decode(jobspec.encode(proof)).fenced == fenced
    with pytest.raises(JobSpecError, match="fenced"):
        apply_spec(operation="Prove")


def test_only_a_short_list_of_the_environment_is_inherited() -> None:
    given = {"PATH": "/bin", "PGPASSWORD": "x", "PTAHK_DATABASE_URL": "y", "PTAHK_CACHE_DIR": "z"}
    assert jobspec.scrubbed(given) == {"PATH": "/bin", "PTAHK_CACHE_DIR": "z"}


def sequence_spec(**changes: Any) -> jobspec.JobSpec:
    """An Apply of a migration."""
    bound = SequenceJob(sequence_digest=FINGERPRINT, history_fingerprint=FINGERPRINT)
    return replace(apply_spec(), **({"family": "migration", "migration": bound} | changes))


def test_a_schema_job_is_written_as_before_there_were_migrations() -> None:
    assert "migration" not in jobspec.to_document(apply_spec())


def test_a_migration_job_is_read_back() -> None:
    bound = SequenceJob(
        stream="billing", layout="flyway", placeholders={"a": "b"}, change={"to": "5"},
        sequence_digest=FINGERPRINT, history_fingerprint=FINGERPRINT,
    )  # fmt: skip
    spec = sequence_spec(migration=bound)
    assert jobspec.decode(jobspec.encode(spec)) == spec


@pytest.mark.parametrize(
    "bound",
    [None, SequenceJob(sequence_digest=FINGERPRINT), SequenceJob(history_fingerprint=FINGERPRINT)],
)
def test_an_apply_of_a_migration_without_its_bindings_is_none(bound: SequenceJob | None) -> None:
    with pytest.raises(JobSpecError, match="migration"):
        sequence_spec(migration=bound)


def test_a_schema_job_has_no_sequence() -> None:
    with pytest.raises(JobSpecError, match="migration"):
        sequence_spec(family="schema")
