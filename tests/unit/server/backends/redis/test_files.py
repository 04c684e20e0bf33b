"""What the Redis store reads: the file of shards, the scripts, a server's settings."""

import json
import re
from pathlib import Path

import pytest

from pinlater.errors import ConfigError
from pinlater.server.backends.redis.durability import durability_warnings
from pinlater.server.backends.redis.records import retry_time, time_argument
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.redis.shard_file import read_shards
from pinlater.server.backends.tls_files import TlsFiles

FILE = Path("shards.json")
MASTER = {"host": "redis1", "port": 6379}
SENTINEL = {"service": "jobs", "nodes": [{"host": "s1", "port": 26379}, {"host": "s2", "port": 26379}]}


def shards(**configs):
    return json.dumps({"shards": [{"name": name, "shardConfig": config} for name, config in configs.items()]}).encode()


def test_the_file_of_the_original_is_read():
    content = b"""{"shards": [
        {"name": "1", "shardConfig": {"master": {"host": "localhost", "port": 6379},
                                      "slave": {"host": "localhost", "port": 6379}, "dequeueOnly": false}},
        {"name": "3", "shardConfig": {"master": {"host": "localhost", "port": 6379}, "dequeueOnly": true}}]}"""
    one, three = read_shards(content, FILE)
    assert (one.name, one.is_dequeue_only, one.endpoint.master) == ("1", False, ("localhost", 6379))
    assert (three.name, three.is_dequeue_only) == ("3", True)
    assert one.endpoint == three.endpoint


def test_ways_to_get_in():
    config = {
        "sentinel": SENTINEL | {"passwd": "whisper"},
        "db": 2,
        "user": "pinlater",
        "passwd": "secret",
        "tls": True,
    }
    (spec,) = read_shards(shards(a=config), FILE)
    assert spec.endpoint.master is None
    assert (spec.endpoint.service, spec.endpoint.sentinels) == ("jobs", (("s1", 26379), ("s2", 26379)))
    assert (spec.endpoint.db, spec.endpoint.username, spec.endpoint.password) == (2, "pinlater", "secret")
    assert spec.endpoint.sentinel_password == "whisper"
    assert spec.endpoint.tls == TlsFiles()
    assert not {"secret", "whisper"} & {*re.findall(r"\w+", f"{spec} {spec.endpoint}")}, "this gets into logs"
    (plain,) = read_shards(shards(a={"master": MASTER, "tls": False}), FILE)
    assert plain.endpoint.tls is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not a valid Redis shard file"),
        (b"[]", "is not a valid Redis shard file"),
        (b'{"shards": []}', "lists no shard"),
        (shards(a={"master": MASTER, "colour": "red"}), "colour"),
        (shards(a={}), "needs either a master or a sentinel"),
        (shards(a={"master": MASTER, "sentinel": SENTINEL}), "needs either a master or a sentinel"),
        (shards(a={"sentinel": SENTINEL | {"nodes": []}}), "at least one entry in nodes"),
        (shards(a={"master": MASTER | {"port": 0}}), "is not a valid address"),
        (shards(a={"master": MASTER | {"host": ""}}), "is not a valid address"),
        (shards(a={"master": MASTER, "db": -1}), "is negative"),
        (shards(a={"master": MASTER, "tls": {"ca": "/no/such/ca.pem"}}), "file /no/such/ca.pem does not exist"),
        (shards(**{"a:b": {"master": MASTER}}), "a name is"),
        (shards(**{"a}": {"master": MASTER}}), "a name is"),
        (shards(**{"": {"master": MASTER}}), "a name is"),
        (
            json.dumps({"shards": [{"name": "1", "shardConfig": {"master": MASTER}}] * 2}).encode(),
            "two shards have the same name",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_place(content, complaint):
    with pytest.raises(ConfigError, match=r"shards\.json: .*") as caught:
        read_shards(content, FILE)
    assert complaint in str(caught.value)


def test_every_script_says_what_it_does():
    assert len(scripts()) > 15
    for script in scripts().values():
        assert script.text.startswith("-- ")
        assert "KEYS[1]" in script.text
        assert len(script.sha) == 40


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"appendonly": "no", "save": ""}, "a restart loses every job"),
        ({"appendonly": "no", "save": "3600 1"}, "since the last snapshot"),
        ({"appendonly": "yes", "appendfsync": "no"}, "set appendfsync everysec or always"),
        ({"appendonly": "yes", "maxmemory": "1000", "maxmemory-policy": "allkeys-lru"}, "maxmemory-policy noeviction"),
        ({"appendonly": "yes", "maxmemory": "1000", "maxmemory-policy": "volatile-ttl"}, "which unique keys are taken"),
    ],
)
def test_settings_that_cost_jobs_are_warned_of(config, expected):
    (warning,) = durability_warnings(config)
    assert expected in warning


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"appendonly": "yes", "appendfsync": "always"},
        {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": "0", "maxmemory-policy": "allkeys-lru"},
        {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": "1000", "maxmemory-policy": "noeviction"},
    ],
)
def test_settings_that_keep_jobs_are_not(config):
    assert durability_warnings(config) == []


def test_numbers_that_lua_cannot_hold_go_as_text():
    assert time_argument(2**53) == 2**53
    assert time_argument(2**53 + 1) == "9007199254740993"
    assert time_argument(-(2**63)) == "-9223372036854775808"
    assert time_argument(None) is None
    with pytest.raises(OverflowError):
        time_argument(2**63)
    assert retry_time(1000, 5) == 1005
    assert retry_time(1000, -5) == 1000
    assert retry_time(1000, 2**62) == 2**63 - 1
