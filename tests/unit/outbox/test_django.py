"""The app of Django: its table, ``enqueue`` and ``manage.py outbox_relay``."""

import io
import json

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test.utils import override_settings

from pinlater import Job
from pinlater.outbox.django import enqueue
from pinlater.protocol.messages import PinLaterEnqueueResponse
from tests.support.django_project import use_database
from tests.unit.client.fake_server import FakeServer


class SendInvoice(Job, queue="invoices"):
    order: int

    def run(self, context):
        pass


@pytest.fixture
def database(tmp_path):
    """A database after ``manage.py migrate``."""
    connection = use_database(tmp_path / "project.db")
    call_command("migrate", verbosity=0)
    yield connection
    connection.close()


def rows(connection, table="pinlater_outbox"):
    with connection.cursor() as cursor:
        return cursor.execute(f"SELECT queue, body, options FROM {table} ORDER BY id").fetchall()


def test_a_job_is_part_of_the_transaction(database):
    with transaction.atomic():
        enqueue(SendInvoice(order=1))
        transaction.set_rollback(True)
    with transaction.atomic():
        enqueue(SendInvoice(order=2), priority=9, using="default")
    [(queue, body, options)] = rows(database)
    assert (queue, json.loads(body)["order"], json.loads(options)["priority"]) == ("invoices", 2, 9)


def test_the_command_delivers_to_the_servers_of_the_settings(database, monkeypatch):
    def answer(call):
        return PinLaterEnqueueResponse(["invoices:s1:p1:1"] * len(call.arguments.request.jobs))

    monkeypatch.delenv("PINLATER_SERVERS", raising=False)
    enqueue(SendInvoice(order=1))
    said = io.StringIO()
    with FakeServer(answer) as server, override_settings(PINLATER_SERVERS=str(server.address)):
        call_command("outbox_relay", burst=True, stdout=said)
    assert said.getvalue() == "1 job delivered\n"
    assert rows(database) == []


def test_the_servers_of_the_environment_go_first_so_that_tests_deliver_to_theirs(database, monkeypatch):
    monkeypatch.setenv("PINLATER_SERVERS", "of-the-tests:x")
    with override_settings(PINLATER_SERVERS="real:x"), pytest.raises(CommandError, match="of-the-tests:x"):
        call_command("outbox_relay", burst=True)


def test_a_burst_before_the_migration_ends(database, monkeypatch):
    monkeypatch.setattr("pinlater.outbox.relay._LONGEST_PAUSE_SECONDS", 0.1)
    call_command("migrate", "pinlater_outbox", "zero", verbosity=0)
    with pytest.raises(CommandError, match=r"no such table.*; create the table with: manage\.py migrate"):
        call_command("outbox_relay", burst=True)


def test_what_is_configured_wrongly_is_an_error_of_the_command(database, monkeypatch):
    monkeypatch.delenv("PINLATER_SERVERS", raising=False)
    with pytest.raises(CommandError, match="invalid choice: 'nope'"):
        call_command("outbox_relay", "--database", "nope", "--burst")
    with override_settings(PINLATER_SERVERS="nowhere:x"), pytest.raises(CommandError, match="nowhere:x"):
        call_command("outbox_relay", burst=True)


def test_jobs_are_flushed_with_all_other_data_as_between_tests(database):
    enqueue(SendInvoice(order=1))
    call_command("flush", interactive=False, verbosity=0)
    assert rows(database) == []


def test_the_model_is_what_the_migration_says_and_has_the_columns_of_the_table(database):
    call_command("makemigrations", "--check", verbosity=0)
    enqueue(SendInvoice(order=1), priority=2)
    [row] = apps.get_model("pinlater_outbox", "OutboxRow").objects.all()
    assert (row.queue, json.loads(row.options)["priority"], row.refusals, row.error) == ("invoices", 2, 0, None)


def test_the_table_may_have_another_name_and_the_migration_can_be_undone(database):
    call_command("migrate", "pinlater_outbox", "zero", verbosity=0)
    with override_settings(PINLATER_OUTBOX_TABLE="shop_outbox"):
        call_command("migrate", verbosity=0)
        enqueue(SendInvoice(order=1))
    assert len(rows(database, "shop_outbox")) == 1
