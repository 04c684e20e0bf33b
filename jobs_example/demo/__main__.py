"""Run the demo: ``make demo``, or ``python -m jobs_example.demo [FOLDER]``. Files of an earlier run are removed."""

import shutil
import signal
import sys
from pathlib import Path

from jobs_example.demo.programs import DemoError, Server
from jobs_example.demo.scenario import Scenario, next_steps
from jobs_example.demo.screen import Screen
from pinlater import PinLaterError


def main(folder: Path) -> int:
    """Run the demo; return the exit status, 0 only if all checks pass."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that all programs are stopped, however the demo ends
    screen = Screen(sys.stdout)
    try:
        prepare_folder(folder)
        holds = Scenario(screen, folder).run()
    except (DemoError, PinLaterError) as error:
        screen.text(f"The demo failed: {error}")
        return 1
    except KeyboardInterrupt:
        screen.text("Stopped, with the server and the worker.")
        return 130
    screen.text(next_steps(folder))
    return 0 if holds else 1


def prepare_folder(folder: Path) -> None:
    """Remove the files of an earlier run; refuse a folder with other files."""
    if (folder / Server.LOG).exists():
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    if any(folder.iterdir()):
        raise DemoError(f"{folder} has files that are not from an earlier run; name another folder")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo").absolute()))
