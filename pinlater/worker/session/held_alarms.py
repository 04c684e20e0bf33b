"""Defers the alarm signals of a job while a call is made for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_ALARMS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)


@contextmanager
def held_alarms() -> Iterator[None]:
    """Defer alarm signals that come in this block to its end.

    Libraries that limit the time of a function raise an exception in the handler. In the middle of a call, that would
    leave a connection on which nobody knows which reply comes next.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers are called only there
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
