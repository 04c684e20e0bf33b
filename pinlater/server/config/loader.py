"""Load the settings from all sources, and refuse combinations that cannot work."""

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
    """Load the settings from all sources.

    Args:
        config_file: the file named by ``--config``, if any.
        environ: such as ``os.environ``.
        options: setting key -> text, from the command line.

    Raises:
        ConfigError: a setting is wrong; one line says where, what, and what to write instead.
    """
    loading = _Loading(data_home=environ.get("XDG_DATA_HOME", ""))
    loading.add(from_file(config_file) if config_file else ())
    loading.add_environment(from_environment(environ))
    loading.add(from_options(options))
    return loading.settings()


class _Loading:
    """Collects entries, of which later ones override earlier ones, then parses them."""

    def __init__(self, data_home: str) -> None:
        self._entries: dict[str, Entry] = {}
        self._ignored: set[str] = set()
        self._shard_entry: Entry | None = None
        if data_home.startswith("/"):  # XDG requires that a relative path is ignored
            self._entries["DATA_DIR"] = Entry("DATA_DIR", f"{data_home}/pinlater", "environment XDG_DATA_HOME")
        self._defaults = dict(self._entries)

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if not self._add(entry):
                raise ConfigError(f"{entry.place}: {entry.key} is not a setting{_did_you_mean(entry.key)}")

    def add_environment(self, entries: Iterable[Entry]) -> None:
        """Add the entries that are settings; the others may be for other programs."""
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> bool:
        """Add an entry; return False if its key is unknown."""
        for key in (entry.key, entry.key.removeprefix(ENVIRONMENT_PREFIX)):
            if key in SHARD_KEYS and entry.value and self._shard_entry is None:
                self._shard_entry = entry
            if key in _BY_KEY:
                self._entries[_BY_KEY[key].key] = entry
                return True
            if key in IGNORED_KEYS:
                self._ignored.add(key)
                return True
        return False

    def settings(self) -> Settings:
        settings = Settings(**dict(self._values()), ignored_keys=tuple(sorted(self._ignored)))
        self._check_store(settings)
        self._check_files(settings)
        if settings.thrift_port == settings.admin_port != 0 and settings.thrift_host == settings.admin_host:
            raise ConfigError(
                f"THRIFT_PORT={settings.thrift_port} is the port of the dashboard (OSTRICH_PORT), too; "
                "choose another for one of them"
            )
        if settings.max_body_bytes >= settings.max_frame_bytes:
            raise ConfigError(
                f"MAX_BODY_BYTES={settings.max_body_bytes} does not fit into "
                f"MAX_FRAME_BYTES={settings.max_frame_bytes}; raise MAX_FRAME_BYTES or lower MAX_BODY_BYTES"
            )
        return settings

    def _check_store(self, settings: Settings) -> None:
        if settings.server_processes > 1 and settings.backend == "sqlite":
            raise ConfigError(
                f"SERVER_PROCESSES={settings.server_processes} needs a store that processes can share, "
                "but a sqlite file has only one owner; set SERVER_PROCESSES=1 or choose another PINLATER_BACKEND"
            )
        if self._shard_entry and not self._has_value("PINLATER_BACKEND"):
            raise ConfigError(
                f"{self._shard_entry.place}: {self._shard_entry.key} applies to sharded stores only, but "
                "PINLATER_BACKEND is not set; write PINLATER_BACKEND=mysql (the default of the original service) "
                "or redis, with BACKEND_CONFIG, or PINLATER_BACKEND=sqlite"
            )
        if settings.backend != "sqlite" and settings.shards_file is None:
            raise ConfigError(
                f"{self._entries['PINLATER_BACKEND'].place}: PINLATER_BACKEND={settings.backend} needs "
                "BACKEND_CONFIG; set it to the path of the shards file"
            )

    def _check_files(self, settings: Settings) -> None:
        if settings.server_set_enabled and settings.server_set_file is None:
            place = self._entries["SERVER_SET_ENABLED"].place
            raise ConfigError(f"{place}: SERVER_SET_ENABLED=true needs SERVER_SET_PATH; set it to the path of the file")
        if str(settings.data_dir).startswith("~"):
            raise ConfigError(
                "DATA_DIR: this user has no home directory; use an absolute path, such as /var/lib/pinlater"
            )
        for key, value in (("THRIFT_TLS_KEY", settings.tls_key), ("THRIFT_TLS_CLIENT_CA", settings.tls_client_ca)):
            if value is not None and settings.tls_certificate is None:
                raise ConfigError(
                    f"{self._entries[key].place}: {key} has no effect without THRIFT_TLS_CERT; set THRIFT_TLS_CERT, too"
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
        comment = " (write comments on separate lines)" if " #" in entry.value else ""
        shown = "..." if declared.key in SECRET_KEYS else entry.value[:60]
        raise ConfigError(f"{entry.place}: {entry.key}={shown} {error}{comment}") from None


def _did_you_mean(key: str) -> str:
    known = {key.removeprefix(ENVIRONMENT_PREFIX): key for key in (*_BY_KEY, *IGNORED_KEYS)}
    close = difflib.get_close_matches(key.upper().removeprefix(ENVIRONMENT_PREFIX), known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else "; see pinlater-server --list-settings"
