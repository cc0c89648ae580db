"""Whether a manager is live, as this command sees it: its Lease, and nobody's clock but our own.

A manager renews the Lease ``ptahk-manager`` of the coordination namespace. It is gone when this
process has watched the Lease stand still for its whole duration (C-6.6's rule).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ptahk.engine import leader
from ptahk.engine.model.fields import parse_time
from ptahk.errors import PtahkError, Unreachable


class Manager:
    """What was seen of the managers' Lease. Fed with each change of it.

    :param namespace: the coordination namespace.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._document: dict[str, Any] | None = None
        self._known = False
        self._since_s = 0.0
        self._renewals = 0

    def saw(self, document: dict[str, Any] | None, now_s: float) -> None:
        """The Lease as it is now; None: there is none."""
        fresh = self._document is None or document is None
        if fresh or leader.mark(self._document or {}) != leader.mark(document or {}):
            self._since_s = now_s
            self._renewals += self._known
        self._document = document
        self._known = True

    def fault(self, now_s: float) -> PtahkError | None:
        """Why no manager will answer; None: one may, as far as is known."""
        if not self._known:
            return None
        verdict = leader.verdict(self._document, "", now_s - self._since_s)
        match verdict:
            case leader.Held():
                return None
            case leader.Unusable(message):
                why = f"Lease {leader.LEASE_NAME} is not one of ours: {message}"
            case _ if self._document is None:
                why = f"there is no Lease {leader.LEASE_NAME}"
            case _:
                why = f"nobody renews Lease {leader.LEASE_NAME}"
        return Unreachable(
            f"no live manager (coordination-namespace={self.namespace}): {why}",
            reason="NoManager",
            field="coordination-namespace",
            hint="Start ptahk serve in the cluster, or name its namespace with "
            "--coordination-namespace.",
        )

    def live(self, now: datetime) -> bool:
        """A renewal was seen, or the last one is recent by this machine's clock.

        The clock only saves waiting for a renewal: a Lease that then stands still is found by
        ``fault``.
        """
        if self._document is None:
            return False
        if self._renewals > 0:
            return True
        spec = self._document.get("spec") or {}
        try:
            renewed = parse_time(str(spec.get("renewTime")))
            return abs((now - renewed).total_seconds()) < int(spec["leaseDurationSeconds"])
        except (ValueError, KeyError, TypeError):
            return False

    def look_again_s(self, now_s: float) -> float:
        """Seconds until the Lease has stood still for its duration."""
        verdict = leader.verdict(self._document, "", now_s - self._since_s)
        return verdict.left_s if isinstance(verdict, leader.Held) else 0.0
