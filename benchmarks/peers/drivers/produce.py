"""Enqueues jobs through a driver, one per call: ``produce.py DRIVER FIRST COUNT PAUSE``.

Instead of a pause, ``fill`` enqueues all at once, and ``outstanding`` keeps many calls in flight.

Prints "ready" after a first job, starts when it reads a line from stdin, and prints JSON: the beginning of each call in
nanoseconds, how long it took, and the processor time of all calls.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Enqueue jobs whose numbers begin with ``FIRST``; the first one is not measured."""
    name, first, count, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    driver = importlib.import_module(name)
    driver.enqueue(first)
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = range(first + 1, first + count)
    cpu = time.process_time()
    calls: list[tuple[int, int]] = []
    if pause == "fill":
        _fill(driver, numbers)
    elif pause == "outstanding":
        calls = driver.enqueue_outstanding(numbers)
    else:
        calls = [_call(driver.enqueue, number, float(pause)) for number in numbers]
    print(json.dumps({"calls": calls, "cpu_us": (time.process_time() - cpu) * 1e6}), flush=True)
    sys.stdin.readline()


def _call(enqueue: Any, number: int, pause: float) -> tuple[int, int]:
    if pause:
        time.sleep(pause)
    began = time.monotonic_ns()
    enqueue(number)
    return began, time.monotonic_ns() - began


def _fill(driver: Any, numbers: range) -> None:
    enqueue_many = getattr(driver, "enqueue_many", None)
    if enqueue_many is None:
        for number in numbers:
            driver.enqueue(number)
    else:
        enqueue_many(numbers)


if __name__ == "__main__":
    main()
