"""Run it: ``python -m jobs_example.demo``, or ``make demo``."""

import shutil
import signal
import sys
from pathlib import Path

from jobs_example.demo.programs import DemoError
from jobs_example.demo.screen import Screen
from jobs_example.demo.story import Story, keep_it_running
from pinlater import PinLaterError

FOLDER = Path.cwd() / ".demo"


def main() -> int:
    """Return the exit status: 0 only if everything holds."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # end as with Ctrl-C: all programs are stopped
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    screen = Screen(sys.stdout)
    try:
        holds = Story(screen, FOLDER).tell()
    except (DemoError, PinLaterError) as error:
        screen.text(f"The demonstration failed: {error}")
        return 1
    except KeyboardInterrupt:
        screen.text("Stopped; so are the server and the worker.")
        return 130
    screen.text(keep_it_running())
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
