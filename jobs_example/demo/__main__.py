"""Run it: ``make demo``, or ``python -m jobs_example.demo [FOLDER]``; what an earlier run left there is removed."""

import shutil
import signal
import sys
from pathlib import Path

from jobs_example.demo.programs import DemoError, Server
from jobs_example.demo.screen import Screen
from jobs_example.demo.story import Story, keep_it_running
from pinlater import PinLaterError


def main(folder: Path) -> int:
    """Return the exit status: 0 only if everything holds."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # however it ends, all programs are stopped
    screen = Screen(sys.stdout)
    try:
        make_room(folder)
        holds = Story(screen, folder).tell()
    except (DemoError, PinLaterError) as error:
        screen.text(f"The demonstration failed: {error}")
        return 1
    except KeyboardInterrupt:
        screen.text("Stopped; so are the server and the worker.")
        return 130
    screen.text(keep_it_running(folder))
    return 0 if holds else 1


def make_room(folder: Path) -> None:
    """Remove an earlier run; anything else stays."""
    if (folder / Server.LOG).exists():
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    if any(folder.iterdir()):
        raise DemoError(f"{folder} has files that are not of an earlier run; name another folder")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo").absolute()))
