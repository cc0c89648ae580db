"""What shapes a local Job's process (C-14.3): interpreter, version, user, host, environment."""

import os
import pwd
import sys
from collections.abc import Mapping
from typing import Any

import ptahk
from ptahk.wire import digest, jobspec


def local_snapshot(environment: Mapping[str, str]) -> dict[str, Any]:
    """The local admission snapshot of this process.

    :param environment: what a child would be given; only its scrubbed part counts.
    """
    return jobspec.local_snapshot(
        interpreter=sys.executable,
        version=ptahk.__version__,
        user=user_name(),
        host=os.uname().nodename,
        environment=environment,
    )


def local_snapshot_digest(environment: Mapping[str, str]) -> digest.SnapshotDigest:
    """The digest that the claim keeps and the runner compares before it starts the child."""
    return digest.local_snapshot_digest(local_snapshot(environment))


def user_name() -> str:
    """The effective user's name, or its number where the system knows no name for it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
