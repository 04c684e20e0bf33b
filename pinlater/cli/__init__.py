"""Command-line tool ``pinlater``."""

from pinlater.cli.program import main

__all__ = ["main"]
