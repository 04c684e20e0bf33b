"""The reply to an enqueue of one job has the bytes that thriftpy2 writes, and its methods decode it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import Codec
from pinlater.protocol.enqueue_reply import decode_descriptor, encode_descriptor
from pinlater.protocol.guard import MalformedMessage
from tests.support.examples import examples


class Thriftpy2(Codec):
    """Encodes and decodes all replies with thriftpy2."""

    def encode_reply(self, method, sequence_id, success):
        result = wire.result_of(method)(success=success)
        return self._encode(method, 2, sequence_id, result)

    def decode_reply(self, frame, method, sequence_id):
        self._begin(frame)
        result = wire.result_of(method)()
        self._read(self._reader.read_struct, result)
        return result.success


sequence_ids = st.integers(-(2**31), 2**31 - 1)


@examples(300)
@given(sequence_ids, st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_one_descriptor_is_encoded_as_thriftpy2_does(sequence_id, descriptor):
    codec, response = Codec(), wire.PinLaterEnqueueResponse([descriptor])
    frame = codec.encode_reply("enqueueJobs", sequence_id, response)
    assert frame == encode_descriptor(sequence_id, descriptor)
    assert frame == Thriftpy2().encode_reply("enqueueJobs", sequence_id, response)
    assert decode_descriptor(frame[4:], sequence_id) == descriptor
    assert codec.decode_reply(frame[4:], "enqueueJobs", sequence_id) == response
    assert Thriftpy2().decode_reply(frame[4:], "enqueueJobs", sequence_id) == response


@examples(100)
@given(
    sequence_ids,
    st.lists(st.text("mail:s1p0", max_size=30), max_size=4),
    st.sampled_from(("enqueueJobs", "importJobs")),
)
def test_every_reply_with_descriptors_is_encoded_as_thriftpy2_does(sequence_id, descriptors, method):
    response = wire.PinLaterEnqueueResponse(descriptors)
    assert Codec().encode_reply(method, sequence_id, response) == Thriftpy2().encode_reply(
        method, sequence_id, response
    )


@examples(300)
@given(st.data())
def test_any_other_reply_is_left_to_the_codec(data):
    payload = encode_descriptor(7, "mail:s1:p1:42")[4:]
    at = data.draw(st.integers(0, len(payload) - 1))
    changed = data.draw(
        st.sampled_from(
            (
                payload[:at],
                payload + b"\0",
                payload[:at] + payload[at + 1 :],
                payload[:at] + bytes([payload[at] ^ 0x81]) + payload[at + 1 :],
            )
        )
    )
    descriptor = decode_descriptor(changed, 7)
    if descriptor is not None:  # only text was changed for other text
        assert changed == encode_descriptor(7, descriptor)[4:]
    assert decode_descriptor(payload, 8) is None


def test_a_descriptor_that_is_no_text_is_a_damaged_reply():
    payload = encode_descriptor(7, "mail")[4:].replace(b"mail", b"ma\xffl")
    assert decode_descriptor(payload, 7) is None
    with pytest.raises(MalformedMessage):
        Codec().decode_reply(payload, "enqueueJobs", 7)


def test_an_enqueue_of_one_job_needs_no_decoding_by_thriftpy2(monkeypatch):
    monkeypatch.setattr(Codec, "_begin", lambda *_: pytest.fail("decoded by thriftpy2"))
    reply = encode_descriptor(7, "mail:s1:p1:42")[4:]
    assert Codec().decode_reply(reply, "enqueueJobs", 7).jobDescriptors == ["mail:s1:p1:42"]
