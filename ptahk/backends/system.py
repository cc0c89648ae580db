"""The real clock and the real dice."""

import secrets
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


class SystemEntropy:
    """Fresh random bits from the operating system, as lower-case hex."""

    def operation_id(self) -> str:
        """32 digits."""
        return secrets.token_hex(16)

    def nonce(self) -> str:
        """32 digits."""
        return secrets.token_hex(16)

    def epoch_bits(self) -> str:
        """16 digits."""
        return secrets.token_hex(8)
