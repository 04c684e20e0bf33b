"""Writes the pages of docs/reference/ from the code: settings, options, classes, additions to the wire, metrics.

Run ``make reference`` after a change of any of these; a test fails as long as the pages say something else.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
sys.path[:0] = [str(ROOT), str(ROOT / "supervisor")]

from pages.clients_page import clients  # noqa: E402 - this file is a script, run from anywhere
from pages.jobs_page import jobs  # noqa: E402
from pages.metrics_page import metrics  # noqa: E402
from pages.programs_page import programs  # noqa: E402
from pages.settings_page import settings  # noqa: E402
from pages.wire_page import wire  # noqa: E402

PAGES = {"settings": settings, "programs": programs, "jobs": jobs, "clients": clients, "wire": wire, "metrics": metrics}


def write(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(exist_ok=True)
    for name, render in PAGES.items():
        (folder / f"{name}.md").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
