"""Test helpers for jobs.

There are three ways to test, each more realistic than the one before:

1. ``FakeContext``: call ``job.run(FakeContext())`` like any function; no queue, no outcome.
2. ``run_inline``: a client that runs each enqueued job at once, with encoding, decoding, retries and outcomes.
   ``killed_everywhere`` yields such clients, each of which kills the job's process at a different point.
3. ``pinlater_server``: a pytest fixture with a real server, and a worker that runs in the test's thread. It comes with
   PinLater; ``LocalServer`` is the same without pytest.

Names are imported on first use: pytest loads this package even for tests that have nothing to do with jobs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinlater.testing.attempts import Ending, Outcome
    from pinlater.testing.fake_context import FakeContext
    from pinlater.testing.inline import InlineClient, run_inline
    from pinlater.testing.kills import killed_everywhere
    from pinlater.testing.local_server import LocalServer

_HOMES = {
    "Ending": "attempts",
    "FakeContext": "fake_context",
    "InlineClient": "inline",
    "LocalServer": "local_server",
    "Outcome": "attempts",
    "killed_everywhere": "kills",
    "run_inline": "inline",
}

__all__ = ["Ending", "FakeContext", "InlineClient", "LocalServer", "Outcome", "killed_everywhere", "run_inline"]


if not TYPE_CHECKING:  # type checkers would take any name as one of this module

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
