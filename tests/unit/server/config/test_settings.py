"""Settings: sources and their order, types of values, and error messages."""

import logging
from pathlib import Path

import pytest

from pinlater.errors import ConfigError
from pinlater.server.config.loader import load_settings
from pinlater.server.config.settings import DECLARATIONS, IGNORED_KEYS, Settings, list_settings


@pytest.fixture
def load(tmp_path):
    file = tmp_path / "server.properties"

    def loaded(text, environ=None, options=None):
        file.write_text(text)
        return load_settings(file, environ or {}, options or {})

    return loaded


def test_nothing_is_required():
    settings = load_settings(None, {}, {})
    assert settings == Settings()
    assert (settings.thrift_host, settings.thrift_port, settings.admin_port) == ("127.0.0.1", 9010, 9999)
    assert settings.sqlite_synchronous == "FULL"
    assert settings.queue_config_file is None
    assert settings.admin_password_hash is None


def test_each_source_goes_over_the_one_before(load):
    text = "THRIFT_PORT=1\nCOUNT_LIMIT=1\nMAX_CONNECTIONS=1\n"
    settings = load(text, {"PINLATER_COUNT_LIMIT": "2", "PINLATER_MAX_CONNECTIONS": "2"}, {"MAX_CONNECTIONS": "3"})
    assert (settings.thrift_port, settings.count_limit, settings.max_connections) == (1, 2, 3)


def test_times_are_in_the_unit_of_the_attribute(load):
    settings = load("SERVER_CONN_MAX_IDLE_TIME_MINUTES=0.5\nBACKEND_MONITOR_JOB_FAILED_GC_TTL_HOURS=1.5\n")
    assert settings.max_idle_seconds == 30
    assert settings.failed_ttl_seconds == 5400


def test_a_properties_file_of_the_original_works(load):
    old = "! comment\n" + "".join(f"{key} = 5\n" for key in sorted(IGNORED_KEYS))
    old += "MYSQL_COUNT_LIMIT : 77\nTHRIFT_PORT:9011\nTHRIFT_HOST=::1\nQUEUE_CONFIG_FILE_PATH=\n"
    settings = load(old, options={"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": "/shards.json"})
    assert (settings.count_limit, settings.thrift_port, settings.thrift_host) == (77, 9011, "::1")
    assert settings.ignored_keys == tuple(sorted(IGNORED_KEYS))


@pytest.mark.parametrize(
    "line",
    [
        "MYSQL_NUM_DB_PER_QUEUE=4",
        "SHARD_ALLOWED_HOSTNAME_PREFIX=db",
        "BACKEND_CONFIG=/s.json",
        "MONITOR_LOG_INTERVAL=1",
    ],
)
def test_a_file_for_shards_that_names_no_store_never_means_sqlite(load, line):
    key = line.partition("=")[0]
    with pytest.raises(
        ConfigError, match=rf"server.properties:1: {key} applies to sharded stores only.*PINLATER_BACKEND=mysql"
    ):
        load(line + "\nPINLATER_BACKEND=\n")
    assert load(line + "\nPINLATER_BACKEND=sqlite\n").backend == "sqlite"


def test_the_syntax_is_that_of_an_environment_file(load):
    comments = "\ufeff# comment\n; comment\n\n"
    settings = load(comments + 'DATA_DIR = \'/a b/$c\' \r\n  PINLATER_ADMIN_HOST="x\\"y\\d"\nPINLATER_BACKEND=SQLite')
    assert settings.data_dir == Path("/a b/$c")
    assert settings.admin_host == 'x"y\\d'
    assert settings.backend == "sqlite"


def test_an_empty_value_means_the_default(load):
    assert load("THRIFT_PORT=1\n", {"PINLATER_THRIFT_PORT": ""}).thrift_port == 9010


def test_where_a_proxy_shows_the_dashboard_and_which_are_believed(load):
    for path in ("/pinlater", "/pinlater/"):
        assert load(f"DASHBOARD_BASE_PATH={path}\n").dashboard_base_path == "/pinlater"
    assert load("DASHBOARD_BASE_PATH=/\n").dashboard_base_path == ""
    proxies = load("ADMIN_TRUSTED_PROXIES=127.0.0.1, 10.0.0.0/8,::1\n").admin_trusted_proxies
    assert list(map(str, proxies)) == ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]
    assert load("").admin_trusted_proxies == ()


def test_the_data_directory_follows_xdg(load):
    environ = {"XDG_DATA_HOME": "/data"}
    assert load("", environ).data_dir == Path("/data/pinlater")
    assert load("DATA_DIR=\n", environ).data_dir == Path("/data/pinlater")
    assert load("DATA_DIR=/mine\n", environ).data_dir == Path("/mine")
    assert load("", {"XDG_DATA_HOME": "relative"}).data_dir == Settings().data_dir


@pytest.mark.parametrize("word", ["true", "TRUE", "yes", "on", "1"])
def test_words_for_true(load, word):
    assert load(f"SERVER_SET_ENABLED={word}\nSERVER_SET_PATH=/x\n").server_set_enabled is True


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("THRIFT_PORT=abc", "server.properties:2: THRIFT_PORT=abc is not a whole number from 0 to 65535"),
        ("THRIFT_PORT=65536", "is not a whole number from 0 to 65535"),
        ("THRIFT_PORT=\u0661", "is not a whole number"),
        ("THRIFT_PORT=9010 # local", "write comments on separate lines"),
        ("MAX_CONNECTIONS=0", "is not a whole number of at least 1"),
        ("REGEX_TIMEOUT_SECONDS=nan", "is not a number above 0"),
        ("REGEX_TIMEOUT_SECONDS=1e999", "is not a number above 0"),
        ("REGEX_TIMEOUT_SECONDS=0", "is not a number above 0"),
        ("DRAIN_SECONDS=-1", "is not a number of 0 or more"),
        ("WARN_FAILED_SHARE=20", "is not a share; write a number above 0 and up to 1"),
        ("WARN_FAILED_SHARE=0", "is not a share"),
        ("SERVER_SET_ENABLED=maybe", "write one of them"),
        ("SERVER_SET_ENABLED=true", "needs SERVER_SET_PATH"),
        ("THRIFT_PORT=9999", "THRIFT_PORT=9999 is the port of the dashboard (OSTRICH_PORT), too; choose another"),
        ("PINLATER_BACKEND=oracle", "PINLATER_BACKEND=oracle is not available; write sqlite"),
        ("SQLITE_SYNCHRONOUS=OFF", "write FULL or NORMAL"),
        ("MAX_BODY_BYTES=20000000", "does not fit into MAX_FRAME_BYTES=16384000"),
        ("THRIFT_PROT=1", "server.properties:2: THRIFT_PROT is not a setting; did you mean THRIFT_PORT?"),
        ("thrift_port=1", "did you mean THRIFT_PORT?"),
        ("BACKEND=redis", "BACKEND is not a setting; did you mean PINLATER_BACKEND?"),
        ("XYZZY=1", "see pinlater-server --list-settings"),
        ("THRIFT_PORT", "'THRIFT_PORT' is not KEY=VALUE"),
        ("export THRIFT_PORT=1", "leave out 'export'"),
        ("THRIFT PORT=1", "is not KEY=VALUE"),
        ("DASHBOARD_BASE_PATH=pinlater", "is not a URL path; write a path such as /pinlater"),
        ("DASHBOARD_BASE_PATH=/a/../b", "is not a URL path"),
        ("DASHBOARD_BASE_PATH=//a.example", "is not a URL path"),
        ("ADMIN_TRUSTED_PROXIES=nginx", "write addresses or ranges, such as 127.0.0.1,10.0.0.0/8"),
        ("ADMIN_TRUSTED_PROXIES=10.0.0.1/8", "contains an invalid address"),
        ("DATA_DIR='/a", "the quote ' is not closed"),
        ('DATA_DIR="/a\\"', 'the quote " is not closed'),
        ("DATA_DIR='/a' b", "the quote ' is not closed"),
        ("DATA_DIR=/a\\ b", "single quotes"),
    ],
)
def test_a_wrong_line_is_one_clear_error(load, line, expected):
    with pytest.raises(ConfigError) as caught:
        load(f"# first line\n{line}\n")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"), [("a" * 64, "SHA-256"), ("hunter2", "pinlater hash-password"), ("scrypt$1$2$3$salt", "hash")]
)
def test_a_password_hash_has_to_be_one_and_is_never_shown(load, value, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        load(f"ADMIN_PASSWORD_HASH={value}\n")
    assert value not in str(caught.value)


def test_a_password_hash_is_taken_and_not_printed(load):
    value = "scrypt$131072$8$1$c2FsdA==$aGFzaA=="
    settings = load(f"ADMIN_PASSWORD_HASH={value}\n")
    assert settings.admin_password_hash == value
    assert value not in repr(settings)


def test_an_error_names_the_source():
    with pytest.raises(ConfigError, match=r"^environment: PINLATER_THRIFT_PORT=x is not"):
        load_settings(None, {"PINLATER_THRIFT_PORT": "x"}, {})
    with pytest.raises(ConfigError, match=r"^option: THRIFT_PORT=x is not"):
        load_settings(None, {}, {"THRIFT_PORT": "x"})
    with pytest.raises(ConfigError, match=r"^option: PORT is not a setting"):
        load_settings(None, {}, {"PORT": "1"})


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent: the settings cannot be read: No such file"):
        load_settings(tmp_path / "absent", {}, {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_settings(tmp_path / "binary", {}, {})


def test_ignored_keys_are_reported_in_one_line(load, caplog):
    settings = load("PINLATER_BACKEND=sqlite\nBACKEND_NUM_AUTO_RETRIES=2\nBACKEND_QUERY_PARALLELISM=5\n")
    with caplog.at_level(logging.INFO):
        settings.log_notices(logging.getLogger("settings"))
    [record] = caplog.records
    assert record.getMessage().endswith("BACKEND_NUM_AUTO_RETRIES, BACKEND_QUERY_PARALLELISM")


def test_the_list_shows_every_setting_with_its_default():
    lines = list_settings().splitlines()
    assert len(lines) == len(DECLARATIONS)
    assert any(line.startswith("SERVER_CONN_MAX_IDLE_TIME_MINUTES=5 ") for line in lines)
