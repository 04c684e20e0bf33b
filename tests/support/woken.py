"""What a store tells of jobs that messages have made due."""

from tests.support.waiting import until


class Woken:
    """Hears of jobs that messages have made due, by queue."""

    def __init__(self, backend):
        self._backend = backend
        self.heard = []
        backend.home.notifications.on_claimable = lambda queue, count, _: self.heard.append((queue, count))

    def wait_for(self, *expected):
        """Return once all that was heard is this; it may be told a moment after the call."""

        async def wait():
            await until(lambda: sorted(self.heard) == sorted(expected))

        self._backend.run(wait())
