"""An event loop whose time passes while everybody waits, so that hours take a moment and no test depends on speed."""

import asyncio
import selectors

TURN_SECONDS = 0.00005
"""What each turn of the loop takes, or whoever looks at the clock again and again would do so for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its ``time`` jumps to the next timer as soon as nothing else is to be done."""

    def __init__(self):
        self.now = 1_000_000.0
        super().__init__(_Selector(self))

    def time(self):
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "everybody waits, and there is no timer"
        self._loop.now += timeout or TURN_SECONDS
        return super().select(0)


def run(main):
    """Run a coroutine in virtual time; return what it returns."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
