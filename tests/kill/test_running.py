"""Killed while a statement runs: blocked by a reader, waiting for writers, or just before its end.

While the statement is held up the killed attempt's backend has to go by itself (C-9.7); a command
that was killed alone leaves its Job running, and the next one finds it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.kill.pg import Bed
from tests.kill.points import kill, terminate
from tests.kit.waiting import until

pytestmark = pytest.mark.pg(18)

VICTIMS = ("cli", "runner", "executor", "everybody", "backend", "server")
HELD = ("reader", "writer", "end-of-statement", "end-of-index")


@contextmanager
def held_up(bed: Bed, how: str) -> Iterator[Callable[[], int]]:
    """Hold a statement up. :yields: waits until it is, and answers its backend's pid."""
    if how == "end-of-statement":
        with bed.gate("VALIDATE CONSTRAINT") as waiting:
            yield waiting
    elif how == "end-of-index":
        with bed.gate("CREATE INDEX CONCURRENTLY") as waiting:
            yield waiting
    else:
        with bed.holding() as conn:
            conn.execute("BEGIN")
            if how == "reader":
                conn.execute("SELECT FROM shop.customer LIMIT 1")
            else:
                conn.execute("LOCK TABLE shop.purchase IN ROW EXCLUSIVE MODE")
            yield bed.blocked


def change_of(how: str) -> str:
    """With a writer in the way it is the index that has to wait."""
    return "concurrent" if how == "writer" else "groups"


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("how", HELD)
def test_killed_while_a_statement_runs(make_bed: Callable[..., Bed], how: str, victim: str) -> None:
    bed = make_bed(change_of(how), planned=True)
    with held_up(bed, how) as waiting:
        command = bed.start()
        backend = waiting()
        bed.kill(victim, command)
        if victim == "backend":
            terminate(bed.ground.admin, backend)
        if victim == "server":
            kill(backend)
            bed.ground.ready()
        if victim == "cli":
            assert [pid for pid, _ in bed.ground.sessions()] == [backend]
        else:
            # The lock is still in the way: this is the server's end of the session, not ours.
            until(lambda: backend not in dict(bed.ground.sessions()), "the old session's end")
    run = bed.end(command)
    if victim not in ("cli", "everybody", "server"):
        bed.verify_verdict()
        assert run.code in (4, 5), run
    bed.ground.ready()
    bed.converge()
    bed.verify()
    if victim == "cli":
        assert len(bed.attempts()) == 1  # the Job that went on is the one that is proved
