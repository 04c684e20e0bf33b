"""The error for a store that cannot be opened at present."""

from __future__ import annotations

from pinlater.errors import ConfigError


class StoreUnavailable(ConfigError):
    """The store cannot be opened at present, through no fault of the settings: a later start may succeed."""
