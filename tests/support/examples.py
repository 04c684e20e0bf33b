"""Settings of tests with random examples: 50 times as many, and new ones, with ``HYPOTHESIS_PROFILE=thorough``."""

import os

from hypothesis import settings

IS_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def examples(count):
    """Return settings for ``count`` examples, the same in each run; for 50 times as many new ones if thorough."""
    return settings(max_examples=count * 50 if IS_THOROUGH else count, deadline=None, derandomize=not IS_THOROUGH)
