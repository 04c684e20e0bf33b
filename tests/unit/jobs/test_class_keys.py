"""The options of a class about the key of its jobs."""

import pytest

from pinlater import Job


class Import(Job, key="customer", running_per_key=2):
    customer: str


def make(**options):
    return type(Job)("Bad", (Job,), {"__annotations__": {"account": str}}, **options)


def test_a_class_inherits_what_is_said_of_keys():
    class Special(Import, running_per_key=3):
        pass

    class Without(Import, key=None, running_per_key=None):
        pass

    assert (Special.job_options.key, Special.job_options.running_per_key) == ("customer", 3)
    assert Without.job_options.key is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": "acount"}, "job class Bad: there is no field for key='acount'; did you mean 'account'"),
        ({"key": "run"}, "has to be the name of a field or a property"),
        ({"key": lambda job: job.account}, "has to be a text, the name of a field"),
        ({"running_per_key": 2}, "job Bad: running_per_key, rate_per_key and in_order are about a key"),
        ({"rate_per_key": "10/s"}, "job Bad: running_per_key, rate_per_key and in_order are about a key"),
        ({"key": "account", "rate_per_key": 10}, "job Bad: rate_per_key=10 has to be a text, such as '10/s'"),
        ({"key": "account", "rate_per_key": "10"}, "job Bad: '10' is no rate; write 10/s"),
        ({"in_order": True}, "job Bad: running_per_key, rate_per_key and in_order are about a key"),
        ({"key": "account", "running_per_key": 0}, "job Bad: running_per_key=0 must be at least 1"),
        ({"key": "account", "running_per_key": "2"}, "job Bad: running_per_key='2' has to be a whole number"),
        ({"key": "account", "running_per_key": 2, "in_order": True}, "job Bad: in_order=True lets"),
        ({"key": "account", "in_order": "yes"}, "job Bad: in_order='yes' has to be True or False"),
        ({"key": "account", "in_order": True, "every": 60}, "would hold up its key until the next tick"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_stand(options, complaint):
    with pytest.raises(TypeError, match=complaint):
        make(**options)
