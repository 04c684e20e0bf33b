"""The errors for a store that cannot be opened, or takes no changes, at present."""

from __future__ import annotations

from pinlater.errors import ConfigError, UnknownError


class StoreUnavailable(ConfigError):
    """The store cannot be opened at present, through no fault of the settings: a later start may succeed."""


class ChangeRefused(UnknownError):
    """The store takes no changes at present, such as with a full disk; nothing was changed, and it may be later."""
