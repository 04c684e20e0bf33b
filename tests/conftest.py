"""What holds for all tests: thousands of them, collected, are no garbage that must be looked for again and again."""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
