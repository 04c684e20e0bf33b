"""What servers say of themselves when a connection is made, and what becomes of it."""

import pytest

from pinlater.server.backends.mysql.session import ServerInfo


def server(version, **variables):
    return ServerInfo.parse([[(16_777_216, version)], list(variables.items())])


@pytest.mark.parametrize(
    "version", ["10.11.6-MariaDB-0+deb12u1-log", "5.5.5-10.6.18-MariaDB", "8.0.39", "9.7.0", "8.0.35-azure"]
)
def test_the_usual_ones_are_welcome(version):
    assert server(version).incompatibility == ""


@pytest.mark.parametrize("version", ["5.7.25-TiDB-v7.1.0", "8.0.11-TiDB-v8.5.0"])
def test_tidb_is_refused(version):
    assert "TiDB accepts SKIP LOCKED but ignores it" in server(version).incompatibility


def test_a_group_whose_members_all_take_changes_is_refused():
    member = {"group_replication_group_name": "6f9d", "group_replication_single_primary_mode": "OFF"}
    assert "group_replication_single_primary_mode=ON" in server("8.0.39", **member).incompatibility


@pytest.mark.parametrize(("name", "mode"), [("6f9d", "ON"), ("", "OFF")])
def test_a_group_with_one_primary_and_no_group_at_all_are_welcome(name, mode):
    variables = {"group_replication_group_name": name, "group_replication_single_primary_mode": mode}
    assert server("8.0.39", **variables).incompatibility == ""


def settings(*arguments, **variables):
    return b" ".join(server(*arguments, **variables).settings).decode()


def test_mariadb_ends_transactions_that_stand_still():
    assert "idle_transaction_timeout = 5," in settings("10.11.6-MariaDB")


def test_mysql_ends_connections_that_stand_still_and_none_that_may_be_is_used_again():
    assert "wait_timeout = 10," in settings("8.0.39")
    assert "idle_transaction_timeout" not in settings("8.0.39")
    assert server("8.0.39").idle_seconds == 10


def test_mysql_looks_up_lists_of_any_length():
    assert "range_optimizer_max_mem_size = 0" in settings("8.0.39")


@pytest.mark.parametrize(("mode", "is_there"), [("ON", True), ("OFF", False)])
def test_nodes_of_galera_wait_for_what_the_others_have_taken(mode, is_there):
    assert ("wsrep_sync_wait = 7" in settings("10.11.6-MariaDB", wsrep_on=mode)) is is_there
