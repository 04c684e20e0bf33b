"""What surrounds the run of a job."""

import asyncio
import contextlib
from contextvars import ContextVar

import pytest

from pinlater import Discard, Job, JobContext, JobInterrupted, Retry
from pinlater.testing import run_inline

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
trail: list[str] = []


class Plain(Job, queue="around", attempts=1):
    ends: str = "well"

    def run(self, context: JobContext) -> None:
        act(self, context)


class Awaited(Job, queue="around", attempts=1):
    ends: str = "well"

    async def run(self, context: JobContext) -> None:
        await asyncio.sleep(0)
        act(self, context)


class Disguised(Job, queue="around", attempts=1):
    """Its run is a plain function that returns a coroutine."""

    ends: str = "well"

    def run(self, context: JobContext):
        async def later():
            act(self, context)

        return later()


KINDS = (Plain, Awaited, Disguised)
ENDS = {"badly": ValueError("no"), "retry": Retry(), "discard": Discard("never")}


def act(job, context):
    trail.append(f"run for {tenant.get()}")
    if job.ends == "interrupted" and not any("JobInterrupted" in step for step in trail):
        raise JobInterrupted
    if job.ends == "sleeping":
        context.sleep_for(60, name="night")
    if job.ends in ENDS:
        raise ENDS[job.ends]


def noting(name):
    @contextlib.contextmanager
    def around(job, context):
        trail.append(f"{name} before {type(job).__name__} {context.attempt}")
        try:
            yield
        except BaseException as error:
            trail.append(f"{name} sees {type(error).__name__}")
            raise
        trail.append(f"{name} after")

    return around


@contextlib.contextmanager
def for_tenant(job, context):
    task = None
    with contextlib.suppress(RuntimeError):
        task = asyncio.current_task()
    assert (task is None) == (not isinstance(job, Awaited))
    token = tenant.set("ada")
    try:
        yield
    finally:
        tenant.reset(token)


@contextlib.contextmanager
def swallowing(job, context):
    with contextlib.suppress(BaseException):
        yield


def ran(job, *middleware):
    trail.clear()
    with run_inline(*KINDS, middleware=middleware) as client:
        client.enqueue(job)
        return client.outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_is_the_outermost(kind):
    [outcome] = ran(kind(), noting("a"), noting("b"))
    assert outcome.ending == "succeeded"
    name = kind.__name__
    assert trail == [f"a before {name} 1", f"b before {name} 1", "run for nobody", "b after", "a after"]


@pytest.mark.parametrize("kind", [Plain, Awaited])
def test_context_variables_hold_in_the_job_and_no_longer(kind):
    ran(kind(), for_tenant)
    assert trail == ["run for ada"]
    assert tenant.get() == "nobody"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("ends", "endings", "seen"),
    [
        ("badly", ["failed"], "ValueError"),
        ("retry", ["failed"], "Retry"),
        ("discard", ["discarded"], "Discard"),
        ("interrupted", ["interrupted", "succeeded"], "JobInterrupted"),
        ("sleeping", ["interrupted", "succeeded"], "JobSleeps"),
    ],
)
def test_how_a_job_ends_comes_through_and_stays_so(kind, ends, endings, seen):
    outcomes = ran(kind(ends=ends), noting("a"))
    assert [str(outcome.ending) for outcome in outcomes] == endings
    assert f"a sees {seen}" in trail


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_can_be_swallowed_but_no_give_back(kind):
    assert [str(outcome.ending) for outcome in ran(kind(ends="badly"), swallowing)] == ["succeeded"]
    endings = [str(outcome.ending) for outcome in ran(kind(ends="interrupted"), swallowing, noting("a"))]
    assert endings == ["interrupted", "succeeded"]


def test_also_a_group_of_interruptions_cannot_be_swallowed():
    class Grouped(Job):
        went_back: bool = False

        async def run(self, context):
            if not self.went_back:
                self.went_back = True
                raise BaseExceptionGroup("of a task group", [JobInterrupted()])

    with run_inline(Grouped, middleware=[swallowing]) as client:
        client.enqueue(Grouped())
        assert [str(outcome.ending) for outcome in client.outcomes] == ["interrupted", "succeeded"]


@contextlib.contextmanager
def broken_before(job, context):
    raise RuntimeError("no connection")
    yield


@contextlib.contextmanager
def broken_after(job, context):
    yield
    raise RuntimeError("no commit")


@contextlib.contextmanager
def not_yielding(job, context):
    if job is None:
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("broken", "error", "has_run"),
    [
        (broken_before, "RuntimeError: no connection", False),
        (broken_after, "RuntimeError: no commit", True),
        (not_yielding, "generator didn't yield", False),
        (lambda job, context: None, "returned NoneType, not a context manager; decorate it", False),
        (lambda job: None, "TypeError", False),
    ],
)
def test_its_own_exceptions_are_failures_of_the_attempt(kind, broken, error, has_run):
    [outcome] = ran(kind(), noting("outer"), broken)
    assert outcome.ending == "failed"
    assert error in outcome.status
    assert ("run for nobody" in trail) == has_run
    assert trail[-1].startswith("outer sees")


def test_the_traceback_of_a_failure_shows_the_job_and_not_what_surrounds_it():
    [outcome] = ran(Plain(ends="badly"), noting("a"))
    assert "in act" in outcome.status
    assert "contextlib.py" not in outcome.status
    assert "pinlater/jobs/middleware.py" not in outcome.status


def test_each_job_has_surroundings_of_its_own():
    trail.clear()
    with run_inline(*KINDS, middleware=[for_tenant]) as client:
        client.enqueue_many([Plain(), Awaited(), Plain()])
    assert trail == ["run for ada"] * 3
