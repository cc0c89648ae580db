"""The real clock and the real dice."""

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall-clock time, aware, UTC. For records and deadlines that others read."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never step back; the only clock that may expire a Lease (C-6.6)."""
        return time.monotonic()
