"""Calls of clients that are older, newer, or of another kind altogether."""

import struct

import pytest

from pinlater.errors import CallUnsupported, ProtocolError
from pinlater.protocol import messages as wire
from pinlater.protocol.codec import INTERNAL_ERROR, UNKNOWN_METHOD, Codec, UnusableCall
from pinlater.protocol.guard import MalformedMessage
from pinlater.protocol.messages import METHODS, arguments_of
from tests.unit.protocol.test_hostile import (
    BOOL,
    BYTE,
    CONTEXT,
    DOUBLE,
    ENQUEUE,
    I16,
    I32,
    I64,
    LIST,
    LOOKUP,
    MAP,
    NAMES,
    SET,
    STRING,
    STRUCT,
    field,
    head,
    items,
    text,
)  # fmt: skip

FUTURE = {
    "bool": field(BOOL) + b"\1",
    "byte": field(BYTE) + b"\1",
    "i16": field(I16) + b"\0\1",
    "i32": field(I32) + b"\0\0\0\1",
    "i64": field(I64) + bytes(8),
    "double": field(DOUBLE) + bytes(8),
    "text": field(STRING) + text(b"\xff\xfe any bytes"),
    "struct": field(STRUCT) + field(STRING, 1) + text(b"x") + b"\0",
    "list": field(LIST) + items(STRING, 2) + text(b"a") + text(b"b"),
    "set": field(SET) + items(I64, 3) + bytes(24),
    "bools": field(LIST) + items(BOOL, 3) + b"\1\0\1",
    "map": field(MAP) + struct.pack(">bbi", STRING, STRUCT, 1) + text(b"k") + field(BOOL, 1) + b"\1\0",
    "empty list of nothing": field(LIST) + items(0, 0),
    "empty map of nothing": field(MAP) + b"\0" + items(0, 0),
    "all negative": struct.pack(">bh", BOOL, -5) + b"\1",
    "lists of lists": field(LIST) + items(LIST, 2) + (items(LIST, 1) + items(BYTE, 2) + b"ab") * 2,
}


@pytest.fixture
def codec():
    return Codec()


@pytest.mark.parametrize("unknown", FUTURE.values(), ids=FUTURE)
def test_fields_of_a_newer_client_are_skipped_wherever_they_stand(codec, unknown):
    job = unknown + field(STRING, 1) + text(b"body") + unknown + field(BYTE, 2) + b"\3" + unknown + b"\0"
    context = field(STRUCT, 1) + unknown + field(STRING, 1) + text(b"me") + unknown + b"\0"
    request = (
        field(STRUCT, 2) + unknown + field(STRING, 1) + text(b"q")
        + field(LIST, 2) + items(STRUCT, 2) + job * 2 + unknown + b"\0"
    )  # fmt: skip
    frame = head("enqueueJobs") + unknown + context + unknown + request + unknown + b"\0"
    arguments = codec.decode_call(frame).arguments
    assert arguments.context == wire.RequestContext("me")
    assert arguments.request == wire.PinLaterEnqueueRequest("q", [wire.PinLaterJob(b"body", 3)] * 2)


@pytest.mark.parametrize("unknown", FUTURE.values(), ids=FUTURE)
def test_a_struct_that_a_newer_server_kept_is_read(codec, unknown):
    kept = unknown + codec.encode_struct(wire.PinLaterRunningJob("q:s1:p1:1", 5))
    assert codec.decode_struct(wire.PinLaterRunningJob, kept) == wire.PinLaterRunningJob("q:s1:p1:1", 5)


def test_what_is_no_struct_is_refused_and_the_next_one_is_read(codec):
    whole = codec.encode_struct(wire.PinLaterRunningJob("q:s1:p1:1", 5))
    for damaged in (b"", whole[:-1], b"\xff" * 100):
        with pytest.raises(MalformedMessage):
            codec.decode_struct(wire.PinLaterRunningJob, damaged)
        assert codec.decode_struct(wire.PinLaterRunningJob, whole).startedAtTimestampMillis == 5


@pytest.mark.parametrize("unknown", FUTURE.values(), ids=FUTURE)
def test_an_unknown_method_is_skipped_in_full(codec, unknown):
    call = codec.decode_call(head("__can__finagle__trace__v3__", 3) + unknown * 3 + b"\0")
    assert call == ("__can__finagle__trace__v3__", 3, None)
    assert codec.decode_call(NAMES + CONTEXT + b"\0").arguments.context.source == "me"


def test_a_known_field_with_another_type_is_taken_as_absent(codec):
    request = field(STRUCT, 2) + field(I32, 1) + b"\0\0\0\1" + field(LIST, 2) + items(STRUCT, 0) + b"\0"
    arguments = codec.decode_call(head("enqueueJobs") + CONTEXT + request + b"\0").arguments
    assert arguments.request.queueName is None
    assert arguments.request.jobs == []


@pytest.mark.parametrize(
    "elements",
    [items(STRING, 1) + text(b"body"), items(I64, 2) + bytes(16), items(LIST, 1) + items(STRUCT, 1) + b"\0"],
)
@pytest.mark.parametrize("quick_only", [True, False])
def test_lists_of_another_type_are_refused_not_taken_as_empty(codec, elements, quick_only):
    with pytest.raises(UnusableCall, match="the contract says 12") as refusal:
        codec.decode_call(ENQUEUE + field(LIST, 2) + elements + b"\0\0", quick_only=quick_only)
    assert (refusal.value.method, refusal.value.sequence_id) == ("enqueueJobs", 7)


def test_texts_in_a_list_may_be_announced_as_binary(codec):
    """As thriftpy2 does for a list of binary."""
    frame = LOOKUP + field(LIST, 1) + items(18, 1) + text(b"q:s1:p1:1") + b"\0\0"
    assert codec.decode_call(frame).arguments.request.jobDescriptors == ["q:s1:p1:1"]


def test_fields_in_any_order_and_twice(codec):
    request = field(STRUCT, 2) + field(BYTE, 3) + b"\2" + field(I32, 2) + b"\0\0\0\1" + field(STRING, 1) + text(b"q")
    request += field(STRING, 1) + text(b"q2") + b"\0"
    arguments = codec.decode_call(head("getJobCount") + request + CONTEXT + b"\0").arguments
    assert (arguments.request.queueName, arguments.request.jobState, arguments.request.priority) == ("q2", 1, 2)
    assert arguments.context.source == "me"


def test_absent_and_sent_with_the_default_are_alike(codec):
    absent = ENQUEUE + field(LIST, 2) + items(STRUCT, 1) + field(STRING, 1) + text(b"body") + b"\0\0\0"
    sent = (
        ENQUEUE + field(LIST, 2) + items(STRUCT, 1) + field(STRING, 1) + text(b"body")
        + field(BYTE, 2) + b"\1" + field(I32, 4) + b"\0\0\0\2" + field(STRING, 5) + text(b"") + b"\0\0\0"
    )  # fmt: skip
    assert codec.decode_call(absent).arguments == codec.decode_call(sent).arguments
    (job,) = codec.decode_call(absent).arguments.request.jobs
    assert (job.priority, job.numAttemptsAllowed, job.customStatus, job.runAfterTimestampMillis) == (1, 2, "", None)


def test_missing_required_fields_are_absent_not_an_error(codec):
    arguments = codec.decode_call(head("enqueueJobs") + b"\0").arguments
    assert (arguments.context, arguments.request) == (None, None)
    arguments = codec.decode_call(head("enqueueJobs") + field(STRUCT, 1) + b"\0" + field(STRUCT, 2) + b"\0\0").arguments
    assert (arguments.context.source, arguments.request.queueName, arguments.request.jobs) == (None, None, None)


def test_the_old_header_without_a_version_is_taken(codec):
    frame = text(b"getQueueNames") + b"\1" + struct.pack(">i", 9) + CONTEXT + b"\0"
    call = codec.decode_call(frame)
    assert (call.method, call.sequence_id, call.arguments.context.source) == ("getQueueNames", 9, "me")


def test_bodies_are_bytes_and_new_body_may_be_any(codec):
    for body in (b"", b"\xff\xfe", bytes(range(256))):
        request = wire.PinLaterCheckpointJobsRequest(
            "q", [wire.PinLaterCheckpointJobRequest("q:s1:p1:1", newBody=body)]
        )
        frame = codec.encode_call(
            "checkpointJobs", 1, arguments_of("checkpointJobs")(wire.RequestContext("me"), request)
        )
        assert codec.decode_call(frame[4:]).arguments.request.requests[0].newBody == body


def test_refusals_on_the_level_of_thrift(codec):
    for kind in (UNKNOWN_METHOD, INTERNAL_ERROR):
        frame = codec.encode_application_error("nope", 5, kind, "there is no such method")
        with pytest.raises(ProtocolError, match="there is no such method"):
            codec.decode_reply(frame[4:], "nope", 5)


def test_a_server_that_does_not_know_a_call_is_to_be_upgraded(codec):
    frame = codec.encode_application_error("readMessages", 5, UNKNOWN_METHOD, "no such method")
    with pytest.raises(CallUnsupported, match="of an older version, which does not know readMessages: upgrade it"):
        codec.decode_reply(frame[4:], "readMessages", 5)


@pytest.mark.parametrize(("method", "sequence_id"), [("getJobCount", 5), ("getQueueNames", 6)])
def test_the_answer_to_something_else_is_refused(codec, method, sequence_id):
    frame = codec.encode_reply("getQueueNames", 5, {"q"})
    with pytest.raises(MalformedMessage, match="expected the reply"):
        codec.decode_reply(frame[4:], method, sequence_id)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_reply_cut_short_is_refused(codec, cut):
    frame = codec.encode_reply("getQueueNames", 5, {"a" * 50})
    with pytest.raises(MalformedMessage):
        codec.decode_reply(frame[4:-cut], "getQueueNames", 5)


@pytest.mark.parametrize(
    "job",
    [
        wire.PinLaterJob(b"x", priority=1000),
        wire.PinLaterJob(b"x", runAfterTimestampMillis=2**70),
        wire.PinLaterJob(b"x", priority="high"),
        wire.PinLaterJob(17),
    ],
)
def test_what_a_type_cannot_carry_is_an_error_and_the_next_call_is_fine(codec, job):
    arguments = arguments_of("enqueueJobs")(wire.RequestContext("me"), wire.PinLaterEnqueueRequest("q", [job]))
    with pytest.raises(ProtocolError, match="enqueueJobs: cannot be sent"):
        codec.encode_call("enqueueJobs", 1, arguments)
    assert (
        codec.decode_call(codec.encode_call("getQueueNames", 1, arguments_of("getQueueNames")())[4:]).sequence_id == 1
    )


def test_many_calls_through_one_codec(codec):
    for number in range(2000):
        method = sorted(METHODS)[number % len(METHODS)]
        frame = codec.encode_call(method, number, arguments_of(method)(wire.RequestContext(f"me{number}")))
        call = codec.decode_call(frame[4:])
        assert (call.method, call.sequence_id, call.arguments.context.source) == (method, number, f"me{number}")


def test_a_large_frame_leaves_no_large_buffer_behind(codec):
    arguments = arguments_of("enqueueJobs")(
        wire.RequestContext("me"), wire.PinLaterEnqueueRequest("q", [wire.PinLaterJob(bytes(1 << 20))] * 8)
    )
    frame = codec.encode_call("enqueueJobs", 1, arguments)
    assert len(frame) > 8 << 20
    assert codec.decode_call(frame[4:]).arguments == arguments
    assert codec.decode_call(NAMES + CONTEXT + b"\0").arguments.context.source == "me"
