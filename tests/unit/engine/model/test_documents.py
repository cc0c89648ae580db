"""Reading and writing our documents: strict, whole, and the same both ways."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.engine.model import fields, reasons, resource, source, status
from ptahk.engine.model.fields import FieldError, parse_time, read, write
from ptahk.engine.model.resource import Request, parse_annotation, parse_spec, request_text
from tests.kit.scenario import command, scenario

SPEC = {
    "target": {"engine": "postgresql", "coordinationKey": "production/orders"},
    "desired": {"inline": "create table t ();"},
}


def refused(document: Any) -> str:
    with pytest.raises(FieldError) as caught:
        parse_spec(document)
    return str(caught.value)


def test_defaults_are_the_contracts() -> None:
    spec = parse_spec(SPEC)
    assert spec.policy.apply == "OnApproval" and spec.policy.lock_timeout == 3.0
    assert spec.policy.coordination_timeout == 60.0 and spec.interval == 600.0
    assert spec.execution.deadline_s == 900 and not spec.suspend


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"surprise": 1}, ".spec.surprise: unknown field"),
        ({"target": {"engine": "postgresql"}}, ".spec.target.coordinationKey: required"),
        ({"target": {"engine": "oracle", "coordinationKey": "k"}}, ".spec.target"),
        ({"target": {"engine": "postgresql", "coordinationKey": ""}}, ".spec.target"),
        ({"desired": {}}, ".spec.desired: must have exactly one"),
        ({"desired": {"inline": "x" * 204_801}}, ".spec.desired.inline: must be at most"),
        ({"policy": {"apply": "Sometimes"}}, ".spec.policy.apply: must be one of"),
        ({"policy": {"lockTimeout": "3"}}, ".spec.policy.lockTimeout: must be a duration"),
        ({"policy": {"schemas": "public"}}, ".spec.policy.schemas: must be a list"),
        ({"policy": {"schemas": [1]}}, ".spec.policy.schemas[0]: must be text"),
        ({"policy": {"renames": [{"from": "a"}]}}, ".spec.policy.renames[0].to: required"),
        ({"suspend": "yes"}, ".spec.suspend: must be true or false"),
        (
            {"execution": {"activeDeadlineSeconds": 29}},
            ".activeDeadlineSeconds: must be at least 30",
        ),
        ({"execution": {"activeDeadlineSeconds": True}}, ".activeDeadlineSeconds"),
    ],
)
def test_what_a_spec_may_not_be(change: dict[str, Any], place: str) -> None:
    assert place in refused(SPEC | change)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("3s", 3), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert fields.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "3", "m", "1x", "-1s", " 3s", None, 3, "1e3s"])
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(FieldError):
        fields.parse_duration(text)


def test_a_request_and_its_annotation() -> None:
    request = Request("0" * 32, "apply", "sha256:" + "a" * 64)
    assert parse_annotation(Request, request_text(request), "r") == request
    for text in ("{", "[]", '{"id":"x","type":"plan"}', '{"id":"%s","type":"apply"}' % ("0" * 32)):
        with pytest.raises(FieldError):
            parse_annotation(Request, text, "r")


def test_a_status_survives_its_json() -> None:
    s = scenario("a", "b")
    command(s, s.process())
    document = s.world.objects.get(s.key)
    found = status.parse(document["status"], document["metadata"]["uid"])
    assert status.render(found) == document["status"]
    again = json.loads(json.dumps(status.render(found)))
    assert status.parse(again, document["metadata"]["uid"]) == found


@pytest.mark.parametrize(
    "change",
    [
        {"protocolVersion": 2},
        {"resourceUid": "another"},
        {"jobUID": "x"},
        {"activeOperation": {"type": "Apply"}},
        {"realmNumber": "7"},
        {"phase": "Fine"},
    ],
)
def test_an_impossible_status_is_not_read(change: dict[str, Any]) -> None:
    s = scenario("a")
    command(s, s.process())
    document = s.world.objects.get(s.key)
    with pytest.raises(FieldError):
        status.parse(document["status"] | change, document["metadata"]["uid"])


CLAIM_DAMAGE = [
    {"dispatchStarted": False},
    {"dispatchNonce": None},
    {"epoch": "0.x"},
    {"snapshotDigest": None},
    {"leaseDurationSeconds": 90},
    {"operationId": "x"},
]


@pytest.mark.parametrize("change", CLAIM_DAMAGE)
def test_a_claim_with_a_piece_missing_is_not_read(change: dict[str, Any]) -> None:
    s = scenario("a")
    s.ask("plan")
    s.process().until("ConfirmJob")
    document = s.world.objects.get(s.key)["status"]
    claim = {**document["activeOperation"], **change}
    document["activeOperation"] = {key: item for key, item in claim.items() if item is not None}
    with pytest.raises(FieldError):
        status.parse(document, document["resourceUid"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_hostile_documents_are_refused_by_value(document: Any) -> None:
    for cls in (resource.SchemaSpec, status.Status, Request):
        with pytest.raises(FieldError):
            read(cls, document, ".x")


@pytest.mark.parametrize(
    "text",
    ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00", "20260101T000000Z", "x"],
)
def test_times_are_rfc_3339_in_utc(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time(text)


def test_none_is_left_out() -> None:
    assert write(resource.Desired(inline="x")) == {"inline": "x"}


FILES = (("a.sql", "create table a ();"), ("b.sql", "ü"))


def test_a_bundle_and_its_files() -> None:
    data = source.encode(FILES)
    assert source.decode(data) == FILES and source.encode(FILES) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        source.pack(b"[]"),
        source.pack(b'{"files":[1]}'),
        source.encode(FILES) + b"x",
        source.encode(FILES)[:-3],
    ],
)
def test_what_is_no_bundle(data: bytes) -> None:
    with pytest.raises(FieldError):
        source.decode(data)


def test_unpacking_is_bounded() -> None:
    with pytest.raises(FieldError, match="more than"):
        source.unpack(source.pack(b"0" * 10_000), 9_999)


def test_a_config_map_gives_its_bundle_or_its_sql_keys() -> None:
    assert source.files_of({"data": {"b.sql": "2", "a.sql": "1", "x": "3"}}, None) == (
        ("a.sql", "1"), ("b.sql", "2"))  # fmt: skip
    assert source.files_of({"data": {"x": "3"}}, "x") == (("x", "3"),)
    with pytest.raises(FieldError):
        source.files_of({"data": {"x": "3"}}, None)


def test_every_reason_says_what_to_do() -> None:
    for reason in reasons.REASONS.values():
        assert reason.meaning and reason.what_to_do
        assert reason.exit_code in (0, 1, 2, 3, 4, 5, 6, 70)
