"""Runs ``pinlater-server``, but it does not poll its store: it knows of the jobs of other servers from these alone."""

from pinlater.server import program
from pinlater.server.backends.poll_intervals import PollIntervals
from pinlater.server.stores import sharded

sharded.POLLS_BESIDE_MESSAGES = PollIntervals(3600.0, 3600.0, leeway=3600.0)

if __name__ == "__main__":
    program.main()
