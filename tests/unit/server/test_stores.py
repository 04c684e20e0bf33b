"""Stores by name: their settings, and drivers that are not there."""

import asyncio
import json
import sys

import pytest

from pinlater.errors import ConfigError
from pinlater.server.backends.unavailable import StoreUnavailable
from pinlater.server.config.kept_contents import KeptContents
from pinlater.server.config.loader import load_settings
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.stores import open_store


@pytest.mark.parametrize(("store", "driver"), [("mysql", "asyncmy"), ("redis", "redis")])
def test_a_driver_that_is_not_installed_is_named(store, driver, monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.startswith((f"pinlater.server.backends.{store}", driver))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigError, match=rf"pip install 'pinlater\[{store}\]'"):
        asyncio.run(open_store(Settings(backend=store, shards_file=tmp_path / "shards.json"), Metrics()))


@pytest.mark.parametrize("store", ["mysql", "redis"])
def test_shards_need_their_file(store):
    with pytest.raises(ConfigError, match=f"PINLATER_BACKEND={store} needs BACKEND_CONFIG"):
        load_settings(None, {"PINLATER_PINLATER_BACKEND": store}, {})


@pytest.mark.parametrize("store", ["mysql", "redis"])
def test_files_for_tls_that_were_used_before_are_no_wrong_setting(store, tmp_path):
    """They may be half renewed when a server process is replaced."""
    file, tls = tmp_path / "shards.json", {"ca": str(tmp_path / "ca.pem")}
    master = {"host": "127.0.0.1", "port": 1}
    content = {
        "mysql": {"shard1": {"master": master, "user": "pinlater", "passwd": "", "tls": tls}},
        "redis": {"shards": [{"name": "1", "shardConfig": {"master": master, "tls": tls}}]},
    }[store]
    file.write_text(json.dumps(content))
    settings, kept = Settings(backend=store, shards_file=file), KeptContents([file])
    with pytest.raises(ConfigError, match="tls") as refused:
        asyncio.run(open_store(settings, Metrics(), kept))
    assert not isinstance(refused.value, StoreUnavailable)
    kept.keep(file, file.read_bytes())
    with pytest.raises(StoreUnavailable, match="tls"):
        asyncio.run(open_store(settings, Metrics(), kept))


@pytest.mark.parametrize("prefix", ["a-b", "a b", "x" * 41, "a;b"])
def test_a_database_prefix_is_part_of_a_name(prefix):
    with pytest.raises(ConfigError, match="MYSQL_DATABASE_PREFIX"):
        load_settings(None, {}, {"MYSQL_DATABASE_PREFIX": prefix})


def test_the_settings_of_the_original_mean_what_they_did():
    options = {
        "PINLATER_BACKEND": "mysql",
        "BACKEND_CONFIG": "/etc/pinlater/mysql.json",
        "SHARD_ALLOWED_HOSTNAME_PREFIX": "pinlaterlocaldb",
        "MYSQL_NUM_DB_PER_QUEUE": "4",
        "BACKEND_CONNECTIONS_PER_SHARD": "12",
    }
    settings = load_settings(None, {}, options)
    assert (settings.shard_prefix, settings.databases_per_shard) == ("pinlaterlocaldb", 4)
    assert settings.connections_per_server == 12
