"""What the health page of a worker says of its servers, and where it is served."""

import socket
from contextlib import closing

import pytest

from pinlater.client.servers import ServerSet
from pinlater.errors import EXIT_UNAVAILABLE, AddressMissing, ConfigError, ServerUnavailable
from pinlater.worker.claim_table.contact import Contact, contact_problem
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.endpoint import listen
from pinlater.worker.session.connector import Connector


def test_nothing_was_heard_yet():
    assert contact_problem([Contact(), Contact()]) == "no server reached yet"
    failed = Contact()
    failed.record_failure()
    assert contact_problem([failed]) == "no server reached yet"


def test_the_last_event_of_all_processes_counts():
    busy, idle = Contact(), Contact()
    busy.record_success()
    idle.record_success()
    assert contact_problem([busy, idle]) == ""
    idle.record_failure()
    assert contact_problem([busy, idle]).startswith("the last contact with a server failed; none reached for 0 s")
    busy.record_success()
    assert contact_problem([busy, idle]) == ""


def test_the_claim_table_keeps_the_last_contact_of_all_processes():
    claim_table = ClaimTable(2)
    claim_table.contact.record_failure()
    claim_table.row(1).contact.record_success()
    assert claim_table.contact_problem() == ""
    claim_table.row(1).clear()
    assert claim_table.contact_problem() == ""
    claim_table.contact.record_failure()
    assert claim_table.contact_problem()


def test_a_connector_notes_failures_and_success():
    contact = Contact()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connector = Connector(ServerSet.of(f"127.0.0.1:{server.getsockname()[1]}"), contact=contact)
        connector.connect().close()
    assert contact.success_ns
    assert not contact.failure_ns
    with pytest.raises(ServerUnavailable):
        connector.connect()
    assert contact.failure_ns > contact.success_ns


@pytest.mark.parametrize("text", ["127.0.0.1:0", ":0", "0", "localhost:0"])
def test_where_it_listens(text):
    with closing(listen(text)) as listener:
        host, _, port = listener.address.rpartition(":")
    assert host == "127.0.0.1" or (host, text) == ("[::1]", "localhost:0")
    assert port != "0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("here", "--health here: write HOST:PORT"),
        ("127.0.0.1:", "write HOST:PORT"),
        ("127.0.0.1:65536", "write HOST:PORT"),
        ("127.0.0.1:-1", "write HOST:PORT"),
        ("no such host:1", "cannot listen"),
    ],
)
def test_what_is_no_place_to_listen(text, message):
    with pytest.raises(ConfigError) as caught:
        listen(text)
    assert message in str(caught.value)


def test_an_address_that_is_missing_may_be_there_later():
    with pytest.raises(AddressMissing, match=r"--health 192\.0\.2\.1:1: cannot listen: Cannot assign") as caught:
        listen("192.0.2.1:1")
    assert caught.value.exit_status == EXIT_UNAVAILABLE


def test_a_port_that_is_taken():
    first = listen("0")
    with pytest.raises(ConfigError, match="cannot listen: Address already in use"):
        listen(first.address)
    first.close()
