"""Schedules in words, and as they are where there are no simple words."""

import pytest

from pinlater.jobs.schedule import schedule_of
from pinlater.model.schedule_words import schedule_in_words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((None, 60, "UTC"), "every minute"),
        ((None, 90, "UTC"), "every 90 seconds"),
        ((None, 1.5, "UTC"), "every 1.5 seconds"),
        ((None, 7200, "UTC"), "every 2 hours"),
        ((None, 86400, "UTC"), "every day"),
        (("0 3 * * *", None, "Europe/Berlin"), "at 03:00 every day, Europe/Berlin"),
        (("30 2,14 * * 0", None, "UTC"), "at 02:30 and 14:30 on Sunday, UTC"),
        (("0 3 * * mon-fri", None, "UTC"), "at 03:00 from Monday to Friday, UTC"),
        (("0 3 * 1,jul 7", None, "UTC"), "at 03:00 on Sunday in January and July, UTC"),
        (("0 3 13 * 5", None, "UTC"), "at 03:00 on day 13 of the month or on Friday, UTC"),
        (("0 3 1-7 * *", None, "UTC"), "at 03:00 from day 1 to 7 of the month, UTC"),
        (("0 3 L * *", None, "UTC"), "at 03:00 on the last day of the month, UTC"),
        (("* * * * *", None, "UTC"), "every minute, UTC"),
        (("*/15 * * * *", None, "UTC"), "every 15 minutes, UTC"),
        (("*/5 8-18 * * *", None, "UTC"), "every 5 minutes from hour 08 to 18, UTC"),
        (("5 * * * *", None, "UTC"), "every hour at minute 5, UTC"),
        (("0 */2 * * *", None, "UTC"), "every 2 hours at minute 0, UTC"),
        (
            ("0,30 9-17 * * 1-5", None, "UTC"),
            "every hour at minute 0 and 30 from hour 09 to 17 from Monday to Friday, UTC",
        ),
        (("*/7 * * * *", None, "UTC"), "cron */7 * * * * UTC"),
        (("1-5/2 * * * *", None, "UTC"), "cron 1-5/2 * * * * UTC"),
        (("0 3 * * 5#2", None, "UTC"), "cron 0 3 * * 5#2 UTC"),
        (("0 3 */2 * *", None, "UTC"), "cron 0 3 */2 * * UTC"),
    ],
)
def test_schedules_in_words(options, words):
    assert schedule_in_words(schedule_of(*options).text) == words


@pytest.mark.parametrize(
    "text", ["", "x", "cron", "every x", "every", "cron 0 3 * * 99 UTC", "cron 0 3 * * 1,x UTC", "cron 0 3 1-x * * UTC"]
)
def test_what_is_no_schedule_is_left_as_it_is(text):
    assert schedule_in_words(text) == text
