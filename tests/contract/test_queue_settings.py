"""What holds a queue's jobs back, and where new ones go: kept with the queue; running jobs are counted by the store."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from tests.support.bench import LEASE_MS, QUEUE, new_job


def settings(backend, queue=QUEUE):
    return backend.queue_settings()[queue]


def change(backend, queue=QUEUE, **wanted):
    backend.change_queue_settings(queue, QueueChange(**wanted))


def test_a_new_queue_is_not_held_back(backend):
    assert settings(backend) == QueueSettings(is_paused=False, jobs_per_second=None, max_running=None)


def test_each_setting_changes_by_itself(backend):
    change(backend, is_paused=True)
    change(backend, jobs_per_second=0.25)
    change(backend, max_running=3)
    assert settings(backend) == QueueSettings(is_paused=True, jobs_per_second=0.25, max_running=3)
    change(backend, is_paused=False, max_running=0)
    assert settings(backend) == QueueSettings(is_paused=False, jobs_per_second=0.25, max_running=None)
    change(backend, jobs_per_second=0)
    assert settings(backend) == QueueSettings()


def test_the_number_of_shards_and_what_it_is_by_load_are_two_settings(backend):
    change(backend, shards=3, max_running=4)
    assert settings(backend) == QueueSettings(max_running=4, shards=3)
    change(backend, shards=FOLLOWS_LOAD)
    assert settings(backend).shard_count is None, "nobody has looked at the load yet"
    change(backend, shards_by_load=2)
    assert settings(backend) == QueueSettings(max_running=4, shards=FOLLOWS_LOAD, shards_by_load=2)
    assert settings(backend).shard_count == 2
    change(backend, shards=5, shards_by_load=0)
    change(backend, shards_by_load=7)
    assert settings(backend).shard_count == 5, "a server decides too late about a queue that has a fixed number now"
    change(backend, shards=0)
    assert settings(backend).shard_count is None


def test_settings_are_those_of_one_queue_and_go_with_it(backend):
    backend.create_queue("thumbnails")
    change(backend, max_running=1)
    assert settings(backend, "thumbnails") == QueueSettings()
    backend.create_queue(QUEUE)  # is there already
    assert settings(backend).max_running == 1
    backend.delete_queue(QUEUE)
    assert QUEUE not in backend.queue_settings()
    backend.create_queue(QUEUE)
    assert settings(backend) == QueueSettings()


def test_settings_survive_a_crash(backend):
    change(backend, is_paused=True, jobs_per_second=1.5, max_running=7, shards=FOLLOWS_LOAD, shards_by_load=3)
    before = settings(backend)
    backend.crash()
    assert settings(backend) == before == QueueSettings(True, 1.5, 7, shards=FOLLOWS_LOAD, shards_by_load=3)


def test_of_no_queue(backend):
    with pytest.raises(QueueNotFound):
        change(backend, "nowhere", is_paused=True)


def take(backend, limit, most):
    found = backend.dequeue_jobs(QUEUE, limit, backend.claim(), want_next_due=True, max_running=most)
    return [job.descriptor for job in found.jobs], found


def test_no_more_run_than_may(backend):
    names = backend.put(*[new_job(priority=number % 2 + 1) for number in range(10)])
    ordered = sorted(names, key=lambda name: (":p2:" in name, names.index(name)))
    taken, found = take(backend, 2, 4)
    assert taken == ordered[:2]
    assert (found.has_more, found.is_held) == (True, False)
    taken, found = take(backend, 5, 4)
    assert taken == ordered[2:4]
    assert (found.has_more, found.is_held, found.next_due_ms) == (False, True, None)
    taken, found = take(backend, 5, 4)
    assert (taken, found.has_more, found.is_held) == ([], False, True)
    assert len(take(backend, 10, None)[0]) == 6


def test_whatever_ends_a_claim_makes_room(backend):
    backend.put(*[new_job() for _ in range(9)])
    first, second, third, fourth = take(backend, 9, 4)[0]
    claim = backend.look(third).claim
    backend.ack(first)
    backend.fail(second)
    backend.checkpoint(third, claim=claim, move_to_pending=True)
    assert len(take(backend, 9, 4)[0]) == 3
    backend.release_claims(QUEUE, "worker")
    assert len(take(backend, 9, 4)[0]) == 4
    backend.clock.advance(LEASE_MS + 1)
    backend.reap()
    assert len(take(backend, 9, 4)[0]) == 4
    assert fourth


def test_fewer_jobs_than_may_run(backend):
    later = backend.clock.now_ms + 5000
    backend.put(new_job(), new_job(run_after_ms=later))
    taken, found = take(backend, 5, 4)
    assert len(taken) == 1
    assert (found.has_more, found.is_held, found.next_due_ms) == (False, False, later)


def test_jobs_of_other_queues_do_not_count(backend):
    backend.create_queue("thumbnails")
    backend.put(new_job(), queue="thumbnails")
    backend.take(queue="thumbnails")
    backend.put(new_job())
    assert len(take(backend, 1, 1)[0]) == 1
