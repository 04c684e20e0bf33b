"""The files of rate limits: their formats, and how changes take effect."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from pinlater.errors import ConfigError
from pinlater.model.queues import QueueSettings
from pinlater.server.config.kept_contents import KeptContents
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.limits.files import RateLimitFiles
from pinlater.server.limits.formats import count_servers, queue_rates
from pinlater.server.limits.rate_limits import RateLimits

FILE = Path("some.file")
SAMPLE = b"""{"queues": [
    {"name": "pinlater_test_queue", "queueConfig": {"maxJobsPerSecond": 100, "owner": "me"}},
    {"name": "pinlater_test_slow_queue", "queueConfig": {"maxJobsPerSecond": 0.1}},
    {"name": "pinlater_test_paused_queue", "queueConfig": {"maxJobsPerSecond": 0}}
]}"""


def config(queue="q", rate="1"):
    return f'{{"queues": [{{"name": "{queue}", "queueConfig": {{"maxJobsPerSecond": {rate}}}}}]}}'.encode()


def test_the_sample_of_the_original_is_read():
    assert queue_rates(SAMPLE, FILE) == {
        "pinlater_test_queue": 100,
        "pinlater_test_slow_queue": 0.1,
        "pinlater_test_paused_queue": 0,
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "truncated"),
        (b"\xff", "is not a queue config"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "required field `queues`"),
        (config(rate='"5"'), r"got `str` - at `\$.queues\[0\].queueConfig.maxJobsPerSecond`"),
        (config(rate="true"), "got `bool`"),
        (config(rate="NaN"), "is not a queue config"),
        (config(rate="1e999"), "out of range"),
        (config(queue="a b"), "'a b' is not a queue name"),
        (config(queue=""), "'' is not a queue name"),
        (b'{"queues": [], "more": 1}', "unknown field `more`"),
        (b'{"queues": [{"name": "q", "queueConfig": {}}]}', "required field `maxJobsPerSecond`"),
        (b'{"queues": [{"name": "q", "x": 1, "queueConfig": {"maxJobsPerSecond": 1}}]}', "unknown field `x`"),
        (b'{"queues": ' + SAMPLE[11:-2] + b"," + config("pinlater_test_queue")[12:], "twice"),
    ],
)
def test_a_wrong_queue_config_is_one_clear_error(content, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        queue_rates(content, FILE)
    assert str(caught.value).startswith("some.file: ")
    assert "\n" not in str(caught.value)


def test_servers_are_counted_once():
    assert count_servers(b"a:1\n\n b:2 \r\na:1\n::1:9010\n", FILE) == 3
    assert count_servers(b"\n", FILE) == 0


@pytest.mark.parametrize("line", ["a", "a:", ":1", "a:x", "a:0", "a:65536", "a:-1", "a:1234567890123"])
def test_a_wrong_line_of_a_server_set_is_named(line):
    with pytest.raises(ConfigError, match=r"^some.file:2: .* is not host:port"):
        count_servers(f"ok:1\n{line}\n".encode(), FILE)


def test_a_server_set_has_to_be_text():
    with pytest.raises(ConfigError, match="UTF-8"):
        count_servers(b"\xff\xfe", FILE)


# Watching


@pytest.fixture
def file(tmp_path):
    return tmp_path / "watched"


@pytest.fixture
def seen():
    return []


def test_new_content_is_told_once(file, seen):
    file.write_bytes(b"one")
    watched = WatchedFile(file, seen.append)
    watched.load()
    watched.check()
    file.write_bytes(b"two")
    watched.check()
    watched.check()
    assert seen == [b"one", b"two"]


def test_a_touch_is_no_change(file, seen):
    file.write_bytes(b"one")
    watched = WatchedFile(file, seen.append)
    watched.load()
    os.utime(file, ns=(1, 1))
    watched.check()
    assert seen == [b"one"]


def test_a_file_moved_over_it_with_the_same_size_and_time_is_seen(file, seen):
    file.write_bytes(b"one")
    os.utime(file, ns=(5, 5))
    watched = WatchedFile(file, seen.append)
    watched.load()
    other = file.with_name("other")
    other.write_bytes(b"two")
    os.utime(other, ns=(5, 5))
    other.replace(file)
    watched.check()
    assert seen == [b"one", b"two"]


def test_the_first_reading_is_strict(file):
    def refuse(_):
        raise ConfigError("no good")

    with pytest.raises(ConfigError, match="watched: cannot be read: No such file"):
        WatchedFile(file, refuse).load()
    file.write_bytes(b"x")
    with pytest.raises(ConfigError, match="no good"):
        WatchedFile(file, refuse).load()


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(b"bad"), lambda file: file.unlink()])
def test_a_file_that_is_no_good_later_has_the_content_that_was_used_last(file, seen, caplog, harm):
    def acquire(content):
        if content == b"bad":
            raise ConfigError("no good")
        seen.append(content)

    kept = KeptContents([file])
    file.write_bytes(b"the first")
    former = WatchedFile(file, acquire, kept=kept)
    former.load()
    file.write_bytes(b"second")
    former.check()
    harm(file)
    watched = WatchedFile(file, acquire, kept=kept)
    watched.load()
    assert seen == [b"the first", b"second", b"second"]
    assert "(the previous content stays in effect)" in caplog.text
    file.write_bytes(b"third")
    watched.check()
    assert kept.last(file) == seen[-1] == b"third"


def test_content_that_was_kept_in_part_is_not_used(file, monkeypatch):
    kept = KeptContents([file])
    assert kept.last(file) is None
    kept.keep(file, b"first")
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)  # as if the process had died before this
    kept.keep(file, b"two")
    assert kept.last(file) is None


def test_a_vanished_file_is_logged_once_and_picked_up_again(file, seen, caplog):
    file.write_bytes(b"one")
    watched = WatchedFile(file, seen.append)
    watched.load()
    file.unlink()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            watched.check()
        file.write_bytes(b"one")
        watched.check()
        file.write_bytes(b"three")
        watched.check()
    messages = [record.getMessage() for record in caplog.records]
    assert [message.partition(" ")[2][:14] for message in messages] == [
        "cannot be read",
        "can be read ag",
        "has changed an",
    ]
    assert seen == [b"one", b"three"]


@pytest.mark.parametrize("error", [ConfigError("bad"), ZeroDivisionError("bug")])
def test_refused_content_is_refused_once_and_the_next_one_tried(file, seen, caplog, error):
    def acquire(content):
        seen.append(content)
        if content == b"bad":
            raise error

    file.write_bytes(b"one")
    watched = WatchedFile(file, acquire)
    watched.load()
    file.write_bytes(b"bad")
    for _ in range(3):
        watched.check()
        os.utime(file)
    [record] = caplog.records
    assert "the previous content stays" in record.getMessage()
    file.write_bytes(b"good")
    watched.check()
    assert seen == [b"one", b"bad", b"good"]


# Both together


@pytest.fixture
def files(tmp_path):
    config_file, set_file = tmp_path / "queues.json", tmp_path / "servers"
    config_file.write_bytes(config(rate="100"))
    set_file.write_text("a:1\nb:1\n")
    return Settings(queue_config_file=config_file, server_set_enabled=True, server_set_file=set_file)


def record_attempt(limits_files):
    """Look at all files, as their tasks would within a second."""
    for file in limits_files._files:
        file.check()


def test_limits_are_in_force_from_the_start_and_follow_the_files(files):
    limits, changes = RateLimits(lambda: 0.0), []
    followed = RateLimitFiles(files, limits, changes.append)
    assert asyncio.run(limits.acquire("q", 1000)) == 50
    changes.clear()
    files.server_set_file.write_text("a:1\n")
    files.queue_config_file.write_bytes(config(rate="0"))
    record_attempt(followed)
    assert limits.is_paused("q")
    assert changes == [{"q"}, {"q"}]  # all of the rate, for there is one server now; then none


def test_servers_on_one_store_do_not_divide_a_rate(files):
    limits = RateLimits(lambda: 0.0)
    RateLimitFiles(files, limits, lambda _: None, is_divided=False)
    assert asyncio.run(limits.acquire("q", 1000)) == 100


def test_limits_of_the_file_and_of_the_store_are_known_as_such(files):
    limits = RateLimits(lambda: 0.0)
    followed = RateLimitFiles(files, limits, lambda _: None)
    stored = {"mail": {"is_paused": True}, "pins": {"max_running": 3}, "sms": {"jobs_per_second": 5.0}, "free": {}}
    followed.apply_stored({queue: QueueSettings(**one) for queue, one in stored.items()})
    assert {queue for queue in (*stored, "q", "other") if limits.is_limited(queue)} == {"mail", "pins", "sms", "q"}


def test_an_empty_or_malformed_server_set_keeps_the_count(files, caplog):
    limits, kept = RateLimits(lambda: 0.0), KeptContents([files.server_set_file])
    followed = RateLimitFiles(files, limits, lambda _: None, kept=kept)
    for content in ("nonsense\n", ""):
        files.server_set_file.write_text(content)
        record_attempt(followed)
    assert "lists no server (the previous content stays in effect)" in caplog.text
    assert asyncio.run(limits.acquire("q", 1000)) == 50
    replaced = RateLimits(lambda: 0.0)
    RateLimitFiles(files, replaced, lambda _: None, kept=kept)
    assert asyncio.run(replaced.acquire("q", 1000)) == 50


def test_a_server_set_that_is_empty_at_the_start_counts_this_server_until_it_lists_some(files, caplog):
    full, limits = files.server_set_file.read_text(), RateLimits(lambda: 0.0)
    files.server_set_file.write_text("\n")
    followed = RateLimitFiles(files, limits, lambda _: None)
    assert "lists no server" in caplog.text
    assert asyncio.run(limits.acquire("q", 60)) == 60
    files.server_set_file.write_text(full)
    record_attempt(followed)
    assert asyncio.run(limits.acquire("q", 1000)) == 40


def test_a_server_set_that_is_not_enabled_is_not_read(tmp_path):
    settings = Settings(server_set_file=tmp_path / "absent")
    assert RateLimitFiles(settings, RateLimits(), lambda _: None).watchers() == []


def test_a_malformed_file_prevents_the_start(files):
    files.queue_config_file.write_text("{")
    with pytest.raises(ConfigError, match=r"queues\.json"):
        RateLimitFiles(files, RateLimits(), lambda _: None)


def test_the_watch_looks_again_and_again(file):
    file.write_bytes(b"one")

    async def main():
        seen = asyncio.Queue()
        task = asyncio.create_task(WatchedFile(file, seen.put_nowait, poll_seconds=0.01).watch())
        async with asyncio.timeout(20):
            assert await seen.get() == b"one"
            file.write_bytes(b"another")
            assert await seen.get() in (b"", b"another")  # it may be met half written
        task.cancel()

    asyncio.run(main())


def test_queues_without_limits_come_and_go_and_wake_nobody():
    changes, limited = [], {"mail": QueueSettings(is_paused=True), "pins": QueueSettings(max_running=3)}
    limits = RateLimits()
    followed = RateLimitFiles(Settings(), limits, changes.append)
    followed.apply_stored(limited)
    assert (limits.is_paused("mail"), limits.max_running("pins"), changes) == (True, 3, [{"mail", "pins"}])
    followed.apply_stored(limited | {"new": QueueSettings()})
    followed.apply_stored(limited | {"new": QueueSettings(shards=2), "pins": QueueSettings(max_running=3, shards=4)})
    followed.apply_stored(limited)
    assert len(changes) == 1
    followed.apply_stored(limited | {"mail": QueueSettings()})
    assert (limits.is_paused("mail"), limits.max_running("pins"), changes[1:]) == (False, 3, [{"mail"}])
