"""The key of a job: what its class says, and what an enqueue says in its place."""

import pytest

from pinlater import Job, RawJob
from pinlater.client import JobKey
from pinlater.client.jobs import JobEncoder
from pinlater.protocol.conversion.jobs import job_key


class Plain(Job):
    number: int = 0


class Turns(Job, key="customer"):
    customer: str | int | float | None = None


class Limited(Job, key="tenant", running_per_key=2):
    customer: str = "ada"
    project: int = 7

    @property
    def tenant(self) -> str:
        return f"{self.customer}/{self.project}"


class Ordered(Job, key="account", in_order=True):
    account: str = "a"


class Raw(RawJob, key="tenant"):
    @property
    def tenant(self) -> str:
        return self.body.decode()


def sent(job, **options):
    return job_key(JobEncoder(**options).struct(job))


def test_a_job_has_no_key_unless_one_is_named():
    assert sent(Plain()) is None
    assert sent(Plain(), priority=2) is None


def test_a_class_names_a_field_or_a_property():
    assert sent(Turns(customer="ada")) == JobKey("ada")
    assert sent(Turns(customer=12)) == JobKey("12")
    assert sent(Limited()) == JobKey("ada/7", 2)
    assert sent(Ordered()) == JobKey("a", 1, is_ordered=True)
    assert sent(Raw(body=b"ada")) == JobKey("ada")


def test_a_job_whose_field_is_none_has_no_key():
    assert sent(Turns()) is None


def test_an_enqueue_names_a_key():
    assert sent(Plain(), key="k") == JobKey("k")
    assert sent(Plain(), key="k", running_per_key=3) == JobKey("k", 3)
    assert sent(Plain(), key="k", in_order=True) == JobKey("k", 1, is_ordered=True)
    assert sent(Plain(), key="k", in_order=True, running_per_key=1) == JobKey("k", 1, is_ordered=True)
    assert sent(Plain(), key="k", in_order=False, running_per_key=None) == JobKey("k")


def test_the_key_of_an_enqueue_wins_and_the_rule_of_the_class_stays():
    assert sent(Limited(), key="k") == JobKey("k", 2)
    assert sent(Ordered(), key="k") == JobKey("k", 1, is_ordered=True)


def test_the_rule_of_an_enqueue_wins_as_a_whole_and_the_key_of_the_class_stays():
    assert sent(Limited(), running_per_key=5) == JobKey("ada/7", 5)
    assert sent(Limited(), in_order=True) == JobKey("ada/7", 1, is_ordered=True)
    assert sent(Ordered(), running_per_key=5) == JobKey("a", 5)
    assert sent(Ordered(), in_order=False) == JobKey("a")


def test_each_of_many_jobs_may_have_its_key():
    encoder = JobEncoder(key=lambda job: f"n{job.number}" if job.number else None, running_per_key=2)
    assert [job_key(encoder.struct(Plain(number=number))) for number in (0, 1)] == [None, JobKey("n1", 2)]


def test_a_key_of_200_characters_is_the_longest():
    assert sent(Plain(), key="ä" * 200) == JobKey("ä" * 200)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"key": ""}, "key='' is no key"),
        ({"key": "k" * 201}, "has 201 characters; a key has at most 200"),
        ({"key": "a\0b"}, "has a NUL"),
        ({"key": lambda _: ""}, "key='' is no key"),
        ({"running_per_key": 2}, "Plain has none, so give key="),
        ({"in_order": True}, "Plain has none, so give key="),
        ({"key": "k", "running_per_key": 0}, "running_per_key=0 must be at least 1"),
        ({"key": "k", "running_per_key": 2**31}, "leave it out for no limit"),
        ({"key": "k", "running_per_key": 2, "in_order": True}, "one at a time, not 2"),
    ],
)
def test_a_key_that_cannot_be_is_refused(bad, complaint):
    with pytest.raises(ValueError, match=complaint):
        sent(Plain(), **bad)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"key": 7}, "key=7 is no key; a key is a text"),
        ({"key": lambda _: 7}, "key=7 is no key"),
        ({"key": "k", "running_per_key": "2"}, "running_per_key='2' has to be a whole number"),
        ({"key": "k", "running_per_key": True}, "running_per_key=True has to be a whole number"),
        ({"key": "k", "in_order": 1}, "in_order=1 has to be True or False"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused(bad, complaint):
    with pytest.raises(TypeError, match=complaint):
        sent(Plain(), **bad)


@pytest.mark.parametrize(("value", "error"), [("", ValueError), ("k" * 201, ValueError), (1.5, TypeError)])
def test_a_field_that_cannot_be_a_key_is_named(value, error):
    with pytest.raises(error, match=r"Turns\.customer="):
        sent(Turns(customer=value))
