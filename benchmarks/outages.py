"""Databases that die, freeze and come back under load: what is lost (nothing), and how long clients wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from benchmarks.database import Database
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.producers import AWAY, Producers
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import Client, JobState

KILLS = 10
AWAY_SECONDS = 1.0
HELD_SECONDS = 60.0
DEAD_SECONDS = 60.0
PROCESSES = 2
BATCH_SIZE = 10
LEASE_SECONDS = 5
"""Lease of the worker: short, because a claim whose answer was lost costs a whole lease, which is not measured here."""
PATIENCE_SECONDS = 120.0
"""How long all confirmed jobs may take to be done at the end: those of a lost claim wait for its lease to expire."""

_LOOKUP_SIZE = 500
_PAUSE_SECONDS = 0.05

Trouble = Callable[[Setting, Sequence[Database], Client], list[float]]
"""Causes an outage; returns how many seconds it took each time until a new job was stored and done."""


def measure(setting: Setting) -> list[Figure]:
    """Measure three kinds of outage; a store without a database server has none."""
    if not setting.stores.is_shared:
        return []
    return [
        *_figures(setting, "killed", "killed and started again", 1, _kill),
        *_figures(setting, "held", "standing still", 1, _hold),
        *_figures(setting, "dead", "one of three dead", 3, _lose_one),
    ]


def _kill(setting: Setting, databases: Sequence[Database], client: Client) -> list[float]:
    waits = []
    for _ in range(setting.amount(KILLS)):
        databases[0].kill()
        time.sleep(AWAY_SECONDS)
        databases[0].start()
        waits.append(_until_done(client))
    return waits


def _hold(setting: Setting, databases: Sequence[Database], client: Client) -> list[float]:
    databases[0].hold()
    time.sleep(max(HELD_SECONDS * setting.scale, AWAY_SECONDS))
    databases[0].go_on()
    return [_until_done(client)]


def _lose_one(setting: Setting, databases: Sequence[Database], client: Client) -> list[float]:
    """Measure how long the other shards are affected, not when the dead one is back."""
    databases[0].kill()
    waits = []
    end = time.monotonic() + max(DEAD_SECONDS * setting.scale, AWAY_SECONDS)
    while time.monotonic() < end:
        waits.append(_until_done(client))
        time.sleep(_PAUSE_SECONDS)
    databases[0].start()
    return waits


def _figures(setting: Setting, name: str, title: str, shards: int, trouble: Trouble) -> list[Figure]:
    known = len(setting.stores.databases)
    with setting.safe_server(name, shards) as server:
        server.create_queue("nothing")
        with (
            setting.worker(server, processes=PROCESSES, lease_seconds=LEASE_SECONDS) as worker,
            server.client(retries=0) as client,
        ):
            try:
                with Producers(server, setting.amount(BATCH_SIZE)) as producers:
                    _until_done(client)
                    waits = trouble(setting, setting.stores.databases[known:], client)
            except ProgramFailed as failure:
                raise ProgramFailed(f"{title}: {failure}\n{server.last_words}\n{worker.last_words}") from None
            lost = _lost(server, producers.confirmed)
    return [
        Figure(f"{name}_wait", f"{title}: until a new job is done", "s", waits),
        Figure(f"{name}_wait_longest", "  the longest of these", "s", [max(waits)]),
        Figure(f"{name}_call_longest", "  the longest call", "s", [producers.longest_seconds]),
        Figure(f"{name}_refused", "  calls refused", "", [producers.refusals]),
        Figure(f"{name}_confirmed", "  jobs confirmed", "", [len(producers.confirmed)]),
        Figure(f"{name}_lost", "  of these lost", "", [lost]),
    ]


def _until_done(client: Client) -> float:
    """Enqueue a job; return after how many seconds it was stored and done."""
    started = time.monotonic()
    handle, seen = None, "none was stored"
    while time.monotonic() - started < PATIENCE_SECONDS:
        try:
            handle = handle or client.enqueue(Nothing(number=0))
            state = handle.status().state
        except AWAY as error:
            seen = f"{handle or 'none was stored'}: {error}"
        else:
            if state.is_final:
                return time.monotonic() - started
            seen = f"{handle} is {state.name}"
        time.sleep(0.01)
    raise ProgramFailed(f"no new job was done within {PATIENCE_SECONDS:g} s ({seen})")


def _lost(server: Server, confirmed: Sequence[str]) -> int:
    """Return how many of the jobs are missing or not done in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = list(confirmed)
    with server.client() as client:
        while True:
            with suppress(*AWAY):  # a shard that has just been started again
                done = _done(client, waiting)
                waiting = [name for name in waiting if name not in done]
            if not waiting or time.monotonic() > deadline:
                return len(waiting)
            time.sleep(0.5)


def _done(client: Client, names: Sequence[str]) -> set[str]:
    done: set[str] = set()
    for start in range(0, len(names), _LOOKUP_SIZE):
        found = client.lookup(names[start : start + _LOOKUP_SIZE])
        done |= {name for name, job in found.items() if job.state is JobState.SUCCEEDED}
    return done
