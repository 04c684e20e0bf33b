"""Forks children, and sets each one up before its `run` and cleans up after it."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pinlater_supervisor import linux, signals
from pinlater_supervisor.child import Child
from pinlater_supervisor.child_signals import install_handlers
from pinlater_supervisor.exits import EX_OK, EX_SOFTWARE
from pinlater_supervisor.pool import Run

log = logging.getLogger("pinlater_supervisor")


class ThreadsRunningError(RuntimeError):
    """The master has threads; a fork would copy their locks in whatever state they are in."""


def refuse_threads() -> None:
    """Raise `ThreadsRunningError` unless this process has one thread only, also counting those of C libraries."""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if names:
        raise ThreadsRunningError(
            f"cannot fork safely: the master also runs the thread(s) {', '.join(names)}. "
            "Start threads, and import what starts them, inside Pool.run."
        )
    native = _native_threads()
    if native > 1:
        raise ThreadsRunningError(
            f"cannot fork safely: the master has {native} native threads, started by a C library. "
            "Import that library inside Pool.run."
        )


def _native_threads() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 1


def fork(child: Child, run: Run, leave_master: Callable[[], None]) -> int:
    """Start a child in its own process group and return its pid.

    Args:
        child: argument of `run`.
        run: what the child does; its result is the exit code.
        leave_master: called in the child to close what belongs to the master.

    Raises:
        ThreadsRunningError: the master is not single-threaded.
        OSError: the system cannot create a process.
    """
    refuse_threads()
    _flush()
    master = os.getpid()
    with signals.blocked():
        try:
            pid = os.fork()
        except BlockingIOError as error:
            advice = "wait for processes to end, or raise their limit (ulimit -u, TasksMax=, pids.max)"
            raise BlockingIOError(error.errno, f"{error.strerror}; {advice}") from error
        if pid == 0:
            _run_and_exit(child, run, leave_master, master)
    # The child does the same: whichever is first, the group exists before the master may want to kill it.
    with suppress(OSError):
        os.setpgid(pid, pid)
    return pid


def _run_and_exit(child: Child, run: Run, leave_master: Callable[[], None], master: int) -> NoReturn:
    code = EX_SOFTWARE
    try:
        _prepare(child, leave_master, master)
        code = _run(child, run)
    except BaseException:
        log.exception("%s[%d]: could not start", child.pool, child.slot)
    finally:
        _exit(code)


def _prepare(child: Child, leave_master: Callable[[], None], master: int) -> None:
    os.setpgid(0, 0)
    _die_with(master)
    leave_master()
    child.awake()
    install_handlers(child)
    _redirect_stdin()
    # Objects of the master are never garbage here: leaving their pages alone keeps them shared.
    gc.freeze()
    atexit._clear()  # noqa: SLF001 - the child must not run what the master registered
    if random := sys.modules.get("random"):
        random.seed()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.HANDLED)


def _die_with(master: int) -> None:
    linux.die_with_parent()
    if os.getppid() != master:
        # It died before the line above, so no signal will come.
        os._exit(EX_SOFTWARE)


def _redirect_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if nothing != 0:
        os.close(nothing)


def _run(child: Child, run: Run) -> int:
    try:
        result = run(child)
        child.returned()
        return _exit_code(result)
    except SystemExit as leaving:
        child.returned()
        if leaving.code is None or isinstance(leaving.code, int):
            return _exit_code(leaving.code)
        log.error("%s[%d]: %s", child.pool, child.slot, leaving.code)  # noqa: TRY400 - a message, not a failure
    except BaseException:
        log.exception("%s[%d]: uncaught exception", child.pool, child.slot)
    finally:
        child.forget_hooks()
    return 1


def _exit_code(result: object) -> int:
    """Map what does not fit into eight bits to 1: it must not wrap around to 0, success."""
    if result is None:
        return EX_OK
    return result if isinstance(result, int) and 0 <= result <= 255 else 1


def _exit(code: int) -> NoReturn:
    # A normal exit of the interpreter would run what the master registered and wait for threads.
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 - os._exit would skip what the job's libraries registered
        logging.shutdown()
        _flush()
    finally:
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
