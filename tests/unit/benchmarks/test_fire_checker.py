"""The checker of fires finds each kind of violation that is made, and none where all is well."""

import math

import pytest

from benchmarks.fire.checker import latest_return, longest_wait, undelivered, violations
from benchmarks.fire.evidence import Disturbance, Ending, Evidence, Holding, StoredJob, read_evidence
from benchmarks.fire.journal import Journal, read_journals
from benchmarks.fire.queues import QUEUES, JobName
from pinlater import JobState

LEASE = 3.0


class Case:
    """Evidence in which all is well until a test adds to it. Moments are seconds; each job is stored at 0."""

    def __init__(self):
        self.evidence = Evidence()

    def job(self, queue, number=1, key="", *, state=JobState.SUCCEEDED, spent=0, stored=0.0):
        name = JobName(queue, key, number)
        job = f"{queue}:s1:p1:{key}{number}"
        self.evidence.stored[job] = StoredJob(name, stored, stored)
        self.evidence.endings[job] = Ending(state, spent)
        return job

    def held(self, job, begins, ends, holder="ada", *, is_success=True, asked=None, acked=None, lease=LEASE):
        name = self.evidence.stored[job].name
        asked = begins if asked is None else asked
        acked = ends if acked is None and is_success else acked
        one = Holding(job, name, holder, asked, begins, ends, asked + lease, is_success, acked)
        self.evidence.holdings = sorted([*self.evidence.holdings, one], key=lambda other: other.begins)

    @property
    def kinds(self):
        return [violation.kind for violation in violations(self.evidence)]


@pytest.fixture
def case():
    case = Case()
    for number in range(5):
        case.held(case.job("plain", number), 1.0 + number, 1.5 + number)
    return case


def test_where_all_is_well_it_finds_nothing(case):
    for number in range(3):
        case.held(case.job("ordered", number, "o1"), 1.0 + number, 2.0 + number)
        case.held(case.job("limited", number, "l1"), 1.0 + number / 2, 1.9 + number / 2)
    job = case.job("plain", 9, spent=1)
    case.held(job, 1.0, math.inf, is_success=False)
    case.held(job, 4.1, 4.2, "bob")
    assert case.kinds == []


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.IN_PROGRESS, JobState.FAILED])
def test_a_job_that_was_not_done_is_lost(case, state):
    case.job("plain", 7, state=state)
    assert case.kinds == ["lost"]


def test_a_job_that_is_gone_is_lost(case):
    del case.evidence.endings[case.job("plain", 7)]
    assert case.kinds == ["lost"]


def test_a_job_that_succeeded_without_being_done_is_lost(case):
    case.job("plain", 7)
    assert case.kinds == ["lost"]


def test_a_job_that_was_given_up_is_lost_if_it_had_attempts_left(case):
    attempts = QUEUES["meddled_ordered"].attempts
    case.job("meddled_ordered", 7, "k1", state=JobState.FAILED, spent=attempts - 1)
    assert case.kinds == ["lost", "attempt spent for nothing"]
    case.evidence.unnoted["meddled_ordered"] = 2 * attempts
    case.job("meddled_ordered", 8, "k1", state=JobState.FAILED, spent=attempts)
    assert case.kinds == ["lost"]


def test_a_job_that_somebody_removed_is_not_lost(case):
    gone, cancelled = case.job("meddled_ordered", 7, "k1"), case.job("meddled_ordered", 8, "k2", state=JobState.FAILED)
    del case.evidence.endings[gone]
    assert case.kinds == ["lost", "lost"]
    case.evidence.removed = {gone: 1.0, cancelled: 1.0}
    assert case.kinds == []


def test_a_job_that_is_there_twice_is_named_unless_a_shard_was_away(case):
    first = case.job("plain", 7)
    case.evidence.stored[f"{first}0"] = case.evidence.stored[first]
    case.evidence.endings[f"{first}0"] = Ending(JobState.SUCCEEDED, 0)
    case.held(first, 1.0, 1.1)
    case.held(f"{first}0", 2.0, 2.1)
    assert case.kinds == ["stored twice"]
    case.evidence.disturbances = [Disturbance("kill_store", 0.0, 1.0)]
    assert case.kinds == []


def test_two_holders_of_a_live_claim_are_named(case):
    job = case.job("plain", 7)
    case.held(job, 1.0, 2.0, is_success=False)
    case.held(job, 1.9, 2.5, "bob")
    assert case.kinds == ["held by two"]


def test_the_next_holder_after_a_lease_is_no_second_one(case):
    job = case.job("plain", 7)
    case.held(job, 1.0, 9.0, is_success=False)
    case.held(job, 4.0, 5.0, "bob")
    assert case.kinds == []


def test_a_job_that_is_handed_out_after_its_ack_was_answered_is_named(case):
    job = case.job("plain", 7)
    case.held(job, 1.0, 1.5, acked=1.6)
    case.held(job, 2.0, 2.5, "bob")
    assert case.kinds == ["done again"]


def test_an_ack_that_was_never_answered_allows_another_run(case):
    job = case.job("plain", 7)
    case.held(job, 1.0, 1.5, acked=math.inf)
    case.held(job, 4.2, 4.5, "bob")
    assert case.kinds == []


@pytest.mark.parametrize(("queue", "key"), [("ordered", "o1"), ("fifo", "all")])
def test_a_job_that_begins_before_those_ahead_of_it_have_been_done_is_out_of_order(case, queue, key):
    first, second = case.job(queue, 1, key), case.job(queue, 2, key)
    case.held(second, 1.0, 1.1)
    case.held(first, 2.0, 2.1)
    assert case.kinds == ["out of order"]


def test_a_job_that_overtakes_a_retry_is_out_of_order(case):
    first, second = case.job("ordered", 1, "o1"), case.job("ordered", 2, "o1")
    case.held(first, 1.0, 1.1, is_success=False)
    case.held(second, 1.2, 1.3)
    case.held(first, 1.4, 1.5)
    assert case.kinds == ["out of order"]


def test_a_job_whose_enqueue_was_not_answered_has_no_place_in_the_order(case):
    first, second = case.job("ordered", 1, "o1"), case.job("ordered", 2, "o1")
    case.held(second, 1.0, 1.1)
    case.held(first, 2.0, 2.1)
    del case.evidence.stored[first]
    assert case.kinds == []


def ordered_jobs(case):
    """Return two jobs of an ordered key; the second one began at 2 s, and the first one did not succeed."""
    first, second = case.job("meddled_ordered", 1, "k1"), case.job("meddled_ordered", 2, "k1")
    case.held(second, 2.0, 2.1)
    del case.evidence.endings[first]
    case.evidence.removed[first] = 1.0
    return first, second


def test_a_job_may_begin_once_somebody_has_asked_to_remove_the_one_ahead_of_it(case):
    first, _ = ordered_jobs(case)
    assert case.kinds == []
    case.evidence.removed[first] = 2.05
    assert case.kinds == ["out of order"]


@pytest.mark.parametrize(("ends", "kinds"), [(1.9, []), (2.05, ["out of order"])])
def test_a_job_may_begin_once_the_last_attempt_of_the_one_ahead_of_it_has_ended(case, ends, kinds):
    first, _ = ordered_jobs(case)
    del case.evidence.removed[first]
    case.evidence.endings[first] = Ending(JobState.FAILED, QUEUES["meddled_ordered"].attempts)
    for begins in (1.0, 1.2):
        case.held(first, begins, begins + 0.1, is_success=False)
    case.held(first, 1.4, ends, is_success=False)
    assert [kind for kind in case.kinds if kind != "over the limit"] == kinds


def test_a_job_that_was_retried_by_hand_has_no_place_in_the_order(case):
    first, second = case.job("meddled_ordered", 1, "k1"), case.job("meddled_ordered", 2, "k1")
    case.held(second, 1.0, 1.1)
    case.held(first, 2.0, 2.1)
    assert case.kinds == ["out of order"]
    case.evidence.retried = {first}
    assert case.kinds == []


def test_more_jobs_of_a_key_than_its_limit_are_named(case):
    for number, begins in enumerate([1.0, 1.1, 1.2]):
        case.held(case.job("limited", number, "l1"), begins, 2.0)
    assert case.kinds == ["over the limit"]


def test_jobs_whose_leases_are_over_do_not_count_against_the_limit(case):
    for number, begins in enumerate([1.0, 1.1, 4.2]):
        case.held(case.job("limited", number, "l1"), begins, 9.0)
    assert case.kinds == []


def handed_out(case, count, seconds):
    for number in range(count):
        moment = 1.0 + seconds * number / count
        case.held(case.job("rated", number), moment, moment + 0.01)


def test_a_queue_that_keeps_to_its_rate_may_begin_with_what_it_saved(case):
    handed_out(case, round(QUEUES["rated"].jobs_per_second * 11), seconds=10.0)
    assert case.kinds == []


def test_a_queue_that_hands_out_more_than_its_rate_is_named(case):
    handed_out(case, round(QUEUES["rated"].jobs_per_second * 13), seconds=10.0)
    assert "over the rate" in case.kinds


@pytest.mark.parametrize(("share", "kinds"), [(1.0, []), (1.2, ["over the rate of a key"])])
def test_a_key_that_is_started_more_often_than_its_rate_is_named(case, share, kinds):
    interval = 1 / QUEUES["paced"].starts_per_second / share
    for number in range(20):
        case.held(case.job("paced", number, "k1"), 1.0 + number * interval, 1.01 + number * interval)
    assert sorted(set(case.kinds)) == kinds


def test_each_outage_but_the_first_may_have_left_a_full_bucket(case):
    handed_out(case, round(QUEUES["rated"].jobs_per_second * 12), seconds=10.0)
    case.evidence.disturbances = [Disturbance("kill_store", 5.0, 6.0)]
    assert "over the rate" in case.kinds
    case.evidence.disturbances += [Disturbance("cut_server", 5.5, 6.5)]
    assert case.kinds == []


def test_jobs_that_may_have_been_claimed_long_before_do_not_break_the_rate(case):
    for number in range(50):
        case.held(case.job("rated", number), 9.0, 9.1, asked=0.0, lease=20.0)
    assert case.kinds == []


def test_an_attempt_that_nobody_was_handed_was_spent_for_nothing(case):
    job = case.job("plain", 7, spent=1)
    case.held(job, 5.0, 5.1)
    assert case.kinds == ["attempt spent for nothing"]
    assert undelivered(case.evidence) == {job: 1}


@pytest.mark.parametrize("what", ["unnoted", "unanswered"])
def test_an_attempt_that_somebody_may_have_been_handed_is_none_of_these(case, what):
    case.held(case.job("plain", 7, spent=1), 5.0, 5.1)
    getattr(case.evidence, what)["plain"] = 1
    assert case.kinds == []
    case.held(case.job("plain", 8, spent=1), 6.0, 6.1)
    assert case.kinds == ["attempt spent for nothing"]


def test_workers_lose_no_attempt_unless_they_are_killed_themselves(case):
    case.held(case.job("worker_plain", 7, spent=1), 5.0, 5.1)
    assert case.kinds == ["attempt spent for nothing"]
    case.evidence.disturbances = [Disturbance("kill_worker", 0.0, 1.0)]
    assert case.kinds == []


@pytest.mark.parametrize("kind", ["freeze_store", "cut_server"])
def test_nobody_can_give_back_a_claim_while_the_store_is_out_of_reach_for_longer_than_its_lease(case, kind):
    case.held(case.job("plain", 7, spent=1), 5.0, 5.1)
    case.evidence.disturbances = [Disturbance(kind, 1.0, 1.0 + LEASE - 0.5)]
    assert case.kinds == ["attempt spent for nothing"]
    case.evidence.disturbances = [Disturbance(kind, 1.0, 1.0 + LEASE + 0.5)]
    assert case.kinds == []


def test_waits_are_measured_from_the_store_s_return(case):
    case.held(case.job("plain", 7, stored=1.0), 9.0, 9.1)
    assert longest_wait(case.evidence) == (8.0, JobName("plain", "", 7))
    case.evidence.disturbances = [Disturbance("kill_store", 2.0, 8.5)]
    assert longest_wait(case.evidence)[1] != JobName("plain", "", 7)


def test_returns_are_measured_from_the_end_of_the_lease(case):
    job = case.job("plain", 7, spent=1)
    case.held(job, 1.0, math.inf, is_success=False)
    case.held(job, 4.5, 4.6, "bob")
    assert latest_return(case.evidence) == pytest.approx(0.5)


def test_journals_become_evidence(tmp_path):
    producer, consumer, process = (Journal(tmp_path, name) for name in ("ada", "bob", "cyd"))
    producer.write("enqueue", at=1.0, call="1")
    producer.write("stored", at=1.1, call="1", jobs={"plain:s1:p1:1": "plain||0", "worker_plain:s1:p1:2": "plain||1"})
    consumer.write("ask", at=1.0, call="1", queues=["plain"], limit=3, lease=LEASE)
    consumer.write("got", at=1.2, call="1", jobs=[("plain:s1:p1:1", "claim", "plain||0")])
    consumer.write("end", at=1.3, job="plain:s1:p1:1", claim="claim", is_success=True)
    consumer.write("ended", at=1.4, job="plain:s1:p1:1", claim="claim")
    consumer.write("ask", at=1.5, call="2", queues=["plain"], limit=1, lease=LEASE)
    consumer.write("lost", at=1.6, call="2", is_doubtful=True)
    consumer.write("ask", at=1.7, call="3", queues=["plain", "rated"], limit=3, lease=LEASE)
    producer.write("meddle", at=1.2, action="delete", jobs=["plain:s1:p1:1"])
    producer.write("meddle", at=1.3, action="cancel", jobs=["plain:s1:p1:1"])
    producer.write("meddle", at=1.4, action="retry", jobs=["plain:s1:p1:3"])
    producer.write("meddle", at=1.5, action="run now", jobs=["plain:s1:p1:4"])
    process.write("run", at=2.0, run=1, job="worker_plain:s1:p1:2", name="plain||1", attempt=1)
    process.write("done", at=2.5, run=1, job="worker_plain:s1:p1:2", is_success=True)
    evidence = read_evidence(read_journals(tmp_path), [Disturbance("cut_server", 30.0, 31.0)], LEASE)
    name = JobName("plain", "", 0)
    assert evidence.stored["plain:s1:p1:1"] == StoredJob(name, 1.0, 1.1)
    held, ran = evidence.holdings
    assert held == Holding("plain:s1:p1:1", name, "bob", 1.0, 1.2, 1.3, 4.0, True, 1.4)
    assert (ran.begins, ran.ends, ran.until, ran.acked) == (2.0, 2.5, 31.0, 2.5 + LEASE)
    assert (evidence.removed, evidence.retried) == ({"plain:s1:p1:1": 1.2}, {"plain:s1:p1:3"})
    assert (evidence.unanswered, evidence.unnoted) == ({"plain": 1}, {"plain": 3, "rated": 3})


def test_a_run_in_the_middle_of_trouble_proves_nothing(tmp_path):
    process = Journal(tmp_path, "cyd")
    process.write("run", at=5.0, run=1, job="worker_plain:s1:p1:2", name="worker_plain||1", attempt=1)
    evidence = read_evidence(read_journals(tmp_path), [Disturbance("freeze_server", 3.0, 4.0)], LEASE)
    assert evidence.holdings[0].sure_end == 5.0
