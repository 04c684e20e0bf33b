"""The ``pinlater`` command: queues and jobs for people."""

from pinlater.cli.program import main

__all__ = ["main"]
