"""Jobs and the store as values: what an order says and what a reading shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ptahk.engine.model.outcome import Refusal
from ptahk.wire.jobspec import JobSpec

OPERATION_ID = "ptahk.dev/operation-id"
EPOCH = "ptahk.dev/epoch"
NONCE = "ptahk.dev/dispatch-nonce"
INTENT = "ptahk.dev/intent"
SNAPSHOT = "ptahk.dev/snapshot-digest"
PLAN_DIGEST = "ptahk.dev/plan-digest"

POD_JOB_BYTES_MAX = 120 * 1024
"""A Pod holds the job document as one environment string, which Linux bounds at 128 KiB with its
name."""


def bytes_in_pod(document: bytes) -> int:
    """Length of an encoded job document there: each dollar sign is written as six characters, for
    a kubelet expands it."""
    return len(document) + 5 * document.count(b"$")


@dataclass(frozen=True, slots=True)
class Store:
    """Where resources and claims live."""

    uid: str
    kind: Literal["local", "cluster"]
    coordination_namespace: str
    automatic: bool
    """Resources act by themselves (interval, spec changes) and claim their realm while idle.
    False: they act on requests only, claim their realm only while they have an operation, an
    owed proof or an owed release (C-14.4), and no foreign Lease is ever taken over: a one-shot
    command has no observation history."""


@dataclass(frozen=True, slots=True)
class JobInput:
    """One input file of a Job, stored in a ConfigMap of the Job's namespace."""

    name: str
    """File name in the Job's directory: ``source.json.gz`` or ``plan.json.gz``."""
    config_map: str
    data: bytes
    """The bytes of ``binaryData[name]``, decoded from base64."""


@dataclass(frozen=True, slots=True)
class JobOrder:
    """Everything a backend needs to create one Job. Equal claims give equal orders."""

    namespace: str
    name: str
    owner: Mapping[str, Any]
    """``{apiVersion, kind, name, uid}`` of the resource."""
    annotations: Mapping[str, str]
    """Identity as stored on the Job and read back: see ``JobView.annotations``."""
    spec: JobSpec
    inputs: tuple[JobInput, ...]
    surroundings: Mapping[str, Any]
    """The admission snapshot that shapes the Pod or the child."""
    url_from: Mapping[str, str]
    """``spec.target.urlFrom``: Secret name and key. Local: ``{}``; the URL is in memory."""
    execution: Mapping[str, Any] = field(default_factory=dict)
    """``spec.execution`` as written."""
    dev_url_from: Mapping[str, str] = field(default_factory=dict)
    """``spec.dev.urlFrom``; empty where there is none, and locally."""
    tls_from: Mapping[str, str] = field(default_factory=dict)
    """``spec.target.tlsFrom``: ``secret`` or ``configMap``; empty where there is none."""


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job as it stands."""

    name: str
    uid: str
    annotations: Mapping[str, str]
    """As given in the order: ``ptahk.dev/operation-id``, ``ptahk.dev/epoch``,
    ``ptahk.dev/dispatch-nonce``, ``ptahk.dev/intent`` (digest of the job document),
    ``ptahk.dev/snapshot-digest``, ``ptahk.dev/plan-digest``."""
    terminal: bool
    """It carries its terminal condition and nothing of it runs (local: its lock was taken)."""
    ttl_s: int | None
    """Cleanup TTL, absent at create."""
    differs: str | None = None
    """What of it is not what was built, for a person (step 7); None: nothing."""
    waiting: Refusal | None = None
    """Why it has not begun to run, where that needs a person. Shown; decides nothing."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One Pod whose controller is the Job, by exact owner."""

    uid: str


@dataclass(frozen=True, slots=True)
class Result:
    """The raw output of the Job's one Pod: the engine decodes and checks it."""

    output: bytes
    """The log, or its last part: at least 4 × the largest frame where the log is longer."""
    termination: bytes | None
    pod_uid: str
    truncated: bool = False
    """Output was cut at its beginning."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The read ended at its deadline or failed in a way that may pass. Decides nothing (C-5.3)."""

    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Positive evidence that the output is gone for good (C-5.5)."""

    message: str
    termination: bytes | None = None


Collected = Result | NotYet | Lost
