"""Lookup: the records of jobs, in the order asked for."""

import pytest

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from tests.support.bench import new_job


def test_records_come_in_the_order_asked_for_with_gaps(backend):
    names = backend.put(*[new_job(priority=n % 3 + 1) for n in range(10)])
    jobs = [JobDescriptor.parse(name) for name in names]
    missing = [
        jobs[0]._replace(local_id=jobs[-1].local_id + 1000),
        jobs[0]._replace(priority=2),
        jobs[0]._replace(priority=9),
        jobs[0]._replace(local_id=2**63 - 1),
        jobs[0]._replace(queue="missing"),
    ]
    asked = [*missing[:2], *reversed(jobs), *missing[2:], jobs[3]]
    found = backend.lookup_jobs(asked, include_body=False)
    expected = [None, None, *reversed(names), None, None, None, names[3]]
    assert [record and record.descriptor for record in found] == expected


def test_the_body_comes_only_when_asked_for(backend):
    descriptor = backend.put_one(b"hello")
    assert backend.look(descriptor, include_body=True).body == b"hello"
    assert backend.look(descriptor, include_body=False).body is None
    assert backend.look(descriptor, include_body=False) == backend.look(descriptor)._replace(body=None)


@pytest.mark.parametrize("body", [b"", b"hello", b"hello world", bytes(range(256)) * 2000, "éé".encode()])
def test_bodies_are_cut_to_their_first_bytes(backend, body):
    descriptor = backend.put_one(body)
    for size in (1, 5, 6, 1000):
        found = backend.look(descriptor, body_bytes=size)
        assert found == backend.look(descriptor)._replace(body=body[:size])
    assert backend.look(descriptor, include_body=False, body_bytes=5).body is None


def test_an_empty_body_is_a_body(backend):
    assert backend.look(backend.put_one(b"")).body == b""


def test_no_jobs_asked_for(backend):
    assert backend.lookup_jobs([], include_body=True) == []


def test_many_at_once(backend):
    names = backend.put(*[new_job(f"{n}".encode()) for n in range(2000)])
    records = backend.lookup_jobs([JobDescriptor.parse(name) for name in names], include_body=True)
    assert [record.body for record in records] == [f"{n}".encode() for n in range(2000)]


@pytest.mark.parametrize(
    "call",
    [
        lambda backend, name: backend.look(name),
        lambda backend, name: backend.ack(name),
        lambda backend, name: backend.fail(name),
        lambda backend, name: backend.checkpoint(name),
    ],
    ids=["lookup", "ack", "fail", "checkpoint"],
)
def test_a_shard_that_is_not_there_is_an_error_that_names_it(backend, call):
    """Another server may know the shard, unless the store has only one."""
    name = backend.put_one().replace(":s", ":snowhere")
    expected = UnknownError if backend.backend.capabilities.is_serial else ShardConnectionFailed
    with pytest.raises(expected, match="nowhere"):
        call(backend, name)
