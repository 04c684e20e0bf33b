"""Connections to a database that break again and again, in the middle of anything."""

import contextlib
import random
import time

import pytest

from pinlater import Client
from tests.support.ledger import Ledger
from tests.support.lossy_proxy import LossyProxy
from tests.support.mariadb_service import shared_service
from tests.support.server import ServerProcess, wait_for
from tests.support.shared_stores import mysql_settings

ROUNDS = 5
CUTS = 20


@pytest.fixture
def proxy():
    with contextlib.closing(LossyProxy(shared_service().port)) as proxy:
        yield proxy


@pytest.fixture
def server(tmp_path, proxy):
    with ServerProcess(tmp_path / "server", **mysql_settings(tmp_path, proxy.port)) as server:
        with Client(server.address) as client:
            client.create_queue("q")
        yield server
        assert server.stop() == 0


def test_no_job_has_two_holders_or_is_forgotten_however_often_connections_break(server, proxy):
    chance = random.Random(3)
    ledger = Ledger()
    with ledger.at_work(server.address, "q", producers=3, holders=4):
        for _ in range(ROUNDS):
            enough = len(ledger.confirmed) + 50
            wait_for(lambda enough=enough: len(ledger.confirmed) >= enough)
            for _ in range(CUTS):
                time.sleep(chance.uniform(0.0, 0.05))
                proxy.cut()
    assert ledger.faults() == []
