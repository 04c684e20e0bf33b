"""Texts that are not UTF-8: those of clients whose texts are bytes."""

import pytest

from pinlater.protocol.codec import Codec, SlowToDecode, UnusableCall
from tests.support.apache import STRUCTS, encode_call

BROKEN = {
    "Latin-1": (b"gr\xfcn", "gr\N{REPLACEMENT CHARACTER}n"),
    "cut within a character": ("🐙🐙".encode()[:-1], "🐙\N{REPLACEMENT CHARACTER}"),
    "an overlong NUL": (b"a\xc0\x80", "a" + "\N{REPLACEMENT CHARACTER}" * 2),
    "a surrogate": (b"\xed\xa0\x80", "\N{REPLACEMENT CHARACTER}" * 3),
}

CONTEXT = {"source": "me"}


@pytest.fixture
def codec():
    return Codec()


@pytest.mark.parametrize(("sent", "read"), BROKEN.values(), ids=BROKEN)
def test_free_texts_lose_only_what_is_wrong_with_them(codec, sent, read):
    ack = {"jobDescriptor": "q:s1:p1:1", "appendCustomStatus": sent}
    request = {"queueName": "q", "limit": 1, "jobAckRequest": {"queueName": "q", "jobsFailed": [ack, ack]}}
    frame = encode_call("dequeueJobs", 1, {"context": {"source": sent, "requestId": sent}, "request": request})
    arguments = codec.decode_call(frame, quick_only=True).arguments
    assert (arguments.context.source, arguments.context.requestId) == (read, read)
    riding = arguments.request.jobAckRequest
    assert riding.queueName == "q"
    assert [(ack.jobDescriptor, ack.appendCustomStatus) for ack in riding.jobsFailed] == [("q:s1:p1:1", read)] * 2


@pytest.mark.parametrize("name", sorted(name for name, (_, kind) in STRUCTS["Job"].items() if kind == "string"))
def test_a_job_is_refused_if_its_keys_are_no_texts(codec, name):
    job = {"body": b"\xff", name: b"\xff"}
    frame = encode_call("enqueueJobs", 7, {"context": CONTEXT, "request": {"queueName": "q", "jobs": [job]}})
    if name == "customStatus":
        (found,) = codec.decode_call(frame).arguments.request.jobs
        assert (found.body, found.customStatus) == (b"\xff", "\N{REPLACEMENT CHARACTER}")
        return
    with pytest.raises(UnusableCall, match=f"^{name} is not UTF-8") as refusal:
        codec.decode_call(frame)
    assert (refusal.value.method, refusal.value.sequence_id) == ("enqueueJobs", 7)


def test_lists_of_texts(codec):
    frame = encode_call("lookupJobs", 7, {"context": CONTEXT, "request": {"jobDescriptors": ["q:s1:p1:1", b"\xff"]}})
    with pytest.raises(UnusableCall, match="jobDescriptors is not UTF-8"):
        codec.decode_call(frame)


def test_a_large_call_with_such_a_text_is_decoded_in_a_thread(codec):
    job = {"body": bytes(20_000), "customStatus": b"\xff"}
    frame = encode_call("enqueueJobs", 7, {"context": CONTEXT, "request": {"queueName": "q", "jobs": [job]}})
    with pytest.raises(SlowToDecode):
        codec.decode_call(frame, quick_only=True)
    assert codec.decode_call(frame).arguments.request.jobs[0].customStatus == "\N{REPLACEMENT CHARACTER}"
