"""Deliveries to an endpoint that answers as the test says."""

import json
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError

import pytest

from jobs_example.delivery import DeliverEvent
from pinlater import Discard, Retry
from pinlater.testing import FakeContext


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.command, self.headers, body))
        status, headers = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self):
        self.server.requests.append((self.command, self.headers, b""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    server.requests = []
    server.answer = (200, {})
    server.url = f"http://127.0.0.1:{server.server_port}/events"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def deliver(endpoint, status=200, **headers):
    endpoint.answer = (status, {name.replace("_", "-"): value for name, value in headers.items()})
    DeliverEvent(url=endpoint.url, event={"pin": 7}).run(FakeContext())


def test_the_event_arrives_with_its_key(endpoint):
    deliver(endpoint, 204)
    ((method, headers, body),) = endpoint.requests
    assert method == "POST"
    assert json.loads(body) == {"pin": 7}
    assert headers["Idempotency-Key"] == "test:s1:p1:1"


def test_a_receiver_that_says_when_is_obeyed(endpoint):
    with pytest.raises(Retry) as raised:
        deliver(endpoint, 503, Retry_After="7")
    assert raised.value.after == 7
    assert "503" in raised.value.reason


def test_when_may_be_a_date(endpoint):
    with pytest.raises(Retry) as raised:
        deliver(endpoint, 429, Retry_After=format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert 3500 < raised.value.after <= 3600


def test_a_date_in_the_past_means_now(endpoint):
    with pytest.raises(Retry) as raised:
        deliver(endpoint, 503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
    assert raised.value.after == 0


@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429, 302])
def test_what_may_pass_is_left_to_the_backoff(endpoint, status):
    with pytest.raises(HTTPError):
        deliver(endpoint, status)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_what_is_refused_for_good_is_discarded(endpoint, status):
    with pytest.raises(Discard, match=str(status)):
        deliver(endpoint, status)


def test_a_redirect_does_not_lose_the_event(endpoint):
    with pytest.raises(HTTPError):
        deliver(endpoint, 303, Location=endpoint.url)
    assert [method for method, *_ in endpoint.requests] == ["POST"]


def test_nobody_there_is_worth_another_attempt(endpoint):
    endpoint.server_close()
    with pytest.raises(OSError):
        deliver(endpoint)


def test_delays_grow(endpoint):
    backoff = DeliverEvent.job_options.backoff
    delays = [backoff.delay(attempts, chance=lambda: 0.0) for attempts in (1, 2, 3)]
    assert delays == [0.5, 1.0, 2.0]
