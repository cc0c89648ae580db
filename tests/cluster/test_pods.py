"""Real Pods of the project's own images: what they may do, and what they cannot."""

import gzip
import json
import secrets
import time

import pytest

from ptahk.wire import digest, frame, jobspec
from tests.kit import podjobs
from tests.kit.clusters import PodCluster
from tests.kit.databases import Database
from tests.kit.operations import REALM, at

_PROBE = """
import importlib.util, json, os, sys
def writable(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return True
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "root": writable("/opt/ptahk/x"), "tmp": writable("/tmp/x"),
    "token": os.path.exists("/var/run/secrets/kubernetes.io"),
    "found": [name for name in sys.argv[1:] if importlib.util.find_spec(name)],
}))
"""


def _probe(cluster: PodCluster, namespace: str, target: str, *modules: str) -> dict[str, object]:
    command = ["python", "-c", _PROBE, *modules]
    document = podjobs.restricted_job(target, cluster.images[target], command)
    job = podjobs.create(cluster.plane, namespace, document)
    podjobs.wait_for(cluster.plane, namespace, job, "Complete")
    told: dict[str, object] = json.loads(podjobs.log_of(cluster.plane, namespace, job))
    return told


def test_the_executor_image_holds_no_kubernetes_client(cluster: PodCluster, namespace: str) -> None:
    modules = ("kubernetes", "yaml", "typer", "rich", "pip", "psycopg", "ptahk.executor")
    told = _probe(cluster, namespace, "executor", *modules)
    assert told["found"] == ["psycopg", "ptahk.executor"]
    assert (told["uid"], told["gid"]) == (65532, 65532)
    assert told["root"] == "Read-only file system"
    assert told["tmp"] is True
    assert told["token"] is False


def test_the_manager_image_holds_what_the_manager_needs(
    cluster: PodCluster, namespace: str
) -> None:
    modules = ("kubernetes", "yaml", "typer", "ptahk.serve", "pip")
    told = _probe(cluster, namespace, "manager", *modules)
    assert told["found"] == ["kubernetes", "yaml", "typer", "ptahk.serve"]
    assert told["uid"] == 65532


def test_a_command_of_the_manager_image_runs(cluster: PodCluster, namespace: str) -> None:
    command = ["ptahk", "digest", "realm", "--engine", "postgresql", "--key", "key"]
    document = podjobs.restricted_job("digest", cluster.images["manager"], command)
    job = podjobs.create(cluster.plane, namespace, document)
    podjobs.wait_for(cluster.plane, namespace, job, "Complete")
    expected = digest.coordination_digest("postgresql", "key")
    assert expected in podjobs.log_of(cluster.plane, namespace, job)


def test_an_operation_runs_against_a_real_database_and_leaves_its_frame(
    cluster: PodCluster, namespace: str, pod_database: Database
) -> None:
    owner = pod_database.role(owns=("app",), create_database=True)
    pod_database.run("CREATE TABLE app.t (id int PRIMARY KEY)", owner)
    url = pod_database.url(owner, host=cluster.guests.address)
    spec, document = _observe(cluster, namespace, url)
    began = time.monotonic()
    job = podjobs.create(cluster.plane, namespace, document)
    podjobs.wait_for(cluster.plane, namespace, job, "Complete")
    assert time.monotonic() - began < 60
    pod = podjobs.pod_of(cluster.plane, namespace, job)
    found = _frame(cluster, namespace, job, spec)
    assert found["error"] is None
    assert found["podUid"] == pod["metadata"]["uid"]
    [status] = pod["status"]["containerStatuses"]
    summary = json.loads(status["state"]["terminated"]["message"])
    assert summary["operationId"] == spec.operation_id
    assert owner.password not in json.dumps(pod) + json.dumps(found)


def test_a_refusal_leaves_its_frame_and_fails_the_job(cluster: PodCluster, namespace: str) -> None:
    spec, document = _observe(cluster, namespace, "postgresql://10.0.0.1")
    job = podjobs.create(cluster.plane, namespace, document)
    podjobs.wait_for(cluster.plane, namespace, job, "Failed")
    found = _frame(cluster, namespace, job, spec)
    assert found["error"]["exitCode"] == 2
    assert found["result"] is None


@pytest.mark.parametrize("change", ["root", "capabilities", "seccomp"])
def test_the_namespace_lets_no_other_pod_in(
    cluster: PodCluster, namespace: str, change: str
) -> None:
    document = podjobs.restricted_job("bad", cluster.images["executor"], ["true"])
    pod = document["spec"]["template"]["spec"]
    if change == "root":
        pod["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0}
    elif change == "capabilities":
        del pod["containers"][0]["securityContext"]["capabilities"]
    else:
        del pod["securityContext"]["seccompProfile"]
    job = podjobs.create(cluster.plane, namespace, document)
    cluster.plane.kubectl(
        "wait", "--namespace", namespace, "--for=create", "events", "--timeout=60s",
        f"--field-selector=involvedObject.name={job},reason=FailedCreate",
    )  # fmt: skip


def _observe(
    cluster: PodCluster, namespace: str, url: str
) -> tuple[jobspec.JobSpec, dict[str, object]]:
    source = gzip.compress(json.dumps({"files": [{"name": "a.sql", "text": ""}]}).encode())
    name = f"observe-{secrets.token_hex(4)}"
    spec = jobspec.JobSpec(
        operation="Observe", family="schema", engine="postgresql", attempt=1,
        operation_id=secrets.token_hex(16), job_name=name, holder=REALM, store_uid="store",
        store_kind="cluster", resource_uid="resource", coordination_digest=REALM,
        dispatch_not_after=at(60), execution_not_after=at(120), active_deadline_seconds=120,
        termination_grace_period_seconds=30, policy=jobspec.JobPolicy(schemas=("app",)),
        inputs={jobspec.SOURCE_FILE: jobspec.input_digest(source)},
    )  # fmt: skip
    files = {jobspec.JOB_FILE: jobspec.encode(spec), jobspec.SOURCE_FILE: source}
    podjobs.create(cluster.plane, namespace, podjobs.config_map(name, files))
    podjobs.create(cluster.plane, namespace, podjobs.secret(name, {"url": url}))
    command = ["python", "-m", "ptahk.runner", "--job", podjobs.INPUTS]
    image = cluster.images["executor"]
    return spec, podjobs.restricted_job(name, image, command, url_secret=name, inputs=name)


def _frame(
    cluster: PodCluster, namespace: str, job: str, spec: jobspec.JobSpec
) -> dict[str, object]:
    decoder = frame.Decoder(spec.operation_id, spec.epoch)
    decoder.feed(podjobs.log_of(cluster.plane, namespace, job).encode())
    found = decoder.finish()
    assert isinstance(found, frame.Frame), found
    return found.document
