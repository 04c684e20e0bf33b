"""Ask the program of this container whether it is healthy; exit 1 if not.

A worker is asked for ``/livez`` at PINLATER_WORKER_HEALTH, so that an outage of the server restarts no workers. A
server is asked for ``/readyz`` on its admin port.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

SECONDS = 4.0


def url(environment: dict[str, str]) -> str:
    """Return the page to ask for."""
    if worker := environment.get("PINLATER_WORKER_HEALTH"):
        return f"http://127.0.0.1:{worker.rpartition(':')[2]}/livez"
    port = environment.get("PINLATER_OSTRICH_PORT") or environment.get("PINLATER_ADMIN_PORT") or "9999"
    scheme = "https" if environment.get("PINLATER_ADMIN_TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{port}/readyz"


def main() -> int:
    """Return the exit status; print what is wrong."""
    page = url(dict(os.environ))
    ourselves = ssl.create_default_context()  # by an address that no certificate names
    ourselves.check_hostname, ourselves.verify_mode = False, ssl.CERT_NONE
    https = urllib.request.HTTPSHandler(context=ourselves)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
    try:
        with opener.open(page, timeout=SECONDS):
            return 0
    except urllib.error.HTTPError as refusal:
        print(f"{page}: {refusal.code} {refusal.read(500).decode(errors='replace').strip()}")
    except OSError as error:
        print(f"{page}: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
