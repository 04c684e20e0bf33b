"""Attributes that are made when they are first needed: once, whoever reads them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pinlater.jobs.lazy_attribute import lazy


class Thing:
    def __init__(self, barrier=None):
        self.made = []
        self.barrier = barrier

    @lazy
    def part(self):
        """The part."""
        if self.barrier is not None:
            self.barrier.wait(60)
        self.made.append(object())
        return self.made[-1]


def test_it_is_made_once():
    thing, other = Thing(), Thing()
    assert "part" not in vars(thing)
    assert thing.part is thing.part is vars(thing)["part"]
    assert len(thing.made) == 1
    assert thing.part is not other.part
    assert Thing.part.__doc__ == "The part."


def test_threads_that_read_it_at_once_get_the_same():
    """A context may be used by several threads of its job: what one records must not be lost."""
    thing = Thing(Barrier(2))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: thing.part, range(2))
    assert first is second is thing.part
    assert len(thing.made) == 2
