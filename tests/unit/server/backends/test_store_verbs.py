"""The verbs of the store contract: each declared once, with what it guarantees."""

import inspect
import re

import pytest

from pinlater.server.backends.mysql.shard import MysqlShard
from pinlater.server.backends.redis.shard import RedisShard
from pinlater.server.backends.report_store import ReportStore
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.backends.sharded import Shard, ShardedStore
from pinlater.server.backends.sqlite import SqliteStore
from pinlater.server.backends.statistics import StatisticsStore
from pinlater.server.backends.store import Store


def public(*protocols):
    return {name for protocol in protocols for name in vars(protocol) if not name.startswith("_")}


VERBS = sorted(public(Store, ReportStore, StatisticsStore) - {"close"})
READS = {"queue_names", "queue_settings", "peek_jobs", "lookup_jobs", "count_jobs", "first_due"}
READS |= {
    "scan_jobs",
    "reports",
    "states_in_use",
    "read_messages",
    "children_to_cancel",
    "failure_groups",
    "read_statistics",
}
CHANGES = sorted(set(VERBS) - READS)
UNFENCED = {"create_queue", "forget_results", "add_statistics", "forget_statistics"}


@pytest.mark.parametrize("verb", sorted(READS))
def test_what_only_reads_promises_nothing_more(verb):
    assert not re.search("^(State|Fence|Repeat): ", inspect.getdoc(getattr(Store, verb)), re.MULTILINE)


@pytest.mark.parametrize("verb", CHANGES)
def test_each_change_says_what_it_guarantees(verb):
    text = inspect.getdoc(getattr(Store, verb))
    assert re.search("^State: ", text, re.MULTILINE), "before -> after"
    assert re.search("^Repeat: ", text, re.MULTILINE), "whether it may be made again"
    assert verb in UNFENCED or re.search("^Fence: ", text, re.MULTILINE), "what keeps a late caller from changing a job"
    assert ("with ``once``" in text) == ("once" in inspect.signature(getattr(Store, verb)).parameters)


@pytest.mark.parametrize(
    ("store", "protocols"),
    [
        (SqliteStore, (Store, ServerStore)),
        (ShardedStore, (Store, ServerStore)),
        (MysqlShard, (Store, Shard)),
        (RedisShard, (Store, Shard)),
    ],
)
def test_each_store_has_all_verbs(store, protocols):
    assert public(*protocols) - {"capabilities"} <= set(dir(store))


@pytest.mark.parametrize("verb", VERBS)
def test_a_shard_and_the_sharded_store_take_what_the_store_declares(verb):
    declared = inspect.signature(getattr(Store, verb)).parameters
    for store in (ShardedStore, SqliteStore, MysqlShard, RedisShard):
        taken = inspect.signature(getattr(store, verb)).parameters
        passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
        missing = [name for name in declared if name not in taken]
        assert not missing or (
            passes_on and all(declared[name].kind is inspect.Parameter.KEYWORD_ONLY for name in missing)
        )


def test_the_shard_declares_no_verb_again():
    assert public(Store) & public(Shard) == {"dequeue_jobs"}, "which takes one argument more"
