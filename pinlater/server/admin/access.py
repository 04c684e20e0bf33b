"""Check that the admin port is protected as its settings require, before anything listens."""

from __future__ import annotations

from importlib.util import find_spec

from pinlater.errors import ConfigError
from pinlater.server.config.settings import Settings
from pinlater.server.net.listeners import is_exposed

OWN_SOCKET = "service.sock"
"""Socket in the private folder through which the dashboard calls the service, without TLS."""

_NEEDED = ("starlette", "jinja2", "uvicorn")


def has_dashboard(settings: Settings) -> bool:
    """Return whether the dashboard is enabled and installed."""
    return settings.dashboard and all(find_spec(name) for name in _NEEDED)


def check_access(settings: Settings) -> None:
    """Refuse settings that would leave the admin port unprotected.

    Raises:
        ConfigError: they would; the message says what to set.
    """
    if (settings.admin_tls_cert is None) != (settings.admin_tls_key is None):
        raise ConfigError("ADMIN_TLS_CERT and ADMIN_TLS_KEY belong together; set both or neither")
    if settings.reader_password_hash and not settings.admin_password_hash:
        raise ConfigError(
            "READER_PASSWORD_HASH needs ADMIN_PASSWORD_HASH; without it, anyone may change jobs and queues"
        )
    if not has_dashboard(settings):
        if settings.admin_tls_cert is not None:
            raise ConfigError(
                "ADMIN_TLS_CERT needs the dashboard, which is not installed; run: pip install 'pinlater[dashboard]'"
            )
        return
    if not is_exposed(settings.admin_host):
        return
    where = f"ADMIN_HOST={settings.admin_host} opens the dashboard to other machines"
    if not settings.admin_password_hash:
        raise ConfigError(
            f"{where}: set ADMIN_PASSWORD_HASH (create it with: pinlater hash-password), "
            "or DASHBOARD=false to serve only metrics"
        )
    if settings.admin_tls_cert is None and not settings.admin_allow_plain:
        raise ConfigError(
            f"{where}: set ADMIN_TLS_CERT and ADMIN_TLS_KEY, or ADMIN_ALLOW_PLAIN=true behind a TLS proxy, "
            "or DASHBOARD=false to serve only metrics"
        )
