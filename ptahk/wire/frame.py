"""Result frame and termination summary (C-5.1, C-5.2): sans-IO encoder and incremental decoder.

::

    \\n
    PTAHK-FRAME 1 <operation id> <epoch or -> <lines> <encoded length> <SHA-256 of the encoding>\\n
    <4096 characters of base64>\\n          (every line but the last is full)
    PTAHK-END <operation id> <the same SHA-256>\\n

The payload is base64 of gzip of one JSON object. The decoder reads what a container's log, a
file or an HTTP body may hold: any chunking, noise before and after, hostile bytes. It never
raises on them, and it never keeps more than the bounds below.
"""

import base64
import binascii
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ptahk.errors import OperationFailed
from ptahk.wire import canonical

VERSION: Final = 1
LINE_CHARS_MAX: Final = 4096
ENCODED_BYTES_MAX: Final = 6 * 1024 * 1024
"""A kubelet serves only the newest log file, 10 MiB (C-5.1)."""
DOCUMENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""The JSON itself; also what a hostile payload can make us unpack."""
STREAM_BYTES_MAX: Final = 4 * ENCODED_BYTES_MAX
"""Noise and frame together."""
SUMMARY_BYTES_MAX: Final = 2048

_MAGIC = b"PTAHK-FRAME "
_HEADER_BYTES_MAX = 256
_HEADER = re.compile(
    rb"PTAHK-FRAME ([1-9][0-9]{0,3}) ([0-9a-f]{32}) (-|[1-9][0-9]{0,15}\.[0-9a-f]{16})"
    rb" ([1-9][0-9]{0,3}) ([1-9][0-9]{0,7}) ([0-9a-f]{64})"
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_OPERATION_ID = re.compile(r"[0-9a-f]{32}")
_EPOCH = re.compile(r"[1-9][0-9]{0,15}\.[0-9a-f]{16}")

RefusedReason = Literal[
    "NoFrame",
    "Truncated",
    "Malformed",
    "WrongVersion",
    "WrongOperation",
    "WrongEpoch",
    "WrongDigest",
    "SecondFrame",
    "TooMuchNoise",
]


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame of the operation and epoch that were asked for.

    :ivar document: the JSON object; names Pod UID and start nonce, which the caller compares.
    :ivar digest: SHA-256 of the encoding, 64 hex digits, as the summary names it.
    """

    operation_id: str
    epoch: str | None
    digest: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NeedMore:
    """No whole frame yet."""

    started: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """What was read decides nothing, and why. ``NoFrame`` and ``Truncated`` may pass (C-5.3)."""

    reason: RefusedReason
    message: str


Answer = Frame | NeedMore | Refused


@dataclass(frozen=True, slots=True)
class _Header:
    digest: bytes
    lines: int
    length: int


def encode(operation_id: str, epoch: str | None, document: Mapping[str, Any]) -> bytes:
    """One frame, as it goes to the output: starts and ends with a newline.

    :param operation_id: 32 hex digits.
    :param epoch: ``NUMBER.HEX``, or None where the operation holds no Lease.
    :raises OperationFailed: ``ResultTooLarge``, above ``ENCODED_BYTES_MAX`` encoded or
        ``DOCUMENT_BYTES_MAX`` raw.
    """
    assert _OPERATION_ID.fullmatch(operation_id), "an operation id is 32 hex digits"
    assert epoch is None or _EPOCH.fullmatch(epoch), "an epoch is NUMBER.HEX"
    raw = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise _too_large(len(raw), DOCUMENT_BYTES_MAX)
    # Level 6 and no time: equal documents make equal frames.
    payload = base64.b64encode(gzip.compress(raw, 6, mtime=0))
    if len(payload) > ENCODED_BYTES_MAX:
        raise _too_large(len(payload), ENCODED_BYTES_MAX)
    digest = hashlib.sha256(payload).hexdigest()
    lines = [
        payload[start : start + LINE_CHARS_MAX] for start in range(0, len(payload), LINE_CHARS_MAX)
    ]
    head = f"\nPTAHK-FRAME {VERSION} {operation_id} {epoch or '-'}"
    header = f"{head} {len(lines)} {len(payload)} {digest}"
    footer = f"PTAHK-END {operation_id} {digest}"
    return b"\n".join([header.encode("ascii"), *lines, footer.encode("ascii"), b""])


def _too_large(size: int, size_max: int) -> OperationFailed:
    return OperationFailed(
        f"result too large (bytes={size}): a frame carries at most {size_max}",
        reason="ResultTooLarge",
    )


def digest_of(frame: bytes) -> str:
    """The digest that the header of an encoded frame names, for the termination summary."""
    return frame[: _HEADER_BYTES_MAX + 1].split(b"\n", 2)[1].rsplit(b" ", 1)[1].decode("ascii")


class Decoder:
    """Looks for the one frame of one operation in a stream of bytes.

    Feed it every chunk, then call ``finish``: only at the end of the stream is it known that no
    second frame follows. A refusal stands for good, except ``Truncated``: a broken frame before
    a whole one is noise.
    """

    def __init__(
        self, operation_id: str, epoch: str | None, *, stream_bytes_max: int = STREAM_BYTES_MAX
    ) -> None:
        self._operation = operation_id.encode("ascii")
        self._epoch = (epoch or "-").encode("ascii")
        self._bytes_left = stream_bytes_max
        self._line = bytearray()  # the unfinished line, never longer than it may be
        self._skip = False  # the unfinished line is noise already
        self._header: _Header | None = None
        self._payload: list[bytes] = []
        self._frame: Frame | None = None
        self._refused: Refused | None = None
        self._broken = False

    def feed(self, chunk: bytes) -> Answer:
        """Take the next bytes. ``Frame`` may still become ``Refused`` by a later chunk."""
        if self._refused is None:
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                self._refuse("TooMuchNoise", "the stream is longer than its bound")
            else:
                self._take(chunk)
        return self._answer()

    def finish(self) -> Frame | Refused:
        """The answer after the last chunk."""
        answer = self._answer()
        if not isinstance(answer, NeedMore):
            return answer
        if self._broken or answer.started:
            return Refused("Truncated", "a frame begins, but it is not whole")
        return Refused("NoFrame", "no frame of this operation was found")

    def _answer(self) -> Answer:
        if self._refused is not None:
            return self._refused
        return self._frame or NeedMore(self._header is not None)

    def _take(self, chunk: bytes) -> None:
        start = 0
        while self._refused is None:
            end = chunk.find(b"\n", start)
            piece = chunk[start : end if end >= 0 else None]
            if not self._skip:
                self._line += piece[: self._line_max() + 1 - len(self._line)]
                self._skip = self._hopeless()
            if end < 0:
                return
            start = end + 1
            line, noise = bytes(self._line), self._skip
            self._line.clear()
            self._skip = False
            if noise:
                self._break()
            else:
                self._whole_line(line)

    def _line_max(self) -> int:
        return _HEADER_BYTES_MAX if self._header is None else LINE_CHARS_MAX

    def _hopeless(self) -> bool:
        """The unfinished line can be no line of a frame, however it goes on."""
        if len(self._line) > self._line_max():
            return True
        return self._header is None and not _MAGIC.startswith(self._line[: len(_MAGIC)])

    def _break(self) -> None:
        if self._header is not None:
            self._broken = True
            self._header = None
            self._payload.clear()

    def _whole_line(self, line: bytes) -> None:
        match = _HEADER.fullmatch(line)
        if match is not None:
            self._break()
            self._begin(match)
        elif self._header is None:
            return
        elif len(self._payload) < self._header.lines:
            self._payload_line(line, self._header)
        elif line == b"PTAHK-END " + self._operation + b" " + self._header.digest:
            self._whole_frame(self._header)
        else:
            self._break()

    def _begin(self, match: re.Match[bytes]) -> None:
        version, operation, epoch, lines, length, digest = match.groups()
        header = _Header(digest, int(lines), int(length))
        if int(version) != VERSION:
            self._refuse("WrongVersion", f"a frame of protocol version {int(version)}")
        elif operation != self._operation:
            self._refuse("WrongOperation", "a frame of another operation")
        elif epoch != self._epoch:
            self._refuse("WrongEpoch", "a frame of another epoch")
        elif header.length > ENCODED_BYTES_MAX:
            self._refuse("Malformed", "a frame announces more than the bound")
        elif header.lines != -(-header.length // LINE_CHARS_MAX):
            self._refuse("Malformed", "a frame's count of lines is not its length's")
        else:
            self._header = header

    def _payload_line(self, line: bytes, header: _Header) -> None:
        number = len(self._payload) + 1
        last = header.length - (header.lines - 1) * LINE_CHARS_MAX
        if len(line) == (last if number == header.lines else LINE_CHARS_MAX):
            self._payload.append(line)
        else:
            self._break()

    def _whole_frame(self, header: _Header) -> None:
        payload = b"".join(self._payload)
        self._header = None
        self._payload.clear()
        if hashlib.sha256(payload).hexdigest().encode("ascii") != header.digest:
            self._refuse("WrongDigest", "a frame's payload does not hash to its digest")
            return
        if self._frame is not None:
            self._refuse("SecondFrame", "a second whole frame of this operation")
            return
        document = _unpack(payload)
        if document is None:
            self._refuse("Malformed", "a frame's payload is not gzip of one JSON object")
            return
        epoch = self._epoch.decode("ascii")
        self._frame = Frame(
            operation_id=self._operation.decode("ascii"),
            epoch=None if epoch == "-" else epoch,
            digest=header.digest.decode("ascii"),
            document=document,
        )

    def _refuse(self, reason: RefusedReason, message: str) -> None:
        self._refused = Refused(reason, message)
        self._frame = None
        self._payload.clear()
        self._line.clear()


def _unpack(payload: bytes) -> dict[str, Any] | None:
    if _BASE64.fullmatch(payload) is None:
        return None
    try:
        packed = base64.b64decode(payload, validate=True)
        unpacker = zlib.decompressobj(wbits=31)  # one gzip member
        raw = unpacker.decompress(packed, DOCUMENT_BYTES_MAX + 1)
        if not unpacker.eof or unpacker.unused_data or len(raw) > DOCUMENT_BYTES_MAX:
            return None
        document = canonical.decode(raw, bytes_max=DOCUMENT_BYTES_MAX)
    except (binascii.Error, zlib.error, canonical.CanonicalError):
        return None
    return document if isinstance(document, dict) else None


@dataclass(frozen=True, slots=True)
class Summary:
    """The termination message: it may stand in for a frame that is gone for good (C-5.2).

    :ivar mutation_started: a statement may have been sent.
    :ivar certain: what happened is known, not guessed.
    :ivar frame_digest: of the frame that was written, or None where none was.
    :ivar error: the reason of the failure, or None.
    """

    operation_id: str
    mutation_started: bool
    certain: bool
    frame_digest: str | None = None
    error: str | None = None


_SUMMARY_TYPES: dict[str, tuple[type, ...]] = {
    "version": (int,),
    "operationId": (str,),
    "mutationStarted": (bool,),
    "certain": (bool,),
    "frameDigest": (str, type(None)),
    "error": (str, type(None)),
}
_ERROR_CHARS_MAX = 200


def encode_summary(summary: Summary) -> bytes:
    """One canonical JSON object, at most ``SUMMARY_BYTES_MAX`` bytes."""
    error = summary.error
    data = canonical.encode(
        {
            "version": VERSION,
            "operationId": summary.operation_id,
            "mutationStarted": summary.mutation_started,
            "certain": summary.certain,
            "frameDigest": summary.frame_digest,
            "error": None if error is None else error[:_ERROR_CHARS_MAX],
        }
    )
    assert len(data) <= SUMMARY_BYTES_MAX, "every field is bounded"
    return data


def decode_summary(data: bytes, operation_id: str) -> Summary | Refused:
    """Read a termination message. Never raises, whatever the bytes."""
    try:
        value = canonical.decode(data, bytes_max=SUMMARY_BYTES_MAX)
    except canonical.CanonicalError:
        return Refused("Malformed", "the summary is not one JSON object within its bound")
    if not isinstance(value, dict) or value.keys() != _SUMMARY_TYPES.keys():
        return Refused("Malformed", "the summary has not exactly its fields")
    if any(type(value[name]) not in types for name, types in _SUMMARY_TYPES.items()):
        return Refused("Malformed", "a field of the summary has another type")
    if value["version"] != VERSION:
        return Refused("WrongVersion", "a summary of another protocol version")
    if value["operationId"] != operation_id:
        return Refused("WrongOperation", "a summary of another operation")
    return Summary(
        operation_id=operation_id,
        mutation_started=value["mutationStarted"],
        certain=value["certain"],
        frame_digest=value["frameDigest"],
        error=value["error"],
    )
