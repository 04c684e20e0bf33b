"""After the story: does everything hold? Each claim is checked against what is really there."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from jobs_example.demo.accident import Accident
from jobs_example.demo.receiver import LOST, REFUSED, Receiver
from jobs_example.demo.work import DELAY_SECONDS, EVENTS, Work
from jobs_example.source_index import STANDARD_LIBRARY, open_index, source_files
from jobs_example.thumbnails import MakeThumbnails
from pinlater import JobState
from pinlater.client import JobInfo

CLOCK_GRAIN_SECONDS = 0.01


class Claim(NamedTuple):
    """Something the demonstration says, and whether it is so."""

    text: str
    holds: bool


class Ending(NamedTuple):
    """What is known when all jobs have ended.

    Attributes:
        work: what was enqueued.
        infos: what the server says about it, by descriptor.
        receiver: where the deliveries went.
        accident: what happened on the way; None if it was missed.
    """

    work: Work
    infos: dict[str, JobInfo]
    receiver: Receiver
    accident: Accident | None

    @property
    def retried(self) -> int:
        """How many jobs succeeded only after a failed attempt."""
        return sum(
            info.state is JobState.SUCCEEDED and info.attempts_remaining < info.attempts_allowed
            for info in self.infos.values()
        )


def claims(ending: Ending) -> Iterator[Claim]:
    """Yield all claims, checked."""
    yield _all_ended(ending)
    yield _thumbnails(ending.work)
    yield _events(ending)
    yield _refused(ending)
    yield _lost_answer(ending)
    yield _delayed(ending)
    with closing(open_index(str(ending.work.index_file))) as index:
        yield _index(index)
        yield _resumed(index, ending.accident)
        yield _search(index)
    yield _report(ending)


def _all_ended(ending: Ending) -> Claim:
    states = Counter(info.state for info in ending.infos.values())
    done, failed = states[JobState.SUCCEEDED], states[JobState.FAILED]
    text = (
        f"{len(ending.work.handles)} jobs were enqueued: {done} succeeded, {ending.retried} of them after failed "
        f"attempts, and {failed} was given up on purpose"
    )
    return Claim(text, (done, failed) == (len(ending.work.handles) - 1, 1) and states.total() == done + failed)


def _thumbnails(work: Work) -> Claim:
    sizes = MakeThumbnails(photo="", folder="").sizes
    good = sum(_is_image(path) for path in work.thumbnail_folder.glob("*.jpg"))
    wanted = len(work.thumbnails) * len(sizes)
    return Claim(f"{wanted} thumbnails of {len(work.thumbnails)} photographs are there and can be read", good == wanted)


def _is_image(path: object) -> bool:
    try:
        with Image.open(str(path)) as image:
            image.load()
    except (OSError, UnidentifiedImageError):
        return False
    return True


def _events(ending: Ending) -> Claim:
    """Check what was taken: all numbers but one, the delayed event (0) and the report's announcement (None)."""
    receiver = ending.receiver
    numbers = Counter(delivery.event.get("number") for delivery in receiver.taken.values())
    wanted = Counter({*range(EVENTS + 1), None} - {REFUSED})
    failures = f"{receiver.answers[503]} times 503 and {receiver.answers[500]} times 500"
    text = f"{EVENTS - 1} of {EVENTS} events were taken, each exactly once, though the receiver answered {failures}"
    return Claim(text, numbers == wanted and receiver.answers[503] > 0 and receiver.answers[500] > 0)


def _refused(ending: Ending) -> Claim:
    info = ending.infos[ending.work.events[REFUSED - 1].descriptor]
    holds = info.state is JobState.FAILED and ending.receiver.answers[410] == 1 and "410" in info.status
    return Claim(f"event {REFUSED} was refused for good (410): one try, then discarded, its reason kept", holds)


def _lost_answer(ending: Ending) -> Claim:
    key = ending.work.events[LOST - 1].descriptor
    holds = ending.receiver.repeats == 1 and key in ending.receiver.taken
    return Claim(f"the answer to event {LOST} was lost; it came a second time, and its key gave it away", holds)


def _delayed(ending: Ending) -> Claim:
    info = ending.infos[ending.work.delayed.descriptor]
    delivery = ending.receiver.taken.get(ending.work.delayed.descriptor)
    due = (info.run_after_ms or 0) / 1000
    waited = delivery.at - due + DELAY_SECONDS if delivery else 0.0
    text = f"the event with a delay of {DELAY_SECONDS:g} s was delivered after {waited:.1f} s, not before"
    return Claim(text, waited >= DELAY_SECONDS - CLOCK_GRAIN_SECONDS)


def _index(index: sqlite3.Connection) -> Claim:
    wanted = [str(path.relative_to(STANDARD_LIBRARY)) for path in source_files()]
    found = sorted(path for (path,) in index.execute("SELECT path FROM source"))
    return Claim(f"all {len(wanted)} source files are in the index, each exactly once", found == sorted(wanted))


def _resumed(index: sqlite3.Connection, accident: Accident | None) -> Claim:
    by_attempt = dict(index.execute("SELECT attempt, count(*) FROM source GROUP BY attempt ORDER BY attempt"))
    shares = ", ".join(f"{files} by attempt {attempt}" for attempt, files in by_attempt.items())
    if accident is None:
        return Claim(f"the index was done before its process could be killed, so nothing is shown: {shares}", False)
    holds = by_attempt.keys() == {1, 2} and by_attempt[1] >= accident.cursor > 0
    return Claim(f"the index went on from its checkpoint after its process was killed: {shares}", holds)


def _search(index: sqlite3.Connection) -> Claim:
    sql = "SELECT path FROM source WHERE source MATCH 'names:bisect_left' ORDER BY rank"
    found = [path for (path,) in index.execute(sql)]
    return Claim(f"a search for the definition of bisect_left finds {', '.join(found)}", "bisect.py" in found)


def _report(ending: Ending) -> Claim:
    """Check that the report is older than the first try to announce it: the step before was not run again."""
    key = ending.work.report.descriptor
    info, report = ending.infos[key], ending.work.report_file
    failures = info.attempts_allowed - info.attempts_remaining
    text = f"the report was written once, though its last step, the announcement, took {failures + 1} attempts"
    written_once = report.exists() and report.stat().st_mtime <= ending.receiver.first_seen.get(key, 0.0)
    return Claim(text, written_once and failures >= 1 and key in ending.receiver.taken)
