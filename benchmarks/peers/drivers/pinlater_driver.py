"""PinLater."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from note import note
from outstanding import keep_outstanding

from pinlater import Client, Job, JobContext
from pinlater.client.address import Address
from pinlater.jobs.body_codec import encode_body
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import HEADER_BYTES, frame_length
from pinlater.protocol.messages import PinLaterEnqueueRequest, PinLaterJob, RequestContext, arguments_of

_METHOD = "enqueueJobs"


class Note(Job, queue="peers"):
    """Records its start."""

    number: int

    def run(self, context: JobContext) -> None:  # noqa: ARG002 - part of every job
        note(self.number)


@functools.cache
def _client() -> Client:
    return Client(os.environ["PEERS_URL"])


def enqueue(number: int) -> None:
    _client().enqueue(Note(number=number))


def enqueue_many(numbers: Iterable[int]) -> None:
    _client().enqueue_many(Note(number=number) for number in numbers)


def enqueue_outstanding(numbers: Iterable[int]) -> list[tuple[int, int]]:
    codec, context = Codec(), RequestContext(source="peers")

    def request(number: int) -> bytes:
        jobs = [PinLaterJob(encode_body(Note(number=number)))]
        return codec.encode_call(_METHOD, 1, arguments_of(_METHOD)(context, PinLaterEnqueueRequest("peers", jobs)))

    def is_answer(data: bytes) -> bool:
        if len(data) < HEADER_BYTES or len(data) < HEADER_BYTES + frame_length(data[:HEADER_BYTES]):
            return False
        codec.decode_reply(data[HEADER_BYTES:], _METHOD, 1)  # raises if it is a refusal
        return True

    address = Address.parse(os.environ["PEERS_URL"])
    return keep_outstanding((address.host, address.port), [request(number) for number in numbers], is_answer)
