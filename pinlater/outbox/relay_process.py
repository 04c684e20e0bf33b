"""Runs a relay as the main task of a process."""

from __future__ import annotations

import signal

from pinlater.outbox.relay import Relay


def run(relay: Relay, *, until_empty: bool) -> int:
    """Deliver jobs until SIGTERM, SIGINT or, with ``until_empty``, none is left; return how many. Main thread only."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: relay.stop()) for number in numbers]
    try:
        return relay.run_until_empty() if until_empty else relay.run()
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
