"""Writes anew what users can see: names, bytes of calls, help texts, settings. ``make snapshot`` calls it.

``test_surface`` compares; whoever changes something on purpose commits the new snapshot with the change.
"""

import tempfile
import textwrap
from pathlib import Path

from tests.surface import programs, public_names, wire_bytes, worker_calls

FOLDER = Path(__file__).with_name("snapshots")
WIDTH = 120


def _in_folder(render):
    def rendered_there():
        with tempfile.TemporaryDirectory() as folder:
            return render(Path(folder))

    return rendered_there


PAGES = {
    "names": public_names.render,
    "imports": public_names.render_imports,
    "calls": wire_bytes.render_calls,
    "replies": wire_bytes.render_replies,
    "results": wire_bytes.render_results,
    "help": programs.render_help,
    "settings": programs.render_settings,
    "metrics": programs.render_metrics,
    "paths": programs.render_paths,
    "json": _in_folder(programs.render_json),
    "worker": _in_folder(worker_calls.render),
}
"""Name of a file -> what makes its text."""


def rendered(name):
    """Return a page: long lines are broken, so that a difference is easy to read."""
    lines = [short for line in PAGES[name]().splitlines() for short in _shortened(line)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _shortened(line):
    if len(line) <= WIDTH:
        return [line.rstrip()]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def path_of(name):
    """Return the file of a page."""
    return FOLDER / f"{name}.txt"


def main():
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        path_of(name).write_text(rendered(name), encoding="utf-8")


if __name__ == "__main__":
    main()
