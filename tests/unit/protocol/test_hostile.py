# ruff: noqa: E501 - frames are easier to read in one line
"""Bytes that nobody vouches for: only ``MalformedMessage`` comes out, soon, and memory stays small."""

import struct
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import MANY_ELEMENTS, Codec, DecodedCall, SlowToDecode, UnusableCall
from pinlater.protocol.guard import MAX_ELEMENTS, MalformedMessage, check_message
from pinlater.protocol.messages import METHODS, arguments_of
from tests.support.examples import examples

VOID, BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = 1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15
HUGE = 2**31 - 1

MIB = 1 << 20

GENEROUS_SECONDS = 20.0
"""Against hanging, not for speed: these machines are busy."""


def head(method, sequence_id=7):
    return struct.pack(">II", 0x80010001, len(method)) + method.encode() + struct.pack(">i", sequence_id)


def field(kind, number=99):
    return struct.pack(">bh", kind, number)


def items(kind, count):
    return struct.pack(">bi", kind, count)


def text(data):
    return struct.pack(">i", len(data)) + data


CONTEXT = field(STRUCT, 1) + field(STRING, 1) + text(b"me") + b"\0"
NAMES = head("getQueueNames")
LOOKUP = head("lookupJobs") + CONTEXT + field(STRUCT, 2)
ENQUEUE = head("enqueueJobs") + CONTEXT + field(STRUCT, 2) + field(STRING, 1) + text(b"q")
DEQUEUE = head("dequeueJobs") + CONTEXT + field(STRUCT, 2) + field(STRING, 1) + text(b"q")

REFUSED = {
    "nothing": b"",
    "one byte": b"\x80",
    "a version alone": b"\x80\x01\x00\x01",
    "another version": b"\x80\x02\x00\x01" + text(b"getQueueNames") + b"\0\0\0\1\0",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a name of -1": struct.pack(">Ii", 0x80010001, -1) + b"\0" * 20,
    "a huge name": struct.pack(">Ii", 0x80010001, HUGE) + b"x" * 20,
    "a name that is no text": struct.pack(">Ii", 0x80010001, 2) + b"\xff\xfe" + b"\0\0\0\1\0",
    "a reply": struct.pack(">Ii", 0x80010002, 13) + b"getQueueNames\0\0\0\1\0",
    "a oneway": struct.pack(">Ii", 0x80010004, 13) + b"getQueueNames\0\0\0\1\0",
    "no stop": NAMES + CONTEXT,
    "half a field": NAMES + b"\x0c\x00",
    "a string of -1": NAMES + field(STRUCT, 1) + field(STRING, 1) + struct.pack(">i", -1) + b"\0\0",
    "a string of -6 hides its length": head("nope") + field(STRING) + struct.pack(">i", -6) + b"\0\0",
    "a huge string": NAMES + field(STRUCT, 1) + field(STRING, 1) + struct.pack(">i", HUGE) + b"x\0\0",
    "a list of 2^31-1 bools, unknown field": NAMES + CONTEXT + field(LIST) + items(BOOL, HUGE) + b"\0",
    "a list of 2^31-1 voids, unknown field": NAMES + CONTEXT + field(LIST) + items(VOID, HUGE) + b"\0",
    "a list of 2^31-1 stops, unknown field": NAMES + CONTEXT + field(LIST) + items(0, HUGE) + b"\0",
    "a list of 2^31-1 unheard-of, unknown field": NAMES + CONTEXT + field(LIST) + items(77, HUGE) + b"\0",
    "a set of 2^31-1 voids, unknown method": head("nope") + field(SET, 1) + items(VOID, HUGE) + b"\0",
    "a map of 2^31-1 voids, unknown method": head("nope") + field(MAP, 1) + b"\1" + items(VOID, HUGE) + b"\0",
    "a list of -1": head("nope") + field(LIST, 1) + items(I32, -1) + b"\0",
    "a known list of 2^31-1 voids": LOOKUP + field(LIST, 1) + items(VOID, HUGE) + b"\0\0",
    "a known list of 2^31-1 bools": LOOKUP + field(LIST, 1) + items(BOOL, HUGE) + b"\0\0",
    "a known list of 2^31-1 strings": LOOKUP + field(LIST, 1) + items(STRING, HUGE) + b"\0\0",
    "a damaged call with a source that is no text": NAMES + field(STRUCT, 1) + field(STRING, 1) + text(b"\xff") + b"\0",
    "a known list of -1 strings": LOOKUP + field(LIST, 1) + items(STRING, -1) + b"\0\0",
    "2^31-1 jobs": ENQUEUE + field(LIST, 2) + items(STRUCT, HUGE) + b"\0" * 20,
    "a list in a job": ENQUEUE + field(LIST, 2) + items(STRUCT, 1) + field(LIST) + items(BOOL, HUGE) + b"\0\0\0",
    "structs 100,000 deep": NAMES + field(STRUCT) * 100_000 + b"\0" * 100_001,
    "structs 100,000 deep, unknown method": head("nope") + field(STRUCT) * 100_000 + b"\0" * 100_001,
    "lists 100,000 deep": NAMES + field(LIST) + items(LIST, 1) * 100_000 + b"\0" * 10,
    "structs deep in a job": ENQUEUE + field(LIST, 2) + items(STRUCT, 1) + field(STRUCT) * 1000 + b"\0" * 1003,
    "a field of type 1": NAMES + field(VOID) + b"\0" * 20,
    "a field of type 5": NAMES + field(5) + b"\0" * 20,
    "a field of type 255": NAMES + struct.pack(">Bh", 255, 9) + b"\0" * 20,
}

TOO_MANY = {
    "too many jobs": ENQUEUE + field(LIST, 2) + items(STRUCT, MAX_ELEMENTS + 1) + b"\0" * (MAX_ELEMENTS + 3),
    "too many jobs by repetition": ENQUEUE
    + (field(LIST, 2) + items(STRUCT, MAX_ELEMENTS // 2 + 1) + b"\0" * (MAX_ELEMENTS // 2 + 1)) * 2
    + b"\0\0",
    "too many acks in two lists": DEQUEUE
    + field(STRUCT, 3)
    + (field(LIST, 2) + items(STRUCT, MAX_ELEMENTS // 2 + 1) + b"\0" * (MAX_ELEMENTS // 2 + 1))
    + (field(LIST, 3) + items(STRUCT, MAX_ELEMENTS // 2 + 1) + b"\0" * (MAX_ELEMENTS // 2 + 1))
    + b"\0\0\0",
    "too many structs, unknown field": NAMES
    + field(LIST)
    + items(STRUCT, MAX_ELEMENTS + 1)
    + b"\0" * (MAX_ELEMENTS + 2),
}


@pytest.fixture
def codec():
    return Codec()


def _a_good_call_still_works(codec):
    assert codec.decode_call(NAMES + CONTEXT + b"\0").arguments.context.source == "me"


@pytest.mark.parametrize("frame", (REFUSED | TOO_MANY).values(), ids=REFUSED | TOO_MANY)
def test_hostile_frames_are_refused_soon_and_cheaply(codec, frame):
    _a_good_call_still_works(codec)
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(MalformedMessage):
        codec.decode_call(frame)
    seconds = time.monotonic() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < GENEROUS_SECONDS
    assert peak < 150 * MIB
    _a_good_call_still_works(codec)


@pytest.mark.parametrize("frame", TOO_MANY.values(), ids=TOO_MANY)
def test_a_call_of_too_many_parts_can_be_answered(codec, frame):
    with pytest.raises(UnusableCall, match=f"at most {MAX_ELEMENTS} jobs") as refusal:
        codec.decode_call(frame)
    assert refusal.value.method in METHODS
    assert refusal.value.sequence_id == 7


LARGE = {
    "scalars, unknown method": head("nope") + (field(BOOL, 1) + b"\1") * 150_000 + b"\0",
    "empty maps, unknown method": head("nope") + (field(MAP, 1) + b"\2" + items(BOOL, 0)) * 75_000 + b"\0",
    "scalars, unknown fields": NAMES + CONTEXT + (field(BOOL) + b"\1") * 150_000 + b"\0",
    "one field again and again": NAMES + CONTEXT * 50_000 + b"\0",
    "as many strings as are taken": LOOKUP + field(LIST, 1) + items(STRING, MAX_ELEMENTS) + text(b"x") * MAX_ELEMENTS + b"\0\0",
    "as many jobs as are taken": ENQUEUE + field(LIST, 2) + items(STRUCT, MAX_ELEMENTS) + b"\0" * MAX_ELEMENTS + b"\0\0",
    "a mebibyte of doubles, unknown field": NAMES + CONTEXT + field(LIST) + items(DOUBLE, 131_072) + bytes(MIB) + b"\0",
}  # fmt: skip


@pytest.mark.parametrize("frame", LARGE.values(), ids=LARGE)
def test_large_frames_that_are_well_formed_cost_in_proportion(codec, frame):
    tracemalloc.start()
    began = time.thread_time()
    codec.decode_call(frame)
    seconds = time.thread_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < GENEROUS_SECONDS
    assert peak < 200 * MIB


@pytest.mark.parametrize(
    "frame",
    [
        *(frame for frame in LARGE.values() if len(frame) < MIB),
        ENQUEUE + field(LIST, 2) + items(STRUCT, MANY_ELEMENTS + 1) + bytes(MANY_ELEMENTS * 4) + b"\0\0",
    ],
)
def test_what_takes_long_is_not_begun_in_a_hurry(codec, frame):
    with pytest.raises(SlowToDecode):
        codec.decode_call(frame, quick_only=True)
    _a_good_call_still_works(codec)


def test_usual_calls_are_decoded_in_a_hurry_and_damaged_ones_refused(codec):
    jobs = ENQUEUE + field(LIST, 2) + items(STRUCT, MANY_ELEMENTS) + bytes(MANY_ELEMENTS) + b"\0\0"
    for frame in (*GOOD_FRAMES, jobs, NAMES + CONTEXT + field(BOOL) + b"\1\0"):
        assert codec.decode_call(frame, quick_only=True) == codec.decode_call(frame)
        with pytest.raises(MalformedMessage):
            codec.decode_call(frame[:-1], quick_only=True)


# Everything at random


def _decode(codec, frame):
    """Return the call, or None when the frame was refused; nothing else may come out."""
    try:
        call = codec.decode_call(frame)
    except MalformedMessage:
        return None
    assert isinstance(call, DecodedCall)
    assert isinstance(call.method, str)
    return call


GOOD_FRAMES = [
    Codec().encode_call(method, 7, arguments)[4:]
    for method, arguments in (
        ("createQueue", arguments_of("createQueue")(wire.RequestContext("me"), "q")),
        ("enqueueJobs", arguments_of("enqueueJobs")(wire.RequestContext("me", "id"), wire.PinLaterEnqueueRequest("q", [wire.PinLaterJob(b"body", 2, 5, 3, "status")] * 3))),
        ("dequeueJobs", arguments_of("dequeueJobs")(wire.RequestContext("me"), wire.PinLaterDequeueRequest("q", 5, wire.PinLaterJobAckRequest("q", [wire.PinLaterJobAckInfo("q:s1:p1:1", "x", 5, "claim", True)], []), True, 0.5, 10, 20, ["a", "b"]))),
        ("checkpointJobs", arguments_of("checkpointJobs")(wire.RequestContext("me"), wire.PinLaterCheckpointJobsRequest("q", [wire.PinLaterCheckpointJobRequest("q:s1:p1:1", b"new", True, 5, 2, "s", "c", b"\xff")]))),
        ("lookupJobs", arguments_of("lookupJobs")(wire.RequestContext("me"), wire.PinLaterLookupJobRequest(["q:s1:p1:1", "q:s1:p1:2"], True))),
        ("scanJobs", arguments_of("scanJobs")(wire.RequestContext("me"), wire.PinLaterScanJobsRequest("q", 1, 2, True, "0", 5, "x"))),
    )
]  # fmt: skip

CODEC = Codec()


@examples(200)
@given(st.binary(max_size=200))
def test_random_bytes(frame):
    _decode(CODEC, frame)


@examples(300)
@given(st.sampled_from([*sorted(METHODS), "nope", "__can__finagle__trace__v3__"]), st.binary(max_size=100))
def test_random_arguments(method, data):
    _decode(CODEC, head(method) + data)


@examples(400)
@given(
    st.sampled_from(GOOD_FRAMES),
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["set", "cut", "double", "insert"]), st.integers(0, 255)), max_size=4),
)  # fmt: skip
def test_good_frames_with_a_few_wrong_bytes(frame, mutations):
    frame = bytearray(frame)
    for place, kind, value in mutations:
        at = place % (len(frame) + 1)
        if kind == "set":
            frame[at : at + 1] = bytes([value])
        elif kind == "cut":
            del frame[at : at + 1 + value // 32]
        elif kind == "double":
            frame[at:at] = frame[at : at + value]
        else:
            frame[at:at] = bytes([value])
    _decode(CODEC, bytes(frame))


@pytest.mark.parametrize("frame", GOOD_FRAMES)
def test_every_frame_cut_short_is_refused(codec, frame):
    for end in range(len(frame)):
        with pytest.raises(MalformedMessage):
            codec.decode_call(frame[:end])
    assert codec.decode_call(frame).arguments is not None


@st.composite
def headers(draw):
    """Bytes that look like Thrift, with counts and lengths of any honesty."""
    pieces = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(
            st.sampled_from((0, VOID, BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST, 18, 99))
        )
        size = draw(st.sampled_from((0, 1, 2, 3, 7, -1, -6, HUGE, 10**6, 65_536)))
        pieces.append(
            draw(
                st.sampled_from(
                    (
                        field(kind, draw(st.sampled_from((1, 2, 3, 100, 999, -1)))),
                        items(kind, size),
                        struct.pack(">bbi", kind, kind, size),
                        struct.pack(">i", size),
                        text(b"abc"),
                        bytes(draw(st.integers(0, 9))),
                    )
                )
            )
        )
    return b"".join(pieces)


@examples(200)
@given(st.sampled_from([NAMES, LOOKUP, ENQUEUE, DEQUEUE, head("nope")]), headers())
@example(NAMES, field(LIST) + items(VOID, HUGE))
def test_hostile_headers(start, data):
    _decode(CODEC, start + data)


@examples(300)
@given(st.sampled_from([NAMES, LOOKUP, ENQUEUE, DEQUEUE]), headers())
def test_what_is_decoded_is_what_the_guard_would_have_let_pass(start, data):
    """The fast way must not take what the careful way refuses."""
    frame = start + data + b"\0\0\0"
    if _decode(CODEC, frame) is not None:
        check_message(frame)
