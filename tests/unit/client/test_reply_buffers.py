"""What the blocking client allocates to read a reply: nothing that malloc would ask the system for at every call."""

import tracemalloc

import pytest

from pinlater.client.connection import Connection
from pinlater.protocol.messages import RequestContext, arguments_of
from tests.unit.client.fake_server import FakeServer

MMAP_THRESHOLD = 128 * 1024
"""Above this size, glibc's malloc may take memory from the system, and give it back when it is freed."""

NAMES = arguments_of("getQueueNames")(RequestContext("test"))


@pytest.fixture
def connect():
    opened = []

    def connect(names):
        server = FakeServer(lambda _: names)
        connection = Connection(server.address)
        opened.extend((connection, server))
        return connection

    yield connect
    for each in opened:
        each.close()


def test_a_small_reply_takes_no_buffer_that_malloc_would_map(connect):
    connection = connect({"q"})
    connection.call("getQueueNames", NAMES)
    tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(5):
        connection.call("getQueueNames", NAMES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - before < 2 * MMAP_THRESHOLD  # the server reads in this process, too


def test_a_reply_of_many_reads_arrives_whole(connect):
    names = {f"{number}" * 1000 for number in range(1000)}
    connection = connect(names)
    assert [set(connection.call("getQueueNames", NAMES)) for _ in range(2)] == [names, names]
