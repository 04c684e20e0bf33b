"""The keeper: renews claims, acks what waits behind a long job, and takes back what cannot start soon."""

import time

import pytest
from pinlater_supervisor import DUMP_SECONDS

from pinlater.errors import (
    CallTimeout,
    EnqueueRejected,
    QueueNameInvalid,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.claim_table.snapshot import FAILED, GONE, HELD, RETURNING, RUNNING, SUCCEEDED
from pinlater.worker.keeper import lease_renewer
from pinlater.worker.master import keeper_hang_seconds
from pinlater.worker.session.outcome import Failure
from tests.unit.worker.fakes import batch_of, names
from tests.unit.worker.keeper.keeper_bench import LONG_AGO_NS


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


def test_after_a_suspension_all_claims_are_renewed_at_once(bench, monkeypatch):
    """The server, too, has learnt of it, and soon ends what is not renewed."""
    bench.hold(RUNNING)
    assert bench.turn() == []
    slept_on = lease_renewer._suspended_seconds() + 3600
    monkeypatch.setattr(lease_renewer, "_suspended_seconds", lambda: slept_on)
    bench.client.trouble = ServerUnavailable("gone")
    assert bench.turn() == []
    bench.client.trouble = None
    assert bench.turn() == [("renew", names(1))]
    assert bench.turn() == []
    bench.keeper._renew_at = 0.0
    assert bench.turn() == [], "it is young again"


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
