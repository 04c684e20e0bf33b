"""Reads all sources of settings into one ``Settings``, and refuses what does not fit together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pinlater.errors import ConfigError
from pinlater.server.config.settings import DECLARATIONS, IGNORED_KEYS, SECRET_KEYS, SHARD_KEYS, Declaration, Settings
from pinlater.server.config.sources import ENVIRONMENT_PREFIX, Entry, from_environment, from_file, from_options

_BY_KEY = {key: declared for declared in DECLARATIONS for key in (declared.key, *declared.aliases)}


def load_settings(config_file: Path | None, environ: Mapping[str, str], options: Mapping[str, str]) -> Settings:
    """Return the settings of all sources.

    Args:
        config_file: of ``--config``.
        environ: such as ``os.environ``.
        options: setting key -> text, from the command line.

    Raises:
        ConfigError: one line that says where, what is wrong and what to write.
    """
    loading = _Loading(data_home=environ.get("XDG_DATA_HOME", ""))
    loading.take(from_file(config_file) if config_file else ())
    loading.take_environment(from_environment(environ))
    loading.take(from_options(options))
    return loading.settings()


class _Loading:
    """Gathers entries, later ones over earlier ones, then reads them."""

    def __init__(self, data_home: str) -> None:
        self._entries: dict[str, Entry] = {}
        self._ignored: set[str] = set()
        self._of_shards: Entry | None = None
        self._doubts: list[str] = []
        if data_home.startswith("/"):  # the XDG rules: a relative one is to be ignored
            self._entries["DATA_DIR"] = Entry("DATA_DIR", f"{data_home}/pinlater", "environment XDG_DATA_HOME")
        self._defaults = dict(self._entries)

    def take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if not self._take(entry):
                raise ConfigError(f"{entry.place}: {entry.key} is no setting{_did_you_mean(entry.key)}")

    def take_environment(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            suggestion = _did_you_mean(entry.key, cutoff=0.88, prefix=ENVIRONMENT_PREFIX)
            if not self._take(entry) and suggestion:
                self._doubts.append(f"environment: {entry.key} is no setting and has no effect{suggestion}")

    def _take(self, entry: Entry) -> bool:
        """Keep the entry; return False if its key is unknown."""
        for key in (entry.key, entry.key.removeprefix(ENVIRONMENT_PREFIX)):
            if key in SHARD_KEYS and entry.value and self._of_shards is None:
                self._of_shards = entry
            if key in _BY_KEY:
                self._entries[_BY_KEY[key].key] = entry
                return True
            if key in IGNORED_KEYS:
                self._ignored.add(key)
                return True
        return False

    def settings(self) -> Settings:
        settings = Settings(
            **dict(self._values()), ignored_keys=tuple(sorted(self._ignored)), doubts=tuple(self._doubts)
        )
        self._check_store(settings)
        self._check_files(settings)
        if settings.max_body_bytes >= settings.max_frame_bytes:
            raise ConfigError(
                f"MAX_BODY_BYTES={settings.max_body_bytes} does not fit into "
                f"MAX_FRAME_BYTES={settings.max_frame_bytes}; make the frame larger or the body smaller"
            )
        return settings

    def _check_store(self, settings: Settings) -> None:
        if settings.server_processes > 1 and settings.backend == "sqlite":
            raise ConfigError(
                f"SERVER_PROCESSES={settings.server_processes} needs a store that several processes can share; "
                "the sqlite file has one owner: write 1, or choose another PINLATER_BACKEND"
            )
        if self._of_shards and not self._has_value("PINLATER_BACKEND"):
            raise ConfigError(
                f"{self._of_shards.place}: {self._of_shards.key} is for a store of shards, and PINLATER_BACKEND, which "
                "names the store, is not set; write PINLATER_BACKEND=mysql (what the original service would take) or "
                "redis, with BACKEND_CONFIG, or PINLATER_BACKEND=sqlite"
            )
        if settings.backend != "sqlite" and settings.shards_file is None:
            raise ConfigError(
                f"{self._entries['PINLATER_BACKEND'].place}: PINLATER_BACKEND={settings.backend} needs "
                "BACKEND_CONFIG; write the path of the file of shards"
            )

    def _check_files(self, settings: Settings) -> None:
        if settings.server_set_enabled and settings.server_set_file is None:
            place = self._entries["SERVER_SET_ENABLED"].place
            raise ConfigError(f"{place}: SERVER_SET_ENABLED=true needs SERVER_SET_PATH; write the path of the file")
        if str(settings.data_dir).startswith("~"):
            raise ConfigError("DATA_DIR: this user has no home directory; write a full path, such as /var/lib/pinlater")
        for key, value in (("THRIFT_TLS_KEY", settings.tls_key), ("THRIFT_TLS_CLIENT_CA", settings.tls_client_ca)):
            if value is not None and settings.tls_certificate is None:
                raise ConfigError(
                    f"{self._entries[key].place}: {key} is nothing without THRIFT_TLS_CERT; name the certificate, too"
                )

    def _has_value(self, key: str) -> bool:
        return key in self._entries and bool(self._entries[key].value)

    def _values(self) -> Iterator[tuple[str, Any]]:
        for declared in DECLARATIONS:
            entry = self._entries.get(declared.key)
            if entry and not entry.value:
                entry = self._defaults.get(declared.key)
            if entry:
                yield declared.name, _read(declared, entry)


def _read(declared: Declaration, entry: Entry) -> Any:
    try:
        return declared.read(entry.value)
    except ValueError as error:
        comment = " (a comment needs a line of its own)" if " #" in entry.value else ""
        shown = "..." if declared.key in SECRET_KEYS else entry.value[:60]
        raise ConfigError(f"{entry.place}: {entry.key}={shown} {error}{comment}") from None


def _did_you_mean(key: str, cutoff: float = 0.6, prefix: str = "") -> str:
    known = [*_BY_KEY, *IGNORED_KEYS]
    close = difflib.get_close_matches(key.upper().removeprefix(ENVIRONMENT_PREFIX), known, n=1, cutoff=cutoff)
    if not close:
        return "" if prefix else "; see pinlater-server --list-settings"
    name = close[0] if close[0].startswith(ENVIRONMENT_PREFIX) else prefix + close[0]
    return f"; did you mean {name}?"
