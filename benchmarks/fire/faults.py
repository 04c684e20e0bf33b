"""Faults for a fleet under load: each begins, lasts for a while, and is undone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from benchmarks.fire.fleet import FleetOnFire

Fault = Callable[[FleetOnFire, random.Random, float], None]
"""Function of a fleet, a random generator and the maximum seconds of the fault; returns when it is undone."""

_LEAST_SECONDS = 0.2


def kill_server(fleet: FleetOnFire, chance: random.Random, _most_seconds: float) -> None:
    """Kill a server, and start it again on its port."""
    server = chance.choice(fleet.servers)
    server.kill()
    time.sleep(chance.uniform(_LEAST_SECONDS, 2.0))
    server.start()


def freeze_server(fleet: FleetOnFire, chance: random.Random, most_seconds: float) -> None:
    """Freeze a server, mostly for longer than the leases."""
    server = chance.choice(fleet.servers)
    server.freeze()
    time.sleep(chance.uniform(5.0, 15.0) if most_seconds >= 15.0 else most_seconds)
    server.thaw()


def cut_server(fleet: FleetOnFire, chance: random.Random, most_seconds: float) -> None:
    """Cut a server off from all shards, or from one of them; connections are reset, or fall silent."""
    server = chance.choice(fleet.servers)
    ways = chance.choice([server.ways, [chance.choice(server.ways)]])
    is_silent = chance.random() < 0.6
    for way in ways:
        (way.silence if is_silent else way.reset)()
    time.sleep(chance.uniform(1.0, min(10.0, most_seconds)))
    for way in ways:
        way.heal()


def resize(fleet: FleetOnFire, chance: random.Random, _most_seconds: float) -> None:
    """Add a server, then stop or kill the oldest one."""
    fleet.add_server()
    time.sleep(chance.uniform(_LEAST_SECONDS, 1.0))
    gone = fleet.remove_server()
    (gone.stop if chance.random() < 0.5 else gone.kill)()


def kill_worker(fleet: FleetOnFire, chance: random.Random, _most_seconds: float) -> None:
    """Kill a process of a worker, a whole worker, or a process of consumers; a new one replaces it."""
    match chance.choice(["process", "worker", "consumers"]):
        case "process":
            chance.choice(fleet.workers).kill_a_child(chance.random())
        case "worker":
            fleet.workers.pop(0).kill()
            fleet.add_worker()
        case _:
            fleet.consumers.pop(0).kill()
            fleet.add_consumers()


def replace_worker(fleet: FleetOnFire, _chance: random.Random, _most_seconds: float) -> None:
    """Stop a worker as a deployment does, once a new one is started."""
    fleet.add_worker()
    fleet.workers.pop(0).stop()


def freeze_worker(fleet: FleetOnFire, chance: random.Random, most_seconds: float) -> None:
    """Freeze a worker or a process of consumers, mostly for longer than its lease."""
    member = chance.choice([*fleet.workers, *fleet.consumers])
    member.freeze()
    time.sleep(chance.uniform(min(4.0, most_seconds), min(9.0, most_seconds)))
    member.thaw()


def kill_store(fleet: FleetOnFire, chance: random.Random, _most_seconds: float) -> None:
    """Kill a database server of the store, and start it again on its data."""
    database = chance.choice(list(fleet.databases))
    database.kill()
    time.sleep(chance.uniform(_LEAST_SECONDS, 2.0))
    database.start()


def freeze_store(fleet: FleetOnFire, chance: random.Random, most_seconds: float) -> None:
    """Freeze a database server of the store; it carries out late what was sent to it."""
    database = chance.choice(list(fleet.databases))
    database.hold()
    time.sleep(chance.uniform(1.0, min(8.0, most_seconds)))
    database.go_on()


FAULTS_OF_SERVERS: dict[str, Fault] = {
    "kill_server": kill_server,
    "freeze_server": freeze_server,
    "cut_server": cut_server,
    "resize": resize,
    "kill_store": kill_store,
    "freeze_store": freeze_store,
}
FAULTS_OF_MEMBERS: dict[str, Fault] = {
    "kill_worker": kill_worker,
    "freeze_worker": freeze_worker,
    "replace_worker": replace_worker,
}
FAULTS = FAULTS_OF_SERVERS | FAULTS_OF_MEMBERS
"""Name -> fault; one of servers and one of workers may happen at the same time."""

FAULTS_OF_ONLY_SERVER: dict[str, Fault] = {"kill_store": kill_server, "freeze_store": freeze_server}
"""Where a store has only one server, that is the store."""
