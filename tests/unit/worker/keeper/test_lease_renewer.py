"""The keeper's duties, with a messenger that only takes notes; and what the master tells it."""

import time

import msgspec
import pytest
from pinlater_supervisor import DUMP_SECONDS

from pinlater.errors import (
    CallTimeout,
    CallUnsendable,
    EnqueueRejected,
    NoHealthyShards,
    QueueNameInvalid,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, UNDO_ATTEMPTS, read_metadata
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.claim_table.snapshot import ASKED, DISCARDED, FAILED, GONE, HELD, RETURNING, RUNNING, SUCCEEDED
from pinlater.worker.keeper.crashes import crashes_in
from pinlater.worker.master import keeper_hang_seconds
from pinlater.worker.session.outcome import Failure
from tests.unit.worker.fakes import FakeChild, batch_of, names
from tests.unit.worker.keeper.keeper_bench import LONG_AGO_NS, Bench


@pytest.fixture
def bench():
    child = FakeChild()
    yield Bench(child)
    child.close()


def test_old_claims_are_renewed_and_young_ones_are_not(bench):
    bench.hold(SUCCEEDED, RUNNING, HELD, age_ns=LONG_AGO_NS)
    bench.hold(HELD)
    assert bench.turn() == [("renew", names(3))]
    assert bench.turn() == [], "not before a third of the lease has passed"
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [("renew", names(3))]


def test_a_claim_is_renewed_before_half_of_its_lease_is_over(bench):
    """Renewals are a third of the lease apart: a claim that one just leaves out is renewed by the next."""
    bench.hold(RUNNING, age_ns=5_000_000_000)
    assert bench.turn() == [("renew", names(1))]


def test_renewal_is_tried_until_a_server_is_there(bench):
    bench.hold(RUNNING, age_ns=LONG_AGO_NS)
    for trouble in (ServerUnavailable("gone"), UnknownError("full")):
        bench.client.trouble = trouble
        assert bench.turn() == []
        assert not bench.is_done
    bench.client.trouble = None
    assert bench.turn() == [("renew", names(1))]
    assert bench.is_done


@pytest.mark.parametrize("trouble", [ShardConnectionFailed("shard 1 is away"), CallTimeout("no reply")])
def test_a_queue_whose_claims_cannot_be_renewed_keeps_none_of_the_others(bench, trouble):
    bench.hold(RUNNING, age_ns=LONG_AGO_NS)
    web = bench.hold(RUNNING, age_ns=LONG_AGO_NS, queue="web")
    bench.client.refused = {"mail": trouble}
    bench.client.lost = {(names(1, "web")[0], "claim")}
    assert bench.turn() == [("renew", names(1, "web"))]
    assert web.stop_ns[0] == web.fetched_ns, "it is lost, and told so"
    assert not bench.is_done
    bench.client.refused = {}
    assert bench.turn() == [("renew", names(1)), ("renew", names(1, "web"))], "all are tried again at once"
    assert bench.is_done


@pytest.mark.parametrize("trouble", [ShardConnectionFailed("shard s1 is away"), UnknownError("there is no shard s1")])
def test_a_shard_that_is_away_or_unknown_hides_no_lost_claims_of_the_others(bench, trouble):
    area = bench.row.acquire_area()
    area.write("claim", [f"mail:{shard}:p1:1" for shard in ("s1", "s2", "s3")])
    area.states[:3] = bytes([SUCCEEDED, RUNNING, RUNNING])
    area._words[1] -= LONG_AGO_NS
    bench.client.away = {"s1": trouble}
    bench.client.lost = {("mail:s3:p1:1", "claim")}
    assert bench.turn() == [("renew", ["mail:s2:p1:1"]), ("renew", ["mail:s3:p1:1"])]
    assert [area.stop_ns[position] == area.fetched_ns for position in range(3)] == [False, False, True]
    assert not bench.is_done


@pytest.mark.parametrize(
    ("trouble", "shards", "calls"),
    [
        (ShardConnectionFailed("shard s1 is away"), ["s1", "s2"], 3),
        (ShardConnectionFailed("shard s1 is away"), ["s1", "s1"], 1),
        (QueueNameInvalid("no such name"), ["s1", "s2"], 1),
    ],
)
def test_a_refused_renewal_is_split_only_where_that_can_help(bench, monkeypatch, trouble, shards, calls):
    def renew(keys):
        tried.append(keys)
        raise trouble

    tried = []
    monkeypatch.setattr(bench.client, "renew", renew)
    area = bench.row.acquire_area()
    area.write("claim", [f"mail:{shard}:p1:{number}" for number, shard in enumerate(shards, 1)])
    area.states[:2] = bytes([RUNNING, RUNNING])
    area._words[1] -= LONG_AGO_NS
    bench.turn()
    assert len(tried) == calls
    assert not bench.is_done


@pytest.mark.parametrize("lease_seconds", [20, 30, 60, 120, 86400])
def test_a_keeper_that_hangs_is_replaced_before_its_claims_end(lease_seconds):
    """Half of their lease may be over when it begins to hang; another second is for the start of the other one."""
    assert lease_seconds / 2 + keeper_hang_seconds(lease_seconds) + DUMP_SECONDS + 1 < lease_seconds


def test_a_recovery_that_fails_does_not_delay_other_work(bench):
    for claim in ("first", "second"):
        bench.hold(HELD, claim=claim)
        bench.die()
    bench.hold(RUNNING, age_ns=LONG_AGO_NS)
    bench.client.troubles = [CallTimeout("no reply"), UnknownError("full")]
    assert bench.turn() == [("renew", names(1))]
    assert not bench.is_done
    assert bench.turn() == [("give back", names(1))] * 2
    assert bench.is_done


def test_what_waits_behind_a_long_job_is_taken_back_once(bench):
    area = bench.hold(SUCCEEDED, RUNNING, HELD, HELD, run_ns=LONG_AGO_NS)
    bench.row.start_dequeue()
    release = ("release", (("mail", "web"), "worker:me.1"))
    assert bench.turn() == [("give back", names(4)[2:]), release, ("succeeded", names(1))]
    assert area.is_revoked
    assert bench.row.finish_dequeue(1), "its jobs must not be started"
    assert bench.turn() == []


def test_a_job_that_has_run_is_not_given_back_in_place_of_its_process(bench):
    """It would run again: what it goes on with is not on the board."""
    bench.hold(RETURNING, RUNNING, HELD, age_ns=LONG_AGO_NS, run_ns=LONG_AGO_NS)
    assert bench.turn() == [("renew", names(3)), ("give back", [names(3)[2]])]
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [("renew", names(2))]
    bench.die(was_interrupted=True)
    assert bench.turn() == [("give back", names(3)[2:] + names(2))]


def test_successes_before_a_long_job_are_acked_once(bench):
    area = bench.hold(SUCCEEDED, SUCCEEDED, GONE, SUCCEEDED, RUNNING, run_ns=LONG_AGO_NS)
    area.mark_sent(1)
    assert bench.turn() == [("succeeded", [names(4)[1], names(4)[3]])]
    assert bench.turn() == []
    area.states[4] = SUCCEEDED
    bench.die()
    assert bench.turn() == [("succeeded", [names(1)[0], names(5)[4]])], "the long one is not among those that were told"


def test_failures_before_a_long_job_are_acked_once_with_their_reasons(bench):
    area = bench.hold(SUCCEEDED, HELD, HELD, HELD, RUNNING, run_ns=LONG_AGO_NS)
    for position, delay_ms, ending in ((1, 9000, "failed"), (2, None, CANCELLED)):
        failure = Failure(f"reason {position}\n", delay_ms, ending, job="SendMail")
        area.put_failure(position, delay_ms, failure.encoded(area.most_failure_bytes))
    area.put_failure(3, None, b"")
    began = time.monotonic()
    succeeded, (_, failed) = bench.turn()
    assert succeeded == ("succeeded", names(1))
    assert [report.ack for report in failed] == [
        (names(2)[1], "reason 1\n", 9000, "claim", None, None, None, "SendMail"),
        (names(3)[2], "reason 2\n", 0, "claim", True, None, True, "SendMail"),
    ]
    assert began + 8.9 < bench.claim_table.retries_due_ms / 1000 < time.monotonic() + 9.1
    assert bench.turn() == []
    bench.die(was_interrupted=True)
    [(_, [unexplained]), back] = bench.turn()
    assert unexplained.descriptor == names(4)[3]
    assert "before it could say why" in unexplained.status
    assert back == ("give back", names(5)[4:])


@pytest.mark.parametrize(("remaining", "delay_seconds"), [(2, 60), (1, 0)])
def test_a_burst_waits_for_no_retry_of_a_last_attempt_that_the_keeper_acks(bench, remaining, delay_seconds):
    batch = batch_of(*names(2), row=bench.row, remaining=remaining)
    batch.keep_failure(0, Failure("reason\n", 60_000))
    batch.area.states[1], batch.area.started_ns[1] = RUNNING, time.monotonic_ns() - LONG_AGO_NS
    began = time.monotonic()
    [(what, [report])] = bench.turn()
    assert (what, report.status) == ("failed", "reason\n")
    due_at = bench.claim_table.retries_due_ms / 1000
    assert began <= due_at - delay_seconds <= time.monotonic() + 1


def test_ends_whose_claims_can_be_renewed_are_acked_while_a_long_job_runs(bench):
    """Their process has sent them, and does not read that the server refused them, or that the connection is lost."""
    ended = bench.hold(SUCCEEDED, SUCCEEDED, HELD, RETURNING, age_ns=LONG_AGO_NS, claim="first")
    ended.put_failure(2, 0, Failure("reason\n").encoded(ended.most_failure_bytes))
    ended.mark_sent(4)
    long = bench.hold(RUNNING, run_ns=LONG_AGO_NS, age_ns=LONG_AGO_NS, claim="second", queue="web")
    bench.client.lost = {(names(1)[0], "first")}
    *_, succeeded, (what, [failure]) = bench.turn()
    assert succeeded == ("succeeded", [names(2)[1]])
    assert (what, failure.descriptor, failure.status) == ("failed", names(3)[2], "reason\n")
    assert bench.turn() == []
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [("renew", [names(4)[3]]), ("renew", names(1, "web"))]
    long.states[0] = SUCCEEDED
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [("renew", [names(4)[3]]), ("renew", names(1, "web"))], "its process is not busy"


def test_a_shard_that_is_away_keeps_back_no_acks_of_the_others(bench):
    area = bench.row.acquire_area()
    area.write("claim", [f"mail:{shard}:p1:1" for shard in ("s1", "s2", "s3")])
    area.states[:3] = bytes([SUCCEEDED, SUCCEEDED, RUNNING])
    area.started_ns[2] = time.monotonic_ns() - LONG_AGO_NS
    bench.client.away = {"s1": ShardConnectionFailed("away")}
    assert bench.turn() == [("succeeded", ["mail:s2:p1:1"])]
    assert bench.turn() == []
    bench.client.away = {}
    assert bench.turn() == [("succeeded", ["mail:s1:p1:1"])]


@pytest.mark.parametrize("refused", ["succeeded", "failed"])
def test_a_refused_ack_keeps_back_no_others_of_its_shard(bench, refused):
    area = bench.hold(SUCCEEDED, HELD, RUNNING, run_ns=LONG_AGO_NS)
    area.put_failure(1, 9000, Failure("reason\n").encoded(area.most_failure_bytes))
    bench.client.refused_calls = {refused: EnqueueRejected("its result is too large")}
    [(other, _)] = bench.turn()
    assert {refused, other} == {"succeeded", "failed"}
    assert bench.turn() == []
    bench.client.refused_calls = {}
    [(what, _)] = bench.turn()
    assert what == refused


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


def test_acks_that_could_not_be_sent_are_sent_again(bench):
    bench.hold(SUCCEEDED, RUNNING, run_ns=LONG_AGO_NS)
    bench.client.trouble = CallTimeout("slow")
    assert bench.turn() == []
    bench.client.trouble = None
    assert bench.turn() == [("succeeded", names(1))]


def test_a_reply_on_its_way_is_released_more_than_once(bench):
    bench.hold(RUNNING, run_ns=LONG_AGO_NS)
    bench.row.start_dequeue()
    assert [len(bench.turn()) for _ in range(5)] == [1, 1, 1, 0, 0]


def test_jobs_taken_back_are_not_renewed(bench):
    bench.hold(RUNNING, HELD, age_ns=LONG_AGO_NS, run_ns=LONG_AGO_NS)
    bench.turn()
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [("renew", names(1))]


@pytest.mark.parametrize("states", [(HELD, HELD), (SUCCEEDED, HELD), (RUNNING,), (SUCCEEDED, FAILED)])
def test_without_a_long_job_in_front_nothing_is_taken_back(bench, states):
    bench.hold(*states, run_ns=LONG_AGO_NS)
    assert bench.turn() == []


def test_a_short_while_is_no_reason_either(bench):
    bench.hold(RUNNING, HELD)
    bench.row.start_dequeue()
    assert bench.turn() == []


def test_results_are_told_while_a_long_job_runs_and_after_a_death(bench):
    area = bench.hold(SUCCEEDED, SUCCEEDED, RUNNING, run_ns=LONG_AGO_NS)
    area.put_result(0, b"42")
    assert bench.turn() == [("succeeded", [(names(1)[0], b"42"), names(2)[1]])]
    area.states[2] = SUCCEEDED
    area.put_result(2, b"43")
    bench.die()
    assert bench.turn() == [("succeeded", [(names(3)[2], b"43")])]


def test_a_job_started_at_the_last_moment_is_left_alone(bench, monkeypatch):
    area = bench.hold(RUNNING, HELD, HELD, run_ns=LONG_AGO_NS)

    def start_one(_):
        area.states[0], area.states[1] = SUCCEEDED, RUNNING

    monkeypatch.setattr("pinlater.worker.keeper.lease_renewer.time.sleep", start_one)
    assert bench.turn() == [("give back", names(3)[2:])]


@pytest.mark.parametrize("has_unread", [False, True])
def test_a_dequeue_that_is_sent_after_the_revocation_is_left_alone(bench, monkeypatch, has_unread):
    """The long job ends while the keeper waits, and the process fetches and starts the next jobs."""
    area = bench.hold(RUNNING, HELD, run_ns=LONG_AGO_NS)
    if has_unread:
        bench.row.start_dequeue()

    def go_on(_):
        area.states[0], area.states[1] = SUCCEEDED, GONE
        if has_unread:
            assert bench.row.finish_dequeue(1)
        bench.row.start_dequeue()

    monkeypatch.setattr("pinlater.worker.keeper.lease_renewer.time.sleep", go_on)
    assert bench.turn() == []
    assert list(bench.row.snapshot().unread) == [1 + has_unread]


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


def test_claims_are_renewed_between_recoveries_that_take_long(bench, monkeypatch):
    for _ in range(2):
        bench.hold(SUCCEEDED)
        bench.die()
    bench.hold(RUNNING, age_ns=LONG_AGO_NS)
    succeeded = bench.client.succeeded

    def take_long(jobs):
        succeeded(jobs)
        bench.keeper._renew_at = 0.0

    monkeypatch.setattr(bench.client, "succeeded", take_long)
    assert [what for what, _ in bench.turn()] == ["renew", "succeeded", "renew", "succeeded", "renew"]


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


def test_failed_recovery_does_not_stop_renewals(bench, monkeypatch):
    bench.hold(SUCCEEDED)
    bench.die()
    bench.hold(RUNNING, age_ns=LONG_AGO_NS)

    def refuse(jobs):
        raise UnknownError("full")

    monkeypatch.setattr(bench.client, "succeeded", refuse)
    assert bench.turn() == [("renew", names(1))]


def test_a_stop_waits_for_recovery_but_not_for_ever(bench, monkeypatch):
    monkeypatch.setattr("pinlater.worker.keeper.lease_renewer._STOP_SECONDS", 0.2)
    bench.hold(SUCCEEDED)
    bench.die()
    bench.client.trouble = ServerUnavailable("gone")
    bench.child.drain()
    began = time.monotonic()
    bench.keeper.work()
    assert time.monotonic() - began < 20
    bench.client.trouble = None
    bench.keeper.work()
    assert bench.client.said == [("succeeded", names(1))]


@pytest.fixture
def crowd():
    child = FakeChild()
    yield Bench(child, places=3)
    child.close()


def test_a_process_with_a_free_place_is_not_stalled(crowd):
    crowd.hold_each(RUNNING, RUNNING, run_ns=LONG_AGO_NS)
    crowd.hold_each(HELD, first=3)
    crowd.row.start_dequeue()
    assert crowd.turn() == []
    crowd.hold_each(RUNNING, first=4)
    assert crowd.turn() == [], "one place has just been filled"


def test_what_waits_while_all_places_are_busy_for_long_is_taken_back_once(crowd):
    crowd.hold_each(RUNNING, RUNNING, RUNNING, run_ns=LONG_AGO_NS)
    held = crowd.hold_each(HELD, HELD, first=4)
    crowd.row.start_dequeue()
    back = ("give back", names(5)[3:])
    assert crowd.turn() == [back, ("release", (("mail", "web"), "worker:me.1"))]
    assert all(area.is_revoked for area in held)
    assert back not in crowd.turn()


def test_a_process_of_many_places_acks_its_jobs_itself(crowd):
    ended, *_ = crowd.hold_each(SUCCEEDED, RUNNING, RUNNING, RUNNING, run_ns=LONG_AGO_NS)
    ended._words[1] -= LONG_AGO_NS
    assert crowd.turn() == [("renew", names(1))]


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
