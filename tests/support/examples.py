"""Random input of tests: the same examples each time, unless ``HYPOTHESIS_PROFILE=thorough`` wants many others."""

import os

from hypothesis import settings

IS_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def examples(count):
    """Return settings for that many examples, or fifty times as many."""
    return settings(max_examples=count * 50 if IS_THOROUGH else count, deadline=None, derandomize=not IS_THOROUGH)
