"""How a running job enqueues its children: by calls that fit, and that are known again."""

from pinlater import Job
from pinlater.client.batches import MAX_BATCH_BYTES
from pinlater.jobs.message_link import Children
from pinlater.model.messages import Parent
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.server_link import ServerLink
from tests.unit.worker.fakes import batch_of


class Copy(Job, queue="copies"):
    text: str


class Calls:
    """Takes enqueues as a saver does."""

    def __init__(self):
        self.made = []

    def enqueue(self, follow_ups):
        queue, structs, key, _ = follow_ups
        self.made.append((queue, len(structs), key))
        return [f"{queue}:s1:p1:{struct.parentPosition}" for struct in structs]


def enqueue(*texts):
    """Enqueue children with these texts; return their descriptors, and what was sent."""
    calls = Calls()
    link = ServerLink(RunContext(Copy(text="all"), batch_of("parents:s1:p1:7"), 0, calls))
    told = [(Copy(text=text), Parent("parents:s1:p1:7", "call/0/copy", number)) for number, text in enumerate(texts)]
    return link.enqueue(Children("copies", told, {}, "parents:s1:p1:7/call/0/copy/0/copies")), calls.made


def test_small_children_are_one_call():
    descriptors, calls = enqueue("a", "b", "c")
    assert descriptors == [f"copies:s1:p1:{number}" for number in range(3)]
    assert [(queue, count) for queue, count, _ in calls] == [("copies", 3)]


def test_children_that_do_not_fit_into_one_call_are_several_each_known_again():
    large = "x" * (MAX_BATCH_BYTES // 3)
    descriptors, calls = enqueue(*[large] * 7)
    assert descriptors == [f"copies:s1:p1:{number}" for number in range(7)], "in their order"
    assert [count for _, count, _ in calls] == [2, 2, 2, 1]
    keys = [key for _, _, key in calls]
    assert len(set(keys)) == 4
    assert keys == [key for _, _, key in enqueue(*[large] * 7)[1]], "the same in the next attempt"


def test_a_call_of_more_jobs_has_another_key():
    """A store answers with as many jobs as are asked for, of which the later ones would not exist."""
    (fewer,), (more,), (again,) = (enqueue(*texts)[1] for texts in ("ab", "abc", "abc"))
    assert fewer[2] != more[2] == again[2]


def test_a_child_larger_than_that_is_a_call_of_its_own():
    _, calls = enqueue("a", "x" * (2 * MAX_BATCH_BYTES), "b")
    assert [count for _, count, _ in calls] == [1, 1, 1]
