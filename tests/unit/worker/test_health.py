"""What the health page of a worker says of its servers, and where it is served."""

import socket
from contextlib import closing

import pytest

from pinlater.client.servers import ServerSet
from pinlater.errors import ConfigError, ServerUnavailable
from pinlater.worker.claim_table.contact import Contact, why_out_of_contact
from pinlater.worker.claim_table.table import Board
from pinlater.worker.endpoint import listen
from pinlater.worker.session.connector import Connector


def test_nothing_was_heard_yet():
    assert why_out_of_contact([Contact(), Contact()]) == "no server was reached yet"
    failed = Contact()
    failed.failed()
    assert why_out_of_contact([failed]) == "no server was reached yet"


def test_the_last_event_of_all_processes_counts():
    busy, idle = Contact(), Contact()
    busy.heard()
    idle.heard()
    assert why_out_of_contact([busy, idle]) == ""
    idle.failed()
    assert why_out_of_contact([busy, idle]).startswith("the last contact with a server failed; none was heard for 0 s")
    busy.heard()
    assert why_out_of_contact([busy, idle]) == ""


def test_the_board_shows_the_contact_of_all_and_keeps_it():
    board = Board(2)
    board.contact.failed()
    board.slot(1).contact.heard()
    assert board.why_out_of_contact() == ""
    board.slot(1).clear()
    assert board.why_out_of_contact() == ""
    board.contact.failed()
    assert board.why_out_of_contact()


def test_a_connector_notes_failures_and_success():
    contact = Contact()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connector = Connector(ServerSet.of(f"127.0.0.1:{server.getsockname()[1]}"), contact=contact)
        connector.connect().close()
    assert contact.heard_ns
    assert not contact.failed_ns
    with pytest.raises(ServerUnavailable):
        connector.connect()
    assert contact.failed_ns > contact.heard_ns


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
        ("192.0.2.1:1", "--health 192.0.2.1:1: cannot listen there"),
        ("no such host:1", "cannot listen there"),
    ],
)
def test_what_is_no_place_to_listen(text, message):
    with pytest.raises(ConfigError) as caught:
        listen(text)
    assert message in str(caught.value)


def test_a_port_that_is_taken():
    first = listen("0")
    with pytest.raises(ConfigError, match="cannot listen there: Address already in use"):
        listen(first.address)
    first.close()
