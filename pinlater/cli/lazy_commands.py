"""Commands by name, each imported on first use, so that running one does not pay for importing the others."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click


class LazyCommands(UserDict[str, Any]):
    """The commands of a group: name of a command -> the command.

    It is made from modules and functions, such as ``pinlater.cli.queues:create_queue``.
    """

    def __getitem__(self, name: str) -> click.Command:
        entry = self.data[name]
        if isinstance(entry, str):
            module, _, function = entry.partition(":")
            entry = self.data[name] = getattr(import_module(module), function)
        command: click.Command = entry
        return command
