import subprocess
import sys

from pinlater.server import memory_allocator

MB = 1 << 20

KEEP_AND_FREE = """
import pathlib, resource, sys
from pinlater.server.memory_allocator import return_large_blocks
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
if sys.argv[1] == "set up":
    return_large_blocks()
before = resident()
for size in (30, 20, 10):  # once freed, such sizes are kept
    bytes(bytearray(size << 20))
kept, large = [], []
for _ in range(20):
    large.append(block := bytearray(5 << 20))
    block[::4096] = b"x" * len(block[::4096])  # or its pages would not be resident
    kept.append(bytearray(100_000))  # in between, so that the heap cannot shrink
del large, block
print(resident() - before)
"""


def freed_but_kept(how):
    """Return how much a process grows that makes large blocks among small ones, and frees the large ones."""
    done = subprocess.run(
        [sys.executable, "-c", KEEP_AND_FREE, how], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


def test_the_memory_of_large_blocks_goes_back_to_the_system():
    assert freed_but_kept("set up") < 5 * MB


def test_by_default_it_does_not():
    assert freed_but_kept("default") > 40 * MB


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(memory_allocator.ctypes, "CDLL", lambda _: object())
    memory_allocator.return_large_blocks()
