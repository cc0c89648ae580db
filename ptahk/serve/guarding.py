"""The proof that the admission guard is in force, shown in a metric and told in the log."""

import logging
import threading

from prometheus_client import Gauge

from ptahk.engine.ports import Admission
from ptahk.serve.logs import fields

LOG = logging.getLogger(__name__)


class ShownAdmission:
    """An Admission that shows its last answer, and logs where it changes."""

    def __init__(self, inner: Admission, gauge: Gauge) -> None:
        self._inner = inner
        self._gauge = gauge
        self._showing = threading.Lock()
        self._last: str | None = ""

    def missing(self) -> str | None:
        """As the inner one says."""
        found = self._inner.missing()
        with self._showing:
            changed, self._last = (found is None) != (self._last is None), found
            self._gauge.set(found is None)
        if changed and found is None:
            LOG.info("the admission guard is in force")
        elif changed:
            LOG.warning("nothing is dispatched: no admission guard", extra=fields(why=found))
        return found
