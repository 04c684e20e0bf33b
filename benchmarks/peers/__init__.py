"""PinLater beside other job queues: ``python -m benchmarks.peers [NAME...]``.

Each contestant runs as its users run it, on this machine, on a store of its own: its server, its client, its worker
with two processes. All are measured in turns in each round. What is compared differs in what it guarantees, so the
table says for each what an answered enqueue survives, and what becomes of a job whose worker is killed.

The others are installed into a virtual environment of their own, never into the project's. redis-server, mariadbd,
beanstalkd and PostgreSQL are those of the system; a contestant whose server is missing is left out.
"""
