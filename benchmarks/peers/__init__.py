"""PinLater compared with other job queues: ``python -m benchmarks.peers [NAME...]``.

Each contestant runs as its users run it, on this machine, with its own store, server and client, and a worker with two
processes. All are measured in turns in each round. Their guarantees differ, so the table says for each what an
answered enqueue survives, and what happens to a job whose worker is killed.

The others are installed into a separate virtual environment, never into the project's. redis-server, mariadbd,
beanstalkd and PostgreSQL are those of the system; a contestant whose server is missing is left out.
"""
