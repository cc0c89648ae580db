"""``python launch_runner.py POINT --job DIR``: ptahk's runner, struck at one of its steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ptahk.runner import __main__ as program  # noqa: E402
from ptahk.runner import child, guard, output  # noqa: E402
from ptahk.runner.inputs import read_spec  # noqa: E402
from tests.kill.points import Point, Steps, replace  # noqa: E402

EXECUTOR = Path(__file__).with_name("launch_executor.py")


def main() -> int:
    point = Point.decode(sys.argv[1])
    steps = Steps(point, "runner", read_spec(sys.argv[3], os.environ).operation)
    admit, within = guard.admit, guard.within_deadlines

    def admitting(*args: Any) -> None:
        with steps.step("guard"):
            admit(*args)

    def repeating(*args: Any) -> float:
        with steps.step("deadline"):
            return within(*args)

    class Child(child.Child):
        def __init__(self, *args: Any) -> None:
            with steps.step("spawn"):
                super().__init__(*args)

        def run(self, *args: Any, **options: Any) -> Any:
            with steps.step("child"):
                return super().run(*args, **options)

    def writing(fd: int, data: bytes) -> None:
        number = steps.reached("frame")
        steps.strike("frame", number, "before")
        half = len(data) // 2
        output.write_all(fd, data[:half])
        steps.strike("frame", number, "during")
        output.write_all(fd, data[half:])
        steps.strike("frame", number, "after")

    def summing(*args: Any) -> None:
        with steps.step("summary"):
            output.write_summary(*args)

    replace(guard, admit=admitting, within_deadlines=repeating)
    replace(program, Child=Child, write_all=writing, write_summary=summing)
    with steps.step("start"):
        pass
    executor = (sys.executable, "-I", str(EXECUTOR), point.encode())
    return program.main(sys.argv[2:], executor)


if __name__ == "__main__":
    sys.exit(main())
