"""Enqueue: nothing -> PENDING, whole or not at all, bytes unchanged."""

import pytest

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import PENDING
from tests.support.bench import QUEUE, new_job

BODIES = {
    "empty": b"",
    "nul": b"\0",
    "all bytes": bytes(range(256)),
    "no utf-8": b"\xff\xfe\x80",
    "quotes": b"'); DROP TABLE jobs; --\"`",
    "a mebibyte": bytes(range(256)) * 4096,
}


def test_a_new_job_has_all_its_fields(backend):
    now = backend.clock.now_ms
    record = backend.look(backend.put_one(b"hello", priority=2, attempts=7, status="from the shop"))
    assert record == (
        record.descriptor, PENDING, 7, 7, "from the shop", now, now, now, None, b"hello", None, None,
        None, False, None, (), None, None,
    )  # fmt: skip


def test_descriptors_come_in_the_order_of_the_jobs(backend):
    jobs = [new_job(f"{n}".encode(), priority=n % 3 + 1) for n in range(500)]
    descriptors = backend.put(*jobs)
    assert len(set(descriptors)) == 500
    for descriptor, job in zip(descriptors, jobs, strict=True):
        parsed = JobDescriptor.parse(descriptor)
        assert (parsed.queue, parsed.priority) == (QUEUE, job.priority)
        assert backend.look(descriptor).body == job.body


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_come_back_byte_for_byte(backend, body):
    descriptor = backend.put_one(body)
    assert backend.look(descriptor).body == body
    assert [job.body for job in backend.take()] == [body]


def test_an_empty_batch_is_an_empty_list(backend):
    assert backend.put() == []
    assert backend.counts() == (0, 0, 0, 0)


def test_any_run_after_and_any_number_of_attempts_is_kept(backend):
    for run_after_ms in (-(2**63), -1, 0, 1, 4_102_444_800_000, 2**63 - 1):
        assert backend.look(backend.put_one(run_after_ms=run_after_ms)).run_after_ms == run_after_ms
    for attempts in (-(2**31), -1, 0, 1, 2**31 - 1):
        record = backend.look(backend.put_one(attempts=attempts))
        assert (record.attempts_allowed, record.attempts_remaining) == (attempts, attempts)


def test_a_status_of_any_script_is_kept(backend):
    status = "späť 重试 🐙 ' \" % _"
    assert backend.look(backend.put_one(status=status)).status == status


def test_an_answered_enqueue_survives_a_crash(backend):
    descriptors = backend.put(*[new_job(f"{n}".encode() * 100) for n in range(250)])
    backend.crash()
    assert [backend.look(name).body for name in descriptors] == [f"{n}".encode() * 100 for n in range(250)]
    assert backend.take_names(1000) == descriptors


def test_ids_are_never_given_out_twice(backend):
    seen = set(backend.put(*[new_job()] * 10))
    backend.take()
    backend.ack(*seen)
    backend.clock.advance(10)
    backend.collect_finished(1, 1, 100)
    assert backend.counts() == (0, 0, 0, 0)
    for restart in (backend.reopen, backend.crash):
        restart()
        fresh = set(backend.put(*[new_job()] * 10))
        assert not fresh & seen
        seen |= fresh


def test_calls_at_once_do_not_mix_their_jobs(backend):
    store = backend.backend
    calls = [
        lambda n=n: store.enqueue_jobs(QUEUE, [new_job(f"{n}.{m}".encode()) for m in range(n)]) for n in range(1, 20)
    ]
    for n, descriptors in enumerate(backend.together(*calls), 1):
        assert [backend.look(name).body for name in descriptors] == [f"{n}.{m}".encode() for m in range(n)]


def test_one_impossible_job_of_a_batch_and_nothing_is_stored(backend):
    impossible = new_job(run_after_ms=2**80)
    with pytest.raises(UnknownError, match="nothing was changed"):
        backend.put(new_job(), impossible, new_job())
    assert backend.counts() == (0, 0, 0, 0)
    assert backend.take_names() == []
    assert len(backend.put(new_job())) == 1
