"""Commands by name, each imported on first use, so that running one does not pay for importing the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a group.

    Args:
        homes: name of a command -> its module and function, such as ``pinlater.cli.queues:create_queue``.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._entries: dict[str, click.Command | str] = dict(homes)

    def __getitem__(self, name: str) -> click.Command:
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, function = entry.partition(":")
            entry = self._entries[name] = getattr(import_module(module), function)
        return entry

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._entries[name] = command

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
