"""Shared memory in which the processes of a worker show each other their claims, exits and counters."""
