"""For development: watches the files of the jobs' modules and reloads the worker after each edit."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from pinlater_supervisor import Child

from pinlater.errors import ConfigError

_POLL_MS = 200

log = logging.getLogger(__name__)


def refuse_without_watchfiles() -> None:
    """Check that ``watchfiles`` is installed.

    Raises:
        ConfigError: it is not; says what to install.
    """
    if importlib.util.find_spec("watchfiles") is None:
        raise ConfigError("--reload needs the package watchfiles: pip install 'pinlater[dev]'")


def folders_of(names: Sequence[str]) -> list[Path]:
    """Return the folders to watch for modules and files, without importing them.

    For a module in a package this is the outermost package's folder, since modules import each other.
    """
    found = [folder for name in names for folder in _folders(name) if folder.is_dir()]
    return list(dict.fromkeys(found)) or [Path.cwd()]


def _folders(name: str) -> list[Path]:
    if name.endswith(".py"):
        return [Path(name).resolve().parent]
    spec = PathFinder.find_spec(name.partition(".")[0], [str(Path.cwd()), *sys.path])
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(place).resolve() for place in spec.submodule_search_locations]
    return [Path(spec.origin).resolve().parent] if spec.origin else []


def watch_modules(child: Child, names: Sequence[str]) -> None:
    """Ask the master to reload after each edit, until told to stop; runs in a separate process."""
    from watchfiles import watch

    class Stop:
        def is_set(self) -> bool:
            return child.draining

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    folders = folders_of(names)
    is_watching = False
    for changes in watch(
        *folders, watch_filter=_is_source, stop_event=Stop(), rust_timeout=_POLL_MS, yield_on_timeout=True
    ):
        if not is_watching:  # the first pass comes only when the watch is set up
            is_watching = True
            child.ready()
            if not child.generation:
                log.info("--reload: watching %s", ", ".join(map(str, folders)))
        if changes:
            _ask_for_reload({Path(path) for _, path in changes})


def _ask_for_reload(paths: set[Path]) -> None:
    log.info("--reload: %s edited; reloading", ", ".join(sorted(map(_shown, paths))))
    os.kill(os.getppid(), signal.SIGHUP)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _is_source(_change: object, path: str) -> bool:
    """Tell whether a file is a Python source, not an editor's temporary file."""
    name = os.path.basename(path)  # noqa: PTH119 - called for every file that changes
    return name.endswith(".py") and not name.startswith(".")
