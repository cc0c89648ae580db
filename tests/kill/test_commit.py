"""A COMMIT that never arrives, and one whose answer never does: the ledger knows which it was."""

from collections.abc import Callable

import pytest

from tests.kill.bed import assert_tells_what_to_do
from tests.kill.matrix import points
from tests.kill.pg import Bed
from tests.kill.points import kill
from tests.kill.proxy import Lost, Proxy

pytestmark = pytest.mark.pg(18)

COMMITS = [point.number for point in points("groups", "executor", ("Apply",), only=("commit",))]


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("number", COMMITS)
def test_lost_in_an_apply(make_bed: Callable[..., Bed], number: int, lost: Lost) -> None:
    bed = make_bed("groups")
    proxy = Proxy(bed.ground.server.port, "ptahk/apply/", number, lost)
    with proxy.running():
        bed.port = proxy.port
        run = bed.run()
        assert proxy.cut.is_set()
        bed.verify_verdict()
        if lost == "answer" and number == COMMITS[-1]:
            assert run.code == 0, run
        bed.converge()
    bed.verify()


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_lost_in_a_fence(make_bed: Callable[..., Bed], lost: Lost) -> None:
    bed = make_bed("single")
    proxy = Proxy(bed.ground.server.port, "ptahk/prove/", 1, lost)
    with proxy.running():
        bed.port = proxy.port
        bed.run()
        assert proxy.cut.is_set()
        bed.converge()
    bed.verify()


def test_a_proof_stays_owed_while_the_server_is_away(make_bed: Callable[..., Bed]) -> None:
    bed = make_bed("multi")
    proxy = Proxy(bed.ground.server.port)
    with proxy.running():
        bed.port = proxy.port
        with bed.gate("CREATE VIEW") as held:
            command = bed.start()
            held()
            for pid in (command.pid, *reversed(bed.job())):
                kill(pid)
            bed.end(command)
    identity = bed.attempts()[0]["operation_id"]
    away = bed.run()
    assert away.code == 4, away
    assert_tells_what_to_do(away)
    assert identity in away.error, away
    with Proxy(bed.ground.server.port, listen=bed.port).running():
        bed.converge()
    bed.verify()
