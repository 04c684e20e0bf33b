"""What a server tells others of a poll of all queues: each message by itself, and never more than it knows."""

import pytest

from pinlater.server.backends.poll_of_all import LAST_NUMBER, PollOfAll, digest_of_shards, queue_number
from pinlater.server.clock import elapsed_seconds
from pinlater.server.peer_processes.poll_message import poll_in, poll_messages

NOW_MS = 1_700_000_000_000
MOST_BYTES = 1200


def polled(due, ago=0.0):
    return PollOfAll(elapsed_seconds() - ago, dict.fromkeys(due, NOW_MS), frozenset({"1", "2"}), is_whole=True)


def news_of(due, most_bytes=MOST_BYTES):
    messages = list(poll_messages(polled(due), NOW_MS, most_bytes))
    assert max(map(len, messages), default=0) <= most_bytes
    return [poll_in(message) for message in messages]


@pytest.mark.parametrize("count", [0, 1, 137, 138, 1000])
def test_all_queues_but_those_with_jobs_are_told_to_be_empty(count):
    due, others = [f"due{number}" for number in range(count)], [f"idle{number}" for number in range(500)]
    taken = set(map(queue_number, due))
    news = news_of(due)
    assert not any(one.tells_empty(queue) for one in news for queue in due)
    empty = [queue for queue in others if any(one.tells_empty(queue) for one in news)]
    assert empty == [queue for queue in others if queue_number(queue) not in taken]


def test_a_message_that_is_lost_tells_of_no_queue():
    due, others = [f"due{number}" for number in range(300)], [f"idle{number}" for number in range(500)]
    lost, *received = news_of(due)
    assert not any(one.tells_empty(queue) for one in received for queue in due)
    silent = [queue for queue in others if not any(one.tells_empty(queue) for one in received)]
    assert silent == [queue for queue in others if lost.first <= queue_number(queue) <= lost.last]
    assert silent


def test_the_ranges_of_messages_have_no_gaps():
    news = news_of([f"due{number}" for number in range(1000)])
    assert (news[0].first, news[-1].last) == (0, LAST_NUMBER)
    assert [one.first for one in news[1:]] == [one.last + 1 for one in news[:-1]]


def test_if_very_many_queues_have_jobs_nothing_is_told():
    assert news_of([f"due{number}" for number in range(20_000)]) == []


def test_it_tells_when_the_poll_began_and_of_which_shards_it_is():
    [message] = poll_messages(polled([], ago=2.0), NOW_MS, MOST_BYTES)
    news = poll_in(message)
    assert 2000 <= news.age_ms < 60_000
    assert news.asked_ms == NOW_MS - news.age_ms
    assert news.shards == digest_of_shards(["2", "1"]) != digest_of_shards(["1"])


def test_other_messages_are_left_to_others():
    assert poll_in(b"offer 00 1 emails 1 1:1") is None
    assert poll_in(b"") is None


@pytest.mark.parametrize("message", [b"polled", b"polled 1 2 x 0", b"polled 1 2 x 0 9 xyz", b"polled 1 \xff x 0 9 "])
def test_a_message_of_another_version_is_refused(message):
    with pytest.raises(ValueError, match=r"unpack|literal|decode"):
        poll_in(message)
