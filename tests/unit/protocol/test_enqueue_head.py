"""A codec that remembers how the enqueues of a connection begin decodes all calls as one that remembers nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import MANY_ELEMENTS, Codec, SlowToDecode
from pinlater.protocol.enqueue_head import EnqueueHead
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import arguments_of
from tests.support.examples import examples
from tests.unit.protocol.test_hostile import CONTEXT, ENQUEUE, LIST, STRING, STRUCT, field, head, items, text

CODEC = Codec()


def enqueue(*bodies, number=1, queue="mail", source="me", **context):
    request = wire.PinLaterEnqueueRequest(queue, [wire.PinLaterJob(body) for body in bodies])
    arguments = arguments_of("enqueueJobs")(wire.RequestContext(source, **context), request)
    return CODEC.encode_call("enqueueJobs", number, arguments)[4:]


def decoded(frame, known=None):
    try:
        return CODEC.decode_call(frame, quick_only=True, head=known)
    except (MalformedMessage, SlowToDecode) as error:
        return type(error)


def learned(*frames):
    known = EnqueueHead()
    for frame in frames * 2:
        decoded(frame, known)
    return known


CONTEXTS = [{}, {"idempotencyKey": bytes(range(16)), "hearsStopping": True}, {"requestId": "r", "isRepeat": True}]


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_third_enqueue_into_a_queue_is_recognized(context):
    known = EnqueueHead()
    for number in (1, 2):
        frame = enqueue(b"body", number=number, **context)
        assert known.recognize(frame) is None
        decoded(frame, known)
    frame = enqueue(b"one", b"two", number=3, **context)
    found = known.recognize(frame)
    assert (found.sequence_id, found.queue, found.jobs) == (3, "mail", 2)
    assert decoded(frame, known) == decoded(frame)


def test_each_call_has_its_own_key():
    keys = [bytes([number]) * 16 for number in range(5)]
    known = EnqueueHead()
    frames = [enqueue(b"", idempotencyKey=key) for key in keys]
    assert [decoded(frame, known).arguments.context.idempotencyKey for frame in frames] == keys


sources, queues = st.sampled_from(("me", "you", "", "é" * 300)), st.sampled_from(("mail", "q", ""))
contexts = st.fixed_dictionaries(
    {},
    optional={
        "requestId": st.sampled_from(("", "r")),
        "idempotencyKey": st.binary(min_size=16, max_size=16) | st.binary(max_size=17),
        "isRepeat": st.booleans(),
        "keepResultMillis": st.integers(-5, 5),
        "hearsStopping": st.booleans(),
    },
)
frames = st.builds(
    lambda bodies, number, queue, source, context: enqueue(
        *bodies, number=number, queue=queue, source=source, **context
    ),
    st.lists(st.binary(max_size=20), max_size=3),
    st.integers(-(2**31), 2**31 - 1),
    queues,
    sources,
    contexts,
)


@examples(300)
@given(st.lists(frames, min_size=1, max_size=12))
def test_any_row_of_calls_is_decoded_alike(row):
    known = EnqueueHead()
    for frame in row:
        for _ in range(2):
            assert decoded(frame, known) == decoded(frame)


@examples(300)
@given(frames, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255), st.booleans()), min_size=1, max_size=4))
def test_damaged_calls_are_decoded_or_refused_alike(frame, changes):
    known = learned(frame)
    damaged = bytearray(frame)
    for place, value, is_cut in changes:
        at = place % len(frame)
        damaged[at : at + 1] = b"" if is_cut else bytes([value])
    assert decoded(bytes(damaged), known) == decoded(bytes(damaged))
    assert decoded(frame, known) == decoded(frame)


@examples(200)
@given(frames, st.binary(max_size=40))
def test_what_follows_the_head_is_not_trusted(frame, tail):
    known = learned(frame)
    found = known.recognize(frame)
    start = frame if found is None else frame[: found.position - 4]
    assert decoded(start + tail, known) == decoded(start + tail)


HUGE = 2**31 - 1
HOSTILE = {
    "2^31-1 jobs": field(LIST, 2) + items(STRUCT, HUGE) + b"\0" * 20,
    "-1 jobs": field(LIST, 2) + items(STRUCT, -1) + b"\0\0",
    "too many jobs for a hurry": field(LIST, 2) + items(STRUCT, MANY_ELEMENTS + 1) + bytes(MANY_ELEMENTS + 3),
    "a list in a job": field(LIST, 2) + items(STRUCT, 1) + field(LIST) + items(2, HUGE) + b"\0\0\0",
    "another field after the jobs": field(LIST, 2) + items(STRUCT, 0) + field(STRING, 9) + text(b"x") + b"\0\0",
    "other jobs after the jobs": (field(LIST, 2) + items(STRUCT, 1) + b"\0") * 2 + b"\0\0",
    "another context after the request": field(LIST, 2) + items(STRUCT, 0) + b"\0" + CONTEXT + b"\0",
    "no end": field(LIST, 2) + items(STRUCT, 0) + b"\0",
}


@pytest.mark.parametrize("rest", HOSTILE.values(), ids=HOSTILE)
def test_hostile_calls_that_begin_as_usual_are_decoded_or_refused_alike(rest):
    context = field(STRUCT, 1) + field(STRING, 1) + text(b"me") + field(STRING, 2) + text(b"") + b"\0"
    usual = head("enqueueJobs") + context + field(STRUCT, 2) + field(STRING, 1) + text(b"q")
    good = usual + field(LIST, 2) + items(STRUCT, 1) + field(STRING, 1) + text(b"body") + b"\0\0\0"
    known = learned(good)
    assert known.recognize(good) is not None
    assert decoded(usual + rest, known) == decoded(usual + rest)
    assert decoded(good, known) == decoded(good)


def test_a_client_that_encodes_in_another_way_is_decoded_as_ever():
    jobs = field(LIST, 2) + items(STRUCT, 1) + field(STRING, 1) + text(b"body") + b"\0\0\0"
    known = learned(ENQUEUE + jobs)  # its context has no request id, which has a default
    assert known.recognize(ENQUEUE + jobs) is None
    assert decoded(ENQUEUE + jobs, known) == decoded(ENQUEUE + jobs)


def test_a_client_that_changes_every_call_costs_a_few_tries_only():
    known = EnqueueHead()
    for number in range(100):
        decoded(enqueue(b"", requestId=f"{number}"), known)
    frame = enqueue(b"", requestId="same")
    decoded(frame, known)
    assert known.recognize(frame) is None


def test_what_is_remembered_is_small():
    for large in ({"source": "s" * 2000}, {"queue": "q" * 2000}, {"requestId": "r" * 2000}):
        frame = enqueue(b"", **large)
        assert learned(frame).recognize(frame) is None


def test_a_head_that_holds_only_for_enqueues_leaves_other_calls_alone():
    known = learned(enqueue(b"body"))
    names = CODEC.encode_call("getQueueNames", 9, arguments_of("getQueueNames")(wire.RequestContext("me")))[4:]
    assert decoded(names, known) == decoded(names)
    assert decoded(names, known).method == "getQueueNames"
