"""Our codec against the official Apache Thrift runtime, which knows nothing of our IDL."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.protocol import messages as wire
from pinlater.protocol.codec import UNKNOWN_METHOD, Codec
from pinlater.protocol.messages import METHODS
from tests.support import apache

THRIFT_NAMES = {
    "Context": "RequestContext",
    "AckInfo": "PinLaterJobAckInfo",
    "AckRequest": "PinLaterJobAckRequest",
    "CheckpointRequest": "PinLaterCheckpointJobRequest",
    "CheckpointsRequest": "PinLaterCheckpointJobsRequest",
    "LookupRequest": "PinLaterLookupJobRequest",
    "CountRequest": "PinLaterGetJobCountRequest",
    "ScanRequest": "PinLaterScanJobsRequest",
    "ScanResponse": "PinLaterScanJobsResponse",
    "RetryRequest": "PinLaterRetryFailedJobsRequest",
    "DeleteRequest": "PinLaterDeleteJobsRequest",
    "RunNowRequest": "PinLaterRunJobsNowRequest",
    "ScheduleRequest": "PinLaterScheduleJobsRequest",
    "CancelRequest": "PinLaterCancelJobsRequest",
    "SendRequest": "PinLaterSendMessageRequest",
    "ReadRequest": "PinLaterReadMessagesRequest",
    "CancelledRequest": "PinLaterCancelledJobsRequest",
    "ReleaseRequest": "PinLaterReleaseClaimsRequest",
    "ChangeRequest": "PinLaterChangeQueueSettingsRequest",
    "ImportRequest": "PinLaterImportJobsRequest",
    "ReportRequest": "PinLaterReportWorkerRequest",
    "Failure": "PinLaterException",
}
SAMPLES = {
    "bool": True,
    "byte": -7,
    "i32": -(2**31),
    "i64": 2**63 - 1,
    "double": 0.375,
    "string": "späť 🐙",
    "binary": bytes(range(256)),
}


def _class(kind):
    if kind.endswith("_args"):
        return wire.arguments_of(kind.removesuffix("_args"))
    return getattr(wire, THRIFT_NAMES.get(kind, f"PinLater{kind}"))


def _sample(kind):
    """Return a full value of a type of the contract: as dicts, and as our structs."""
    if kind in SAMPLES:
        return SAMPLES[kind], SAMPLES[kind]
    container, _, inner = kind.rstrip(">").partition("<")
    if container == "list":
        theirs, ours = _sample(inner)
        return [theirs, theirs], [ours, ours]
    if container == "set":
        return ["a", "b"], {"a", "b"}
    if container == "map":
        of_key, of_value = inner.split(",")
        key = "k" if of_key == "string" else 7
        theirs, ours = _sample(of_value)
        return {key: theirs}, {key: ours}
    samples = {name: _sample(of_field) for name, (_, of_field) in apache.STRUCTS[kind].items()}
    theirs = {name: sample[0] for name, sample in samples.items()}
    return theirs, _class(kind)(**{name: sample[1] for name, sample in samples.items()})


@pytest.fixture
def codec():
    return Codec()


def test_both_know_the_same_methods():
    assert set(apache.METHODS) == METHODS


@pytest.mark.parametrize("method", sorted(METHODS))
def test_we_read_what_apache_wrote(codec, method):
    theirs, ours = _sample(f"{method}_args")
    call = codec.decode_call(apache.encode_call(method, 77, theirs))
    assert call == (method, 77, ours)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_we_write_calls_byte_for_byte_as_apache_does(codec, method):
    theirs, ours = _sample(f"{method}_args")
    assert codec.encode_call(method, -77, ours)[4:] == apache.encode_call(method, -77, theirs)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_apache_reads_our_answers(codec, method):
    kind = apache.METHODS[method]
    theirs, ours = (None, None) if kind == "void" else _sample(kind)
    number, success = apache.decode_answer(method, codec.encode_reply(method, 77, ours)[4:])
    assert number == 77
    assert (sorted(success) if kind.startswith("set") else success) == theirs


@pytest.mark.parametrize("method", sorted(METHODS))
def test_apache_reads_our_declared_exception(codec, method):
    frame = codec.encode_service_error(method, 77, QueueNotFound("there is no queue"))
    with pytest.raises(apache.DeclaredError, match="there is no queue") as caught:
        apache.decode_answer(method, frame[4:])
    assert caught.value.code == 413


def test_apache_reads_our_refusals(codec):
    frame = codec.encode_application_error("createQueue", 77, UNKNOWN_METHOD, "no such method")
    with pytest.raises(apache.TApplicationException, match="no such method") as caught:
        apache.decode_answer("createQueue", frame[4:])
    assert caught.value.type == apache.TApplicationException.UNKNOWN_METHOD
