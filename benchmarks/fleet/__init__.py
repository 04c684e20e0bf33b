"""A model of a fleet: servers, shards of a database and workers, simulated event by event.

``python -m benchmarks.fleet_simulation`` compares ways in which servers find due jobs on shards. No program is started
and nothing is measured here: what a statement, a call and a job cost comes from benchmarks (``costs.py``), and how many
of them there are comes from the simulation.
"""
