"""Rules about the server and its store."""

from pinlater.errors import NoHealthyShards, NotConnected, ServerUnavailable
from pinlater.triage.readings import ServerReading, ShardReading, StoreCalls
from pinlater.triage.store_rules import (
    certificate_ends,
    server_away,
    server_not_ready,
    shard_away,
    store_full,
    store_slow,
)
from tests.unit.triage.readings import NOW_MS, found, kinds, readings


def server(*shards, **fields):
    return readings(server=ServerReading(shards, **fields))


def test_a_server_takes_no_calls():
    [finding] = found(server_not_ready, server(problem="the store is being upgraded"))
    assert finding.sentence == "The server is not ready to take calls: the store is being upgraded."
    assert found(server_not_ready, server()) == []


def test_no_server_answers_or_it_answers_nothing_but_errors():
    silent, failing = server_away(ServerUnavailable("refused")), server_away(NoHealthyShards("no shard answers"))
    assert silent.severity == failing.severity == "critical"
    assert silent.sentence == "No server answers: refused. Jobs are neither stored nor handed out."
    assert failing.sentence.startswith("The server answers every call with: no shard answers.")
    assert "databases" in failing.advice


def test_who_reads_a_finding_is_not_told_what_to_write_in_a_program():
    assert server_away(NotConnected("queue1:9010: refused")).sentence.startswith(
        "No server answers: queue1:9010: refused."
    )


def test_a_shard_is_away():
    [finding] = found(shard_away, server(ShardReading("2", "refused", NOW_MS - 30_000), ShardReading("1")))
    assert (finding.severity, finding.shard) == ("critical", "2")
    assert finding.sentence.startswith("Shard 2 of the store has not answered for 30 seconds: refused.")
    assert found(shard_away, server(ShardReading("1"))) == found(shard_away, readings()) == []
    [missing] = found(shard_away, readings(missing_shards=["3"]))
    assert (missing.title, missing.shard) == ("Shard 3 of the store does not answer", "3")
    assert "limit of running jobs" in missing.sentence, "it stops, although other shards have jobs"


def test_a_store_is_nearly_full():
    low = ShardReading("1", used_bytes=1e9, free_bytes=150e6)
    [finding] = found(store_full, server(low, ShardReading("2", used_bytes=1e9, free_bytes=9e9), ShardReading("3")))
    assert (finding.severity, finding.shard) == ("warning", "1")
    assert "143 MiB are left for shard 1 of the store. It uses 954 MiB." in finding.sentence
    [finding] = found(store_full, server(low._replace(free_bytes=10e6)))
    assert finding.severity == "critical"
    [finding] = found(store_full, server(ShardReading("1", used_bytes=100e9, free_bytes=4e9)))
    assert finding.severity == "warning", "a small share"


def test_a_certificate_expires():
    def ending(days):
        return found(certificate_ends, server(certificate_ends=NOW_MS / 1000 + days * 86400))

    [finding] = ending(3)
    assert (finding.severity, finding.title) == ("warning", "The server's TLS certificate expires soon")
    assert "expires on 2023-11-17 at 22:13 UTC, in 3 days. Then workers" in finding.sentence
    assert [one.severity for one in ending(0.5)] == ["critical"]
    [over] = ending(-0.25)
    assert (over.severity, over.title) == ("critical", "The server's TLS certificate has expired")
    assert "expired on 2023-11-14 at 16:13 UTC, 6 hours ago. Workers and clients that check it" in over.sentence
    assert ending(8) == found(certificate_ends, server()) == found(certificate_ends, readings()) == []
    assert kinds(server(certificate_ends=1.0)) == ["certificate_ends"]


def test_a_store_is_slow():
    quick = StoreCalls("dequeue", 5000, 0.001)
    [finding] = found(store_slow, server(store_calls=[quick, StoreCalls("ack", 50, 0.8)]))
    assert (finding.kind, finding.severity) == ("store_slow", "warning")
    assert "One in twenty calls of ack to the store takes 800 ms or longer" in finding.sentence
    [finding] = found(store_slow, server(store_calls=[StoreCalls("ack", 50, 5)]))
    assert finding.severity == "critical"
    assert found(store_slow, server(store_calls=[StoreCalls("ack", 1, 5, 5), quick])) == []
    assert found(store_slow, server(store_calls=[StoreCalls("ack", 2, 5, 0.1)])) == [], "one of two"
    assert len(found(store_slow, server(store_calls=[StoreCalls("ack", 2, 5, 4)]))) == 1
    assert found(store_slow, server(store_calls=[StoreCalls("ack", 50, 0.05)])) == []


def test_one_of_several_shards_is_slow():
    slow, sound, also = StoreCalls("2", 9, 1.2), StoreCalls("1", 9, 0.005), StoreCalls("3", 9, 0.9)
    calls = [StoreCalls("ack", 50, 0.8)]
    [finding] = found(store_slow, server(store_calls=calls, shard_calls=[slow, sound]))
    assert finding.shard == "2"
    assert "Of the shards, 2 is slow: 1 second." in finding.sentence
    for shards in ([slow, also, sound], [slow]):
        [finding] = found(store_slow, server(store_calls=calls, shard_calls=shards))
        assert (finding.shard, "Of the shards" in finding.sentence) == (None, False)


def test_a_store_refuses_work():
    [finding] = found(store_slow, server(failed_commits=3, refused_calls=7))
    assert finding.severity == "critical"
    assert "3 transactions of the store failed and 7 calls were refused" in finding.sentence


def test_without_metrics_the_reader_s_own_call_tells():
    [finding] = found(store_slow, readings(answer_seconds=0.9))
    assert "A small call to the server took 900 ms." in finding.sentence
    assert found(store_slow, readings(answer_seconds=0.01)) == []


def test_nothing_is_wrong():
    assert kinds(server(ShardReading("1"), store_calls=[StoreCalls("ack", 50, 0.01)])) == []
