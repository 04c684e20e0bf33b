"""Coordination of the processes of one server, which share a private folder and nothing else."""
