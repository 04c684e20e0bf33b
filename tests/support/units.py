"""Reading systemd units, which are not quite INI files: a key may stand there several times, and adds up."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "supervisor" / "systemd"
SERVER, WORKER, TARGET = "pinlater-server.service", "pinlater-worker@.service", "pinlater.target"
SERVICES = [SERVER, WORKER]


class Unit:
    """A unit file; ``unit["Service", "ExecStart"]`` is the last value of a key."""

    def __init__(self, path):
        self._values = {}
        section = None
        for line in path.read_text().splitlines():
            if heading := re.fullmatch(r"\[(\w+)\]", line):
                section = heading[1]
            elif line and not line.startswith("#"):
                key, equals, value = line.partition("=")
                assert section, line
                assert equals, line
                assert (key, value) == (key.strip(), value.strip()), line
                self._values.setdefault((section, key), []).append(value)

    def __getitem__(self, place):
        return self._values[place][-1]

    def all(self, section, key):
        return self._values.get((section, key), [])

    def seconds(self, key):
        """Return a time span of the service; ours have no units."""
        return float(self["Service", key])
