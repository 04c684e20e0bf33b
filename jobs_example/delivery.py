"""Deliver an event to an HTTP endpoint that sometimes fails.

This example shows retries. An exception is a failed attempt, and ``backoff`` sets the delay before the next one. If the
endpoint says how long to wait, the job raises ``Retry(after=...)``. An event that it will never accept is discarded.
"""

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pinlater import Discard, Exponential, Job, JobContext, Retry

TIMEOUT_SECONDS = 10
WORTH_ANOTHER_TRY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


class DeliverEvent(Job, queue="deliveries", attempts=6, backoff=Exponential(first=0.5, cap=600), latency_target=10):
    """Deliver one event.

    Attributes:
        url: where to POST it.
        event: what to POST, as JSON.
    """

    url: str
    event: dict[str, Any]

    def run(self, context: JobContext) -> None:
        post(self.url, self.event, key=context.descriptor)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: following one turns the POST into a GET, and the event would be lost."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener = build_opener(_NoRedirects)


def post(url: str, event: Mapping[str, Any], key: str) -> None:
    """POST ``event`` as JSON.

    A response can be lost after the event was accepted, so the event may be sent again. ``key`` is the same for all
    attempts, so the receiver can recognize it.

    Raises:
        Retry: the receiver asks to try again later.
        Discard: it permanently refuses the event.
        OSError: any other failure; worth another attempt.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = Request(url, json.dumps(event).encode(), headers)
    try:
        with _opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            response.read()
    except HTTPError as error:
        with error:
            after = error.headers.get("Retry-After")
        if after:
            raise Retry(after=_seconds(after), reason=f"{error}; Retry-After: {after}") from error
        if 400 <= error.code < 500 and error.code not in WORTH_ANOTHER_TRY:
            raise Discard(f"{url}: {error}") from error
        raise


def _seconds(after: str) -> float:
    """Read ``Retry-After``: a number of seconds or a date."""
    return float(after) if after.isdecimal() else max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
