"""Whatever becomes of jobs, nothing is left of them in the store once they have ended and their time is over."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import failure_of
from pinlater.model.keys import JobKey
from pinlater.model.messages import Message
from pinlater.model.queues import QueueChange
from pinlater.model.unique import UniqueRule
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql import messages as mysql_messages
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sqlite import messages as sqlite_messages
from tests.contract.test_import import record
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, new_job
from tests.support.families import OTHER, child_of
from tests.support.stores import HOMES

pytestmark = pytest.mark.usefixtures("other_queue")

DAY_MS = 86_400_000
STAYING = (":key_rates", ":key_rate_looks", ".key_locks")
"""Ends of the names of what stays: idle rates in Redis, until other keys get a rate; the 256 rows that MySQL locks."""


@pytest.fixture(scope="module", params=HOMES)
def home_kind(request):
    return HOMES[request.param]


def _plain(backend):
    names = backend.put(*[new_job(priority=priority, attempts=1) for priority in (1, 2, 3)] * 4)
    backend.put_one(run_after_ms=FAR_MS)
    backend.take(9)
    backend.ack(*names[:3], result=b"result")
    backend.fail(*names[3:6], failure=failure_of("Mail", "OSError: 17"))


def _retried(backend):
    backend.put(*[new_job(attempts=3) for _ in range(6)])
    names = backend.take_names()
    backend.fail(*names, failure=failure_of("Mail", "OSError: 17"), retry_delay_ms=5000)
    backend.schedule_jobs(QUEUE, [JobDescriptor.parse(names[0])], None)
    backend.fail(*backend.take_names(), failure=failure_of("Mail", "KeyError: 'a'"), is_final=True)
    backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(names[0])], 2, None)
    backend.fail(*backend.take_names(), is_final=True)
    backend.retry()


def _expired(backend):
    backend.put(*[new_job(attempts=attempts, key=JobKey("a")) for attempts in (1, 1, 5)])
    backend.take()
    backend.clock.advance(LEASE_MS + 1)
    backend.reap()


def _unique(backend):
    rules = [None, UniqueRule(until_started=True), UniqueRule(period_ms=60_000)]
    for number in range(2):
        backend.put(*[new_job(unique_key=f"u{place}", rule=rule) for place, rule in enumerate(rules)])
        if not number:
            backend.take(2)


def _keyed(backend):
    keys = [JobKey("any"), JobKey("two", 2), JobKey("ordered", 1, is_ordered=True)]
    keys += [JobKey("rate", rate="2/m"), JobKey("rate, two", 2, rate="1/h")]
    names = backend.put(*[new_job(key=key, attempts=1) for key in keys for _ in range(4)])
    taken = backend.take_names()
    backend.ack(*taken[::2])
    backend.fail(*taken[1::2])
    backend.take()
    waiting = [name for name in names if backend.state(name) == PENDING]
    backend.cancel(waiting[0])
    backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(waiting[1])], PENDING)


def _messages(backend):
    descriptor, claim = backend.started()
    backend.checkpoint(descriptor, claim=claim, keeps=[Message("steps/0", "a", bytes(1000))])
    backend.sleep(descriptor, ("go", 2), claim=claim)
    backend.send(descriptor, "go", "1")
    backend.send(descriptor, "other", "1")
    backend.send(backend.put_one(), "go", "1")
    for running in backend.take_names():
        backend.send(running, "go", "2")


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    """Delete so few messages at once that many take several steps."""
    monkeypatch.setattr(mysql_messages, "DELETED_AT_ONCE", 2500)
    monkeypatch.setattr(sqlite_messages, "_FORGOTTEN_AT_ONCE", 2500)


def _many_messages(backend):
    """So many that they are deleted in several steps; and more than a call of Redis in a script can have arguments."""
    descriptor, claim = backend.started()
    for page in range(10):
        keeps = [Message("steps/0", f"{page} {number}", b"") for number in range(1000)]
        backend.checkpoint(descriptor, claim=claim, keeps=keeps)


def _family(backend):
    """Children that have ended in each way, that run, and that wait, with and without keys; some in another queue."""
    parent, claim = backend.started()
    keys = [None, None, JobKey("a"), JobKey("b", 1, is_ordered=True), JobKey("c", rate="1/m")]
    jobs = [
        child_of(parent, place, name="call/0/a", key=keys[place % 5], priority=2, attempts=1) for place in range(40)
    ]
    backend.put(*jobs, queue=OTHER)
    backend.sleep(parent, ("call/0/a", 40), claim=claim)
    names = backend.take_names(20, queue=OTHER)
    backend.ack(*names[:5], queue=OTHER, result=b"r")
    backend.fail(*names[5:8], queue=OTHER, failure=failure_of("Child", "OSError"))
    backend.cancel(*names[8:11], queue=OTHER)
    backend.delete_these_jobs(OTHER, [*map(JobDescriptor.parse, names[11:13])], IN_PROGRESS)
    backend.put(child_of(names[13], name="call/0/b"))
    cancelled = backend.cancel(parent)
    for job in backend.children_to_cancel(cancelled.parents, 3):
        backend.cancel(str(job), queue=job.queue)


def _imported(backend):
    states = (PENDING, SUCCEEDED, FAILED, IN_PROGRESS)
    records = [record(state, key=f"u{state}", claim="elsewhere" if state == IN_PROGRESS else None) for state in states]
    with_keys = [one._replace(unique=None, key=JobKey("a", 1, rate="1/m"), result=b"r") for one in records]
    backend.import_jobs(QUEUE, [*records, *with_keys])


def _repeatable(backend):
    for number in range(5):
        once = IdempotencyKey(number.to_bytes(16, "big"), 60_000)
        backend.enqueue_jobs(QUEUE, [new_job(unique_key="a"), new_job()], once=once)
        backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(f"{QUEUE}:s1:p1:1")], PENDING, once=once)


LIVES = (_plain, _retried, _expired, _unique, _keyed, _messages, _many_messages, _family, _imported, _repeatable)
"""What jobs may go through."""


def _end_by_acks(backend, queue):
    """Let all jobs end, whatever they wait for."""
    for state in (PENDING, IN_PROGRESS):
        jobs = [job.descriptor for job in backend.scan(state, queue=queue, limit=1000).jobs]
        backend.cancel(*jobs, queue=queue)
        backend.ack(*jobs, queue=queue)


def _end_by_deletion(backend, queue):
    for state in (PENDING, IN_PROGRESS, SUCCEEDED, FAILED):
        for priority in (1, 2, 3):
            backend.delete(state, queue=queue, priority=priority)


def _end_with_queue(backend, queue):
    backend.delete_queue(queue)


ENDS = {
    "acked": _end_by_acks,
    "deleted": _end_by_deletion,
    "deleted with their queue": _end_with_queue,
}


def _work(backend):
    """Let the monitor do what there is to do."""
    backend.reap()
    for _ in range(2):
        backend.collect_finished(1000, 1000, 1000)
        backend.forget_results(1000)


def _clean_up(backend):
    """Let time pass; the server is killed soon after all has ended, and another one goes on."""
    backend.clock.advance(2000)
    _work(backend)
    backend.crash()
    for _ in range(2):
        backend.clock.advance(8 * DAY_MS)
        _work(backend)


def _contents(backend):
    return {name: size for name, size in backend.home.contents().items() if not name.endswith(STAYING)}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left(backend, end):
    _clean_up(backend)
    before = _contents(backend)
    for live in LIVES:
        live(backend)
        for queue in (OTHER, QUEUE):
            ENDS[end](backend, queue)
            backend.create_queue(queue)
    _clean_up(backend)
    assert _contents(backend) == before


def test_the_limits_of_a_queue_go_with_it(backend):
    _clean_up(backend)
    before = _contents(backend)
    backend.change_queue_settings(QUEUE, QueueChange(jobs_per_second=2.0, max_running=1))
    backend.put(new_job(), new_job())
    backend.dequeue_jobs(QUEUE, 1, backend.claim(), max_running=1)
    backend.delete_queue(QUEUE)
    _clean_up(backend)
    backend.create_queue(QUEUE)
    assert _contents(backend) == before
