"""A signal that is sent until it is heard."""

from __future__ import annotations

import os
import select
import signal
import threading
import time

_REPEAT_SECONDS = 0.05


def repeat_once_gone(pid: int, number: int) -> None:
    """Send a signal to this process's main thread repeatedly once another process has ended.

    A single signal may come too early: between the interpreter's last check for signals and a blocking system call, it
    interrupts nothing, and its handler runs only when that call returns, if ever.
    """
    try:
        process = os.pidfd_open(pid)
    except OSError:  # an old kernel, where one signal must do; or the process is gone, which the caller checks
        return
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def repeat() -> None:
        select.select([process], [], [])
        while True:
            signal.pthread_kill(main_thread, number)
            time.sleep(_REPEAT_SECONDS)

    threading.Thread(target=repeat, name="master watch", daemon=True).start()
