"""A notifier of a broker's peers, of which a test needs a part only."""

from dataclasses import dataclass
from typing import Any


def _ignore(*_: Any) -> None:
    """Notify nobody."""


@dataclass
class FakeNotifier:
    """Calls these functions; see ``pinlater.server.broker.peers.PeerNotifier``."""

    notify: Any = _ignore
    notify_polled: Any = _ignore
    notify_cancelled: Any = _ignore
