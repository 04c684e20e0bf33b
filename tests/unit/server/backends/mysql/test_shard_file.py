"""The file of MySQL shards: the original's form, read strictly."""

import json
from pathlib import Path

import pytest

from pinlater.errors import ConfigError
from pinlater.server.backends.mysql import read_shards
from pinlater.server.backends.mysql.connection import MysqlEndpoint
from pinlater.server.backends.sharded import ShardSpec
from pinlater.server.backends.tls_files import TlsFiles

FILE = Path("shards.json")
ENTRY = {"master": {"host": "db1", "port": 3307}, "user": "pin", "passwd": "secret"}


def read(content, *, prefix="", databases=1):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_shards(content, FILE, prefix=prefix, databases=databases)


def test_the_form_of_the_original():
    full = {**ENTRY, "slave": {"host": "db2", "port": 3306}, "dequeueOnly": True}
    endpoint = MysqlEndpoint("db1", 3307, "pin", "secret")
    assert read({"pinlaterlocaldb001": ENTRY, "pinlaterlocaldb012": full}) == [
        ShardSpec("1", endpoint, is_dequeue_only=False),
        ShardSpec("12", endpoint, is_dequeue_only=True),
    ]


def test_several_databases_for_each_entry():
    names = [spec.name for spec in read({"db1": ENTRY, "db2": ENTRY}, databases=3)]
    assert names == ["1", "1d1", "1d2", "2", "2d1", "2d2"]


def test_other_keys_than_those_with_the_prefix_are_ignored():
    assert [spec.name for spec in read({"pin1": ENTRY, "other": "what you like"}, prefix="pin")] == ["1"]


def test_ways_of_encryption():
    def tls_of(**entry):
        [spec] = read({"db1": {**ENTRY, **entry}})
        return spec.endpoint.tls

    assert tls_of() is None
    assert tls_of(tls=False) is None
    assert tls_of(tls=True) == TlsFiles(ca=None)


def test_no_password_in_what_is_logged():
    [spec] = read({"db1": ENTRY})
    assert "secret" not in repr(spec)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not a valid MySQL shard file"),
        ([], "not a valid MySQL shard file"),
        ({}, "has no key"),
        ({"other1": ENTRY}, "starts with 'pin'"),
        ({"pin1": {**ENTRY, "hots": 1}}, "hots"),
        ({"pin1": {"user": "pin"}}, "master"),
        ({"pin1": {**ENTRY, "master": {"host": "db1", "port": "x"}}}, "port"),
        ({"pin1": {**ENTRY, "master": {"host": "db1", "port": 0}}}, "not a valid port"),
        ({"pin1": ENTRY, "pin001": ENTRY}, "two keys end with"),
        ({"pinx": ENTRY}, "does not end with the number"),
        ({"pin1x2": ENTRY}, "does not end with the number"),
        ({"pin1": {**ENTRY, "tls": {"ca": "/nowhere/ca.pem"}}}, "tls"),
    ],
)
def test_mistakes_are_named(content, words):
    with pytest.raises(ConfigError, match=words) as caught:
        read(content, prefix="pin")
    assert str(caught.value).startswith("shards.json: ")


def test_a_file_without_shards_is_told_so_if_no_prefix_is_asked_for():
    with pytest.raises(ConfigError, match=r"shards\.json: names no shard; write"):
        read({})
