"""A plan file is whole, or it is refused (C-7.3)."""

import base64
import dataclasses
import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptahk.errors import UsageError
from ptahk.wire import canonical, digest, planfile
from ptahk.wire.binding import PlanBinding, PolicyBinding

FILES = (("a.sql", "create table a ();"), ("b.sql", "create table é ();"))
PLAN = b'{"statements":[],"version":1}'


def bundle(files: Any = FILES) -> bytes:
    document = {"files": [{"name": name, "text": text} for name, text in files]}
    return gzip.compress(json.dumps(document).encode(), mtime=0)


BINDING = PlanBinding(
    resource_uid="uid",
    plan_digest=digest.plan_content_digest(PLAN),
    source_digest=digest.source_digest(FILES),
    coordination_digest=digest.coordination_digest("postgres", "k"),
    target_identity_digest=digest.target_identity_digest({}),
    observed_state=digest.state_fingerprint([]),
    desired_state=digest.state_fingerprint([1]),
    policy=PolicyBinding(renames=(("a", "b"),), exclude=("x*",)),
    executor_version="0.1.0",
    protocol_version=1,
)
FILE = planfile.PlanFile(
    engine="postgresql",
    resource_kind="PtahSchema",
    resource_name="default",
    server_identity="postgresql/1/2",
    operation_id="0" * 32,
    time="2026-01-01T00:00:00Z",
    binding=BINDING,
    summary={"statements": 0, "timingsSeconds": {"plan": 0.25}},
    plan_gzip=gzip.compress(PLAN, mtime=0),
    source_gzip=bundle(),
)
DATA = planfile.encode(FILE)


def rebuilt(**change: Any) -> bytes:
    """The file with fields changed and its digest made right again."""
    document = json.loads(DATA)
    del document["digest"]
    document.update(change)
    document["digest"] = digest.plan_file_digest(document)
    return canonical.encode(document) + b"\n"


def test_what_is_written_is_read() -> None:
    again = planfile.decode(DATA)
    assert again == FILE
    assert again.plan_bytes == PLAN
    assert again.files == FILES
    assert again.fingerprint == digest.plan_fingerprint(BINDING)
    assert rebuilt() == DATA


def test_every_edited_byte_is_refused() -> None:
    for place in range(len(DATA)):
        for change in (1, 0x20, 0x80):
            edited = bytearray(DATA)
            edited[place] ^= change
            with pytest.raises(UsageError) as caught:
                planfile.decode(bytes(edited))
            assert caught.value.reason == "InvalidPlanFile"


@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
@settings(max_examples=50)
def test_a_byte_more_or_less_is_refused(place: int, byte: int) -> None:
    for edited in (DATA[:place] + DATA[place + 1 :], DATA[:place] + bytes([byte]) + DATA[place:]):
        if edited != DATA:
            with pytest.raises(UsageError):
                planfile.decode(edited)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "sha256:" + "0" * 64},
        {"plan": base64.b64encode(gzip.compress(b"{}")).decode()},
        {"plan": base64.b64encode(PLAN).decode()},
        {"plan": base64.b64encode(gzip.compress(b"0" * (9 << 20))).decode()},
        {"plan": "=="},
        {"plan": 3},
        {"source": base64.b64encode(bundle([("a.sql", "")])).decode()},
        {"source": base64.b64encode(gzip.compress(b"[]")).decode()},
        {"source": base64.b64encode(gzip.compress(b'{"files":[{"name":1,"text":2}]}')).decode()},
        {"binding": {**BINDING.document(), "resourceUID": "other"}},
        {"binding": {**BINDING.document(), "extra": 1}},
        {"binding": {**BINDING.document(), "policy": {}}},
        {"binding": {**BINDING.document(), "policy": None}},
        {"binding": None},
        {"version": 2},
        {"kind": "Plan"},
        {"engine": 3},
        {"summary": 3},
        {"extra": 1},
    ],
)
def test_parts_of_different_plans_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        planfile.decode(rebuilt(**change))


def test_a_file_that_could_not_be_read_is_not_written() -> None:
    with pytest.raises(UsageError):
        planfile.encode(dataclasses.replace(FILE, source_gzip=bundle([])))


@given(st.binary(max_size=200))
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(UsageError):
        planfile.decode(data)


def test_bindings_survive() -> None:
    assert PlanBinding.of_document(json.loads(json.dumps(BINDING.document()))) == BINDING
