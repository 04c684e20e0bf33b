"""What becomes of the jobs of a process that died: which are acked, failed, released or undone."""

import time

import msgspec
import pytest

from pinlater.errors import (
    CallTimeout,
    CallUnsendable,
    EnqueueRejected,
    NoHealthyShards,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, UNDO_ATTEMPTS, read_metadata
from pinlater.worker.claim_table.snapshot import ASKED, DISCARDED, FAILED, HELD, RUNNING, SUCCEEDED
from pinlater.worker.keeper.crashes import crashes_in
from pinlater.worker.session.outcome import Failure
from tests.unit.worker.fakes import names
from tests.unit.worker.keeper.keeper_bench import LONG_AGO_NS


def test_a_refused_ack_keeps_back_no_other_jobs_of_a_dead_process(bench):
    bench.hold(SUCCEEDED, RUNNING, HELD)
    bench.client.refused_calls = {"succeeded": EnqueueRejected("its result is too large")}
    bench.die()
    [(_, [crashed]), returned] = bench.turn()
    assert (crashed.descriptor, returned) == (names(2)[1], ("give back", [names(3)[2]]))
    assert bench.exit_queue.has_pending


def test_a_refused_body_of_a_job_that_is_to_undo_keeps_back_no_other_jobs_of_its_dead_process(bench):
    bench.client.body = OPEN
    area = bench.hold(SUCCEEDED, RUNNING, HELD)
    area.stop_ns[1] = ASKED | time.monotonic_ns()
    bench.client.refused_calls = {"replace": EnqueueRejected("its body is too large")}
    bench.die()
    assert bench.turn() == [("succeeded", names(1)), ("give back", [names(3)[2]])]
    bench.client.refused_calls = {}
    assert [what for what, _ in bench.turn()] == ["replace", "failed", "succeeded", "give back"]
    assert not bench.exit_queue.has_pending


def test_jobs_of_a_dead_process_are_recovered(bench):
    area = bench.hold(SUCCEEDED, FAILED, DISCARDED, RUNNING, HELD, run_ns=LONG_AGO_NS)
    area.delays[1], area.delays[3] = 5000, 9000
    bench.row.start_dequeue()
    bench.die()
    began = time.monotonic()
    failed, succeeded, returned, released = bench.turn()
    assert [(lost.descriptor[-1], lost.delay_ms, lost.is_final) for lost in failed[1]] == [
        ("2", 5000, False),
        ("3", 0, True),
        ("4", 9000, False),
    ]
    evidence = failed[1][2].status
    assert "the process died while it ran SendMail for 60." in evidence
    assert "killed by SIGSEGV, peak 9 MB" in evidence
    assert (succeeded, returned) == (("succeeded", names(1)), ("give back", names(5)[4:]))
    assert released == ("release", (("mail", "web"), "worker:me.1"))
    counts = bench.counters.counts([])
    assert counts["mail", "SendMail"].endings["crashed"] == 1
    assert counts["mail", ""].events["returned"] == 1 + 3, "also what an unread reply has brought"
    assert not bench.exit_queue.has_pending
    assert began + 8.9 < bench.claim_table.retries_due_ms / 1000 < time.monotonic() + 9.1


def test_jobs_claimed_for_a_dead_process_after_its_recovery_are_released_too(bench, monkeypatch):
    """The server may get its last dequeue only now, or the store be slow to carry it out."""
    monkeypatch.setattr("pinlater.worker.keeper.lease_renewer.RELEASED_AGAIN_SECONDS", (0.0, 3600.0))
    bench.row.start_dequeue()
    bench.die()
    release = ("release", (("mail", "web"), "worker:me.1"))
    assert (bench.turn()[:], bench.turn()) == ([release, release], [])
    assert bench.counters.counts([])["mail", ""].events["returned"] == 3 + 3


def test_a_failure_of_a_dead_process_keeps_its_reason(bench):
    """The server may not have got it: what was just sent can be lost when the process dies."""
    area = bench.hold(HELD, RUNNING)
    failure = Failure("[attempt 1/4 here] ValueError: no\n", 5000, job="SendMail")
    area.put_failure(0, 5000, failure.encoded(area.most_failure_bytes))
    bench.die()
    [(_, [failed, crashed])] = bench.turn()
    assert failed.ack == (names(1)[0], failure.status, 5000, "claim", None, None, None, "SendMail")
    assert "the process died" in crashed.status


def test_a_job_past_its_limit_has_failed_and_not_crashed(bench):
    area = bench.hold(RUNNING, HELD, run_ns=LONG_AGO_NS)
    area.delays[0], area.kill_ns[0] = 9000, time.monotonic_ns() - 1000
    bench.time_out()
    failed, returned = bench.turn()
    [lost] = failed[1]
    assert "time-out: the process died while it ran SendMail" in lost.status
    assert "crash" not in lost.status
    assert (lost.delay_ms, lost.is_final) == (9000, False)
    assert returned == ("give back", ["mail:s1:p1:2"])


@pytest.mark.parametrize("die", ["die", "time_out"])
def test_a_job_that_would_come_too_late_is_given_up(bench, die):
    for seconds, is_final in [(100, False), (8, True)]:
        area = bench.hold(RUNNING)
        now_ns = time.monotonic_ns()
        area.delays[0], area.kill_ns[0], area.give_up_ns[0] = 9000, now_ns - 1000, now_ns + seconds * 1_000_000_000
        getattr(bench, die)()
        [(said, [lost])] = bench.turn()
        assert said == "failed"
        assert (lost.is_final, lost.delay_ms) == (is_final, 9000)
        assert ("(too late to try again: its give_up_after)" in lost.status) is is_final
        assert lost.ending == ("crashed" if die == "die" else "timed_out")


def test_a_job_that_began_after_the_kill_was_decided_is_not_blamed(bench):
    bench.hold(RUNNING, run_ns=100_000_000)
    bench.time_out()
    assert bench.turn() == [("give back", names(1))]
    area = bench.hold(RUNNING, run_ns=100_000_000)
    area.kill_ns[0] = time.monotonic_ns() + LONG_AGO_NS
    bench.time_out()
    assert bench.turn() == [("give back", names(1))]


def crash_of(bench, before):
    """Let a process die of its job, whose status was ``before``; return what the keeper says of the job."""
    bench.client.kept["mail:s1:p1:1"] = before
    bench.hold(RUNNING)
    bench.die()
    bench.turn()
    return dict(bench.client.said)["failed"][0]


def test_a_job_is_poison_after_each_third_crash(bench):
    status, verdicts = "[attempt 1/9 2026-01-02T03:04:05Z host 3 0.00 s] ValueError: crash 7\n", []
    for crash in range(1, 7):
        lost = crash_of(bench, status)
        status += lost.status
        assert f"crash {crash}" in lost.status
        assert ("poison" in lost.status) is lost.is_final
        verdicts.append(lost.is_final)
    assert verdicts == [False, False, True] * 2


def test_a_job_that_runs_again_and_again_is_no_poison(bench):
    bench.client.body = b'{"job":"Tidy","$again":{"due_ms":1}}'
    lost = crash_of(bench, "[2026-01-02T03:04:05Z here 1] crash 2: oops\n")
    assert ("crash 3:" in lost.status, lost.is_final) == (True, False)
    bench.client.body = b"\xff"
    assert crash_of(bench, "[2026-01-02T03:04:05Z here 1] crash 2: oops\n").is_final


OPEN = b'{"job":"Trip","name":"x","$steps":{"book":7},"$saga":{"steps":["book"],"allowed":9,"attempt":1,"given":12}}'


def test_a_poison_job_undoes_its_sagas_first(bench):
    bench.client.body = OPEN
    lost = crash_of(bench, "[2026-01-02T03:04:05Z here 1] crash 2: oops\n")
    assert ("crash 3, poison" in lost.status, lost.is_final, lost.delay_ms) == (True, False, 0)
    assert ("replace", ("mail:s1:p1:1", 6)) in bench.client.said
    mark = read_metadata(bench.client.body).saga
    assert (mark.steps, mark.given) == (["book"], 0)
    assert mark.why.startswith("the process died while it ran SendMail")
    assert msgspec.json.decode(bench.client.body)["name"] == "x"
    for crash in (6, 9):
        lost = crash_of(bench, f"[2026-01-02T03:04:05Z here 1] crash {crash - 1}: oops\n")
        assert not lost.is_final, "few attempts bound what it crashes while it undoes"


def test_a_cancelled_periodic_job_that_is_killed_has_as_many_attempts_to_undo(bench):
    """On top of those by which it comes to its next tick; a worker takes these off."""
    bench.client.body = OPEN[:-1] + b',"$again":{"due_ms":1,"schedule":"every 60.0"}}'
    area = bench.hold(RUNNING)
    area.stop_ns[0] = ASKED | time.monotonic_ns()
    bench.die()
    bench.turn()
    assert ("replace", ("mail:s1:p1:1", 1 + UNDO_ATTEMPTS + PERIODIC_SPARE_ATTEMPTS)) in bench.client.said


def test_a_poison_job_whose_sagas_have_ended_is_given_up(bench):
    bench.client.body = OPEN.replace(b'"steps":["book"]', b'"steps":[]')
    assert crash_of(bench, "[2026-01-02T03:04:05Z here 1] crash 2: oops\n").is_final


@pytest.mark.parametrize("die", ["die", "time_out"])
def test_a_job_whose_time_is_over_undoes_its_sagas_first(bench, die):
    bench.client.body = OPEN
    area = bench.hold(RUNNING)
    now_ns = time.monotonic_ns()
    area.delays[0], area.kill_ns[0], area.give_up_ns[0] = 9000, now_ns - 1000, now_ns
    getattr(bench, die)()
    replaced, (_, [lost]) = bench.turn()
    assert replaced[0] == "replace"
    assert (lost.is_final, lost.delay_ms) == (False, 0)


def test_crashes_are_counted_though_the_status_is_full(bench):
    status = "x" * 4990 + "\n"
    for crash in (1, 2, 3):
        lost = crash_of(bench, status)
        [(descriptor, mark)] = [job for what, job in bench.client.said if what == "note"]
        assert descriptor == lost.descriptor
        status = (mark + status)[:5000]
        assert lost.is_final is (crash == 3)


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_crash_is_counted_once_however_often_its_recovery_is_tried(bench, monkeypatch, is_carried_out):
    kept, told = bench.client.kept, []
    kept["mail:s1:p1:1"] = "x" * 4990 + "\n"

    def prepend(job, text):
        kept[job[0]] = (text + kept[job[0]])[:5000]
        if is_carried_out and not told:
            told.append(None)
            raise CallTimeout("its reply is lost")

    def fail(jobs):
        if jobs:
            told.append(jobs[0])
            if len(told) < 3:
                raise UnknownError("full")

    monkeypatch.setattr(bench.client, "prepend_status", prepend)
    monkeypatch.setattr(bench.client, "failed", fail)
    bench.hold(RUNNING)
    bench.die()
    for _ in range(3):
        bench.turn()
    assert not bench.exit_queue.has_pending
    assert not told[-1].is_final
    assert ("crash 1: " in told[-1].status, crashes_in(kept["mail:s1:p1:1"])) == (True, 1)
    assert kept["mail:s1:p1:1"].count("crash") == 1


def test_a_job_cut_off_by_a_stop_keeps_its_attempt(bench):
    bench.hold(RUNNING, HELD)
    bench.die(was_interrupted=True)
    assert bench.turn() == [("give back", ["mail:s1:p1:2", "mail:s1:p1:1"])]


def test_recovery_waits_for_a_server(bench):
    bench.hold(SUCCEEDED)
    bench.die()
    bench.client.trouble = ServerUnavailable("gone")
    assert bench.turn() == []
    assert bench.exit_queue.has_pending
    bench.client.trouble = None
    assert bench.turn() == [("succeeded", names(1))]


def test_recovery_that_the_server_refuses_is_given_up_with_its_claims(bench):
    bench.hold(SUCCEEDED)
    bench.die()
    bench.client.trouble = UnknownError("full")
    bench.turn()
    assert bench.exit_queue.has_pending
    [ended] = bench.exit_queue.pending()
    bench.exit_queue.remove(ended)
    bench.hold(SUCCEEDED)
    bench.die(died_ns=max(time.monotonic_ns() - LONG_AGO_NS, 1))
    bench.turn()
    assert not bench.exit_queue.has_pending


@pytest.mark.parametrize("trouble", [ShardConnectionFailed("shard s1 is away"), CallUnsendable("too large")])
def test_a_shard_that_is_away_keeps_back_no_jobs_of_the_others(bench, trouble):
    area = bench.row.acquire_area()
    area.write("claim", [f"mail:{shard}:p1:{number}" for shard in ("s1", "s2") for number in range(1, 5)])
    area.states[:8] = bytes([SUCCEEDED, FAILED, RUNNING, HELD] * 2)
    bench.row.start_dequeue()
    bench.die()
    bench.client.away = {"s1": trouble}
    failed, *others = bench.turn()
    assert [lost.descriptor for lost in failed[1]] == ["mail:s2:p1:2", "mail:s2:p1:3"]
    assert "crash of one of 2 jobs" in failed[1][1].status
    assert others == [
        ("succeeded", ["mail:s2:p1:1"]),
        ("give back", ["mail:s2:p1:4"]),
        ("release", (("mail", "web"), "worker:me.1")),
    ]
    assert bench.turn() == []
    assert bench.exit_queue.has_pending
    bench.client.away = {}
    failed, *others = bench.turn()
    assert [lost.descriptor for lost in failed[1]] == ["mail:s1:p1:2", "mail:s1:p1:3"]
    assert others == [("succeeded", ["mail:s1:p1:1"]), ("give back", ["mail:s1:p1:4"])]
    assert not bench.exit_queue.has_pending
    counts = bench.counters.counts([])
    assert counts["mail", "SendMail"].endings["crashed"] == 2
    assert counts["mail", ""].events["returned"] == 2 + 3
    assert bench.turn() == []


@pytest.mark.parametrize("away", [ShardConnectionFailed("shard s1 is away"), NoHealthyShards("none answers")])
def test_recovery_waits_for_a_store_however_long_it_is_away(bench, away):
    """No claim expires meanwhile, so a job that has succeeded would run again if nobody said so."""
    bench.hold(SUCCEEDED, HELD)
    bench.die(died_ns=max(time.monotonic_ns() - LONG_AGO_NS, 1))
    bench.client.trouble = away
    assert [bench.turn() for _ in range(2)] == [[], []]
    assert bench.exit_queue.has_pending
    bench.client.trouble = None
    assert bench.turn() == [("succeeded", names(1)), ("give back", names(2)[1:])]
    assert not bench.exit_queue.has_pending


def test_of_several_that_ran_each_has_failed_and_none_has_crashed(crowd):
    areas = crowd.hold_each(RUNNING, RUNNING, SUCCEEDED)
    areas[0].delays[0] = 5000
    crowd.hold_each(HELD, first=4)
    crowd.client.kept = dict.fromkeys(names(2), "[2026-01-02T03:04:05Z here 1] crash 2: oops\n")
    crowd.die()
    failed, succeeded, returned = crowd.turn()
    assert [(lost.descriptor, lost.delay_ms, lost.is_final) for lost in failed[1]] == [
        ("mail:s1:p1:1", 5000, False),
        ("mail:s1:p1:2", 0, False),
    ]
    for lost in failed[1]:
        assert "crash of one of 2 jobs that ran: the process died while it ran SendMail" in lost.status
        assert "killed by SIGSEGV" in lost.status
        assert crashes_in("[2026-01-02T03:04:05Z here 1] crash 2: oops\n" + lost.status) == 2, "no step towards poison"
    assert (succeeded, returned) == (("succeeded", ["mail:s1:p1:3"]), ("give back", ["mail:s1:p1:4"]))


def test_one_that_ran_alone_has_crashed(crowd):
    crowd.hold_each(RUNNING, SUCCEEDED)
    crowd.die()
    [lost] = crowd.turn()[0][1]
    assert "] crash 1: " in lost.status


def test_only_the_job_past_its_limit_is_blamed_for_a_time_out(crowd):
    areas = crowd.hold_each(RUNNING, RUNNING, RUNNING)
    areas[1].kill_ns[0] = time.monotonic_ns() - 1
    areas[2].kill_ns[0] = time.monotonic_ns() + LONG_AGO_NS
    crowd.time_out()
    failed, returned = crowd.turn()
    assert [lost.descriptor for lost in failed[1]] == ["mail:s1:p1:2"]
    assert "time-out" in failed[1][0].status
    assert returned == ("give back", ["mail:s1:p1:1", "mail:s1:p1:3"])


def test_a_stop_excuses_all_that_ran(crowd):
    crowd.hold_each(RUNNING, RUNNING)
    crowd.die(was_interrupted=True)
    assert crowd.turn() == [("give back", names(2))]
