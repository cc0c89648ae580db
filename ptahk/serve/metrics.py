"""Prometheus metrics: names, help and labels in one place; ``docs/operations.md`` lists them.

Labels are bounded: kinds, operations, outcomes, results. No namespace, name or realm is one.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ptahk import __version__
from ptahk.serve.accounts import Accounts, Totals

SHORT_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LATE_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

GAUGES: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("ptahk_unresolved_operations", "Applies whose outcome nobody knows yet.",
     lambda totals: totals.unresolved),
    ("ptahk_unresolved_oldest_seconds", "Age of the oldest of them; 0 without one.",
     lambda totals: totals.oldest_unresolved_s),
    ("ptahk_owed_proofs", "Proofs owed after an Apply.", lambda totals: totals.owed_proofs),
    ("ptahk_owed_releases", "Realm releases owed.", lambda totals: totals.owed_releases),
    ("ptahk_overdue_operations", "Dispatched operations past their deadline and grace.",
     lambda totals: totals.overdue_operations),
    ("ptahk_overdue_observations", "Resources at rest not observed for two intervals.",
     lambda totals: totals.overdue_observations),
    ("ptahk_census_realms", "Databases that resources claim.", lambda totals: totals.realms),
    ("ptahk_census_conflicts", "Databases with several claimants that do not all share.",
     lambda totals: totals.conflicts),
)  # fmt: skip


class AccountsCollector(Collector):
    """What resources owe, read from the accounts when somebody scrapes."""

    def __init__(self, accounts: Accounts, now: Callable[[], datetime]) -> None:
        self._accounts = accounts
        self._now = now

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        totals = self._accounts.totals(self._now())
        phases = GaugeMetricFamily(
            "ptahk_resources", "Resources by kind and phase.", labels=["kind", "phase"]
        )
        for (kind, phase), count in sorted(totals.phases.items()):
            phases.add_metric([kind, phase], count)
        yield phases
        for name, text, value in GAUGES:
            yield GaugeMetricFamily(name, text, value=value(totals))


class CacheCollector(Collector):
    """Freshness and poison of every watch, and what was not told."""

    def __init__(self) -> None:
        self.read: Callable[[], list[tuple[str, float, int]]] = list
        """(kind, seconds since the last proof of freshness, objects that cannot be read)."""
        self.events_dropped: Callable[[], int] = lambda: 0

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "ptahk_cache_age_seconds", "Since a watch last proved that it is fresh.",
            labels=["kind"],
        )  # fmt: skip
        poison = GaugeMetricFamily(
            "ptahk_poison_objects", "Objects of a watch that cannot be read.", labels=["kind"]
        )
        for kind, age_s, count in self.read():
            age.add_metric([kind], age_s)
            poison.add_metric([kind], count)
        yield age
        yield poison
        yield CounterMetricFamily(
            "ptahk_events_dropped", "Events that were not sent.", value=self.events_dropped()
        )


class Metrics:
    """Everything that the manager measures, in a registry of its own."""

    def __init__(self, accounts: Accounts, now: Callable[[], datetime]) -> None:
        registry = self.registry = CollectorRegistry()
        self.caches = CacheCollector()
        registry.register(AccountsCollector(accounts, now))
        registry.register(self.caches)

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def measure(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, buckets=buckets, registry=registry)

        def show(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        show("ptahk_build_info", "Always 1.", "version").labels(__version__).set(1)
        started = show("ptahk_start_time_seconds", "When this process started, in Unix time.")
        started.set(time.time())
        self.leader = show("ptahk_leader", "1 while this replica leads.")
        self.passes = count("ptahk_passes_total", "Reconciliations by result.", "kind", "result")
        self.pass_seconds = measure("ptahk_pass_seconds", "Duration of a pass.", SHORT_S)
        self.faults = count("ptahk_store_faults_total", "Passes that the API failed.", "fault")
        self.operations = count(
            "ptahk_operations_total", "Operations by outcome; Settled is what a proof made of it.",
            "kind", "operation", "outcome",
        )  # fmt: skip
        self.queue_depth = show("ptahk_queue_depth", "Resources due and in no worker's hand.")
        self.queue_wait = measure("ptahk_queue_wait_seconds", "From due to a worker.", SHORT_S)
        self.renewals = count("ptahk_renewals_total", "Realm Lease renewals by result.", "result")
        self.renewal_lateness = measure(
            "ptahk_renewal_lateness_seconds", "From due to renewed.", LATE_S
        )
        self.renewals_late = count(
            "ptahk_renewals_late_total", "Renewals later than another third of the duration."
        )
        self.renewals_kept = show("ptahk_renewals_kept", "Realm Leases that are kept renewed.")
        self.renewals_overdue = show(
            "ptahk_renewals_overdue_seconds", "Lateness of the latest renewal that is due now."
        )
        self.reads = count("ptahk_result_reads_total", "Reads of results by result.", "result")
        self.reads_running = show("ptahk_result_reads_running", "Reads of results under way.")
        self.guarded = show(
            "ptahk_admission_in_force", "1 while the guard refuses what no claim asked for."
        )
        self.reviews = count(
            "ptahk_admission_reviews_total", "Reviews of the webhook by verdict.", "kind", "verdict"
        )
        self.review_seconds = measure(
            "ptahk_admission_review_seconds", "Duration of a review.", SHORT_S
        )
        self.stall = show(
            "ptahk_stall_seconds", "Lateness of the last election round: how long we stood still."
        )

    def reviewed(self, kind: str, verdict: str, seconds: float) -> None:
        """The webhook answered a review."""
        self.reviews.labels(kind, verdict).inc()
        self.review_seconds.observe(seconds)


def names(metrics: Metrics) -> dict[str, str]:
    """Every metric's name and help, as a scrape shows them; for the page and its test."""
    found = {}
    for metric in metrics.registry.collect():
        name = metric.name + ("_total" if metric.type == "counter" else "")
        found[name] = metric.documentation
    return found
