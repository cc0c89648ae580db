"""One container's log, bounded in time and bytes, and whether it is all that there is.

A kubelet answers 200 with a sentence where it has no log, serves only the newest file after a
rotation, and a cut body without a length looks like a whole one (hazards C1 to C3). So what was
read is compared with what the runner says about itself before it counts.
"""

import re
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS
from ptahk.backends.kube.pod import CONTAINER
from ptahk.engine.ports import Unavailable
from ptahk.wire import frame

LINES: Final = 4 * (frame.ENCODED_BYTES_MAX // frame.LINE_CHARS_MAX + 3)
"""Records asked for from the end: four times the largest frame, whose lines are one each. A tail
cannot be asked for in bytes: ``limitBytes`` counts from the start (hazard C11)."""

KEPT_BYTES_MAX: Final = frame.STREAM_BYTES_MAX
READ_BYTES_MAX: Final = 4 * KEPT_BYTES_MAX
"""A runtime splits lines at 16 KiB, so the records asked for may be this long and no longer."""

ROOM_BYTES: Final = 96 * 1024 * 1024
"""Of logs, as they are read, in one process at once. Many results are small and a log that hangs
holds nothing, so it is bytes that are counted and not readings."""

_SENTENCES: Final = (
    b"unable to retrieve container logs for ",
    b"failed to try resolving symlinks in path ",
    b"failed to get container status ",
    b"failed to open log file ",
    b"unable to retrieve logs ",
)
"""How a kubelet says, with 200, that it has no log (1.36)."""
_SENTENCE_BYTES_MAX: Final = 4096
_END = re.compile(rb"\nPTAHK-END [0-9a-f]{32} [0-9a-f]{64}\n")


class Room:
    """Bytes that readings hold together, bounded. Who finds none gives its own back and comes
    again, so the others get through."""

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self._lock = threading.Lock()
        self._left = bytes_max

    def take(self, count: int) -> None:
        """:raises Unavailable: there is no room for so many more; nothing is taken."""
        with self._lock:
            if count > self._left:
                raise Unavailable("too many large logs are read at once")
            self._left -= count

    def give_back(self, count: int) -> None:
        """They are held no more, or by somebody else."""
        with self._lock:
            self._left += count


@dataclass(frozen=True, slots=True)
class Log:
    """What was read of one container's output."""

    data: bytes
    truncated: bool
    """More was sent than is kept: the beginning is missing."""


def read(
    client: Client, namespace: str, pod: str, room: Room, *, deadline_s: float,
    previous: bool = False,
) -> Log:  # fmt: skip
    """The log's end, once: never followed, for a followed log of a deleted Pod ends well without
    its frame.

    :param room: what all readings of this process may hold.
    :param deadline_s: seconds until the read ends, however it hangs or drips (C-5.3).
    :param previous: of the container's instance before the present one.
    :raises PortError: the server refused, there was no room, or no end of it came in time.
    """
    query = {"container": CONTAINER, "tailLines": str(LINES)}
    if previous:
        query["previous"] = "true"
    path = KINDS["Pod"].path(namespace, pod, "log")
    chunks: deque[bytes] = deque()
    size, dropped = 0, False
    try:
        with client.stream(
            path, query, deadline_s=deadline_s, bytes_max=READ_BYTES_MAX, accept="*/*"
        ) as stream:
            for chunk in stream:
                room.take(len(chunk))
                chunks.append(chunk)
                size += len(chunk)
                while size - len(chunks[0]) >= KEPT_BYTES_MAX:
                    room.give_back(len(chunks[0]))
                    size -= len(chunks.popleft())
                    dropped = True
        data = b"".join(chunks)
    finally:
        room.give_back(size)
    return Log(data[-KEPT_BYTES_MAX:], dropped or size > KEPT_BYTES_MAX)


def sentence(data: bytes) -> str | None:
    """What a kubelet said in place of a log; None: it is a log.

    A runner ends every line that it writes, so a lone line without an end is not its.
    """
    if not data or len(data) > _SENTENCE_BYTES_MAX or b"PTAHK-FRAME" in data:
        return None
    if b"\n" in data.rstrip(b"\n") or (data.endswith(b"\n") and not data.startswith(_SENTENCES)):
        return None
    return data.decode("utf-8", "replace").strip()[:300]


def missing(data: bytes, termination: bytes | None, operation_id: str) -> str | None:
    """What the log lacks of the frame that the runner says it wrote; None: nothing.

    :param termination: the container's termination message.
    """
    said = None if termination is None else frame.decode_summary(termination, operation_id)
    if not isinstance(said, frame.Summary) or said.frame_digest is None:
        return None
    end = f"\nPTAHK-END {operation_id} {said.frame_digest}\n".encode("ascii", "replace")
    return None if end in data else "the frame that the runner wrote is not in what was read"


def broken_off(data: bytes) -> bool:
    """A frame begins and none ends: the runner died over it, or the reading was cut."""
    start = data.rfind(b"\nPTAHK-FRAME ")
    return start >= 0 and _END.search(data, start) is None
