"""A model of a fleet: servers, shards of a database and workers, simulated event by event.

``python -m benchmarks.fleet_simulation`` compares ways for servers to find due jobs on shards. It starts no program and
measures nothing: the costs of a statement, a call and a job come from benchmarks (``costs.py``), and their numbers
from the simulation.
"""
