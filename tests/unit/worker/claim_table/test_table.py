"""The claim board: what a process writes, others can read, also when it died in the middle."""

import os
import time

import pytest

from pinlater.errors import ConfigError
from pinlater.worker.claim_table.exit_queue import Facts, Notices
from pinlater.worker.claim_table.snapshot import (
    DISCARDED,
    FAILED,
    GONE,
    HELD,
    MAX_JOBS,
    RUNNING,
    SUCCEEDED,
    Identity,
    read_holding,
    team_layout,
)
from pinlater.worker.claim_table.table import Board
from pinlater.worker.once_token import Once
from tests.unit.worker.fakes import batch_of, names, new_slot

forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # threads of other tests

ME = Identity("worker:here:7:abcd", ["mail", "web"], ["SendMail", "Fetch"])


@pytest.fixture
def slot():
    slot = new_slot()
    slot.introduce(ME)
    return slot


def states(slot):
    return [(batch.claim, [job.state for job in batch.jobs]) for batch in slot.read().batches]


def test_an_empty_slot_holds_nothing(slot):
    holding = slot.read()
    assert holding.is_empty
    assert holding.identity == ME
    assert new_slot().read().is_empty


def test_what_is_held_can_be_read(slot):
    area = slot.free_batch()
    before = time.monotonic_ns()
    assert area.hold("claim", names(3)) == 3
    area.states[0], area.states[1], area.delays[1] = SUCCEEDED, RUNNING, 1500
    area.kinds[1], area.since_ns[1], area.kill_ns[1], area.until_ns[1] = 1, before, before + 9, before + 8
    holding = slot.read()
    [batch] = holding.batches
    assert batch.jobs == [
        ("mail:s1:p1:1", SUCCEEDED, "SendMail", 0, 0, 0, 0, 0),
        ("mail:s1:p1:2", RUNNING, "Fetch", 1500, before, before + 9, before + 8, 1),
        ("mail:s1:p1:3", HELD, "SendMail", 0, 0, 0, 0, 2),
    ]
    assert (batch.claim, batch.number, batch.is_revoked) == ("claim", 0, False)
    assert batch.fetched_ns >= before
    assert list(holding.in_state(RUNNING)) == [(batch, batch.jobs[1])]


def test_jobs_that_are_gone_are_left_out(slot):
    area = slot.free_batch()
    area.hold("claim", names(2))
    area.states[0] = GONE
    assert states(slot) == [("claim", [HELD])]
    area.states[1] = GONE
    assert slot.read().is_empty


def test_batches_have_places_of_their_own_which_become_free(slot):
    areas = []
    while (area := slot.free_batch()) is not None:
        area.hold(f"claim {len(areas)}", names(MAX_JOBS))
        areas.append(area)
    assert len(areas) == 4
    assert [claim for claim, _ in states(slot)] == [f"claim {n}" for n in range(4)]
    areas[1].clear()
    assert slot.free_batches == 1
    assert [claim for claim, _ in states(slot)] == ["claim 0", "claim 2", "claim 3"]


def test_a_place_that_is_used_again_shows_nothing_of_its_past(slot):
    area = slot.free_batch()
    area.hold("first", names(5))
    area.states[2], area.delays[2], area.since_ns[2] = FAILED, 9000, 7
    area.kill_ns[2], area.until_ns[2] = 8, 9
    area.revoke()
    area.clear()
    area.hold("second", names(4))
    [batch] = slot.read().batches
    assert not batch.is_revoked
    assert {job[1:-1] for job in batch.jobs} == {(HELD, "SendMail", 0, 0, 0, 0)}


def test_successes_that_the_keeper_has_told_are_left_out(slot):
    area = slot.free_batch()
    area.hold("claim", names(5))
    area.states[:5] = bytes((SUCCEEDED, SUCCEEDED, SUCCEEDED, RUNNING, HELD))
    area.note_sent(1)
    [batch] = slot.read().batches
    assert (batch.sent_to, len(batch.jobs), area.told) == (1, 5, range(0))
    slot.area(batch.number).note_told(batch.fetched_ns, 3)
    [batch] = slot.read().batches
    assert area.told == range(1, 3)
    assert [(job.position, job.state) for job in batch.jobs] == [(0, SUCCEEDED), (3, RUNNING), (4, HELD)]


def test_what_the_keeper_tells_of_a_former_batch_is_not_taken_for_the_next(slot):
    area = slot.free_batch()
    area.hold("first", names(3))
    [former] = slot.read().batches
    area.clear()
    area.hold("second", names(3))
    area.states[:3] = bytes((SUCCEEDED, SUCCEEDED, RUNNING))
    slot.area(former.number).note_told(former.fetched_ns, 2)
    assert area.told == range(0)
    [batch] = slot.read().batches
    assert len(batch.jobs) == 3


def test_jobs_without_room_are_not_held(slot):
    long = [f"{'q' * 200}:s1:p1:{number}" for number in range(MAX_JOBS)]
    held = slot.free_batch().hold("claim", long)
    assert 100 < held < MAX_JOBS
    assert [job.descriptor for job in slot.read().batches[0].jobs] == long[:held]


def test_a_batch_says_which_of_its_jobs_found_no_room():
    batch = batch_of(*(f"{'q' * 200}:s1:p1:{number}" for number in range(MAX_JOBS)))
    assert [*batch.unstarted, *batch.surplus] == list(range(MAX_JOBS))
    assert len(batch.surplus) > 0


def test_a_batch_leaves_the_board_with_its_last_job():
    batch = batch_of(*names(2))
    batch.settled(1)
    assert not batch.area.is_free
    batch.settled(0)
    assert batch.area.is_free


def test_a_process_of_many_places_has_a_batch_for_each_job():
    layout = team_layout(100)
    slot = Board(2, layout).slot(1)
    slot.introduce(ME)
    assert (slot.room, slot.free_batches) == (1, layout.batches)
    areas = [slot.free_batch() for _ in range(layout.batches)]
    assert slot.free_batch() is None
    longest = f"{'q' * 58}:s1:p1:{2**63}"
    for area in areas[:100]:
        assert area.hold(f"{'h' * 255}:9010:1700000000000:worker:here:7:abcd.1:9", [longest]) == 1
    areas[3].states[0], areas[3].since_ns[0] = RUNNING, 77
    areas[5].clear()
    assert slot.free_batches == 1
    holding = slot.read()
    assert len(holding.batches) == 99
    [(batch, job)] = holding.in_state(RUNNING)
    assert (batch.number, job.descriptor, job.since_ns) == (3, longest, 77)


def test_only_what_was_ever_filled_is_copied():
    slot = Board(1, team_layout(10000)).slot(0)
    slot.introduce(ME)
    batch_of(*names(1), slot=slot)
    assert len(slot.copy()) < 20_000
    assert len(read_holding(slot.copy(), team_layout(10000)).batches) == 1


def test_dequeues_whose_reply_was_not_read_are_known_by_number(slot):
    assert [slot.next_dequeue(), slot.next_dequeue()] == [1, 2]
    assert list(slot.read().unread) == [1, 2]
    assert slot.settle(1) is False
    holding = slot.read()
    assert [holding.identity.source_of(number) for number in holding.unread] == ["worker:here:7:abcd.2"]


def test_only_replies_sent_for_before_a_revocation_are_revoked(slot):
    slot.next_dequeue()
    slot.revoke_dequeues()
    slot.next_dequeue()
    assert slot.settle(1) is True
    assert slot.settle(2) is False


def test_a_copy_of_a_half_written_batch_is_read_without_it(slot):
    area = slot.free_batch()
    area.hold("claim", names(3))
    area._words[0] = 0  # its count, which is stored last
    assert read_holding(slot.copy()).is_empty


def test_a_slot_that_stays_half_written_is_not_waited_for(slot, monkeypatch):
    monkeypatch.setattr("pinlater.worker.claim_table.row._READ_TRIES", 3)
    slot.free_batch().hold("claim", names(1))
    slot.words[0] += 1  # a writer that was stopped in the middle
    assert slot.read().is_empty


def test_a_new_process_begins_with_a_clear_slot(slot):
    slot.free_batch().hold("claim", names(3))
    slot.next_dequeue()
    slot.expect_retries(77)
    slot.introduce(Identity("worker:next"))
    assert slot.read().is_empty
    assert slot.read().identity.source == "worker:next"
    assert slot.retries_due_ms == 77, "retries of the dead become due all the same"


def test_too_many_queues_are_refused(slot):
    with pytest.raises(ConfigError, match="too many queues"):
        slot.introduce(Identity("me", [f"queue_{number}_{'x' * 40}" for number in range(500)]))


@forks
def test_slots_are_shared_with_other_processes():
    board = Board(4)
    pid = os.fork()
    if pid == 0:
        slot = board.slot(2)
        slot.introduce(ME)
        slot.free_batch().hold("claim", names(2))
        slot.expect_retries(1234)
        os._exit(0)
    os.waitpid(pid, 0)
    [slot] = board.slots()
    assert states(slot) == [("claim", [HELD, HELD])]
    assert board.retries_due_ms == 1234
    board.expect_retries(5000)
    assert board.retries_due_ms == 5000


# Notices


@pytest.fixture
def area(slot):
    batch = slot.free_batch()
    batch.hold("claim", names(2))
    batch.states[1] = DISCARDED
    return slot.copy()


def facts(pid):
    return Facts(pid, "killed by SIGKILL", was_interrupted=False, died_ns=1)


def test_notices_stay_until_they_are_handled(area):
    notices = Notices(4)
    assert not notices.are_pending
    assert notices.post(facts(1), area)
    assert notices.post(facts(2), area)
    first, second = notices.pending()
    assert [job.state for job in first.holding.batches[0].jobs] == [HELD, DISCARDED]
    assert (first.facts, second.facts) == (facts(1), facts(2))
    notices.handled(first)
    assert [notice.facts.pid for notice in notices.pending()] == [2]
    notices.handled(second)
    assert not notices.are_pending


def test_a_full_place_for_notices_says_so(area):
    notices = Notices(2)
    assert [notices.post(facts(pid), area) for pid in (1, 2, 3)] == [True, True, False]
    assert [notice.facts.pid for notice in notices.pending()] == [1, 2]


def test_a_notice_rings_and_reading_silences(area):
    notices = Notices(2)
    notices.post(facts(1), area)
    assert os.read(notices.doorbell, 1)
    notices.post(facts(2), area)
    list(notices.pending())
    with pytest.raises(BlockingIOError):
        os.read(notices.doorbell, 1)


# Once


@forks
def test_one_of_many_processes_takes_the_token():
    once = Once()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            os._exit(1 if once.take() else 0)
        pids.append(pid)
    taken = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sum(taken) == 1
    once.renew()
    once.renew()
    assert [once.take(), once.take()] == [True, False]
