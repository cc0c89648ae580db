"""Golden vectors: a digest that changes here is a new contract version, never a fix (C-7.1)."""

import dataclasses
import hashlib
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.errors import UsageError
from ptahk.wire import digest as d
from ptahk.wire.binding import PlanBinding, PolicyBinding
from ptahk.wire.epoch import Epoch

REALM = d.coordination_digest("postgresql", "production/orders")
POLICY = PolicyBinding(
    apply="OnApproval",
    allow_destructive=True,
    schemas=("public", "app"),
    exclude=("tmp_*",),
    protected_tables=("public.users",),
    privileges="Managed",
    partitions="Declared",
    renames=(("a.b", "a.c"),),
    transaction_mode="file",
)
BINDING = PlanBinding(
    resource_uid="11111111-2222-5333-8444-555555555555",
    plan_digest=d.plan_content_digest(b"{}"),
    source_digest=d.source_digest([("schema.sql", "create table t ();")]),
    coordination_digest=REALM,
    target_identity_digest=d.target_identity_digest({"database": "app"}),
    observed_state=d.state_fingerprint([]),
    desired_state=d.state_fingerprint([{"id": "t"}]),
    policy=POLICY,
    executor_version="0.1.0",
    protocol_version=1,
)

GOLDEN = {
    "coordination": REALM,
    "lease": d.lease_name(REALM),
    "holder": d.holder("uid", "0123456789abcdef0123456789abcdef"),
    "target": BINDING.target_identity_digest,
    "source": BINDING.source_digest,
    "plan content": BINDING.plan_digest,
    "state": BINDING.desired_state,
    "policy": d.policy_digest(POLICY),
    "fingerprint": d.plan_fingerprint(BINDING),
    "plan file": d.plan_file_digest({"kind": "PlanFile"}),
    "inputs": d.input_fingerprint("Plan", {"source": "x"}),
    "admission snapshot": d.admission_snapshot_digest({"a": 1}),
    "local snapshot": d.local_snapshot_digest({"a": 1}),
    "drift": d.drift_digest({"counts": {}}),
    "result": d.result_digest({"ok": True}),
    "tokens": d.token_digest([["SELECT", "1"]]),
    "sequence": d.sequence_digest([{"version": "1"}]),
    "history": d.history_fingerprint({"rows": []}),
    "job": d.job_name("Apply", "uid", "opid", d.input_fingerprint("Apply", {}), 1),
    "local uid": d.local_resource_uid(REALM, "PtahSchema", "default"),
    "lock": str(d.advisory_lock_key()),
}
VECTORS: dict[str, str] = {
    "plan file": "sha256:aef6c35bf249b5ed03b576017b0a7e166c13e69aae1744224e523fa7545f7522",
    "coordination": "sha256:dad404dd9cc83cd4bbd54e71ff0f92481187e45f5e5c9eb1eba3af0bce414348",
    "lease": "ptahk-dad404dd9cc83cd4bbd54e71ff0f92481187e45f5e5c9eb1eba3af0bce414348",
    "holder": "sha256:44150653a087505e6a8a452354602352f0045394cba9ae1245fd2bbaf0e65856",
    "target": "sha256:37a82a08670baf996f43b91f5ff220c3090ec7d90e043c093397ab482c25e173",
    "source": "sha256:7c7b2a69fe59c47051dec8139b69acdfb65b3d0ceb477b3d246fe14f95ba5347",
    "plan content": "sha256:295ccd07cb26067d99500520b70ac1f2561a1ff2a866b77e78b8d67a6bc578ba",
    "state": "sha256:637f11cc4e6b12b6a745aa8430f5582fd8e4894953eec5f598f4f5c2e2caac1d",
    "policy": "sha256:30fe132a4788cb63372ab14abb476b96ba66c1d0b9ee42265b3b75d308b72550",
    "fingerprint": "sha256:96b30124fae31bbec21d1ad7e02b45d6e3c2e375be08b1046a1a343b12cadd8c",
    "inputs": "sha256:82910792492b8d8a8d7d0ba1bd0d185799799970999d04f95ad6520c60d29ca7",
    "admission snapshot": "sha256:857ceab8cd895c6e318abe3af0e05552e1c3cefa1f914dfadf675f3cc7827545",
    "local snapshot": "sha256:caea0b6abb24b4fcfd016e1b1c75719a2df934fdeec4444cb0a6fd305e0ac5be",
    "drift": "sha256:e92bb611cec76ce3db369e38c8a84c626b33c602cb3ee12050b8447b00be0e3e",
    "result": "sha256:6480380ba5a3bf91d5087cec107c36322047691f36e9cb541e7f2ca1cec85523",
    "tokens": "sha256:95b27c681a90f130e061ad39b555f3930c21003ea07aac0e6b6f09b13cc633f0",
    "sequence": "sha256:da9487c1e39624f97dcabc9ea2780b450e2209bb2ee7dac01c89ccae0cf60314",
    "history": "sha256:fb9950e59ce2fe4eeec96ec01fc15e87141c7bd3848e7d8e0d55c4c14b6ff976",
    "job": "ptahk-op-apply-bdbdfd351706b30583c874bbb2c49fd1",
    "local uid": "7c4e076f-f8dd-5ddb-a360-1f2a50e128cc",
    "lock": "-4741792041144116040",
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden(name: str) -> None:
    assert GOLDEN[name] == VECTORS[name]


def test_every_vector_is_used() -> None:
    assert set(GOLDEN) == set(VECTORS)


def test_coordination_is_what_the_contract_says() -> None:
    text = b'["ptahk.dev/coordination/v1","postgresql","production/orders"]'
    assert "sha256:" + hashlib.sha256(text).hexdigest() == REALM


def test_engine_names_are_families() -> None:
    postgres = {d.coordination_digest(e, "k") for e in ("postgres", "postgresql", "PostgreSQL")}
    mysql = {d.coordination_digest(e, "k") for e in ("mysql", "MariaDB", "MYSQL")}
    assert len(postgres) == len(mysql) == 1
    assert postgres != mysql


@pytest.mark.parametrize(
    ("engine", "key"), [("oracle", "k"), ("", "k"), ("postgres", ""), ("postgres", "\udcff")]
)
def test_refused_realms(engine: str, key: str) -> None:
    with pytest.raises(UsageError):
        d.coordination_digest(engine, key)


def test_key_bytes_are_unchanged() -> None:
    keys = ["a", "A", "a ", "\u00e9", "e\u0301", "a/"]
    assert len({d.coordination_digest("postgres", key) for key in keys}) == len(keys)


def _moved(binding: PlanBinding) -> list[PlanBinding]:
    """One copy per field of the binding and of its policy, with only that field changed."""
    other = "sha256:" + "0" * 64
    changes: list[PlanBinding] = []
    for field in dataclasses.fields(binding):
        if field.name == "policy":
            continue
        value = 2 if field.name == "protocol_version" else other
        changes.append(dataclasses.replace(binding, **{field.name: value}))
    for field in dataclasses.fields(PolicyBinding):
        old = getattr(binding.policy, field.name)
        value = {bool: False, str: "Other", tuple: ()}[type(old)]
        policy = dataclasses.replace(binding.policy, **{field.name: value})
        changes.append(dataclasses.replace(binding, policy=policy))
    return changes


def test_the_fingerprint_binds_every_input() -> None:
    moved = [d.plan_fingerprint(binding) for binding in _moved(BINDING)]
    assert len({*moved, d.plan_fingerprint(BINDING)}) == len(moved) + 1


def test_lists_of_names_are_sets() -> None:
    again = dataclasses.replace(POLICY, schemas=("app", "public", "app"))
    assert d.policy_digest(again) == d.policy_digest(POLICY)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_local_uid_is_version_5(family: str, name: str) -> None:
    namespace = uuid.UUID("d8a9f1bb-6fbb-56a4-a2e0-f1c8c9d7e3b5")
    text = json.dumps([REALM, family, name], ensure_ascii=False, separators=(",", ":"))
    assert d.local_resource_uid(REALM, family, name) == str(uuid.uuid5(namespace, text))


@pytest.mark.parametrize("word", ["Resolve", "Observe", "Plan", "Apply", "Prove", "History"])
def test_job_names_fit(word: str) -> None:
    inputs = d.input_fingerprint(word, {})
    name = d.job_name(word, "uid", "op", inputs, 1)
    assert len(name) <= 57
    others = [
        d.job_name(word, "uid2", "op", inputs, 1),
        d.job_name(word, "uid", "op2", inputs, 1),
        d.job_name(word, "uid", "op", d.input_fingerprint(word, {"a": 1}), 1),
        d.job_name(word, "uid", "op", inputs, 2),
    ]
    assert len({name, *others}) == 5


@given(st.integers(1, 2**53 - 1), st.integers(0, 2**64 - 1))
def test_epochs_survive(number: int, bits: int) -> None:
    epoch = Epoch(number, f"{bits:016x}")
    assert Epoch.parse(str(epoch)) == epoch


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.", ".0123456789abcdef", "0.0123456789abcdef", "01.0123456789abcdef",
     "1.0123456789ABCDEF", "1.0123456789abcde", "1.0123456789abcdef0", " 1.0123456789abcdef",
     "1.0123456789abcdef\n", "9007199254740992.0123456789abcdef", "-1.0123456789abcdef",
     "١.0123456789abcdef"],
)  # fmt: skip
def test_refused_epochs(text: str) -> None:
    with pytest.raises(ValueError, match="epoch"):
        Epoch.parse(text)


def test_digests_are_recognised() -> None:
    assert d.is_digest(REALM)
    for text in (REALM.upper(), REALM + "\n", REALM[7:], "sha256:", None, 3):
        assert not d.is_digest(text)
