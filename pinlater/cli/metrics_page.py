"""Metrics and readiness of a server, read from its admin port."""

from __future__ import annotations

import asyncio
import re
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pinlater.triage.server_samples import ServerSample

_MAX_BYTES = 64 * 2**20
_NOT_IN_URLS = re.compile(r"[\x00-\x20\x7f]")


class AdminPort:
    """Reads pages of a server's admin port.

    Args:
        url: address of the port, such as ``http://127.0.0.1:9999``.
        timeout: seconds to wait for a page.
        tls_ca: PEM file of trusted certificate authorities; None for those of the system.

    Raises:
        ValueError: it is not an HTTP address.
    """

    def __init__(self, url: str, timeout: float, tls_ca: str | None) -> None:
        self._url = checked_url(url).rstrip("/")
        self._timeout = timeout
        self._opener = opener(tls_ca)

    async def sample(self) -> ServerSample:
        """Return the current metrics and readiness.

        Raises:
            OSError: the port does not answer.
            ValueError: it does not serve the metrics of a PinLater server.
        """
        from pinlater.triage.server_samples import parse_metrics

        _, text = await asyncio.to_thread(self._page, "/metrics")
        status, reason = await asyncio.to_thread(self._page, "/readyz")
        return parse_metrics(text)._replace(problem="" if status == HTTPStatus.OK else " ".join(reason.split()))

    def _page(self, path: str) -> tuple[int, str]:
        try:
            with self._opener.open(self._url + path, timeout=self._timeout) as answer:
                return answer.status, answer.read(_MAX_BYTES).decode("utf-8", "replace")
        except urllib.error.HTTPError as refusal:
            with refusal:
                if path != "/readyz" or refusal.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise OSError(f"{path} is refused with status {refusal.code}") from None
                return refusal.code, refusal.read(_MAX_BYTES).decode("utf-8", "replace")
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise OSError(f"the address does not answer ({reason}); is this an admin port?") from None
        except HTTPException as error:
            raise OSError(f"{path} has no HTTP answer ({type(error).__name__}); is this an admin port?") from None


def checked_url(url: str) -> str:
    """Return an HTTP address unchanged.

    Raises:
        ValueError: it is not an HTTP address; the message omits it, since it may contain a secret.
    """
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_http = is_http and not _NOT_IN_URLS.search(url)
    except ValueError:
        is_http = False
    if not is_http:
        raise ValueError("an address must begin with http:// or https://, name a host, and have no spaces")
    return url


def opener(tls_ca: str | None = None) -> urllib.request.OpenerDirector:
    """Return an opener for HTTP addresses that follows no redirects."""
    context = ssl.create_default_context(cafile=tls_ca)
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Refuse: requests must not go to an address other than the given one."""
