"""The room of calls and answers: who gets some, who waits, who has to go."""

import pytest

from pinlater.server.net.memory_budget import AnswerRoom, CallRoom


class Guest:
    def __init__(self, name, log):
        self.name = name
        self.log = log

    def admitted(self):
        self.log.append(f"{self.name} goes on")

    def abort(self, _):
        self.log.append(f"{self.name} is dropped")


@pytest.fixture
def log():
    return []


@pytest.fixture
def guests(log):
    return [Guest(name, log) for name in "abcd"]


def test_calls_wait_for_room_and_the_smallest_goes_first(guests, log):
    a, b, c, d = guests
    room = CallRoom(100)
    assert room.ask(a, 60)
    assert room.ask(b, 40)
    assert not room.ask(c, 90)
    assert not room.ask(d, 20)
    assert room.is_wanted
    room.leave(b)
    assert log == ["d goes on"]
    room.leave(a)
    assert log == ["d goes on"]
    room.leave(d)
    assert log == ["d goes on", "c goes on"]
    assert not room.is_wanted


def test_a_call_that_is_too_large_for_the_room_goes_alone(guests, log):
    a, b = guests[:2]
    room = CallRoom(100)
    assert room.ask(a, 1000)
    assert not room.ask(b, 1)
    assert room.ask(a, 2000)
    room.leave(a)
    assert log == ["b goes on"]


def test_who_has_some_needs_only_the_rest(guests, log):
    a, b, c, _ = guests
    room = CallRoom(100)
    assert room.ask(a, 50)
    assert room.ask(b, 40)
    assert not room.ask(c, 50)
    assert not room.ask(b, 60)
    assert room.holds(b)
    assert room.ask(a, 0)
    assert log == ["b goes on"]
    room.leave(b)
    assert log == ["b goes on", "c goes on"]


def test_who_leaves_while_it_waits_is_forgotten(guests, log):
    a, b, c, _ = guests
    room = CallRoom(100)
    assert room.ask(a, 100)
    assert not room.ask(b, 10)
    assert not room.ask(c, 100)
    room.leave(b)
    room.leave(a)
    assert log == ["c goes on"]
    room.leave(c)
    assert room.ask(b, 100)


def test_who_has_not_read_for_longest_makes_room(guests, log):
    a, b, c, d = guests
    room = AnswerRoom(100)
    room.put(a, 40)
    room.put(b, 40)
    room.put(a, 40)  # it has read, and asked for more
    room.put(c, 40)
    assert log == ["b is dropped"]
    room.take(a)
    room.put(d, 1000)
    assert log == ["b is dropped", "c is dropped"]  # one that is alone may have more
