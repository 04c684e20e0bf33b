"""Messages: kept with their job in the order of arrival; a job that sleeps until one comes misses none."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.model.messages import Message, MessageKind, MessageWait, ReceivedMessage
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from tests.support.bench import FAR_MS, LEASE_MS, QUEUE, checkpoint_of, new_job

HOUR_MS = 3_600_000
EVENT = MessageKind.EVENT


def numbers(messages):
    return [(one.number, one.id) for one in messages]


# Stored and read


PAYLOADS = {"json": b'{"by": "ada"}', "empty": b"", "no utf-8": b"\xff\0\xfe", "large": bytes(range(256)) * 1024}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS])
def test_a_job_has_what_was_sent_to_it(backend, payload, state):
    descriptor = backend.put_one() if state == PENDING else backend.started()[0]
    before = backend.look(descriptor)
    assert backend.send(descriptor, "approval", "first", payload)
    assert backend.read(descriptor, "approval") == [ReceivedMessage(1, "first", payload, EVENT)]
    assert backend.look(descriptor)[:7] == before[:7]


def test_messages_are_numbered_in_the_order_of_arrival_by_job_and_name(backend):
    one, other = backend.put(new_job(), new_job(priority=2))
    for name, message_id in (("go", "z"), ("stop", "z"), ("go", "a"), ("go", "m")):
        assert backend.send(one, name, message_id)
    assert backend.send(other, "go", "z")
    assert numbers(backend.read(one, "go")) == [(1, "z"), (2, "a"), (3, "m")]
    assert numbers(backend.read(one, "stop")) == [(1, "z")]
    assert numbers(backend.read(other, "go")) == [(1, "z")]
    assert backend.read(other, "stop") == []


def test_a_second_message_with_the_same_id_changes_nothing(backend):
    descriptor = backend.put_one()
    assert backend.send(descriptor, "go", "1", b"first")
    assert backend.send(descriptor, "go", "1", b"second")
    assert backend.send(descriptor, "go", "2", b"third")
    assert backend.read(descriptor) == [
        ReceivedMessage(1, "1", b"first", EVENT),
        ReceivedMessage(2, "2", b"third", EVENT),
    ]


def test_many_senders_at_once(backend):
    descriptor = backend.put_one()

    def send(number):
        return lambda: backend.backend.send_message(
            JobDescriptor.parse(descriptor), Message("go", f"{number % 10}", b"%d" % number)
        )

    assert backend.together(*map(send, range(30))) == [True] * 30
    found = backend.read(descriptor)
    assert [one.number for one in found] == list(range(1, 11))
    assert {one.id for one in found} == {str(number) for number in range(10)}


ALIKE = [
    "go",
    "GO",
    "gö",
    "go ",
    " go",
    "go%",
    "g_o",
    '"go"',
    "go\n",
    "日本",
    "🚀",
    "🛰",
    "x" * 200,
    "🚀" * 200,
    "x" * 199 + "y",
]
"""Names that a database may take for one another."""


def test_names_and_ids_are_compared_character_by_character(backend):
    descriptor = backend.put_one()
    for text in ALIKE:
        assert backend.send(descriptor, text, "1", text.encode())
        assert backend.send(descriptor, "ids", text)
    for text in ALIKE:
        assert backend.read(descriptor, text) == [ReceivedMessage(1, "1", text.encode(), EVENT)]
    assert [one.id for one in backend.read(descriptor, "ids")] == ALIKE


def test_a_page_at_a_time(backend):
    descriptor = backend.put_one()
    for number in range(1, 12):
        backend.send(descriptor, "go", f"id {number}", b"x" * 1000)
    assert [one.number for one in backend.read(descriptor, limit=4)] == [1, 2, 3, 4]
    assert [one.number for one in backend.read(descriptor, after=4, limit=4)] == [5, 6, 7, 8]
    assert [one.number for one in backend.read(descriptor, after=8, limit=4)] == [9, 10, 11]
    assert backend.read(descriptor, after=11) == []
    assert backend.read(descriptor, limit=0) == []


def test_a_page_has_no_more_than_fits_but_one_message_at_least(backend):
    descriptor = backend.put_one()
    for number in range(1, 8):
        backend.send(descriptor, "go", str(number), b"x" * 100_000)
    assert [one.number for one in backend.read(descriptor, max_bytes=350_000)] == [1, 2, 3]
    assert [one.number for one in backend.read(descriptor, after=3, max_bytes=1)] == [4]
    assert len(backend.read(descriptor, max_bytes=10**6)) == 7


@pytest.mark.parametrize("state", [SUCCEEDED, FAILED])
def test_a_finished_job_gets_none_but_keeps_what_it_has(backend, state):
    descriptor, _ = backend.started()
    backend.send(descriptor, "go", "1", b"before")
    backend.ack(descriptor) if state == SUCCEEDED else backend.fail(descriptor, is_final=True)
    assert not backend.send(descriptor, "go", "2")
    assert not backend.send(descriptor, "go", "1")
    assert backend.read(descriptor) == [ReceivedMessage(1, "1", b"before", EVENT)]


def test_a_job_that_is_not_there_gets_none(backend):
    backend.create_queue("deleted")
    in_deleted = backend.put_one(queue="deleted")
    backend.delete_queue("deleted")
    there, gone = backend.put_one(priority=2), backend.put_one()
    backend.delete(PENDING)
    for name in (gone, in_deleted, there.replace(":p2:", ":p1:"), f"{QUEUE}:s1:p1:999999", "nowhere:s1:p1:1"):
        assert not backend.send(name)
        assert backend.read(name) == []


def test_a_job_that_is_tried_again_keeps_its_messages(backend):
    descriptor, _ = backend.started()
    backend.send(descriptor, "go", "1")
    backend.fail(descriptor, is_final=True)
    backend.retry()
    backend.send(descriptor, "go", "1")
    backend.send(descriptor, "go", "2")
    assert numbers(backend.read(descriptor)) == [(1, "1"), (2, "2")]


DELETED = {
    "collected": lambda backend, name: (
        backend.ack(name),
        backend.clock.advance(10),
        backend.collect_finished(1, 1, 10),
    ),
    "deleted": lambda backend, _: backend.delete(IN_PROGRESS),
    "deleted by name": lambda backend, name: backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(name)], IN_PROGRESS),
    "deleted with its queue": lambda backend, _: backend.delete_queue(QUEUE),
}


@pytest.mark.parametrize("way", DELETED.values(), ids=DELETED)
def test_messages_go_with_their_job(backend, way):
    descriptor, _ = backend.started()
    backend.send(descriptor)
    way(backend, descriptor)
    assert backend.read(descriptor) == []
    backend.create_queue(QUEUE)
    assert backend.read(descriptor) == []
    assert not backend.send(descriptor)


def test_they_survive_a_crash(backend):
    descriptor = backend.asleep(("go", 2))
    backend.send(descriptor, "go", "1", b"\0kept")
    backend.crash()
    assert backend.send(descriptor, "go", "1")
    assert backend.take() == []
    assert backend.read(descriptor) == [ReceivedMessage(1, "1", b"\0kept", EVENT)]
    assert backend.send(descriptor, "go", "2")
    assert backend.take_names() == [descriptor]


# Asleep


def test_a_message_ends_the_sleep(backend, woken):
    descriptor = backend.asleep(("go", 1), body=b"asleep", attempts=3)
    assert backend.take() == []
    now = backend.clock.advance(10)
    assert backend.send(descriptor)
    woken.wait_for((QUEUE, 1))
    [job] = backend.take()
    assert (job.descriptor, job.body, job.attempts_remaining, job.run_after_ms) == (descriptor, b"asleep", 3, now)


def test_a_message_that_came_before_the_sleep_makes_it_due_at_once(backend):
    descriptor, claim = backend.started()
    backend.send(descriptor)
    assert backend.take() == []
    settled = backend.sleep(descriptor, ("go", 1), claim=claim)
    assert (settled.changed, settled.due_ms) == (1, backend.clock.now_ms)
    assert backend.take_names() == [descriptor]


@pytest.mark.parametrize("is_message_first", [False, True])
def test_a_message_at_the_same_moment_as_the_sleep(backend, is_message_first):
    for _ in range(5):
        descriptor, claim = backend.started()
        item = checkpoint_of(
            descriptor, claim=claim, move_to_pending=True, run_after_ms=FAR_MS, waits_for=[MessageWait("go", 1)]
        )
        calls = [
            lambda item=item: backend.backend.checkpoint_jobs(QUEUE, [item]),
            lambda name=descriptor: backend.backend.send_message(JobDescriptor.parse(name), Message("go", "1", b"")),
        ]
        settled, is_sent = backend.together(*calls) if not is_message_first else backend.together(*calls[::-1])[::-1]
        assert (settled.changed, is_sent) == (1, True)
        assert backend.take_names() == [descriptor]


def test_it_sleeps_until_so_many_have_arrived_those_included_that_it_has_read(backend, woken):
    descriptor, claim = backend.started()
    backend.send(descriptor, "go", "1")
    assert numbers(backend.read(descriptor)) == [(1, "1")]
    backend.sleep(descriptor, ("go", 3), claim=claim)
    assert backend.take() == []
    backend.send(descriptor, "go", "2")
    backend.send(descriptor, "go", "2")
    assert backend.take() == []
    backend.send(descriptor, "go", "3")
    woken.wait_for((QUEUE, 1))
    assert backend.take_names() == [descriptor]


def test_one_of_several_waits_is_enough(backend):
    descriptor = backend.asleep(("never", 1), ("go", 2), ("x" * 200, 1), ("🚀" * 200, 1))
    backend.send(descriptor, "go", "1")
    backend.send(descriptor, "GO", "1")
    assert backend.take() == []
    backend.send(descriptor, "🚀" * 200, "1")
    [job] = backend.take()
    assert job.descriptor == descriptor
    claim = backend.look(descriptor).claim
    backend.sleep(descriptor, ("never", 1), ("go", 1), claim=claim)
    assert backend.take_names() == [descriptor], "one is fulfilled since long ago"


def test_it_wakes_at_its_time_without_a_message(backend):
    descriptor = backend.asleep(("go", 1), until_ms=backend.clock.now_ms + HOUR_MS)
    backend.clock.advance(HOUR_MS - 1)
    assert backend.take() == []
    backend.clock.advance(1)
    assert backend.take_names() == [descriptor]


def test_what_it_waits_for_is_shown_while_it_sleeps(backend):
    waits = [MessageWait("go", 2), MessageWait("日本 ", 7)]
    descriptor, claim = backend.started()
    backend.sleep(descriptor, *waits, claim=claim, until_ms=FAR_MS)
    found = backend.look(descriptor)
    assert (found.state, [*found.waits_for], found.run_after_ms) == (PENDING, waits, FAR_MS)
    assert [[*job.waits_for] for job in backend.scan().jobs] == [waits]
    backend.clock.now_ms = FAR_MS
    backend.take()
    assert backend.look(descriptor).waits_for == ()


def test_without_a_claim_the_source_is_enough(backend):
    descriptor, _ = backend.started()
    assert backend.sleep(descriptor, ("go", 1)).changed == 1
    assert backend.take() == []
    backend.send(descriptor)
    assert backend.take_names() == [descriptor]


def test_who_does_not_hold_it_cannot_let_it_sleep(backend):
    descriptor, claim = backend.started()
    assert backend.sleep(descriptor, ("go", 1), claim=backend.claim().descriptor).stale == 1
    found = backend.look(descriptor)
    assert (found.state, found.waits_for, found.claim) == (IN_PROGRESS, (), claim)


def test_a_message_leaves_a_job_alone_that_is_due_or_runs(backend):
    descriptor = backend.asleep(("go", 1), until_ms=backend.clock.now_ms + 10)
    due = backend.clock.advance(10)
    backend.clock.advance(10)
    backend.send(descriptor, "go", "1")
    assert backend.look(descriptor).run_after_ms == due
    assert backend.take_names() == [descriptor]
    backend.send(descriptor, "go", "2")
    assert backend.state(descriptor) == IN_PROGRESS


def test_a_job_for_later_that_does_not_sleep_is_not_woken(backend):
    descriptor = backend.put_one(run_after_ms=FAR_MS)
    backend.send(descriptor)
    assert backend.take() == []


LEFT = {
    "failed": lambda backend, name: backend.fail(name, retry_delay_ms=HOUR_MS),
    "given back for later": lambda backend, name: backend.checkpoint(
        name, move_to_pending=True, run_after_ms=backend.clock.now_ms + HOUR_MS
    ),
    "asleep for something else": lambda backend, name: backend.sleep(
        name, ("other", 1), until_ms=backend.clock.now_ms + HOUR_MS
    ),
}


@pytest.mark.parametrize("way", LEFT.values(), ids=LEFT)
def test_what_it_waited_for_before_wakes_it_no_more(backend, way):
    descriptor = backend.asleep(("go", 1), until_ms=backend.clock.now_ms + 10, attempts=5)
    backend.clock.advance(10)
    assert backend.take_names() == [descriptor]
    way(backend, descriptor)
    backend.send(descriptor)
    assert backend.take() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [descriptor]


@pytest.mark.parametrize("way", ["claimed for several", "claimed by one"])
def test_a_claim_takes_the_waits_away(backend, way):
    names = [backend.asleep(("go", 1), until_ms=backend.clock.now_ms + 10) for _ in range(4)]
    backend.clock.advance(10)
    if way == "claimed by one":
        backend.take()
    else:
        backend.together(*[lambda: backend.backend.dequeue_jobs(QUEUE, 2, backend.claim()) for _ in range(2)])
    assert [backend.look(name).waits_for for name in names] == [()] * 4


def test_a_job_whose_holder_died_sleeps_no_more(backend):
    descriptor = backend.asleep(("go", 1))
    backend.send(descriptor)
    backend.take()
    backend.clock.advance(LEASE_MS)
    backend.reap()
    assert backend.take_names() == [descriptor]


def test_run_now_by_hand_ends_the_sleep(backend):
    descriptor = backend.asleep(("go", 1))
    assert backend.schedule_jobs(QUEUE, [JobDescriptor.parse(descriptor)], None) == 1
    assert backend.take_names() == [descriptor]


def test_nobody_is_woken_twice(backend, woken):
    descriptor = backend.asleep(("go", 1))
    backend.send(descriptor, "go", "1")
    backend.clock.advance(10)
    backend.send(descriptor, "go", "2")
    assert backend.take_names() == [descriptor]
    other = backend.asleep(("go", 1), priority=2)
    backend.send(other, "go", "1")
    woken.wait_for((QUEUE, 1), (QUEUE, 1))


def test_many_sleepers_and_messages_for_some(backend):
    names = backend.put(*[new_job(priority=number % 3 + 1) for number in range(40)])
    backend.take()
    backend.checkpoint_jobs(
        QUEUE,
        [
            checkpoint_of(name, move_to_pending=True, run_after_ms=FAR_MS, waits_for=[MessageWait("go", 1)])
            for name in names
        ],
    )
    assert backend.take() == []
    called = names[5:25]
    backend.together(
        *[
            lambda name=name: backend.backend.send_message(JobDescriptor.parse(name), Message("go", "1", b""))
            for name in called
        ]
    )
    assert sorted(backend.take_names()) == sorted(called)


# Sleeping jobs with a key


def test_a_sleeping_job_of_a_limited_key_lets_others_run_and_waits_for_its_turn_when_woken(backend):
    key = JobKey("a", 1)
    sleeper = backend.asleep(("go", 1), key=key)
    other = backend.put_one(key=key)
    assert backend.take_names() == [other]
    backend.send(sleeper)
    assert backend.take() == []
    backend.ack(other)
    assert backend.take_names() == [sleeper]


def test_a_woken_job_of_a_limited_key_goes_ahead_of_one_that_is_scheduled(backend):
    key = JobKey("a", 1)
    sleeper = backend.asleep(("go", 1), key=key)
    later = backend.put_one(key=key, run_after_ms=backend.clock.now_ms + HOUR_MS)
    backend.send(sleeper)
    assert backend.take_names() == [sleeper]
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == []
    backend.ack(sleeper)
    assert backend.take_names() == [later]


@pytest.mark.parametrize("key", [JobKey("a"), JobKey("a", 1), JobKey("a", 1, is_ordered=True)])
def test_a_woken_job_with_a_key_runs(backend, key, woken):
    sleeper = backend.asleep(("go", 1), key=key)
    assert backend.take() == []
    backend.send(sleeper)
    woken.wait_for((QUEUE, 1))
    assert backend.look(sleeper).run_after_ms < WAITS_FOR_KEY_MS
    assert backend.take_names() == [sleeper]


def test_a_sleeping_job_of_an_ordered_key_holds_up_those_behind_it(backend):
    key = JobKey("a", 1, is_ordered=True)
    sleeper = backend.asleep(("go", 1), key=key)
    second = backend.put_one(key=key)
    assert backend.take() == []
    backend.send(sleeper)
    assert backend.take_names() == [sleeper]
    backend.ack(sleeper)
    assert backend.take_names() == [second]
