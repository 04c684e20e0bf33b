"""Messages that a job reads page by page: each once, in order, and the next page on its way while it looks at one."""

import pytest

from pinlater.model.messages import ReceivedMessage
from pinlater.worker.running.message_pages import LEAST_PAGE, MessagePages

JOB = "steps:s1:p1:7"
PAGE = LEAST_PAGE


class Saver:
    """Has messages as a server does; answers what was asked ahead when it is waited for.

    Attributes:
        count: how many messages of each name there are.
        most: of one answer.
        asked: what was asked for, and how: at once, or ahead.
    """

    def __init__(self, count, most=PAGE):
        self.count = count
        self.most = most
        self.asked = []
        self.is_reachable = True

    def messages(self, after, limit):
        last = min(after + min(limit, self.most), self.count)
        return [ReceivedMessage(number, str(number), b"", 1) for number in range(after + 1, last + 1)]

    def read_messages(self, descriptor, name, after, limit):
        assert descriptor == JOB
        self.asked.append(("at once", name, after, limit))
        return self.messages(after, limit)

    def ask_messages(self, descriptor, name, after, limit):
        assert descriptor == JOB
        self.asked.append(("ahead", name, after, limit))
        return lambda: self.messages(after, limit) if self.is_reachable else ()


def read_all(pages, count, name="part", limit=PAGE):
    """Read as many messages as a call does that knows how many there are."""
    found = []
    while len(found) < count:
        page = pages.read(name, len(found), min(limit, count - len(found)))
        assert page
        found += page
    return [message.number for message in found]


@pytest.mark.parametrize("count", [1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 50])
@pytest.mark.parametrize("more", [0, 1, PAGE])
@pytest.mark.parametrize("most", [PAGE, PAGE - 1, 7])
def test_each_message_is_read_once_and_in_order(count, more, most):
    saver = Saver(count + more, most)
    assert read_all(MessagePages(saver, JOB), count) == list(range(1, count + 1))


def test_the_next_page_is_on_its_way_before_a_page_is_looked_at():
    saver = Saver(3 * PAGE + 50)
    pages = MessagePages(saver, JOB)
    for page in range(3):
        pages.read("part", page * PAGE, PAGE)
        assert saver.asked[-1] == ("ahead", "part", (page + 1) * PAGE, PAGE)
    assert len(pages.read("part", 3 * PAGE, 50)) == 50
    assert [how for how, *_ in saver.asked] == ["at once", "ahead", "ahead", "ahead"]


def test_what_was_asked_ahead_and_did_not_come_is_asked_at_once():
    saver = Saver(2 * PAGE)
    pages = MessagePages(saver, JOB)
    pages.read("part", 0, PAGE)
    saver.is_reachable = False
    assert [message.number for message in pages.read("part", PAGE, PAGE)] == list(range(PAGE + 1, 2 * PAGE + 1))
    assert ("at once", "part", PAGE, PAGE) in saver.asked


def test_messages_that_came_since_are_seen():
    saver = Saver(PAGE)
    pages = MessagePages(saver, JOB)
    pages.read("part", 0, PAGE)
    assert pages.read("part", PAGE, PAGE) == []
    saver.count += 3
    assert len(pages.read("part", PAGE, PAGE)) == 3


def test_messages_of_another_name_are_not_taken_for_those_asked_ahead():
    saver = Saver(2 * PAGE)
    pages = MessagePages(saver, JOB)
    pages.read("part", 0, PAGE)
    pages.read("other", PAGE, PAGE)
    assert ("at once", "other", PAGE, PAGE) in saver.asked


@pytest.mark.parametrize("limit", [1, PAGE - 1])
def test_nothing_is_asked_ahead_of_small_pages(limit):
    saver = Saver(2 * PAGE)
    MessagePages(saver, JOB).read("part", 0, limit)
    assert [how for how, *_ in saver.asked] == ["at once"]
