"""The claim board: what a process writes, others can read, also when it died in the middle."""

import os
import time

import pytest

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.exit_queue import ExitInfo, ExitQueue
from pinlater.worker.claim_table.snapshot import (
    CHANGES,
    DISCARDED,
    FAILED,
    GONE,
    HELD,
    MAX_JOBS,
    RETURNING,
    RUNNING,
    SOLO_LAYOUT,
    SUCCEEDED,
    Identity,
    read_snapshot,
    team_layout,
)
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.once_token import OnceToken
from tests.unit.worker.fakes import batch_of, names, new_row

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # threads of other tests

ME = Identity("worker:here:7:abcd", ["mail", "web"], ["SendMail", "Fetch"])


@pytest.fixture
def row():
    row = new_row()
    row.register(ME)
    return row


def states(row):
    return [(batch.claim, [job.state for job in batch.jobs]) for batch in row.snapshot().batches]


def test_an_empty_row_has_no_claims(row):
    snapshot = row.snapshot()
    assert snapshot.is_empty
    assert snapshot.identity == ME
    assert new_row().snapshot().is_empty


def test_what_is_held_can_be_read(row):
    area = row.acquire_area()
    before = time.monotonic_ns()
    assert area.write("claim", names(3)) == 3
    area.states[0], area.states[1], area.delays[1] = SUCCEEDED, RUNNING, 1500
    area.kinds[1], area.started_ns[1], area.kill_ns[1], area.give_up_ns[1] = 1, before, before + 9, before + 8
    snapshot = row.snapshot()
    [batch] = snapshot.batches
    assert batch.jobs == [
        ("mail:s1:p1:1", SUCCEEDED, "SendMail", 0, 0, 0, 0, 0, False, None, None),
        ("mail:s1:p1:2", RUNNING, "Fetch", 1500, before, before + 9, before + 8, 1, False, None, None),
        ("mail:s1:p1:3", HELD, "SendMail", 0, 0, 0, 0, 2, False, None, None),
    ]
    assert (batch.claim, batch.number, batch.is_revoked) == ("claim", 0, False)
    assert batch.fetched_ns >= before
    assert list(snapshot.in_state(RUNNING)) == [(batch, batch.jobs[1])]


def test_jobs_that_are_gone_are_left_out(row):
    area = row.acquire_area()
    area.write("claim", names(2))
    area.states[0] = GONE
    assert states(row) == [("claim", [HELD])]
    area.states[1] = GONE
    assert row.snapshot().is_empty


def test_batches_have_places_of_their_own_which_become_free(row):
    areas = []
    while (area := row.acquire_area()) is not None:
        area.write(f"claim {len(areas)}", names(MAX_JOBS))
        areas.append(area)
    assert len(areas) == SOLO_LAYOUT.batches
    claims = [f"claim {n}" for n in range(SOLO_LAYOUT.batches)]
    assert [claim for claim, _ in states(row)] == claims
    areas[1].clear()
    assert row.free_areas == 1
    assert [claim for claim, _ in states(row)] == [claim for claim in claims if claim != "claim 1"]


def test_a_place_that_is_used_again_shows_nothing_of_its_past(row):
    area = row.acquire_area()
    area.write("first", names(5))
    area.states[2], area.delays[2], area.started_ns[2] = FAILED, 9000, 7
    area.kill_ns[2], area.give_up_ns[2] = 8, 9
    area.revoke()
    area.clear()
    area.write("second", names(4))
    [batch] = row.snapshot().batches
    assert not batch.is_revoked
    assert {job[1:7] for job in batch.jobs} == {(HELD, "SendMail", 0, 0, 0, 0)}


def test_ended_jobs_that_the_keeper_has_acked_are_left_out(row):
    area = row.acquire_area()
    area.write("claim", names(6))
    area.states[:6] = bytes((SUCCEEDED, SUCCEEDED, FAILED, RETURNING, RUNNING, HELD))
    area.mark_sent(1)
    [batch] = row.snapshot().batches
    assert (batch.sent_to, len(batch.jobs)) == (1, 6)
    for position in range(1, 5):
        row.area(batch.number).mark_acked(position, batch.fetched_ns)
    [batch] = row.snapshot().batches
    assert [job.position for job in batch.jobs] == [0, 3, 4, 5], "what has not ended stays"


def test_acks_of_a_former_batch_do_not_count_for_the_next(row):
    area = row.acquire_area()
    area.write("first", names(3))
    [former] = row.snapshot().batches
    area.clear()
    area.write("second", names(3))
    area.states[:3] = bytes((SUCCEEDED, SUCCEEDED, RUNNING))
    row.area(former.number).mark_acked(1, former.fetched_ns)
    [batch] = row.snapshot().batches
    assert len(batch.jobs) == 3


def test_failures_are_kept_with_their_jobs_as_long_as_there_is_room(row):
    area = row.acquire_area()
    area.write("claim", names(3))
    area.put_failure(0, 1500, b"first")
    area.put_failure(1, None, b"")
    area.put_failure(2, None, b"third")
    [batch] = row.snapshot().batches
    assert [(job.state, job.delay_ms, job.failure) for job in batch.jobs] == [
        (FAILED, 1500, b"first"),
        (DISCARDED, 0, None),
        (DISCARDED, 0, b"third"),
    ]
    area.put_failure(1, None, b"x" * area.most_failure_bytes)
    [batch] = row.snapshot().batches
    assert [job.failure and len(job.failure) for job in batch.jobs] == [None, area.most_failure_bytes, None]
    assert area.put_result(0, b"result")
    [batch] = row.snapshot().batches
    assert [(job.result, job.failure) for job in batch.jobs] == [(b"result", None), (None, None), (None, None)]


def test_a_failure_is_not_read_while_a_result_takes_its_room(row, monkeypatch):
    def copy_last_bytes_first():
        last = copy()[-8:]
        if area.states[1] == HELD:
            assert area.put_result(1, b"x" * area.most_failure_bytes)
        return copy()[:-8] + last

    area, copy = row.acquire_area(), row.copy
    area.write("claim", names(2))
    area.put_failure(0, 1500, b"first" * 10)
    monkeypatch.setattr(row, "copy", copy_last_bytes_first)
    [batch] = row.snapshot().batches
    assert [job.failure for job in batch.jobs] == [None, None]


def test_jobs_without_room_are_not_held(row):
    long = [f"{'q' * 200}:s1:p1:{number}" for number in range(MAX_JOBS)]
    held = row.acquire_area().write("claim", long)
    assert 100 < held < MAX_JOBS
    assert [job.descriptor for job in row.snapshot().batches[0].jobs] == long[:held]


def test_a_batch_says_which_of_its_jobs_found_no_room():
    batch = batch_of(*(f"{'q' * 200}:s1:p1:{number}" for number in range(MAX_JOBS)))
    assert [*batch.unstarted, *batch.surplus] == list(range(MAX_JOBS))
    assert len(batch.surplus) > 0


def test_a_batch_leaves_the_claim_table_with_its_last_job():
    batch = batch_of(*names(2))
    batch.finish([1])
    assert not batch.area.is_free
    batch.finish([0])
    assert batch.area.is_free


def test_a_process_of_many_places_has_a_batch_for_each_job():
    layout = team_layout(100)
    row = ClaimTable(2, layout).row(1)
    row.register(ME)
    assert (row.batch_jobs, row.free_areas) == (1, layout.batches)
    areas = [row.acquire_area() for _ in range(layout.batches)]
    assert row.acquire_area() is None
    longest = f"{'q' * 58}:s1:p1:{2**63}"
    for area in areas[:100]:
        assert area.write(f"{'h' * 255}:9010:1700000000000:worker:here:7:abcd.1:9", [longest]) == 1
    areas[3].states[0], areas[3].started_ns[0] = RUNNING, 77
    areas[5].clear()
    assert row.free_areas == 1
    snapshot = row.snapshot()
    assert len(snapshot.batches) == 99
    [(batch, job)] = snapshot.in_state(RUNNING)
    assert (batch.number, job.descriptor, job.started_ns) == (3, longest, 77)


def test_only_what_was_ever_filled_is_copied():
    row = ClaimTable(1, team_layout(10000)).row(0)
    row.register(ME)
    batch_of(*names(1), row=row)
    assert len(row.copy()) < 20_000
    assert len(read_snapshot(row.copy(), team_layout(10000)).batches) == 1


def test_dequeues_whose_reply_was_not_read_are_known_by_number(row):
    assert [row.start_dequeue(), row.start_dequeue()] == [1, 2]
    assert list(row.snapshot().unread) == [1, 2]
    assert row.finish_dequeue(1) is False
    snapshot = row.snapshot()
    assert [snapshot.identity.source_of(number) for number in snapshot.unread] == ["worker:here:7:abcd.2"]


def test_only_replies_sent_for_before_a_revocation_are_revoked(row):
    row.start_dequeue()
    row.revoke_dequeues()
    row.start_dequeue()
    assert row.finish_dequeue(1) is True
    assert row.finish_dequeue(2) is False


def test_a_copy_of_a_half_written_batch_is_read_without_it(row):
    area = row.acquire_area()
    area.write("claim", names(3))
    area._words[0] = 0  # its count, which is stored last
    assert read_snapshot(row.copy()).is_empty


def test_a_row_that_stays_half_written_is_skipped(row, monkeypatch):
    monkeypatch.setattr("pinlater.worker.claim_table.row._READ_TRIES", 3)
    row.acquire_area().write("claim", names(1))
    row.words[0] += 1  # a writer that was stopped in the middle
    assert row.snapshot().is_empty


def test_a_new_process_begins_with_an_empty_row(row):
    row.acquire_area().write("claim", names(3))
    row.start_dequeue()
    row.record_retry_due(77)
    row.register(Identity("worker:next"))
    assert row.snapshot().is_empty
    assert row.snapshot().identity.source == "worker:next"
    assert row.retries_due_ms == 77, "retries of the dead become due all the same"


def test_a_process_whose_predecessor_died_in_the_middle_of_a_change_is_read(row, monkeypatch):
    monkeypatch.setattr("pinlater.worker.claim_table.row._READ_TRIES", 3)
    row.words[CHANGES] += 1
    row.clear()
    row.register(ME)
    row.acquire_area().write("next", names(2))
    assert states(row) == [("next", [HELD, HELD])]
    row.words[CHANGES] += 1
    assert row.snapshot().is_empty, "half a change is not read"


def test_too_many_queues_are_refused(row):
    with pytest.raises(ConfigError, match="too many queues"):
        row.register(Identity("me", [f"queue_{number}_{'x' * 40}" for number in range(500)]))


@forks
def test_rows_are_shared_with_other_processes():
    claim_table = ClaimTable(4)
    pid = os.fork()
    if pid == 0:
        row = claim_table.row(2)
        row.register(ME)
        row.acquire_area().write("claim", names(2))
        row.record_retry_due(1234)
        os._exit(0)
    os.waitpid(pid, 0)
    [row] = claim_table.rows()
    assert states(row) == [("claim", [HELD, HELD])]
    assert claim_table.retries_due_ms == 1234
    claim_table.record_retry_due(5000)
    assert claim_table.retries_due_ms == 5000


# Notices


@pytest.fixture
def area(row):
    batch = row.acquire_area()
    batch.write("claim", names(2))
    batch.states[1] = DISCARDED
    return row.copy()


def info(pid):
    return ExitInfo(pid, "killed by SIGKILL", was_interrupted=False, died_ns=1, died_at=1.0)


def test_exits_stay_queued_until_they_are_handled(area):
    exit_queue = ExitQueue(4)
    assert not exit_queue.has_pending
    assert exit_queue.post(info(1), area)
    assert exit_queue.post(info(2), area)
    first, second = exit_queue.pending()
    assert [job.state for job in first.snapshot.batches[0].jobs] == [HELD, DISCARDED]
    assert (first.info, second.info) == (info(1), info(2))
    exit_queue.remove(first)
    assert [ended.info.pid for ended in exit_queue.pending()] == [2]
    exit_queue.remove(second)
    assert not exit_queue.has_pending


def test_a_full_exit_queue_says_so(area):
    exit_queue = ExitQueue(2)
    assert [exit_queue.post(info(pid), area) for pid in (1, 2, 3)] == [True, True, False]
    assert [ended.info.pid for ended in exit_queue.pending()] == [1, 2]


def test_a_queued_exit_wakes_the_keeper_and_reading_clears_that(area):
    exit_queue = ExitQueue(2)
    exit_queue.post(info(1), area)
    assert exit_queue.posted.is_set
    assert [ended.info.pid for ended in exit_queue.pending()] == [1]
    assert not exit_queue.posted.is_set


# Once


@forks
def test_one_of_many_processes_takes_the_token():
    once = OnceToken()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            os._exit(1 if once.acquire() else 0)
        pids.append(pid)
    taken = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sum(taken) == 1
    assert once.is_taken
    once.restore()
    once.restore()
    assert not once.is_taken
    assert [once.acquire(), once.acquire()] == [True, False]
