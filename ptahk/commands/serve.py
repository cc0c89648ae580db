"""``ptahk serve``: the in-cluster manager."""

from __future__ import annotations

import os
import re
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

import typer

from ptahk.commands._options import choice, grouped, parse_duration
from ptahk.errors import InternalError, Unreachable, UsageError

BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")
ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^\[\]:]*)):(\d{1,5})")
LEASE_MIN_S, LEASE_MAX_S = 2, 600
PLUGINS = (
    "AlwaysPullImages", "ExtendedResourceToleration", "PodNodeSelector", "PodTolerationRestriction",
)  # fmt: skip
"""Admission plugins of an API server that are off unless somebody switches them on."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The options of one replica."""

    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="IMAGE",
            envvar="PTAHK_IMAGE",
            help="Image of operation Pods, by digest: NAME@sha256:….",
        ),
    ] = None
    image_pull_policy: Annotated[
        str,
        choice(
            "--image-pull-policy",
            values=("IfNotPresent", "Always", "Never"),
            help="Of operation Pods.",
        ),
    ] = "IfNotPresent"
    coordination_namespace: Annotated[
        str,
        typer.Option(
            "--coordination-namespace",
            metavar="NAME",
            envvar="PTAHK_COORDINATION_NAMESPACE",
            help="Namespace of the realm Leases and of the manager's own.",
        ),
    ] = "ptahk-system"
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Of /healthz, /readyz and /metrics: HOST:PORT."
        ),
    ] = "0.0.0.0:8080"
    webhook_listen: Annotated[
        str,
        typer.Option(
            "--webhook-listen", metavar="ADDRESS", help="Of the admission webhook: HOST:PORT."
        ),
    ] = "0.0.0.0:9443"
    webhook_certificates: Annotated[
        str | None,
        typer.Option(
            "--webhook-certificates",
            metavar="own|DIRECTORY",
            help="Made and renewed here, or read from tls.crt and tls.key; without: no webhook.",
        ),
    ] = None
    default_tolerations: Annotated[
        str,
        typer.Option(
            "--default-tolerations",
            metavar="SECONDS,SECONDS",
            help="Not-ready and unreachable, as the API server adds them to Pods; or off.",
        ),
    ] = "300,300"
    admission_plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--admission-plugin",
            metavar="NAME",
            help="A plugin of the API server that changes Pods and was switched on; repeatable.",
        ),
    ] = None
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", min=1, max=64, help="Resources reconciled at once."),
    ] = 8
    leader_lease: Annotated[
        str,
        typer.Option(
            "--leader-lease",
            metavar="DURATION",
            help="How long a leader that died is waited for; at least 2s.",
        ),
    ] = "30s"
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="Credentials; in a Pod: its own."),
    ] = None
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")
    ] = None
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every pass.")] = False


@grouped
def serve(told: Replica) -> int:
    """Reconcile resources in the cluster: one replica leads, every replica answers probes."""
    image = by_digest(told.image)
    address = parse_address(told.listen)
    webhook = parse_address(told.webhook_listen, "webhook-listen")
    tolerations = parse_tolerations(told.default_tolerations)
    lease_s = lease_duration(told.leader_lease)

    from ptahk.commands._drive import store_faults
    from ptahk.commands._wiring import Cluster, manager_world
    from ptahk.engine.leader import Times
    from ptahk.serve import logs
    from ptahk.serve.manager import Manager, Settings

    logs.configure(verbose=told.verbose)
    times = Times(lease_s, lease_s / 2, lease_s / 10, lease_s / 3)
    cluster = Cluster(
        told.kubeconfig,
        told.context,
        told.coordination_namespace,
        image,
        told.image_pull_policy,
        call_s=min(10.0, times.call_s),
        election_call_s=times.retry_s,
        default_tolerations=tolerations,
        plugins=parse_plugins(told.admission_plugin or []),
        certificates=told.webhook_certificates,
    )
    stop = listening()
    with store_faults(), manager_world(cluster, identity()) as world:
        try:
            settings = Settings(address=address, webhook=webhook, workers=told.workers, times=times)
            manager = Manager(world, settings)
        except OSError as error:
            raise UsageError(
                f"cannot listen (listen={told.listen}, webhook-listen={told.webhook_listen}): "
                f"{error.strerror}",
                field="listen",
            ) from None
        end = manager.run(stop)
    if end == "lost":
        raise Unreachable(
            "the lead was lost: another replica may lead now",
            reason="LeadershipLost",
            hint="This is how a replica stops that cannot renew its Lease; it is started again.",
        )
    if end == "failed":
        raise InternalError("a thread of the manager failed", hint="Its log says why.")
    return 0


def by_digest(image: str | None) -> str:
    """:raises UsageError: no image is named, or not by digest."""
    if image is None:
        raise UsageError("no image of operation Pods (--image, PTAHK_IMAGE)", field="image")
    if BY_DIGEST.fullmatch(image) is None:
        raise UsageError(
            f"an image by digest is needed (image={image!r}): a tag may change under an approval",
            field="image",
            hint="Write NAME@sha256:DIGEST.",
        )
    return image


def lease_duration(text: str) -> int:
    """:raises UsageError: not whole seconds within the bounds."""
    seconds = parse_duration(text)
    if not LEASE_MIN_S <= seconds <= LEASE_MAX_S or seconds != int(seconds):
        raise UsageError(
            f"not whole seconds from {LEASE_MIN_S} to {LEASE_MAX_S} (leader-lease={text!r})",
            field="leader-lease",
        )
    return int(seconds)


def parse_tolerations(text: str) -> tuple[int, int] | None:
    """Two whole numbers of seconds, or None for ``off``.

    :raises UsageError: it is neither.
    """
    if text == "off":
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(re.fullmatch(r"\d{1,9}", part) for part in parts):
        raise UsageError(
            f"neither two numbers of seconds nor off (default-tolerations={text!r})",
            field="default-tolerations",
        )
    return int(parts[0]), int(parts[1])


def parse_plugins(names: list[str]) -> frozenset[str]:
    """:raises UsageError: one of them is not a plugin whose work can be foretold."""
    for name in names:
        if name not in PLUGINS:
            raise UsageError(
                f"not a plugin that is known here (admission-plugin={name!r})",
                field="admission-plugin",
                hint=f"Known are {', '.join(PLUGINS)}.",
            )
    return frozenset(names)


def parse_address(text: str, field: str = "listen") -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``[IPV6]:PORT``.

    :raises UsageError: it is none.
    """
    match = ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise UsageError(f"not an address ({field}={text!r}): write HOST:PORT", field=field)
    return match[1] or match[2] or "0.0.0.0", int(match[3])


def identity() -> str:
    """This process among the replicas; never the same twice."""
    import secrets
    import socket

    return f"{socket.gethostname()[:63]}_{secrets.token_hex(8)}"


def listening() -> threading.Event:
    """Set by the first SIGTERM or SIGINT, for an orderly end; the second ends at once."""
    stop = threading.Event()

    def arrived(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, arrived)
    return stop
