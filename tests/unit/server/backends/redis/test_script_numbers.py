"""Numbers that scripts have in common with Python."""

import re
from pathlib import Path

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends import redis
from pinlater.server.backends.key_turns import ORDERED, TURN_JOBS

SCRIPTS = Path(redis.__file__).parent / "scripts"


def test_scripts_decide_about_keys_by_the_same_numbers():
    text = (SCRIPTS / "parts" / "keys.lua").read_text(encoding="utf-8")
    [numbers] = re.findall(r"local WAITS, TURN_JOBS, AT_ONCE, ORDERED = (\d+), (\d+), \d+, (\d+)", text)
    assert tuple(map(int, numbers)) == (WAITS_FOR_KEY_MS, TURN_JOBS, ORDERED)


def test_what_waits_for_a_key_is_counted_from_the_same_number():
    assert f"low = '{WAITS_FOR_KEY_MS}'" in (SCRIPTS / "count_jobs.lua").read_text(encoding="utf-8")
