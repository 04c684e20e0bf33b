"""The calls of a client that shares no code with the service."""

from contextlib import contextmanager

import pytest

from tests.support.apache import DeclaredError

PENDING, IN_PROGRESS, SUCCEEDED, FAILED = range(4)

UNKNOWN, NOT_FOUND, NAME_INVALID, NAME_TOO_LONG, PRIORITY, REJECTED = 500, 413, 410, 411, 416, 430

INTERNAL, PROTOCOL = 6, 7


def put(client, queue, *bodies, **fields):
    jobs = [{"body": body, **fields} for body in bodies]
    return client.enqueueJobs(queueName=queue, jobs=jobs)["jobDescriptors"]


def take(client, queue, limit=100, **fields):
    return client.dequeueJobs(queueName=queue, limit=limit, **fields)


def count(client, queue, state=PENDING, **fields):
    return client.getJobCount(queueName=queue, jobState=state, **fields)


def look(client, name, *, include_body=True):
    return client.lookupJobs(jobDescriptors=[name], includeBody=include_body).get(name)


@contextmanager
def refused(code, text=""):
    """Expect the declared exception with this code, and this text in its message."""
    with pytest.raises(DeclaredError) as caught:
        yield
    assert caught.value.code == code
    assert text in str(caught.value)
