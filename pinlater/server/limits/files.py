"""Read the rate limits of the queue config and the server set, and merge them with those of the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

from pinlater.errors import ConfigError
from pinlater.model.queues import QueueSettings
from pinlater.server.config.kept_contents import NOTHING_KEPT, KeptContents
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.limits.formats import count_servers, queue_rates
from pinlater.server.limits.rate_limits import RateLimits

log = logging.getLogger(__name__)

_UNLIMITED = QueueSettings()


class _NoServers(ConfigError):
    """The server set is empty, so discovery has failed: this server at least is running."""


class RateLimitFiles:
    """Watches both files, if configured, and applies the limits.

    Args:
        settings: name the files.
        limits: the limits to update.
        on_change: called after each update with the queues whose limits have changed.
        is_divided: whether each server gets its share of a rate; False: the store enforces the rate over all servers.
        kept: see ``WatchedFile``.

    Raises:
        ConfigError: a file cannot be read or is malformed; when it is reloaded, that is only logged.
    """

    def __init__(
        self,
        settings: Settings,
        limits: RateLimits,
        on_change: Callable[[Collection[str]], None],
        *,
        is_divided: bool = True,
        kept: KeptContents = NOTHING_KEPT,
    ) -> None:
        self._limits = limits
        self._on_change = on_change
        self._is_divided = is_divided
        self._kept = kept
        self._rates: dict[str, float] = {}
        self._stored: Mapping[str, QueueSettings] = {}
        self._server_count = 1
        self._files: list[WatchedFile] = []
        if settings.server_set_enabled and settings.server_set_file:
            try:
                self._add(settings.server_set_file, self._read_servers)
            except _NoServers as error:
                log.warning("%s; until it does, each rate is for this server alone", error)
        if settings.queue_config_file:
            self._add(settings.queue_config_file, self._read_rates)

    def watchers(self) -> list[Coroutine[Any, Any, Any]]:
        """Return the background tasks that reload changed files, one a file."""
        return [file.watch() for file in self._files]

    def apply_stored(self, stored: Mapping[str, QueueSettings]) -> None:
        """Apply the limits of the store; a queue that the file names keeps the rate of the file."""
        limits = {
            queue: QueueSettings(one.is_paused, one.jobs_per_second, one.max_running) for queue, one in stored.items()
        }
        limited = {queue: one for queue, one in limits.items() if one != _UNLIMITED}  # unlimited ones come and go
        if limited != self._stored:
            self._stored = limited
            self._apply()

    def effective(self, queue: str, stored: QueueSettings) -> QueueSettings:
        """Return the effective settings of a queue, given those of the store."""
        rate = self._rates.get(queue)
        if rate is None:
            return stored
        return stored._replace(is_paused=rate <= 0, jobs_per_second=rate if rate > 0 else None, is_from_file=True)

    def _add(self, path: Path, read: Callable[[bytes, Path], None]) -> None:
        file = WatchedFile(path, lambda content: read(content, path), kept=self._kept)
        self._files.append(file)
        file.load()

    def _read_rates(self, content: bytes, path: Path) -> None:
        self._rates = queue_rates(content, path)
        self._apply()

    def _read_servers(self, content: bytes, path: Path) -> None:
        count = count_servers(content, path)
        if not count:
            raise _NoServers(f"{path}: lists no server")
        self._server_count = count
        self._apply()

    def _apply(self) -> None:
        stored = {queue: rate for queue, one in self._stored.items() if (rate := _rate(one)) is not None}
        most = {queue: one.max_running for queue, one in self._stored.items() if one.max_running is not None}
        self._on_change(self._limits.update(stored | self._rates, self._server_count if self._is_divided else 1, most))


def _rate(stored: QueueSettings) -> float | None:
    """Return the rate in the file's terms, where 0 pauses the queue; None: unlimited."""
    return 0.0 if stored.is_paused else stored.jobs_per_second
