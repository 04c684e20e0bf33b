"""Workflows of many steps: how fast they are, and what a step sends."""

from __future__ import annotations

from benchmarks.figures import Figure
from benchmarks.jobs import ManySteps
from benchmarks.programs import Server
from benchmarks.setting import Setting

SMALL, LARGE = (25_000, 10), (1000, 10_000)
"""Number of steps, and bytes of each result."""
PATIENCE_SECONDS = 1200.0


def measure(setting: Setting) -> list[Figure]:
    """Measure one job at a time, with a worker that is already running."""
    small, large = ((setting.amount(steps), size) for steps, size in (SMALL, LARGE))
    with setting.server() as server, setting.worker(server, processes=1):
        server.create_queue("steps")
        of_small, of_large = setting.in_turns(lambda: _run(server, *small), lambda: _run(server, *large))
    return [*_figures("steps_small", of_small, *small), *_figures("steps_large", of_large, *large)]


def _run(server: Server, steps: int, size: int) -> tuple[float, float]:
    """Run one job; return its seconds and the bytes it sent."""
    with server.client() as client:
        seconds, sent = client.enqueue(ManySteps(steps=steps, size=size)).result(timeout=PATIENCE_SECONDS)
        return seconds, sent


def _figures(name: str, runs: list[tuple[float, float]], steps: int, size: int) -> list[Figure]:
    return [
        Figure(name, f"{steps} steps of one job, results of {size} bytes", "steps/s", [steps / one for one, _ in runs]),
        Figure(f"{name}_bytes", "  sent for each step", "bytes", [sent / steps for _, sent in runs]),
    ]
