"""The memory budgets of calls and replies: who gets memory, who waits, who is dropped."""

import pytest

from pinlater.server.net.memory_budget import AnswerBudget, CallBudget


class BudgetUser:
    def __init__(self, name, log):
        self.name = name
        self.log = log

    def on_budget_granted(self):
        self.log.append(f"{self.name} goes on")

    def abort(self, _):
        self.log.append(f"{self.name} is dropped")


@pytest.fixture
def log():
    return []


@pytest.fixture
def users(log):
    return [BudgetUser(name, log) for name in "abcd"]


def test_calls_wait_for_memory_and_the_smallest_goes_first(users, log):
    a, b, c, d = users
    budget = CallBudget(100)
    assert budget.request(a, 60)
    assert budget.request(b, 40)
    assert not budget.request(c, 90)
    assert not budget.request(d, 20)
    assert budget.has_waiting
    budget.release(b)
    assert log == ["d goes on"]
    budget.release(a)
    assert log == ["d goes on"]
    budget.release(d)
    assert log == ["d goes on", "c goes on"]
    assert not budget.has_waiting


def test_a_call_larger_than_the_memory_budget_runs_alone(users, log):
    a, b = users[:2]
    budget = CallBudget(100)
    assert budget.request(a, 1000)
    assert not budget.request(b, 1)
    assert budget.request(a, 2000)
    budget.release(a)
    assert log == ["b goes on"]


def test_a_call_that_has_memory_waits_only_for_the_rest(users, log):
    a, b, c, _ = users
    budget = CallBudget(100)
    assert budget.request(a, 50)
    assert budget.request(b, 40)
    assert not budget.request(c, 50)
    assert not budget.request(b, 60)
    assert budget.holds(b)
    assert budget.request(a, 0)
    assert log == ["b goes on"]
    budget.release(b)
    assert log == ["b goes on", "c goes on"]


def test_a_caller_that_leaves_gives_up_its_place(users, log):
    a, b, c, _ = users
    budget = CallBudget(100)
    assert budget.request(a, 100)
    assert not budget.request(b, 10)
    assert not budget.request(c, 100)
    budget.release(b)
    budget.release(a)
    assert log == ["c goes on"]
    budget.release(c)
    assert budget.request(b, 100)


def test_the_connection_that_has_not_read_for_longest_is_closed(users, log):
    a, b, c, d = users
    budget = AnswerBudget(100)
    budget.record_unread(a, 40)
    budget.record_unread(b, 40)
    budget.record_unread(a, 40)  # it has read, and asked for more
    budget.record_unread(c, 40)
    assert log == ["b is dropped"]
    budget.release(a)
    budget.record_unread(d, 1000)
    assert log == ["b is dropped", "c is dropped"]  # one that is alone may have more
