"""Whole worlds, in parts that processes share."""

import time
from array import array
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.model.explore import Bounds, Report, explore
from tests.model.passes import FATES
from tests.model.world import KINDS


def _run(bounds: Bounds) -> Report:
    report = explore(bounds)
    # A set is several times as large on its way to the parent, and there.
    report.named = array("Q", sorted(report.names))
    report.names = frozenset()
    return report


def parts_of(world: str, faults: int, states: int | None, kinds: tuple[str, ...] | None,
             jobs: int) -> list[Bounds]:  # fmt: skip
    """One world in parts that processes share.

    With one fault a path, what follows from a fault of one kind has none of another: each kind is
    explored alone, and together they are the whole.

    :param states: of one part, after which nothing more is looked at in it.
    """
    if faults != 1 or jobs == 1:
        return [Bounds(world, faults, states, kinds)]
    alone = [(kind,) for kind in kinds or KINDS if kind not in FATES]
    fates = tuple(kind for kind in FATES if kinds is None or kind in kinds)
    return [Bounds(world, 1, None, part, most=states) for part in (*alone, fates) if part]


def campaign(bounds: list[Bounds], jobs: int) -> int:
    """Explore each, side by side; the failures' number is the exit code's cause."""
    begun = time.perf_counter()
    names: dict[str, set[int]] = {}
    transitions = passes = failed = 0
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(_run, item) for item in bounds]):
            report = done.result()
            names.setdefault(report.bounds.world, set()).update(report.named)
            transitions += report.transitions
            passes += report.passes
            print("\n".join(report.lines()), flush=True)
            if report.failure:
                failed += 1
                print(report.failure, flush=True)
    for world, found in sorted(names.items()):
        print(f"{world}: {len(found):,} distinct states")
    seconds = time.perf_counter() - begun
    total = sum(map(len, names.values()))
    print(
        f"{total:,} distinct states in all, {transitions:,} transitions, "
        f"{passes / seconds:,.0f} passes a second on {jobs} processes, {seconds:,.0f} s, "
        f"{failed} with a violation or a stuck state"
    )
    return 1 if failed else 0
