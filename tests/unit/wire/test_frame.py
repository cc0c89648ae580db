"""The frame of C-5.1 against any chunking, any noise and any mutation."""

import base64
import gzip
import hashlib
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptahk.errors import OperationFailed
from ptahk.wire import frame
from ptahk.wire.frame import Decoder, Frame, NeedMore, Refused, Summary

OPERATION = "0123456789abcdef0123456789abcdef"
EPOCH = "7.00112233445566ff"
DOCUMENT = {"podUID": "p", "startNonce": "n", "text": "é\n\U0001f600", "sizes": [1, 2.5, None]}

NOISE_LINE = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" "))
NOISE = st.lists(NOISE_LINE, max_size=6).map(b"\n".join)


def read(data: bytes, *sizes: int, epoch: str | None = EPOCH) -> Frame | Refused:
    decoder = Decoder(OPERATION, epoch)
    start = 0
    for size in sizes:
        decoder.feed(data[start : start + size])
        start += size
    decoder.feed(data[start:])
    return decoder.finish()


def build(payload: bytes, **change: Any) -> bytes:
    """A frame by hand, so that each part can be wrong on its own."""
    digest = change.get("digest", hashlib.sha256(payload).hexdigest())
    lines = [payload[i : i + 4096] for i in range(0, len(payload), 4096)]
    head = [
        "PTAHK-FRAME",
        change.get("version", 1),
        change.get("operation", OPERATION),
        change.get("epoch", EPOCH),
        change.get("lines", len(lines)),
        change.get("length", len(payload)),
        digest,
    ]
    foot = f"PTAHK-END {OPERATION} {change.get('end', digest)}"
    return b"\n".join([b"", " ".join(map(str, head)).encode(), *lines, foot.encode(), b""])


def packed(document: Any) -> bytes:
    return base64.b64encode(gzip.compress(json.dumps(document).encode(), mtime=0))


def test_what_is_written_is_read() -> None:
    data = frame.encode(OPERATION, EPOCH, DOCUMENT)
    assert data.startswith(b"\n") and data.endswith(b"\n") and data.isascii()
    answer = read(data)
    assert isinstance(answer, Frame)
    assert answer.document == DOCUMENT
    assert answer.epoch == EPOCH
    assert answer.digest == frame.digest_of(data)


def test_no_epoch() -> None:
    answer = read(frame.encode(OPERATION, None, {}), epoch=None)
    assert isinstance(answer, Frame) and answer.epoch is None


def test_lines_are_short_and_equal_documents_make_equal_frames() -> None:
    text = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(250))
    data = frame.encode(OPERATION, EPOCH, {"text": text})
    assert data == frame.encode(OPERATION, EPOCH, {"text": text})
    lines = data.split(b"\n")
    assert len(lines) > 5
    assert max(map(len, lines)) == 4096
    assert isinstance(read(data), Frame)


@given(NOISE, NOISE, st.lists(st.integers(0, 400), max_size=12))
def test_any_noise_and_any_chunking(before: bytes, after: bytes, sizes: list[int]) -> None:
    data = before + frame.encode(OPERATION, EPOCH, DOCUMENT) + after
    answer = read(data, *sizes)
    assert isinstance(answer, Frame)
    assert answer.document == DOCUMENT


def test_byte_by_byte() -> None:
    decoder = Decoder(OPERATION, EPOCH)
    data = frame.encode(OPERATION, EPOCH, DOCUMENT)
    answers = [decoder.feed(data[i : i + 1]) for i in range(len(data))]
    assert all(isinstance(answer, NeedMore) for answer in answers[:-1])
    assert isinstance(answers[-1], Frame)
    assert answers[0] == NeedMore(started=False)
    assert answers[-2] == NeedMore(started=True)


@given(st.data())
@settings(max_examples=300)
def test_mutations_never_give_another_document(data: st.DataObject) -> None:
    whole = bytearray(frame.encode(OPERATION, EPOCH, DOCUMENT))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "end"])):
            case "flip":
                whole[place] ^= data.draw(st.integers(1, 255))
            case "cut":
                del whole[place]
            case "insert":
                whole.insert(place, data.draw(st.integers(0, 255)))
            case _:
                del whole[place:]
        if not whole:
            break
    answer = read(bytes(whole), data.draw(st.integers(0, 300)))
    if isinstance(answer, Frame):  # only the newline before the header may have changed
        assert answer.document == DOCUMENT


@given(st.integers(0, 10**6))
def test_truncated(seed: int) -> None:
    data = frame.encode(OPERATION, EPOCH, DOCUMENT)
    size = seed % (len(data) - 1)
    answer = read(data[:size])
    assert isinstance(answer, Refused)
    assert answer.reason in ("NoFrame", "Truncated")


def test_a_cut_last_newline_is_truncated() -> None:
    answer = read(frame.encode(OPERATION, EPOCH, DOCUMENT)[:-1])
    assert isinstance(answer, Refused) and answer.reason == "Truncated"


REFUSALS: list[tuple[str, bytes]] = [
    ("NoFrame", b""),
    ("NoFrame", b"unable to retrieve container logs for containerd://abc"),
    ("NoFrame", b"PTAHK-FRAME 1 nonsense\n"),
    ("WrongOperation", build(packed({}), operation="f" * 32)),
    ("WrongEpoch", build(packed({}), epoch="8.00112233445566ff")),
    ("WrongEpoch", build(packed({}), epoch="-")),
    ("WrongVersion", build(packed({}), version=2)),
    ("WrongDigest", build(packed({}), digest="0" * 64)),
    ("Truncated", build(packed({}), end="0" * 64)),
    ("Malformed", build(packed({}), lines=2)),
    ("Malformed", build(packed({}), length=7 * 1024 * 1024, lines=1792)),
    ("Truncated", build(packed({}), length=len(packed({})) + 1)),
    ("Malformed", build(packed([]))),
    ("Malformed", build(base64.b64encode(b"not gzip"))),
    ("Malformed", build(b"====")),
    ("Malformed", build(b"\xff\xfe\xfd\xfc")),
    ("Malformed", build(base64.b64encode(gzip.compress(b'{"a":1,"a":2}')))),
    ("Malformed", build(base64.b64encode(gzip.compress(b"{}")[:-4]))),
    ("Malformed", build(base64.b64encode(gzip.compress(b"{}") + b"x"))),
    ("Malformed", build(base64.b64encode(gzip.compress(b"{}") * 2))),
    ("SecondFrame", build(packed({})) * 2),
    ("SecondFrame", build(packed({})) + b"noise" + build(packed({"a": 1}))),
    ("WrongOperation", build(packed({})) + build(packed({}), operation="f" * 32)),
]


@pytest.mark.parametrize(("reason", "data"), REFUSALS)
def test_refused(reason: str, data: bytes) -> None:
    for sizes in ((), (1,), (50, 1, 1), (len(data) // 2,)):
        answer = read(data, *sizes)
        assert isinstance(answer, Refused)
        assert answer.reason == reason


def test_a_refusal_stands() -> None:
    decoder = Decoder(OPERATION, EPOCH)
    decoder.feed(build(packed({}), operation="f" * 32))
    assert isinstance(decoder.feed(build(packed({}))), Refused)
    assert isinstance(decoder.finish(), Refused)


def test_a_broken_frame_before_a_whole_one_is_noise() -> None:
    data = frame.encode(OPERATION, EPOCH, DOCUMENT)
    for size in (100, 200, len(data) - 3):
        assert isinstance(read(data[:size] + data), Frame)


def test_a_frame_in_the_middle_of_a_line_is_no_frame() -> None:
    answer = read(b"NOTICE: " + build(packed({}))[1:])
    assert isinstance(answer, Refused) and answer.reason == "NoFrame"


def test_too_much_noise() -> None:
    decoder = Decoder(OPERATION, EPOCH, stream_bytes_max=1000)
    decoder.feed(b"x" * 1000)
    answer = decoder.feed(b"x")
    assert isinstance(answer, Refused) and answer.reason == "TooMuchNoise"


def test_a_result_too_large_is_refused() -> None:
    text = base64.b64encode(hashlib.shake_256(b"").digest(5 * 1024 * 1024)).decode()
    with pytest.raises(OperationFailed) as caught:
        frame.encode(OPERATION, EPOCH, {"text": text})
    assert caught.value.reason == "ResultTooLarge"
    with pytest.raises(OperationFailed):
        frame.encode(OPERATION, EPOCH, {"text": "a" * (33 * 1024 * 1024)})


def _peak(data: bytes) -> tuple[Frame | Refused, int]:
    tracemalloc.start()
    try:
        answer = read(data)
        return answer, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b'"' + b"a" * (1 << 28) + b'"', 9)
    data = build(base64.b64encode(bomb))
    assert len(data) < frame.ENCODED_BYTES_MAX
    answer, peak = _peak(data)
    assert isinstance(answer, Refused) and answer.reason == "Malformed"
    assert peak < 3 * frame.DOCUMENT_BYTES_MAX


def test_a_line_without_end_is_not_kept() -> None:
    decoder = Decoder(OPERATION, EPOCH)
    tracemalloc.start()
    try:
        for start in (b"x", b"PTAHK-FRAME 1 "):
            decoder.feed(start)
            for _ in range(80):
                decoder.feed(b"0" * 100_000)
            decoder.feed(b"\n")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_hostile_bytes_never_raise(chunks: list[bytes]) -> None:
    decoder = Decoder(OPERATION, EPOCH)
    for chunk in chunks:
        decoder.feed(chunk)
    assert isinstance(decoder.finish(), Refused)


@given(st.booleans(), st.booleans(), st.none() | st.text(st.characters(codec="utf-8")))
def test_summaries(started: bool, certain: bool, error: str | None) -> None:
    summary = Summary(OPERATION, started, certain, "a" * 64, error)
    data = frame.encode_summary(summary)
    assert len(data) <= 2048
    again = frame.decode_summary(data, OPERATION)
    assert isinstance(again, Summary)
    assert (again.mutation_started, again.certain) == (started, certain)
    assert again.error == (None if error is None else error[:200])


GOOD = json.loads(frame.encode_summary(Summary(OPERATION, True, False)))


@pytest.mark.parametrize(
    "value",
    [{}, [], None, {**GOOD, "x": 1}, {**GOOD, "certain": 1}, {**GOOD, "version": 2},
     {**GOOD, "operationId": "f" * 32}, {**GOOD, "error": 3}, {**GOOD, "version": True},
     {**GOOD, "error": "x" * 3000}],
)  # fmt: skip
def test_refused_summaries(value: Any) -> None:
    assert isinstance(frame.decode_summary(json.dumps(value).encode(), OPERATION), Refused)


@given(st.binary(max_size=300))
def test_hostile_summaries_never_raise(data: bytes) -> None:
    assert isinstance(frame.decode_summary(data, OPERATION), Refused)
