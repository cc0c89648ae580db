"""Ctrl-C, SIGTERM and SIGHUP: the command ends, its Job goes on or stops, nothing is lost."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.kill.pg import Bed
from tests.kit.waiting import until

pytestmark = pytest.mark.pg(18)

ADD = "ADD COLUMN"


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1), (signal.SIGHUP, 1)],
    ids=["ctrl-c", "ctrl-c-twice", "sigterm", "sighup"],
)
def test_to_the_command(make_bed: Callable[..., Bed], number: signal.Signals, times: int) -> None:
    bed = make_bed("single", planned=True)
    with bed.gate(ADD) as held:
        command = bed.start()
        backend = held()
        for _ in range(times):
            os.kill(command.pid, number)
        run = bed.end(command)
        assert run.code == 128 + number, run
        assert bed.job()  # it runs on
        assert [pid for pid, _ in bed.ground.sessions()] == [backend]
    if (number, times) == (signal.SIGINT, 1):
        identity = bed.attempts()[0]["operation_id"]
        assert f"Apply {identity} is still running" in run.err, run
        assert "ptahk status schema/default --local --watch" in run.err, run
    bed.converge()
    bed.verify()
    assert len(bed.attempts()) == 1


def test_ctrl_c_at_a_terminal_does_not_reach_the_job(make_bed: Callable[..., Bed]) -> None:
    """A terminal signals the foreground process group; a Job is in a session of its own."""
    bed = make_bed("single", planned=True)
    with bed.gate(ADD) as held:
        command = bed.start(group=True)
        held()
        os.killpg(command.pid, signal.SIGINT)
        assert bed.end(command).code == 128 + signal.SIGINT
        assert bed.job()
    bed.converge()
    bed.verify()
    assert len(bed.attempts()) == 1


@pytest.mark.parametrize("change", ["multi", "concurrent"])
@pytest.mark.parametrize("whom", ["runner", "executor"])
def test_sigterm_to_the_job(make_bed: Callable[..., Bed], change: str, whom: str) -> None:
    """As a Pod is stopped: the statement is cancelled, and the server's answer decides (I3)."""
    bed = make_bed(change, planned=True)
    with bed.gate("shop.purchase" if change == "concurrent" else ADD) as held:
        command = bed.start()
        backend = held()
        runner, executor = bed.job()
        os.kill(runner if whom == "runner" else executor, signal.SIGTERM)
        until(lambda: backend not in dict(bed.ground.sessions()), "the cancelled session's end")
    run = bed.end(command)
    # An index that was being built outside a transaction leaves its remains behind.
    assert run.code == (4 if change == "concurrent" else 5), run
    assert "stopped on request" in run.error, run
    assert not bed.changed()
    bed.converge()
    bed.verify()
