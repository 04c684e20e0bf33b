"""What holds for all tests.

Thousands of them, collected, are no garbage that must be looked for again and again. And a shell that starts the tests
in its background has SIGINT ignored; programs that the tests start would inherit that, and not end on ^C.
"""

import gc
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
