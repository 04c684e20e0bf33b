"""Numbers that scripts have in common with Python."""

import re
from pathlib import Path

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends import redis
from pinlater.server.backends.key_turns import ORDERED, TURN_JOBS

SCRIPTS = Path(redis.__file__).parent / "scripts"


def test_scripts_decide_about_keys_by_the_same_numbers():
    text = (SCRIPTS / "parts" / "key_entries.lua").read_text(encoding="utf-8")
    [(names, values)] = re.findall(r"local (WAITS, [A-Z_, ]+) = ([\d, ]+)", text)
    numbers = dict(zip(names.split(", "), map(int, values.split(", ")), strict=True))
    assert numbers.items() >= {"WAITS": WAITS_FOR_KEY_MS, "TURN_JOBS": TURN_JOBS, "ORDERED": ORDERED}.items()


def test_what_waits_for_a_key_is_counted_from_the_same_number():
    assert f"low = '{WAITS_FOR_KEY_MS}'" in (SCRIPTS / "count_jobs.lua").read_text(encoding="utf-8")
