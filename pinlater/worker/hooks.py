"""Start and stop hooks of job processes: ``--on-start`` and ``--on-stop``."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pinlater.jobs.loader import load_hooks
from pinlater.worker.options import WorkerOptions
from pinlater.worker.session.failure_text import describe_error

log = logging.getLogger(__name__)


class Hooks:
    """Loads and calls the hooks that the options name.

    Args:
        options: settings of the worker.

    Raises:
        ConfigError: a hook cannot be loaded.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._on_start = load_hooks("--on-start", options.on_start)
        self._on_stop = load_hooks("--on-stop", options.on_stop)

    def start(self) -> bool:
        """Call the start hooks in order until one fails; return whether all succeeded."""
        return all(_succeeds("--on-start", hook) for hook in self._on_start)

    def stop(self) -> None:
        """Call all stop hooks in order, even if some fail."""
        for hook in self._on_stop:
            _succeeds("--on-stop", hook)


def _succeeds(option: str, hook: Callable[[], object]) -> bool:
    name = f"{getattr(hook, '__module__', '')}:{getattr(hook, '__qualname__', repr(hook))}"
    try:
        hook()
    except BaseException as error:  # also SystemExit is a failure of the hook
        reason = describe_error(error)
        log.exception("%s %s failed: %s", option, name, reason)
        return False
    return True
