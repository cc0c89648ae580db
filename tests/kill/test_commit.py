"""A COMMIT that never arrives, and one whose answer never does: the ledger knows which it was."""

from collections.abc import Callable

import pytest

from tests.kill.bed import Bed
from tests.kill.matrix import points
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
