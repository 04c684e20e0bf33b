"""Holds back the alarm clocks of a job while a call is made for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_ALARMS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)


@contextmanager
def held_alarms() -> Iterator[None]:
    """Let alarms that ring in this block be heard at its end.

    Libraries that limit the time of a function have the handler raise an exception. Amid a call, that would leave a
    connection of which nobody knows which reply comes next.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers are called there alone
        yield
        return
    handlers = {int(number): found for number in _ALARMS if callable(found := signal.getsignal(number))}
    if not handlers:
        yield
        return
    rung: dict[int, FrameType | None] = {}
    try:
        with ExitStack() as stack:
            for number, handler in handlers.items():
                stack.callback(signal.signal, number, handler)
                signal.signal(number, rung.__setitem__)
            yield
    finally:
        for number, frame in rung.items():
            handlers[number](number, frame)
