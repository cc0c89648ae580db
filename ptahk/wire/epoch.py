"""The epoch of a realm Lease."""

import re
from dataclasses import dataclass

from ptahk.wire import canonical

_EPOCH = r"([1-9][0-9]{0,15})\.([0-9a-f]{16})"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One uninterrupted interval of holding a realm Lease, written ``NUMBER.HEX``.

    :param number: at least 1, monotone per realm; this is what fences (C-6.14).
    :param continuity: 16 hex digits, 64 random bits; equality proves continuity.
    """

    number: int
    continuity: str

    def __post_init__(self) -> None:
        if not re.fullmatch(_EPOCH, str(self)) or self.number > canonical.INTEGER_MAX:
            raise ValueError("an epoch is NUMBER.HEX: at least 1, and 16 lower-case hex digits")

    def __str__(self) -> str:
        return f"{self.number}.{self.continuity}"

    @classmethod
    def parse(cls, text: str) -> "Epoch":
        """The inverse of ``str``; exactly one spelling is accepted.

        :raises ValueError: anything else.
        """
        match = re.fullmatch(_EPOCH, text)
        if match is None:
            raise ValueError("an epoch is NUMBER.HEX: at least 1, and 16 lower-case hex digits")
        return cls(int(match[1]), match[2])
