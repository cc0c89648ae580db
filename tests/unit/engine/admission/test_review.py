"""The review of one request: what a live claim asked for, and nothing else, however it is told."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from ptahk.backends.kube import pod as pods
from ptahk.engine.admission import review
from ptahk.engine.admission.review import Allowed, Denied, Malformed, Reference, Verdict
from ptahk.engine.ports import Document
from tests.kit.budget import scaled
from tests.kit.reviews import Recorded, recorded, review_document, review_of
from tests.kit.ward import again


def answered(
    body: bytes, found: Recorded, now: datetime | None = None, *,
    differs: review.Differs = pods.differs, **live: Document | None,
) -> Verdict:  # fmt: skip
    """The verdict over what was recorded, or over something else in its place."""
    asked = review.request(body)
    owner = review.asked(asked)
    if not isinstance(owner, Reference):
        return owner
    job = asked.object if asked.kind == "Job" else live.get("job", found.job)
    resource = live.get("resource", found.resource)
    return review.verdict(asked, job, resource, now or found.now, differs)


def told(verdict: Verdict) -> str:
    assert isinstance(verdict, Denied), "it was allowed"
    return f"{verdict.code}: {verdict.message}"


def created(found: Recorded) -> dict[str, Any]:
    """The recorded Job as a create's review shows it."""
    job = copy.deepcopy(found.job)
    del job["metadata"]["resourceVersion"]
    return job


def test_what_was_recorded_is_allowed() -> None:
    found = recorded()
    assert answered(review_of(found.pod), found) == Allowed()
    assert answered(review_of(created(found)), found) == Allowed()


CLAIMS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"dispatchStarted": False, "dispatchTime": None, "dispatchNonce": None,
      "dispatchNotAfter": None, "executionNotAfter": None, "intentDigest": None}, "not dispatched"),
    ({"dispatchNonce": "0" * 32}, "another claim"),
    ({"operationId": "0" * 32}, "another claim"),
    ({"intentDigest": "sha256:" + "0" * 64}, "another claim"),
    ({"snapshotDigest": "sha256:" + "0" * 64}, "another claim"),
    ({"jobName": "ptahk-op-plan-" + "0" * 32}, "no active operation"),
    ({"type": "Apply"}, "another claim"),
    ({"jobUid": "00000000-0000-0000-0000-000000000001"}, "Job"),
    ({"attempt": 0}, "cannot be read"),
)  # fmt: skip


@pytest.mark.parametrize("kind", ["Pod", "Job"])
@pytest.mark.parametrize(("change", "words"), CLAIMS)
def test_another_claim_asked_for_nothing(kind: str, change: dict[str, Any], words: str) -> None:
    found = recorded()
    resource = copy.deepcopy(found.resource)
    claim = resource["status"]["activeOperation"]
    claim |= change
    for key in [key for key, value in claim.items() if value is None]:
        del claim[key]
    document = found.pod if kind == "Pod" else created(found)
    assert words in told(answered(review_of(document), found, resource=resource))


def test_a_claim_that_is_decided_or_gone_asked_for_nothing() -> None:
    found = recorded()
    for document in (found.pod, created(found)):
        body = review_of(document)
        gone = copy.deepcopy(found.resource)
        del gone["status"]["activeOperation"]
        assert "no active operation" in told(answered(body, found, resource=gone))
        assert "does not exist" in told(answered(body, found, resource=None))
        other = copy.deepcopy(found.resource)
        other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000001"
        assert "does not exist" in told(answered(body, found, resource=other))
        decided = copy.deepcopy(found.resource)
        claim = decided["status"]["activeOperation"]
        claim |= {
            "outcome": {"type": "Unknown", "reason": "X"},
            "finishTime": claim["dispatchTime"],
        }
        assert "is decided" in told(answered(body, found, resource=decided))
    assert "Job does not exist" in told(answered(review_of(found.pod), found, job=None))


def test_what_comes_too_late_is_refused() -> None:
    found = recorded()
    assert "too late" in told(answered(review_of(created(found)), found, found.now + 301 * SECOND))
    assert answered(review_of(found.pod), found, found.now + 301 * SECOND) == Allowed()
    assert "too late" in told(answered(review_of(found.pod), found, found.now + 901 * SECOND))


SECOND = timedelta(seconds=1)


def test_a_second_pod_is_refused() -> None:
    found = recorded()
    resource = copy.deepcopy(found.resource)
    resource["status"]["activeOperation"]["pods"] = {"uids": ["x"], "count": 1}
    assert "its one Pod already" in told(answered(review_of(found.pod), found, resource=resource))


def test_a_damaged_snapshot_is_refused() -> None:
    found = recorded()
    resource = copy.deepcopy(found.resource)
    resource["status"]["activeOperation"]["snapshot"]["priorityClass"]["value"] = 1
    assert "damaged" in told(answered(review_of(found.pod), found, resource=resource))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda job: job["spec"].__setitem__("suspend", True), "changed on the way"),
        (lambda job: job["spec"].__setitem__("ttlSecondsAfterFinished", 1), "ttlSeconds"),
        (lambda job: job["spec"]["template"]["spec"].__setitem__("hostPID", True), "changed"),
        (lambda job: job["spec"]["template"]["spec"]["containers"].append({}), "changed"),
        (lambda job: job["spec"].__setitem__("manualSelector", True), "changed"),
        (lambda job: job["spec"]["selector"].__setitem__("matchLabels", {}), "spec.selector"),
        (lambda job: job["metadata"].__setitem__("finalizers", ["x/y"]), "metadata.finalizers"),
        (lambda job: job["metadata"]["annotations"].__setitem__("ptahk.dev/x", ""), "ptahk.dev/x"),
        (lambda job: job["metadata"]["annotations"].__setitem__("ptahk.dev/shape", ""), "changed"),
        (lambda job: job.__setitem__("more", 1), "more was added"),
        (lambda job: job["spec"]["template"]["metadata"]["labels"].pop("job-name"), "job-name"),
    ],
)
def test_a_job_that_was_changed_is_refused(
    change: Callable[[dict[str, Any]], None], words: str
) -> None:
    found = recorded()
    job = created(found)
    change(job)
    verdict = answered(review_of(job), found)
    assert words in told(verdict) and isinstance(verdict, Denied) and verdict.code == "Changed"


def test_a_job_that_is_sent_again_is_judged_by_its_claim() -> None:
    found = recorded()
    stored = again(found.job)
    assert "spec.selector" in told(answered(review_of(stored), found)), "no API server sent it"


def test_other_workloads_are_none_of_our_business() -> None:
    found = recorded()
    for metadata in (
        {"name": "x", "namespace": "a"},
        {"name": "x-ptahk-op-", "namespace": "a", "labels": {"app": "y"}},
        {"name": "x", "ownerReferences": [{"kind": "ReplicaSet", "name": "ptahk-op-x"}]},
    ):
        body = review_of({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}})
        assert answered(body, found) == Allowed(guarded=False)


@pytest.mark.parametrize(
    "change", [{"operation": "UPDATE"}, {"subResource": "status"}, {"kind": {"kind": "Job"}},
               {"namespace": "other"}, {"name": "other"}],
)  # fmt: skip
def test_a_review_that_no_configuration_of_ours_asks_for_is_denied(change: dict[str, Any]) -> None:
    found = recorded()
    verdict = answered(review_of(found.pod, **change), found)
    assert told(verdict).startswith("Malformed")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"apiVersion": "admission.k8s.io/v1"}',
     b"[" * 100_000, b'{"a":' * 500 + b"1" + b"}" * 500],
)  # fmt: skip
def test_what_is_no_review_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        review.request(body)


def test_json_that_two_readers_read_differently_is_malformed() -> None:
    text = review_of(recorded().pod).decode()
    image = '"image": "evil", "image"'
    for changed in (
        text.replace('"image"', image, 1),
        text.replace('"priority": 1000', '"priority": NaN'),
        text.replace('"dryRun"', '"uid": "b", "dryRun"', 1),
    ):
        assert changed != text
        with pytest.raises(Malformed):
            review.request(changed.encode())


def test_answers_are_reviews() -> None:
    yes = review.answer("u", Allowed())
    assert yes["response"] == {"uid": "u", "allowed": True}
    no = review.answer("u", Denied("Changed", "x"))
    assert no["response"]["status"] == {"code": 403, "message": "Changed: x"}
    assert no["kind"] == "AdmissionReview"


# -- hostile ----------------------------------------------------------------------------------

JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**53, 1.5, "", "x", "ptahk-op-x", [], {}, [None], {"": None},
    {"name": "x"}, [[]], "sha256:" + "0" * 64, "2020-01-01T00:00:00Z", "Job", "Pod", "CREATE",
)  # fmt: skip


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with one of its keys."""
    found: list[tuple[Any, Any]] = []
    level = [value]
    while level:
        each = level.pop()
        keys = list(each) if isinstance(each, dict) else list(range(len(each)))
        found += [(each, key) for key in keys]
        level += [each[key] for key in keys if isinstance(each[key], dict | list)]
    return found


def mutate(document: dict[str, Any], dice: random.Random) -> bytes:
    """A review with one to three changes, in its values or in its bytes."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        inner, key = dice.choice(spots(document))
        match dice.randrange(6):
            case 0:
                del inner[key]
            case 1:
                inner[key] = copy.deepcopy(dice.choice(JUNK))
            case 2 if isinstance(inner, dict):
                inner[dice.choice(("x", "hostPID", "env", "image", "restartPolicy"))] = (
                    copy.deepcopy(dice.choice(JUNK))
                )
            case 3 if isinstance(inner, list):
                inner.insert(dice.randrange(len(inner) + 1), copy.deepcopy(inner[key]))
            case 4:
                other, name = dice.choice(spots(document))
                inner[key] = copy.deepcopy(other[name])
            case _ if isinstance(inner[key], str):
                inner[key] += dice.choice(("x", "\u0000", "é", "\ud83d\ude00"))
    body = json.dumps(document).encode()
    match dice.randrange(20):
        case 0:
            body = body[: dice.randrange(len(body))]
        case 1:
            at = dice.randrange(len(body))
            body = body[:at] + bytes([dice.randrange(256)]) + body[at + 1 :]
    return body


def pretends(document: Any) -> bool:
    """Whether an API server would have called the webhook, by its match condition."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return False
    owners = metadata.get("ownerReferences")
    named = [str(metadata.get("name"))]
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, dict) and owner.get("kind") == "Job":
            named.append(str(owner.get("name")))
    labels = metadata.get("labels")
    marked = isinstance(labels, dict) and "ptahk.dev/resource-uid" in labels
    return marked or any(name.startswith("ptahk-op-") for name in named)


def essence(document: Any) -> Any:
    """Without what the API server writes into every object."""
    found = copy.deepcopy(document)
    for key in ("uid", "creationTimestamp", "managedFields", "generation", "name"):
        found["metadata"].pop(key, None)
    found.pop("status", None)
    if "template" in found["spec"]:
        kept = ("namespace", "ownerReferences")
        given = found["metadata"]["annotations"]
        template = found["spec"]["template"]["spec"]
        template["serviceAccount"] = template["serviceAccountName"]  # the older name of one thing
        found = {
            "spec": filled(found["spec"]),
            "owned": {key: found["metadata"][key] for key in kept},
            "annotations": {key: given[key] for key in sorted(given) if "ptahk.dev/" in key},
        }
    return found


def filled(value: Any) -> Any:
    """Without fields that say nothing."""
    if isinstance(value, dict):
        inner = {key: filled(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, "", {}, [])}
    return [filled(item) for item in value] if isinstance(value, list) else value


def exact(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


@pytest.mark.parametrize(("kind", "count"), [("Pod", 8000), ("Job", 2000)])
def test_ten_thousand_hostile_reviews_are_answered_and_none_gets_in(kind: str, count: int) -> None:
    """Mutated in value and byte: no exception, and nothing but the very object is allowed."""
    found, dice = recorded(), random.Random(6)
    document = found.pod if kind == "Pod" else created(found)
    wanted, outcomes = exact(essence(document)), Counter[str]()
    whole = json.dumps(review_document(document))
    # A Pod's Job is read from the API server, and is the same one each time.
    differs = pods.differs if kind == "Job" else lambda job: None
    for number in range(scaled(count)):
        body = mutate(json.loads(whole), dice)
        try:
            verdict = answered(body, found, differs=differs)
        except Malformed:
            outcomes["malformed"] += 1
            continue
        sent = json.loads(body)["request"].get("object")
        if verdict == Allowed(guarded=False):
            assert not pretends(sent), f"number {number}: {body!r}"
            outcomes["not ours"] += 1
        elif isinstance(verdict, Allowed):
            assert exact(essence(sent)) == wanted, f"number {number}: {body!r}"
            outcomes["allowed"] += 1
        else:
            outcomes[verdict.code] += 1
    assert outcomes["Changed"] > count // 4 and outcomes["allowed"] > count // 100, outcomes
    assert all(outcomes[name] for name in ("malformed", "not ours", "NotAsked")), outcomes
