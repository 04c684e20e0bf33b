"""``pinlater-server --check`` looks at the store: its file of shards, its shards, its directory."""

import json

import pytest
from click.testing import CliRunner

from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE
from pinlater.server.program import main
from tests.support.ports import free_port
from tests.support.stores import SHARED_STORES


def check(settings):
    return CliRunner().invoke(
        main, ["--check", *(word for pair in settings.items() for word in ("--set", "=".join(pair)))]
    )


@pytest.mark.parametrize("store", sorted(SHARED_STORES))
def test_the_store_is_named_when_its_shards_answer(tmp_path, store):
    result = check(SHARED_STORES[store](tmp_path))
    assert result.exit_code == 0, result.output
    assert f"store: {store}, 1 shard (" in result.output


@pytest.mark.parametrize("store", sorted(SHARED_STORES))
def test_a_shard_that_does_not_answer_is_named(tmp_path, store):
    settings = SHARED_STORES[store](tmp_path)
    file = tmp_path / f"{store}-shards.json"
    content = json.loads(file.read_text())
    port = free_port()
    if store == "redis":
        absent = {"name": "2", "shardConfig": {"master": {"host": "127.0.0.1", "port": port}}}
        content["shards"].append(absent)
    else:
        content["shard2"] = content["shard1"] | {"master": {"host": "127.0.0.1", "port": port}}
    file.write_text(json.dumps(content))
    result = check(settings)
    assert result.exit_code == EXIT_UNAVAILABLE
    assert "the settings are valid, but the store does not answer: shard 2" in result.output
    assert str(port) in result.output


def test_a_file_of_shards_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "shards.json"
    file.write_text("{")
    for path in (file, tmp_path / "none.json"):
        result = check({"PINLATER_BACKEND": "mysql", "BACKEND_CONFIG": str(path)})
        assert result.exit_code == EXIT_CONFIG
        assert str(path) in result.output


def test_the_directory_of_the_sqlite_store_has_to_be_usable_and_is_not_made(tmp_path):
    result = check({"DATA_DIR": str(tmp_path / "new" / "store")})
    assert result.exit_code == 0
    assert f"store: sqlite in {tmp_path}/new/store" in result.output
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    result = check({"DATA_DIR": str(tmp_path / "file" / "store")})
    assert result.exit_code == EXIT_CONFIG
    assert f"{tmp_path}/file is not a directory" in result.output


def test_a_variable_that_no_program_reads_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PINLATER_THRFT_PORT", "9020")
    result = check({"DATA_DIR": str(tmp_path)})
    assert result.exit_code == 0
    assert "no program of PinLater reads PINLATER_THRFT_PORT (did you mean PINLATER_THRIFT_PORT?)" in result.stderr


def test_the_certificate_of_the_dashboard_is_read(tmp_path):
    files = {"ADMIN_TLS_CERT": str(tmp_path / "none.pem"), "ADMIN_TLS_KEY": str(tmp_path / "none.key")}
    result = check({"DATA_DIR": str(tmp_path)} | files)
    assert result.exit_code == EXIT_CONFIG
    assert "none.pem" in result.output
