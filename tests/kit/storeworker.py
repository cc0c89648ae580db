"""A process that writes to a local store, for tests with more than one of them.

``python -m tests.kit.storeworker count DIR N``: adds one to a shared number N times.
``python -m tests.kit.storeworker write DIR``: writes for ever; prints each number once it is
durable. ``python -m tests.kit.storeworker full DIR BYTES``: the same on a file that may not grow.
"""

import resource
import signal
import sys
from itertools import count
from pathlib import Path

from ptahk.backends.local.objects import LocalObjects
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Conflict, Document, Key, PortError

SHARED = Key("PtahSchema", "local", "shared")


def document(kind: str, name: str, number: int, padding: int = 0) -> Document:
    return {
        "apiVersion": "ptahk.dev/v1alpha1",
        "kind": kind,
        "metadata": {"namespace": "local", "name": name},
        "spec": {"number": number, "padding": "x" * padding},
    }


def _count(objects: LocalObjects, times: int) -> None:
    for _ in range(times):
        while True:
            current = objects.get(SHARED)
            current["spec"]["number"] += 1
            try:
                objects.replace(current)
                break
            except Conflict:
                continue


def _write(objects: LocalObjects) -> None:
    for number in count(1):
        objects.create(document("PtahSchema", f"n{number}", number, padding=20_000))
        print(number, flush=True)


def main(argv: list[str]) -> None:
    """Run one of the commands above."""
    command, directory, *rest = argv
    objects = LocalObjects.open(Path(directory), SystemClock())
    if command == "count":
        _count(objects, int(rest[0]))
        return
    if command == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(rest[0]), int(rest[0])))
    try:
        _write(objects)
    except PortError as error:
        print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
