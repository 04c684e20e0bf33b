"""Dequeues in flight, and what comes of them."""

import pytest

from pinlater.client.server_clock import ServerClock
from pinlater.errors import DequeueRateLimited, NoHealthyShards, QueueNotFound, UnknownError
from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT, Identity, Layout
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.session import fetcher as fetcher_module
from pinlater.worker.session.ack_buffer import AckBuffer
from pinlater.worker.session.fetcher import Fetcher
from pinlater.worker.session.queue_acks import QueueAcks
from pinlater.worker.session.weighted_round_robin import WeightedRoundRobin
from tests.unit.worker.fakes import FakePipeline, names, reply


class Bench:
    def __init__(self, queues=("mail",), layout=SOLO_LAYOUT):
        identity = Identity("worker:me", list(queues))
        self.row = ClaimTable(1, layout).row(0)
        self.row.register(identity)
        self.pipeline = FakePipeline()
        self.ack_buffer = AckBuffer(self.pipeline, Calls("worker:me", is_plain=True), lambda _: None)
        round_robin = WeightedRoundRobin(dict.fromkeys(queues, 1))
        self.counted = []
        self.fetcher = Fetcher(
            self.pipeline,
            self.ack_buffer,
            self.row,
            identity,
            round_robin=round_robin,
            clock=ServerClock(),
            count=lambda *event: self.counted.append(event),
        )

    def fetch(self, *descriptors):
        assert self.fetcher.dequeue(0.0)
        self.pipeline.answer(reply(*descriptors))
        return self.fetcher.next_batch()

    def run(self, batch):
        for position in batch.unstarted:
            self.ack_buffer.succeeded("mail", (batch, position))
        batch.next = batch.end

    def is_short(self):
        self.fetcher.pace.record(1, 0.0001)


@pytest.fixture
def bench():
    return Bench()


def test_a_dequeue_says_what_it_wants(bench):
    bench.fetcher.pace.record(1, 0.001)
    assert bench.fetcher.dequeue(2.5)
    method, arguments, wait_seconds = bench.pipeline.sent[0]
    request = arguments.request
    assert (method, wait_seconds, arguments.context.source) == ("dequeueJobs", 2.5, "worker:me.1")
    assert (request.queueName, request.otherQueueNames, request.limit) == ("mail", None, 2)
    assert (request.waitMillis, request.claimTimeoutMillis) == (2500, 30000)


def test_every_queue_comes_first_once_in_a_round():
    bench = Bench(("a", "b", "c"))
    orders = []
    for _ in range(4):
        bench.fetch()
        orders.append([bench.pipeline.last.queueName, *bench.pipeline.last.otherQueueNames])
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_a_batch_is_in_the_claim_table_before_it_is_handed_out(bench):
    bench.fetcher.dequeue(0.0)
    bench.pipeline.answer(reply(*names(2)))
    snapshot = bench.row.snapshot()
    assert [job.descriptor for job in snapshot.batches[0].jobs] == names(2)
    assert not snapshot.unread
    assert bench.fetcher.next_batch().descriptors == names(2)
    assert bench.fetcher.next_batch() is None


def test_an_empty_reply(bench):
    assert bench.fetch() is None
    assert bench.fetcher.found_no_jobs
    assert bench.fetch(*names(1)) is not None
    assert not bench.fetcher.found_no_jobs


def test_a_dequeue_carries_acks(bench):
    bench.run(bench.fetch(*names(3)))
    bench.fetcher.dequeue(0.0)
    assert [info.jobDescriptor for info in bench.pipeline.last.jobAckRequest.jobsSucceeded] == names(3)
    bench.pipeline.answer(reply())
    assert bench.ack_buffer.is_empty


def test_nothing_is_fetched_ahead_of_long_jobs(bench):
    bench.fetch(*names(1))
    bench.fetcher.pace.record(1, 0.5)
    bench.fetcher.prefetch()
    assert bench.fetcher.in_flight == 0


def test_ahead_of_short_jobs_two_dequeues_that_do_not_wait(bench):
    bench.fetch(*names(1))
    bench.is_short()
    bench.fetcher.prefetch()
    bench.fetcher.prefetch()
    assert bench.fetcher.in_flight == 2
    assert [wait for _, _, wait in bench.pipeline.sent[1:]] == [0.0, 0.0]


def test_ahead_of_jobs_that_are_shorter_than_the_way_to_the_server(bench):
    bench.pipeline.round_trip_seconds = 0.15
    bench.fetch(*names(1))
    bench.fetcher.pace.record(1, 0.1)
    bench.fetcher.prefetch()
    assert bench.fetcher.in_flight == 2


def test_nothing_is_fetched_ahead_when_there_seems_to_be_no_more(bench):
    bench.is_short()
    bench.fetch(*names(1))  # asked for two
    bench.fetcher.prefetch()
    assert bench.fetcher.in_flight == 0


def test_a_dequeue_asks_for_no_more_than_fits_into_the_claim_table(bench):
    batches = [bench.fetch(*names(1)) for _ in range(SOLO_LAYOUT.batches - 1)]
    assert bench.fetcher.dequeue(0.0)
    assert not bench.fetcher.dequeue(0.0)
    bench.pipeline.answer(reply())
    assert len(batches) == SOLO_LAYOUT.batches - 1


def test_late_acks_give_up_their_places_for_other_jobs_the_oldest_first(bench):
    held = [bench.fetch(name) for name in names(SOLO_LAYOUT.batches)]
    for batch in held[:2]:
        late = QueueAcks("mail", succeeded=[(batch, 0)])
        bench.ack_buffer.late.add(late, Calls("me", is_plain=True).queue_names())
    assert [batch.area.is_free for batch in held[:2]] == [False, False]
    assert bench.fetcher.dequeue(0.0)
    assert [batch.area.is_free for batch in held[:2]] == [True, False]
    assert bench.fetcher.dequeue(0.0)
    assert not bench.fetcher.dequeue(0.0)


def test_replies_revoked_by_the_keeper_go_back(bench):
    bench.fetcher.dequeue(0.0)
    bench.row.revoke_dequeues()
    bench.pipeline.answer(reply(*names(2)))
    assert bench.fetcher.next_batch() is None
    bench.ack_buffer.flush()
    assert [request.jobDescriptor for request in bench.pipeline.last.requests] == names(2)


def test_lost_dequeues_are_released_before_the_next(bench):
    bench.fetcher.dequeue(0.0)
    bench.fetcher.dequeue(0.0)
    bench.pipeline.lose()
    bench.pipeline.is_open = True
    assert bench.fetcher.has_lost
    assert not bench.fetcher.dequeue(0.0)
    bench.pipeline.answers = [7, 0]
    bench.fetcher.release_lost()
    assert bench.counted == [("mail", "returned", 7)]
    calls = [(method, arguments.request.claimSource) for method, arguments, _ in bench.pipeline.sent[2:]]
    assert calls == [("releaseClaims", "worker:me.1"), ("releaseClaims", "worker:me.2")]
    assert bench.row.snapshot().is_empty
    assert bench.fetcher.dequeue(0.0)


def test_acks_do_not_wait_until_lost_dequeues_are_released(bench):
    """That is a call for each queue, and leases go on."""
    bench.run(bench.fetch(*names(2)))
    bench.fetcher.dequeue(0.0)
    bench.pipeline.lose()
    bench.pipeline.is_open = True
    before = len(bench.pipeline.sent)
    bench.fetcher.release_lost()
    assert bench.pipeline.methods[before:] == ["ackDequeuedJobs", "releaseClaims"]


def test_a_queue_that_is_gone_has_no_claims_to_be_released():
    """As with a new, empty store: the queue would never be created anew, and nothing run."""
    bench = Bench(queues=("mail", "web"))
    bench.fetcher.dequeue(0.0)
    bench.pipeline.lose()
    bench.pipeline.is_open = True
    bench.pipeline.answers = [QueueNotFound("there is no queue 'mail'"), 2]
    bench.fetcher.release_lost()
    assert bench.counted == [("web", "returned", 2)]
    assert not bench.fetcher.has_lost
    assert bench.fetcher.dequeue(0.0)


def test_claims_that_the_store_makes_late_are_released_again(bench, monkeypatch):
    now = 100.0
    monkeypatch.setattr(fetcher_module.time, "monotonic", lambda: now)
    bench.fetcher.dequeue(0.0)
    bench.pipeline.lose()
    bench.pipeline.is_open = True
    bench.pipeline.answers = [0]
    bench.fetcher.release_lost()  # the server died, and the store has not carried out yet what it had sent
    bench.fetcher.dequeue(20.0)
    assert bench.pipeline.sent[-1][2] == 1.0, "it is back in time"
    bench.pipeline.answer(reply())
    bench.fetcher.release_lost()
    assert [method for method, _, _ in bench.pipeline.sent].count("releaseClaims") == 1
    now = 101.0
    bench.pipeline.answers = [3]
    bench.fetcher.release_lost()
    assert bench.counted == [("mail", "returned", 3)]
    now = 105.0
    bench.pipeline.answers = [UnknownError("full"), 0]
    with pytest.raises(UnknownError):
        bench.fetcher.release_lost()
    bench.fetcher.release_lost()
    calls = [arguments.request.claimSource for method, arguments, _ in bench.pipeline.sent if method == "releaseClaims"]
    assert calls == ["worker:me.1"] * 4
    bench.fetcher.dequeue(20.0)
    assert bench.pipeline.sent[-1][2] == 20.0


def test_a_release_that_fails_stays_to_be_done(bench):
    bench.fetcher.dequeue(0.0)
    bench.pipeline.lose()
    bench.pipeline.is_open = True
    bench.pipeline.answers = [UnknownError("full")]
    with pytest.raises(UnknownError):
        bench.fetcher.release_lost()
    assert bench.fetcher.has_lost
    assert list(bench.row.snapshot().unread) == [1]


@pytest.mark.parametrize(
    ("refusal", "last"),
    [(DequeueRateLimited("paused"), [3.2, 5.0, 5.0]), (NoHealthyShards("none answers"), [2.0, 2.0, 2.0])],
)
def test_refused_dequeues_are_retried_with_growing_delays(bench, monkeypatch, refusal, last):
    monkeypatch.setattr(fetcher_module.time, "monotonic", lambda: 100.0)
    held = []
    for _ in range(8):
        bench.fetcher.dequeue(0.0)
        bench.pipeline.answer(refusal)
        held.append(round(bench.fetcher.retry_in_seconds, 3))
    assert held == [0.1, 0.2, 0.4, 0.8, 1.6, *last]
    bench.fetch()
    bench.fetcher.dequeue(0.0)
    bench.pipeline.answer(DequeueRateLimited("paused"))
    assert round(bench.fetcher.retry_in_seconds, 3) == 0.1


def test_a_dequeue_that_waited_for_the_rate_at_the_server_is_sent_again_at_once(bench, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(fetcher_module.time, "monotonic", lambda: now[0])
    bench.fetcher._clock = ServerClock(elapsed=lambda: now[0])
    for waited, held in ((0.0, 0.1), (1.0, 0.0), (1.0, 0.0), (0.5, 0.1), (0.5, 0.2)):
        bench.fetcher.dequeue(1.0, 1)
        sent = bench.pipeline.sent[-1]
        now[0] += waited
        bench.pipeline.answer(DequeueRateLimited("at its rate"))
        assert bench.fetcher.is_rate_limited
        assert (sent[2], round(bench.fetcher.retry_in_seconds, 3)) == (1.0, held)
        now[0] += held
    bench.fetch()
    assert not bench.fetcher.is_rate_limited


def test_a_repeated_problem_is_logged_once(bench, caplog):
    for _ in range(3):
        bench.fetcher.dequeue(0.0)
        bench.pipeline.answer(UnknownError("the disk is full"))
    assert [record.getMessage() for record in caplog.records] == [
        "the server gives out no jobs: the disk is full; retrying"
    ]


def test_missing_queues_are_created(bench):
    bench.fetcher.dequeue(0.0)
    bench.pipeline.answer(QueueNotFound("no queue mail"))
    assert bench.fetcher.lacks_queue
    bench.pipeline.answers = [["other"], None]
    bench.fetcher.create_queues()
    assert bench.pipeline.methods[1:] == ["getQueueNames", "createQueue"]
    assert bench.pipeline.sent[-1][1].name == "mail"
    assert not bench.fetcher.lacks_queue


def test_all_that_was_not_begun_goes_back(bench):
    bench.fetcher.dequeue(0.0)
    bench.fetcher.dequeue(0.0)
    bench.pipeline.answer(reply(*names(2)))
    bench.pipeline.answer(reply(*names(1, "web")))
    bench.fetcher.release_all()
    bench.ack_buffer.flush()
    assert bench.pipeline.methods[2:] == ["checkpointJobs", "checkpointJobs"]
    assert bench.fetcher.next_batch() is None


# Each job a batch by itself


@pytest.fixture
def team():
    return Bench(layout=Layout(batches=5, batch_jobs=1, batch_bytes=512))


def test_no_more_is_asked_for_than_is_wanted_and_has_room(team):
    assert team.fetcher.dequeue(2.5, 3)
    assert team.pipeline.last.limit == 3
    assert not team.fetcher.dequeue(0.0, 3), "there is room for two"
    assert team.fetcher.dequeue(0.0, 2)
    team.pipeline.answer(reply())
    assert team.fetcher.dequeue(0.0, 3)


def test_each_job_of_a_reply_is_a_batch(team):
    team.fetcher.dequeue(0.0, 3)
    team.pipeline.answer(reply(*names(3)))
    assert (team.fetcher.waiting, team.fetcher.has_backlog) == (3, True)
    assert 0 < team.fetcher.oldest_ns <= team.row.snapshot().batches[0].fetched_ns
    batches = [team.fetcher.next_batch() for _ in range(3)]
    assert [batch.descriptors for batch in batches] == [[name] for name in names(3)]
    assert len({batch.claim for batch in batches}) == 1
    assert team.row.free_areas == 2
    team.run(batches[1])
    assert team.fetcher.dequeue(0.0, 2), "the ack rides"
    team.pipeline.answer(reply())
    assert team.row.free_areas == 3


def test_a_revoked_reply_of_several_goes_back_whole(team):
    team.fetcher.dequeue(0.0, 3)
    team.row.revoke_dequeues()
    team.pipeline.answer(reply(*names(3)))
    assert team.fetcher.next_batch() is None
    team.ack_buffer.flush()
    assert [item.jobDescriptor for item in team.pipeline.last.requests] == names(3)
