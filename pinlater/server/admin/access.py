"""Whether the admin port may be opened as the settings say. Checked before anything listens."""

from __future__ import annotations

from importlib.util import find_spec

from pinlater.errors import ConfigError
from pinlater.server.config.settings import Settings
from pinlater.server.net.listeners import is_exposed

OWN_SOCKET = "service.sock"
"""In the private folder: there the dashboard calls the service, whatever that asks of others."""

_NEEDED = ("starlette", "jinja2", "uvicorn")


def has_dashboard(settings: Settings) -> bool:
    """Whether the dashboard is wanted, and installed."""
    return settings.dashboard and all(find_spec(name) for name in _NEEDED)


def check_access(settings: Settings) -> None:
    """Return if the admin port is guarded as it has to be.

    Raises:
        ConfigError: it is not; the message says what to set.
    """
    if (settings.admin_tls_cert is None) != (settings.admin_tls_key is None):
        raise ConfigError("ADMIN_TLS_CERT and ADMIN_TLS_KEY belong together; set both, or neither")
    if settings.reader_password_hash and not settings.admin_password_hash:
        raise ConfigError("READER_PASSWORD_HASH needs ADMIN_PASSWORD_HASH; without it everybody may change things")
    if not has_dashboard(settings):
        if settings.admin_tls_cert is not None:
            raise ConfigError(
                "ADMIN_TLS_CERT needs the dashboard, which is not installed: pip install 'pinlater[dashboard]'"
            )
        return
    if not is_exposed(settings.admin_host):
        return
    where = f"ADMIN_HOST={settings.admin_host} opens the dashboard to other machines"
    if not settings.admin_password_hash:
        raise ConfigError(
            f"{where}: set ADMIN_PASSWORD_HASH (made by: pinlater hash-password), or DASHBOARD=false for metrics alone"
        )
    if settings.admin_tls_cert is None and not settings.admin_allow_plain:
        raise ConfigError(
            f"{where}: set ADMIN_TLS_CERT and ADMIN_TLS_KEY, or ADMIN_ALLOW_PLAIN=true if a proxy adds TLS, "
            "or DASHBOARD=false for metrics alone"
        )
