"""What jobs do that are to stop: ways to notice it, or not, and a trail of what they have done."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from pinlater import Job
from pinlater.jobs.body_codec import JobCodec
from pinlater.worker.processes import task_team
from tests.support.savers import InBody
from tests.unit.worker.processes import team_jobs

trail = []


class Next(Job, queue="jobs"):
    pass


def swallow(context):
    with contextlib.suppress(BaseException):
        context.checkpoint()
    with contextlib.suppress(BaseException):
        context.step("mail", trail.append, "mail")


def in_threads(context):
    with ThreadPoolExecutor(2) as pool:
        for number in range(4):
            pool.submit(context.step, f"mail {number}", trail.append, "mail")


WAYS = {
    "checkpoint": lambda context: context.checkpoint(),
    "step": lambda context: context.step("mail", trail.append, "mail"),
    "known step": lambda context: context.step("first", trail.append, "mail"),
    "sleep": lambda context: context.sleep_for(60, name="a while"),
    "enqueue": lambda context: context.enqueue(Next(), name="next"),
    "iterate": lambda context: [trail.append(item) for item in context.iterate(["mail"])],
    "return": lambda context: None,
    "reschedule": lambda context: context.reschedule(after=5),
    "swallow": swallow,
    "threads": in_threads,
}


class FakeSaver(InBody):
    is_draining = is_saving = False

    def save(self, batch, position, encode):
        return True


@contextlib.contextmanager
def team_of_tasks(monkeypatch, *kinds):
    """A team of tasks that knows these classes, too."""
    monkeypatch.setattr(task_team, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(team_jobs, "JobCodec", lambda known: JobCodec([*known, *kinds]))
    team_jobs.gate.clear()
    bench = team_jobs.Bench(8, team_jobs.task_team)
    try:
        yield bench
    finally:
        team_jobs.gate.set()
        bench.team.close()
        bench.waker.close()
