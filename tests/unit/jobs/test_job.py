"""Job classes: options in the header, fields as arguments."""

import dataclasses
import functools
from typing import Any, ClassVar

import msgspec
import pytest

from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job, RawJob, is_concrete
from pinlater.jobs.options import JobOptions
from pinlater.model.backoff import DEFAULT_BACKOFF, Constant, Exponential
from pinlater.model.body_metadata import BodyMetadata, read_metadata


class SendWelcomeEmail(Job, queue="email", attempts=5, backoff=Exponential(first=2, cap=600), priority=2, heartbeat=1):
    user_id: int
    locale: str = "en"

    def run(self, context: Any) -> None:
        """Do nothing."""


class ReindexHTTPBoard2(Job):
    board_id: int = 0

    def run(self, context: Any) -> None:
        """Do nothing."""


def test_options_stand_in_the_header():
    assert SendWelcomeEmail.job_options == JobOptions(
        name="SendWelcomeEmail",
        queue="email",
        attempts=5,
        backoff=Exponential(first=2, cap=600),
        priority=2,
        heartbeat=1,
    )


def test_limits_of_time_stand_in_the_header():
    class Soft(Job, timeout=20):
        pass

    class Both(Soft, kill_after=21):
        pass

    assert (Soft.job_options.timeout, Soft.job_options.hard_seconds) == (20, 30)
    assert (Both.job_options.timeout, Both.job_options.hard_seconds) == (20, 21)
    assert not SendWelcomeEmail.job_options.is_limited
    assert SendWelcomeEmail.job_options.hard_seconds is None


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"timeout": 0}, "timeout=0 is in seconds"),
        ({"kill_after": -1}, "kill_after=-1 is in seconds"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"kill_after": float("inf")}, "kill_after=inf"),
        ({"stall_after": 0}, "stall_after=0 is in seconds"),
        ({"latency_target": 0}, "latency_target=0 is in seconds"),
        ({"latency_target": "5"}, "latency_target='5' has to be a number of seconds"),
        ({"timeout": 5, "kill_after": 5}, "must be more than timeout=5"),
    ],
)
def test_impossible_limits_are_refused(limits, complaint):
    with pytest.raises(TypeError, match=complaint):
        type(Job)("Impossible", (Job,), {}, **limits)


@pytest.mark.parametrize("give_up_on", [ValueError, [ValueError], (int,), (KeyboardInterrupt,), ("ValueError",)])
def test_only_exceptions_can_be_given_up_on(give_up_on):
    with pytest.raises(TypeError, match=r"give_up_on=.* must be a tuple of exception classes"):
        type(Job)("Impossible", (Job,), {}, give_up_on=give_up_on)


def test_what_is_given_up_on_is_inherited_and_overridden():
    class Careful(Job, give_up_on=(LookupError,)):
        pass

    class Same(Careful):
        pass

    class Bold(Careful, give_up_on=()):
        pass

    assert Same.job_options.give_up_on == (LookupError,)
    assert Bold.job_options.give_up_on == ()


def test_without_options_a_class_has_a_queue_of_its_own():
    options = ReindexHTTPBoard2.job_options
    assert options == JobOptions(name="ReindexHTTPBoard2", queue="reindex_http_board2")
    assert (options.attempts, options.backoff, options.priority) == (20, DEFAULT_BACKOFF, 1)
    waits = [options.backoff.delay(spent, lambda: 0.0) for spent in range(1, options.attempts)]
    assert waits[:4] == [1, 2, 4, 8]
    assert 20 * 3600 < sum(waits) < 30 * 3600, "a job outlives an outage of a day"


def test_a_name_of_its_own_names_the_queue_too():
    class Moved(Job, name="OldName"):
        pass

    assert (Moved.job_options.name, Moved.job_options.queue) == ("OldName", "old_name")


def test_options_are_inherited_and_overridden_but_the_name_is_a_class_own():
    class Urgent(SendWelcomeEmail, priority=1, backoff=Constant(1)):
        pass

    options = Urgent.job_options
    assert (options.name, options.queue, options.attempts) == ("Urgent", SendWelcomeEmail.job_options.queue, 5)
    assert (options.priority, options.backoff) == (1, Constant(1))
    assert SendWelcomeEmail.job_options.priority == 2


def test_a_queue_that_no_class_named_is_not_inherited():
    class Unnamed(Job, attempts=7):
        pass

    class Child(Unnamed):
        pass

    assert (Child.job_options.queue, Child.job_options.attempts) == ("child", 7)


def test_what_is_assigned_without_an_annotation_is_refused():
    with pytest.raises(
        TypeError, match=r"job class Bare: user_id has no annotation, so it is no field; write user_id: int"
    ):

        class Bare(Job):
            user_id = 5

    class Allowed(Job):
        SHARED = 5
        _hidden = 6
        shared: ClassVar = 7
        user_id: int = 8

        @property
        def double(self):
            return 2 * self.user_id

        @staticmethod
        def help_out():
            return 1

    assert Allowed(user_id=9).double == 18


@pytest.mark.parametrize(
    ("name", "why"), [("job", "names the class"), ("run", "is the method"), ("job_options", "holds the options")]
)
def test_a_field_cannot_be_called_as_what_every_job_has(name, why):
    with pytest.raises(TypeError, match=f"job class Meta: a field cannot be called {name}, which {why}"):
        type(Job)("Meta", (Job,), {"__annotations__": {name: str}})


def test_a_field_of_dataclasses_is_no_default():
    with pytest.raises(TypeError, match=r"to has a default of dataclasses\.field.* write msgspec\.field"):

        class Mail(Job):
            to: list[str] = dataclasses.field(default_factory=list)


def test_fields_are_arguments_by_name():
    job = SendWelcomeEmail(user_id=42)
    assert (job.user_id, job.locale) == (42, "en")
    assert job == SendWelcomeEmail(user_id=42, locale="en")
    with pytest.raises(TypeError):
        SendWelcomeEmail(42)
    with pytest.raises(TypeError):
        SendWelcomeEmail()


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "perform_async"])
def test_a_method_by_which_another_system_enqueues_is_refused_with_ours(name):
    with pytest.raises(AttributeError) as caught:
        getattr(SendWelcomeEmail, name)
    assert str(caught.value) == (
        f"type object 'SendWelcomeEmail' has no attribute '{name}'; "
        "enqueue a job of it with a client: client.enqueue(SendWelcomeEmail(…))"
    )


def test_another_attribute_is_missed_as_in_any_class():
    assert not hasattr(SendWelcomeEmail, "colour")
    with pytest.raises(AttributeError, match=r"^type object 'SendWelcomeEmail' has no attribute 'colour'$"):
        SendWelcomeEmail.colour  # noqa: B018


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "a-b"}, "letters, digits and underscore"),
        ({"queue": ""}, "letters, digits and underscore"),
        ({"queue": "q\n"}, "letters, digits and underscore"),
        ({"attempts": 0}, "must be at least 1"),
        ({"priority": 0}, "between 1"),
        ({"priority": 128}, "between 1"),
        ({"heartbeat": -1}, "cannot be negative"),
        ({"heartbeat": float("nan")}, "job Bad: heartbeat=nan is in seconds"),
        ({"queu": "x"}, "job class Bad: queu is no option; did you mean 'queue'"),
        ({"colour": "red"}, "job class Bad: colour is no option; the options are attempts, backoff, "),
        ({"max_retries": 3}, "max_retries is no option; write attempts=, which counts the first one, too"),
        ({"retry": 3}, "retry is no option; write attempts="),
        ({"max_age": 60000}, "max_age is no option; write give_up_after=, in seconds"),
        ({"rate_limit": "10/m"}, "rate_limit is no option; set it for the queue: pinlater limit QUEUE --rate 10/m"),
        ({"unique_key": "x"}, "unique_key is no option; write unique= in the enqueue"),
        ({"result": int}, r"result is no option; declare what run returns, class Name\(Job\[int\]\)"),
        (
            {"max_concurrency": 2},
            "max_concurrency is no option; set it for the queue: pinlater limit",
        ),
        ({"serializer": "pickle"}, "serializer is no option; leave it out: bodies and results are JSON"),
        ({"schedule": "@daily"}, r"schedule is no option; write cron='0 3 \* \* \*' or every="),
        ({"max_memory": "1G"}, "max_memory is no option; it is an option of the worker: --max-memory"),
        ({"delay": 60}, "delay is no option; write it in client.enqueue"),
        ({"queue": 5}, "queue=5 has to be a text"),
        ({"attempts": "3"}, "attempts='3' has to be a whole number"),
        ({"priority": 1.5}, r"priority=1\.5 has to be a whole number"),
        ({"timeout": "5s"}, "timeout='5s' has to be a number of seconds"),
        ({"backoff": 3}, r"backoff=3 has to be Constant, Linear or Exponential, such as Constant\(3\)"),
        ({"backoff": [1, 5]}, r"such as Constant\(30\), or an object with delay\(attempts_spent\)"),
        ({"name": "shop.mail"}, r"queue='shop\.mail' may only have .*; name='shop\.mail' makes no queue: write queue="),
        ({"cron": 5}, "cron=5 has to be a text"),
        ({"every": "day"}, "every='day' has to be a number of seconds"),
        ({"name": None}, "job class Bad: name=None has to be a text"),
        ({"name": 5}, "job class Bad: name=5 has to be a text"),
        ({"name": ""}, "job class Bad: name='' has to be a text, and not empty"),
        ({"queue": None}, "job Bad: queue=None has to be a text"),
        ({"attempts": None}, "job Bad: attempts=None has to be a whole number"),
        ({"attempts": True}, "job Bad: attempts=True has to be a whole number"),
        ({"priority": None}, "job Bad: priority=None has to be a whole number"),
        ({"heartbeat": None}, "job Bad: heartbeat=None has to be a number of seconds"),
        ({"max_result": None}, "job Bad: max_result=None has to be a whole number of bytes"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_stand(options, text):
    with pytest.raises(TypeError, match=text):
        type(Job)("Bad", (Job,), {}, **options)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"array_like": True}, "array_like is not possible: a body is a JSON object"),
        ({"forbid_unknown_fields": True}, "forbid_unknown_fields is not possible: steps"),
        ({"tag": "Other"}, "tag is not possible: .*write name= instead"),
        ({"tag_field": "kind"}, "tag_field is not possible"),
        ({"rename": lambda name: f"${name}"}, "a field cannot be '\\$user' in the body"),
    ],
)
def test_options_with_which_no_worker_could_read_a_body_are_refused(option, text):
    with pytest.raises(TypeError, match=rf"job class Bad: {text}"):
        type(Job)("Bad", (Job,), {"__annotations__": {"user": int}}, **option)


@pytest.mark.parametrize("option", ["array_like", "forbid_unknown_fields"])
def test_unreadable_msgspec_options_are_not_inherited(option):
    class Mixin(msgspec.Struct, **{option: True}):
        pass

    with pytest.raises(TypeError, match=f"job class Bad: {option} is not possible"):
        type(Job)("Bad", (Job, Mixin), {})


@pytest.mark.parametrize("option", [{"rename": "camel"}, {"omit_defaults": True}, {"frozen": True}, {"order": True}])
def test_other_options_of_msgspec_leave_room_for_steps(option):
    kind = type(Job)("Fine", (Job,), {"__annotations__": {"user_id": int}, "run": lambda self, context: None}, **option)
    body = encode_body(kind(user_id=7), BodyMetadata({"a": 1}))
    assert JobCodec([kind]).decode("fine", body) == kind(user_id=7)
    assert read_metadata(body).steps == {"a": 1}


def test_a_class_without_run_is_not_concrete():
    class Base(Job):
        pass

    assert not is_concrete(Base)
    assert not is_concrete(Job)
    assert not is_concrete(RawJob)
    assert not is_concrete("SendWelcomeEmail")
    assert is_concrete(SendWelcomeEmail)
    assert is_concrete(type("Child", (SendWelcomeEmail,), {}))
    with pytest.raises(TypeError, match="does not define run"):
        Base().run(None)


def no_context(self):
    """Do nothing."""


def needs_more(self, context, database):
    """Do nothing."""


def generator(self, context):
    yield context


async def async_generator(self, context):
    yield context


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (no_context, r"run has to take self and context: def run\(self, context\)"),
        (needs_more, "run has to take self and context"),
        (generator, "run is a generator, which no call runs"),
        (async_generator, "run is a generator, which no call runs"),
    ],
)
def test_a_run_that_could_not_work_is_refused_where_it_stands(run, complaint):
    with pytest.raises(TypeError, match=f"job class Bad: {complaint}"):
        type(Job)("Bad", (Job,), {"run": run})


def with_database(run):
    @functools.wraps(run)
    def wrapped(self, context):
        return run(self, context, "database")

    return wrapped


@pytest.mark.parametrize(
    "run",
    [
        with_database(needs_more),
        lambda self, context, *, fast=True: None,
        lambda *arguments: None,
        functools.partial(print),
    ],
)
def test_any_run_that_takes_a_context_will_do(run):
    assert is_concrete(type(Job)("Good", (Job,), {"run": run}))


def test_options_of_msgspec_may_stand_in_the_header():
    class Short(Job, rename={"user_id": "u"}, omit_defaults=True, frozen=True, kw_only=False):
        user_id: int = 0

    assert msgspec.json.encode(Short(1)) == b'{"job":"Short","u":1}'


def test_a_record_needs_no_init():
    with pytest.raises(TypeError, match=r"job class Bad: a job is a record; instead of __init__, write its fields"):
        type(Job)("Bad", (Job,), {"__init__": no_context})
