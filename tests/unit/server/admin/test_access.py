"""Settings of the admin port: when it may be reachable from other machines."""

import pytest

from pinlater.errors import ConfigError
from pinlater.server.admin import access
from pinlater.server.config.loader import load_settings
from tests.unit.dashboard.app import ADMIN_HASH, READER_HASH

TLS = {"ADMIN_TLS_CERT": "/c.pem", "ADMIN_TLS_KEY": "/k.pem"}


def check(**options):
    access.check_access(load_settings(None, {}, options))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_needs_no_password(host):
    check(ADMIN_HOST=host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "2001:db8::1"])
def test_other_machines_need_a_password_and_tls(host):
    with pytest.raises(ConfigError, match=r"ADMIN_PASSWORD_HASH.*hash-password"):
        check(ADMIN_HOST=host)
    with pytest.raises(ConfigError, match="ADMIN_TLS_CERT and ADMIN_TLS_KEY, or ADMIN_ALLOW_PLAIN=true"):
        check(ADMIN_HOST=host, ADMIN_PASSWORD_HASH=ADMIN_HASH)
    with pytest.raises(ConfigError, match="ADMIN_PASSWORD_HASH"):
        check(ADMIN_HOST=host, **TLS)
    check(ADMIN_HOST=host, ADMIN_PASSWORD_HASH=ADMIN_HASH, **TLS)
    check(ADMIN_HOST=host, ADMIN_PASSWORD_HASH=ADMIN_HASH, ADMIN_ALLOW_PLAIN="true")


def test_metrics_alone_may_be_open():
    check(ADMIN_HOST="0.0.0.0", DASHBOARD="false")


def test_what_belongs_together():
    with pytest.raises(ConfigError, match="belong together"):
        check(ADMIN_TLS_CERT="/c.pem")
    with pytest.raises(ConfigError, match="READER_PASSWORD_HASH needs ADMIN_PASSWORD_HASH"):
        check(READER_PASSWORD_HASH=READER_HASH)
    check(READER_PASSWORD_HASH=READER_HASH, ADMIN_PASSWORD_HASH=ADMIN_HASH)


def test_where_the_dashboard_is_not_installed_only_tls_cannot_be_had(monkeypatch):
    monkeypatch.setattr(access, "find_spec", lambda name: None if name == "jinja2" else object())
    check(ADMIN_HOST="0.0.0.0")
    with pytest.raises(ConfigError, match="pip install"):
        check(**TLS)


def test_no_hash_is_printed():
    text = repr(load_settings(None, {}, {"READER_PASSWORD_HASH": READER_HASH, "ADMIN_PASSWORD_HASH": ADMIN_HASH}))
    assert "scrypt" not in text
