"""Stands in for the runner of a local Job: ``python fakejob.py MODE [FIFO] --job DIR``.

``print``: says hello and ends. ``hold``: the same, once somebody opens FIFO for writing.
``orphan``: leaves a child that does so, and dies by SIGKILL at once. ``dump``: prints what it
was given. ``flood``: prints three mebibytes and ends.
"""

import json
import os
import signal
import subprocess
import sys


def _hello() -> None:
    print("hello", flush=True)
    path = os.environ["PTAHK_TERMINATION_LOG"]
    with open(path, "w") as stream:
        stream.write("summary")


def _hold(fifo: str) -> None:
    print("started", flush=True)
    with open(fifo) as stream:
        stream.read()
    _hello()


def _orphan(fifo: str) -> None:
    alive = int(os.environ["PTAHK_ALIVE_FD"])
    subprocess.Popen([sys.executable, __file__, "hold", fifo, "--job", "."], pass_fds=(alive,))
    os.kill(os.getpid(), signal.SIGKILL)


def _dump(directory: str) -> None:
    seen = {
        "argv": sys.argv,
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "session": os.getsid(0) == os.getpid(),
        "stdin": sys.stdin.read(),
        "files": sorted(os.listdir(directory)),
        "modes": sorted({os.stat(name).st_mode & 0o777 for name in os.listdir(directory)}),
    }
    print(json.dumps(seen), flush=True)


def main(argv: list[str]) -> None:
    """Run one mode."""
    mode, *rest = argv
    if mode == "hold":
        _hold(rest[0])
    elif mode == "orphan":
        _orphan(rest[0])
    elif mode == "dump":
        _dump(rest[-1])
    elif mode == "flood":
        sys.stdout.write("x" * (3 * 1024 * 1024) + "end")
    else:
        _hello()


if __name__ == "__main__":
    main(sys.argv[1:])
