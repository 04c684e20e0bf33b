"""The reply to an enqueue of one job has the bytes that thriftpy2 writes, and its methods decode it."""

from hypothesis import given
from hypothesis import strategies as st

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import Codec
from pinlater.protocol.enqueue_reply import encode_descriptor
from tests.support.examples import examples


class Thriftpy2(Codec):
    """Encodes all replies with thriftpy2."""

    def encode_reply(self, method, sequence_id, success):
        result = wire.result_of(method)(success=success)
        return self._encode(method, 2, sequence_id, result)


sequence_ids = st.integers(-(2**31), 2**31 - 1)


@examples(300)
@given(sequence_ids, st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_one_descriptor_is_encoded_as_thriftpy2_does(sequence_id, descriptor):
    codec, response = Codec(), wire.PinLaterEnqueueResponse([descriptor])
    frame = codec.encode_reply("enqueueJobs", sequence_id, response)
    assert frame == encode_descriptor(sequence_id, descriptor)
    assert frame == Thriftpy2().encode_reply("enqueueJobs", sequence_id, response)
    assert codec.decode_reply(frame[4:], "enqueueJobs", sequence_id) == response


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
