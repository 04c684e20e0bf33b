"""The demo behind ``make demo``: run all examples, kill a process on the way, and check the results."""
