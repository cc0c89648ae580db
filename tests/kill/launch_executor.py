"""``python launch_executor.py POINT``: ptahk's executor, struck at one request to the server."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ptahk.executor import __main__ as program
from tests.kill.points import Point, Steps, replace


def main() -> int:
    point = Point.decode(sys.argv[1])
    steps = Steps(point, "executor")
    read_command, write = program._read_command, program._write

    def reading() -> dict[str, Any]:
        command = read_command()
        steps.operation = command["command"].title()
        with steps.step("start"):
            return command

    def writing(data: bytes) -> None:
        number = steps.reached("document")
        steps.strike("document", number, "before")
        half = len(data) // 2
        write(data[:half])
        steps.strike("document", number, "during")
        write(data[half:])
        steps.strike("document", number, "after")

    replace(program, _read_command=reading, _write=writing)
    requests = "requests_my" if point.engine == "mysql" else "requests_pg"
    importlib.import_module(f"tests.kill.{requests}").hook(steps)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
