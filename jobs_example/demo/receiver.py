"""An HTTP endpoint that receives the deliveries and sometimes fails, on a fixed schedule."""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

LOST = 10
"""Number of the event that is accepted, although its connection breaks before the response."""

REFUSED = 20
"""Number of the event that is permanently refused."""


class Answer(NamedTuple):
    """The response to a delivery.

    Attributes:
        status: HTTP status; 0 closes the connection without a response.
        retry_after: seconds for a Retry-After header; 0 is none.
        takes: whether the event is accepted.
    """

    status: int
    retry_after: int = 0
    takes: bool = False


TAKEN = Answer(200, takes=True)


def answer_to(event: dict[str, Any], tries: int) -> Answer:
    """Return the response to an event that was sent ``tries`` times before."""
    number = event.get("number")
    if number == REFUSED:
        return Answer(410)
    if number == LOST:
        return TAKEN if tries else Answer(0, takes=True)
    if number is None:  # the report's announcement
        return TAKEN if tries else Answer(500)
    if number % 6 == 1:
        return TAKEN if tries else Answer(503, retry_after=1)
    if number % 6 == 3:
        return TAKEN if tries > 1 else Answer(500)
    return TAKEN


class Delivery(NamedTuple):
    """An accepted event, and when it was accepted (epoch seconds)."""

    event: dict[str, Any]
    at: float


class Receiver:
    """Receives events on a free port of this machine while the ``with`` block lasts.

    Attributes:
        taken: accepted deliveries by idempotency key.
        first_seen: time of the first try by idempotency key (epoch seconds).
        repeats: number of deliveries that were recognized, by their key, as repeats of accepted ones.
        answers: number of responses by status.
    """

    def __init__(self) -> None:
        self.taken: dict[str, Delivery] = {}
        self.first_seen: dict[str, float] = {}
        self.repeats = 0
        self.answers: Counter[int] = Counter()
        self._tries: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/events"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def receive(self, key: str, event: dict[str, Any]) -> Answer:
        """Accept or refuse an event; return the response."""
        with self._lock:
            self.first_seen.setdefault(key, time.time())
            answer = answer_to(event, self._tries[key])
            self._tries[key] += 1
            self.answers[answer.status] += 1
            if key in self.taken:
                self.repeats += 1
            elif answer.takes:
                self.taken[key] = Delivery(event, time.time())
            return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receive = self.receive

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = receive(self.headers["Idempotency-Key"], event)
                if not answer.status:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                if answer.retry_after:
                    self.send_header("Retry-After", str(answer.retry_after))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing; the demo prints what happens."""

        return Handler
