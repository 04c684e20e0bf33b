"""The ``pinlater`` command: queues and jobs for people."""

from pinlater.client.tool.program import main

__all__ = ["main"]
