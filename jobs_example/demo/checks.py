"""Check the results of the demo against files, the index, the receiver and the server."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from jobs_example.demo.crash import Crash
from jobs_example.demo.receiver import LOST, REFUSED, Receiver
from jobs_example.demo.work import DELAY_SECONDS, EVENTS, Work
from jobs_example.source_index import STANDARD_LIBRARY, open_index, source_files
from jobs_example.thumbnails import MakeThumbnails
from pinlater import JobState
from pinlater.client import JobInfo

CLOCK_GRAIN_SECONDS = 0.01


class Check(NamedTuple):
    """A statement about the results, and whether it is true."""

    text: str
    holds: bool


class Outcome(NamedTuple):
    """The results when all jobs have ended.

    Attributes:
        work: the enqueued jobs.
        infos: what the server knows about them, by descriptor.
        receiver: the endpoint of the deliveries.
        crash: the process that was killed; None if the index was done too early.
    """

    work: Work
    infos: dict[str, JobInfo]
    receiver: Receiver
    crash: Crash | None

    @property
    def retried(self) -> int:
        """Number of jobs that succeeded after a failed attempt."""
        return sum(
            info.state is JobState.SUCCEEDED and info.attempts_remaining < info.attempts_allowed
            for info in self.infos.values()
        )


def check_all(outcome: Outcome) -> Iterator[Check]:
    """Yield the result of each check."""
    yield _all_ended(outcome)
    yield _thumbnails(outcome.work)
    yield _events(outcome)
    yield _refused(outcome)
    yield _lost_answer(outcome)
    yield _delayed(outcome)
    with closing(open_index(str(outcome.work.index_file))) as index:
        yield _index(index)
        yield _resumed(index, outcome.crash)
        yield _search(index)
    yield _report(outcome)


def _all_ended(outcome: Outcome) -> Check:
    states = Counter(info.state for info in outcome.infos.values())
    done, failed = states[JobState.SUCCEEDED], states[JobState.FAILED]
    text = (
        f"{len(outcome.work.handles)} jobs were enqueued: {done} succeeded, {outcome.retried} of them after failed "
        f"attempts, and {failed} was given up on purpose"
    )
    return Check(text, (done, failed) == (len(outcome.work.handles) - 1, 1) and states.total() == done + failed)


def _thumbnails(work: Work) -> Check:
    sizes = MakeThumbnails(photo="", folder="").sizes
    good = sum(_is_image(path) for path in work.thumbnail_folder.glob("*.jpg"))
    wanted = len(work.thumbnails) * len(sizes)
    return Check(f"{wanted} thumbnails of {len(work.thumbnails)} photographs exist and can be read", good == wanted)


def _is_image(path: object) -> bool:
    try:
        with Image.open(str(path)) as image:
            image.load()
    except (OSError, UnidentifiedImageError):
        return False
    return True


def _events(outcome: Outcome) -> Check:
    """Check the accepted events: all numbers but one, the delayed event (0) and the report's announcement (None)."""
    receiver = outcome.receiver
    numbers = Counter(delivery.event.get("number") for delivery in receiver.taken.values())
    wanted = Counter({*range(EVENTS + 1), None} - {REFUSED})
    failures = f"{receiver.answers[503]} times 503 and {receiver.answers[500]} times 500"
    text = f"{EVENTS - 1} of {EVENTS} events were accepted, each exactly once, despite {failures}"
    return Check(text, numbers == wanted and receiver.answers[503] > 0 and receiver.answers[500] > 0)


def _refused(outcome: Outcome) -> Check:
    info = outcome.infos[outcome.work.events[REFUSED - 1].descriptor]
    holds = info.state is JobState.FAILED and outcome.receiver.answers[410] == 1 and "410" in info.status
    return Check(f"event {REFUSED} was permanently refused (410): discarded after one attempt, with its reason", holds)


def _lost_answer(outcome: Outcome) -> Check:
    key = outcome.work.events[LOST - 1].descriptor
    holds = outcome.receiver.repeats == 1 and key in outcome.receiver.taken
    return Check(f"the response to event {LOST} was lost; it was sent again and recognized by its key", holds)


def _delayed(outcome: Outcome) -> Check:
    info = outcome.infos[outcome.work.delayed.descriptor]
    delivery = outcome.receiver.taken.get(outcome.work.delayed.descriptor)
    due = (info.run_after_ms or 0) / 1000
    waited = delivery.at - due + DELAY_SECONDS if delivery else 0.0
    text = f"the event with a delay of {DELAY_SECONDS:g} s was delivered after {waited:.1f} s"
    return Check(text, waited >= DELAY_SECONDS - CLOCK_GRAIN_SECONDS)


def _index(index: sqlite3.Connection) -> Check:
    wanted = [str(path.relative_to(STANDARD_LIBRARY)) for path in source_files()]
    found = sorted(path for (path,) in index.execute("SELECT path FROM source"))
    return Check(f"all {len(wanted)} source files are in the index, each exactly once", found == sorted(wanted))


def _resumed(index: sqlite3.Connection, crash: Crash | None) -> Check:
    by_attempt = dict(index.execute("SELECT attempt, count(*) FROM source GROUP BY attempt ORDER BY attempt"))
    shares = ", ".join(f"{files} by attempt {attempt}" for attempt, files in by_attempt.items())
    if crash is None:
        return Check(f"the index was done before its process could be killed, so this shows nothing: {shares}", False)
    holds = by_attempt.keys() == {1, 2} and by_attempt[1] >= crash.cursor > 0
    return Check(f"the index continued from its checkpoint after its process was killed: {shares}", holds)


def _search(index: sqlite3.Connection) -> Check:
    sql = "SELECT path FROM source WHERE source MATCH 'names:bisect_left' ORDER BY rank"
    found = [path for (path,) in index.execute(sql)]
    return Check(f"a search for the definition of bisect_left finds {', '.join(found)}", "bisect.py" in found)


def _report(outcome: Outcome) -> Check:
    """Check that the report is older than its first announcement: the step before was not run again."""
    key = outcome.work.report.descriptor
    info, report = outcome.infos[key], outcome.work.report_file
    failures = info.attempts_allowed - info.attempts_remaining
    text = f"the report was written once, although its last step, the announcement, took {failures + 1} attempts"
    written_once = report.exists() and report.stat().st_mtime <= outcome.receiver.first_seen.get(key, 0.0)
    return Check(text, written_once and failures >= 1 and key in outcome.receiver.taken)
