"""Killed while a statement waits for its table, on MySQL and MariaDB.

Neither server notices there that its client is gone: the statement waits on, and with it the
attempt's lock, until its own time-out ends it. The proof waits for that; nothing overtakes it.
"""

from collections.abc import Callable

import pytest

from tests.kill.my import Bed
from tests.kill.points import kill, terminate
from tests.kit.waiting import until

VICTIMS = ("cli", "runner", "executor", "everybody", "backend", "server")


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("locked", [False, True], ids=["reader", "locked"])
def test_killed_while_a_statement_waits(
    make_my_bed: Callable[..., Bed], locked: bool, victim: str
) -> None:
    bed = make_my_bed("groups", planned=True)
    with bed.in_use("purchase", locked=locked):
        command = bed.start()
        thread = bed.blocked()
        bed.kill(victim, command)
        if victim == "backend":
            terminate(bed.ground.admin, thread, "mysql")
        if victim == "server":
            kill(bed.ground.server_pid)
        if victim == "cli":
            assert bed.ground.sessions()[0][0] == thread  # its Job goes on
        elif victim == "server":
            bed.ground.ready()
        else:
            # The table is still in use: this is the server's end of the session, not ours.
            until(lambda: thread not in dict(bed.ground.sessions()), "the old session's end")
    run = bed.end(command)
    bed.ground.ready()
    bed.verify_once()
    if victim in ("runner", "executor", "backend"):
        bed.verify_verdict()
        assert run.code in (4, 5), run
    bed.converge()
    bed.verify()
    if victim == "cli":
        assert len(bed.attempts()) == 1  # the Job that went on is the one that is proved
