"""What the guide of the outbox takes for granted: a project of Django on the same file, and visitors of web pages."""

import os

from django.core.management import call_command
from starlette.testclient import TestClient

from pinlater import Client, JobState
from tests.support.django_project import use_database
from tests.support.server import wait_for


def prepare(sandbox):
    connection = use_database(sandbox.folder / "shop.db")
    sandbox.at_the_end.callback(connection.close)
    sandbox.at_the_end.callback(os.environ.pop, "DJANGO_SETTINGS_MODULE", None)


def afterwards(page, server):
    """Deliver the orders of the page with the command of Django, then one of each web page."""
    del server
    with Client() as client:
        call_command("outbox_relay", burst=True)
        assert client.count("invoices", JobState.PENDING, future=True) == 1  # with a delay
        assert client.count("invoices", JobState.PENDING) == 2
        assert page["app"].test_client().post("/orders", data={"article": "bed"}).json == {"order": 4}
        with TestClient(page["api"]) as visitor:
            assert visitor.post("/orders?article=sofa").json() == {"order": 5}
            wait_for(lambda: client.count("invoices", JobState.PENDING) == 4)
    page["engine"].dispose()
