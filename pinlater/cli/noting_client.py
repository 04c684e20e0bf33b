"""Client that notes which shards did not answer."""

from __future__ import annotations

from typing import Any

from pinlater.client.client import Client
from pinlater.model.jobs import Page, missing_shards


class NotingClient(Client):
    """Client that collects the names of shards whose jobs are missing in counts and scans.

    Args:
        missing_shards: set to add them to.
        args: arguments of ``Client``, as ``kwargs``.
    """

    def __init__(self, missing_shards: set[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._missing_shards = missing_shards

    def _execute(self, call: Any) -> Any:
        result = super()._execute(call)
        if isinstance(result, int | Page):
            self._missing_shards.update(missing_shards(result))
        return result
