"""Jobs <-> bodies."""

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest

from pinlater.errors import BodyInvalid, ConfigError
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job, RawJob
from pinlater.model.body_metadata import BodyMetadata, read_metadata


class Email(Job, queue="email"):
    user_id: int
    locale: str = "en"
    tags: list[str] = msgspec.field(default_factory=list)
    at: datetime | None = None


class Import(Job, queue="imports", name="ImportCatalog"):
    url: str


class Pixels(RawJob, queue="pixels"):
    pass


@pytest.fixture
def codec():
    return JobCodec([Email, Import, Pixels])


def test_a_body_is_json_with_the_name_of_its_class():
    assert json.loads(encode_body(Import(url="https://x"))) == {"job": "ImportCatalog", "url": "https://x"}


@pytest.mark.parametrize(
    "job",
    [
        Email(user_id=1),
        Email(user_id=-(2**63), locale="späť 🐙 \0 \"'", tags=["a", ""], at=datetime(2030, 1, 1, tzinfo=UTC)),
        Import(url=""),
    ],
)
def test_there_and_back(codec, job):
    assert codec.decode("any", encode_body(job)) == job


def test_steps_ride_along_and_do_not_disturb_the_job(codec):
    job = Import(url="https://x")
    steps = {"download": "/tmp/x", "load": [1, {"rows": 2}], "": None}
    body = encode_body(job, BodyMetadata(steps))
    assert codec.decode("imports", body) == job
    assert read_metadata(body) == BodyMetadata(steps)
    assert read_metadata(encode_body(job)) == BodyMetadata()
    assert encode_body(job, BodyMetadata()) == encode_body(job)


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b'{"job": "Email"}', bytes(range(256))])
def test_raw_bodies_are_taken_as_they_are(codec, data):
    job = codec.decode("pixels", data)
    assert job == Pixels(body=data)
    assert encode_body(job) == data


def test_unknown_fields_of_a_newer_program_are_ignored(codec):
    assert codec.decode("email", b'{"job":"Email","user_id":1,"new":[1]}') == Email(user_id=1)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "no job of ours"),
        (b"hello", "no job of ours"),
        (b"\xff\xfe", "no job of ours"),
        (b"[]", "no job of ours"),
        (b"{}", "no job of ours"),
        (b'{"job":7}', "no job of ours"),
        (b"[" * 100_000, "no job of ours"),
        (
            b'{"job":"Nobody"}',
            r"no job class is named 'Nobody' here \(known: Email, ImportCatalog, Pixels\).* name='Nobody'\)",
        ),
        (b'{"job":"Email"}', "does not fit its class.*user_id.*give it a default if older jobs lack it"),
        (b'{"job":"Email","user":1,"$steps":{}}', r"lack it, or msgspec.field\(name='user'\) if that is what it was"),
        (b'{"job":"Email","user_id":"1"}', "does not fit its class.*user_id"),
        (b'{"job":"Email","user_id":1.5}', "does not fit its class.*user_id"),
        (b'{"job":"Email","user_id":1,"at":"today"}', "does not fit its class.*at"),
    ],
)
def test_what_is_no_job_is_refused_with_the_reason(codec, body, text):
    with pytest.raises(BodyInvalid, match=text):
        codec.decode("email", body)


class Picky(Job, queue="picky"):
    kind: str

    def __post_init__(self):
        if self.kind == "last":
            sys.exit(3)
        {"known": 1}[self.kind]


def test_a_record_that_its_class_refuses_with_whatever_exception_does_not_fit_it():
    codec = JobCodec([Picky])
    assert codec.decode("picky", b'{"job":"Picky","kind":"known"}') == Picky(kind="known")
    with pytest.raises(BodyInvalid, match="the body of a Picky does not fit its class: KeyError: 'new'") as caught:
        codec.decode("picky", b'{"job":"Picky","kind":"new"}')
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(BodyInvalid, match="the body of a Picky does not fit its class: SystemExit: 3"):
        codec.decode("picky", b'{"job":"Picky","kind":"last"}')


class PickyBytes(RawJob, queue="bytes"):
    def __post_init__(self):
        if self.body == b"last":
            sys.exit(3)
        {b"known": 1}[self.body]


def test_a_raw_body_that_its_class_refuses_with_whatever_exception_is_invalid():
    codec = JobCodec([PickyBytes])
    assert codec.decode("bytes", b"known") == PickyBytes(body=b"known")
    with pytest.raises(BodyInvalid, match="PickyBytes refuses the body: KeyError: b'new'") as caught:
        codec.decode("bytes", b"new")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(BodyInvalid, match="PickyBytes refuses the body: SystemExit: 3"):
        codec.decode("bytes", b"last")


def test_a_program_without_job_classes_says_so():
    with pytest.raises(BodyInvalid, match="knows no job class"):
        JobCodec([]).decode("email", b'{"job":"Email"}')


class Anything(Job, queue="any"):
    value: Any


@pytest.mark.parametrize("value", [object(), {1, object()}, "\ud800", {object(): 1}])
def test_what_json_cannot_carry_is_refused_at_the_producer(value):
    with pytest.raises(BodyInvalid, match="Anything cannot be written as JSON"):
        encode_body(Anything(value=value))


def test_a_value_in_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(BodyInvalid, match="cannot be written as JSON"):
        encode_body(Anything(value=loop))


def test_names_and_queues(codec):
    assert codec.names == ["Email", "ImportCatalog", "Pixels"]
    assert codec.runnable_names == [*codec.names, "pinlater.batch"]
    assert len(codec.cancel_patience) == len(codec.runnable_names)
    assert codec.queues == ["email", "imports", "pixels"]


def test_a_class_given_twice_is_one_class():
    assert JobCodec([Email, Email]).names == ["Email"]


def test_two_classes_of_one_name_are_refused():
    twin = type(Job)("Twin", (Job,), {}, name="Email")
    with pytest.raises(ConfigError, match=r"two job classes are named 'Email'.*another name"):
        JobCodec([Email, twin])


def test_a_typed_class_beside_a_raw_one_is_refused_for_its_jobs_would_be_taken_for_the_other():
    class Thumbnail(Job, queue="pixels"):
        url: str

    for kinds in ([Thumbnail, Pixels], [Pixels, Thumbnail]):
        with pytest.raises(
            ConfigError, match=r"queue 'pixels' has the raw job class .*Pixels, .* of .*Thumbnail; give"
        ):
            JobCodec(kinds)


def test_two_raw_classes_of_one_queue_are_refused():
    rival = type(Job)("Rival", (RawJob,), {}, queue="pixels")
    with pytest.raises(ConfigError, match="'pixels' has two raw job classes"):
        JobCodec([Pixels, rival])


class Measurement(Job, queue="measurements"):
    value: float
    limit: float | None = None


class Deep(msgspec.Struct):
    values: list[float | None] = []
    names: dict[str, float | None] = {}


class Optional(Job, queue="measurements"):
    value: float | None = None
    deep: Deep | None = None
    anything: Any = None
    text: str | None = None


class Sparse(Job, queue="measurements", omit_defaults=True):
    value: float | None = None
    other: float | None = 1.5


NAN = float("nan")


@pytest.mark.parametrize("value", [NAN, float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda value: Measurement(value=value), "value"),
        (lambda value: Optional(value=value, text="null"), "value"),
        (lambda value: Optional(deep=Deep(values=[1.0, None, value])), r"deep\.values\[2\]"),
        (lambda value: Optional(deep=Deep(names={"a": value}), anything=None), r"deep\.names\.a"),
        (lambda value: Optional(anything=[{"x": (1, value)}]), r"anything\[0\]\.x\[1\]"),
        (lambda value: Sparse(other=value), "other"),
    ],
)
def test_a_number_that_json_cannot_carry_is_refused_when_it_is_enqueued(make, value, place):
    with pytest.raises(BodyInvalid, match=rf" as JSON: {place} is -?(nan|inf), which JSON has no word"):
        encode_body(make(value))


@pytest.mark.parametrize(
    "job",
    [
        Measurement(value=1.5),
        Optional(text="null null"),
        Optional(deep=Deep([None, 1.0], {"null": None}), anything={"a": None}),
        Sparse(),
    ],
)
def test_none_is_carried_as_null(job):
    assert JobCodec([Measurement, Optional, Sparse]).decode("measurements", encode_body(job)) == job


class Nested(msgspec.Struct):
    number: int


class Typed(Job):
    count: int
    share: float = 0.0
    parts: list[Nested] = msgspec.field(default_factory=list)
    size: Annotated[int, msgspec.Meta(ge=0)] = 0


@pytest.mark.parametrize(
    ("fields", "misfit"),
    [
        ({"count": "1"}, "count: expected int, got str"),
        ({"count": True}, "count: expected int, got bool"),
        ({"count": None}, "count: expected int, got null"),
        ({"count": 1, "parts": [Nested(1), Nested("2")]}, r"parts\[1\].number: expected int, got str"),
        ({"count": 1, "size": -1}, "size: expected int >= 0"),
    ],
)
def test_a_job_that_no_worker_could_read_is_refused(fields, misfit):
    with pytest.raises(BodyInvalid, match=f"the job does not fit its class Typed: {misfit}"):
        encode_body(Typed(**fields))


def test_what_a_worker_reads_as_meant_is_taken():
    job = JobCodec([Typed]).decode("typed", encode_body(Typed(count=1, share=2)))
    assert (job.share, type(job.share)) == (2.0, float)


def test_a_class_that_no_worker_can_load_is_refused_by_the_enqueue():
    class Unresolvable(Job):
        at: "NotThere"  # noqa: F821

    with pytest.raises(ConfigError, match="Unresolvable: a field has a type that is not there at run time"):
        encode_body(Unresolvable(at=1))
