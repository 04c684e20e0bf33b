"""What the guide of security takes for granted: a program that makes certificates."""

import shutil

import pytest

refunded = []


def prepare(sandbox):
    del sandbox
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
