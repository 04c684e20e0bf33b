"""The server's time, as a worker learns it from answers that take their time."""

from pinlater.client.server_clock import ServerClock


class Bench:
    def __init__(self):
        self.elapsed, self.server = 50.0, 1_700_000_000.0
        self.clock = ServerClock(lambda: self.elapsed, lambda: 5.0)

    def wait(self, seconds):
        self.elapsed += seconds
        self.server += seconds

    def ask(self, on_the_way=0.0, unread=0.0):
        sent = self.clock.sent()
        self.wait(on_the_way)
        told = int(self.server * 1000)
        self.wait(on_the_way + unread)
        self.clock.update(told, sent)

    @property
    def ahead(self):
        return round(self.clock.now() - self.server, 6)


def test_before_a_server_has_told_the_time_it_is_ours():
    bench = Bench()
    bench.clock.update(None, bench.clock.sent())
    assert (bench.clock.is_known, bench.clock.now()) == (False, 5.0)
    bench.ask()
    assert (bench.clock.is_known, bench.ahead) == (True, 0.0)


def test_a_clock_that_is_wrong_here_changes_nothing():
    bench = Bench()
    bench.ask(on_the_way=0.25)
    bench.wait(600)
    assert bench.ahead == -0.25


def test_the_quickest_answer_counts_for_those_that_lay_unread():
    bench = Bench()
    bench.ask(on_the_way=3, unread=3600)
    assert bench.ahead == -3603
    bench.ask(on_the_way=0.125)
    assert bench.ahead == -0.125
    bench.ask(on_the_way=3, unread=3600)
    assert bench.ahead == -0.125


def test_a_server_whose_clock_is_set_is_followed():
    for step in (-100.0, 100.0):
        bench = Bench()
        bench.ask()
        bench.server += step
        bench.ask(on_the_way=0.5)
        assert abs(bench.ahead) <= 0.5
