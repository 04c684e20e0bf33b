"""What a project wants done in each job process when it starts and when it ends: ``--on-start`` and ``--on-stop``."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pinlater.jobs.loader import load_hooks
from pinlater.worker.options import Options
from pinlater.worker.session.outcome import said_by

log = logging.getLogger(__name__)


class Hooks:
    """Functions of a project.

    Args:
        options: which name them.

    Raises:
        ConfigError: one cannot be had.
    """

    def __init__(self, options: Options) -> None:
        self._on_start = load_hooks("--on-start", options.on_start)
        self._on_stop = load_hooks("--on-stop", options.on_stop)

    def start(self) -> bool:
        """Call those of the start, in order; return whether all of them succeeded."""
        return all(_succeeds("--on-start", hook) for hook in self._on_start)

    def stop(self) -> None:
        """Call those of the end, in order; one that fails keeps no other from being called."""
        for hook in self._on_stop:
            _succeeds("--on-stop", hook)


def _succeeds(option: str, hook: Callable[[], object]) -> bool:
    name = f"{getattr(hook, '__module__', '')}:{getattr(hook, '__qualname__', repr(hook))}"
    try:
        hook()
    except Exception as error:
        reason = said_by(error)
        log.exception("%s %s failed: %s", option, name, reason)
        return False
    return True
