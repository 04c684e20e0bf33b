"""Middleware: context managers around the run of every job, for logs, metrics, connections, tenants.

A middleware is called with the job and its context, and returns a context manager. A generator with
``contextlib.contextmanager`` is the shortest way to write one::

    from collections.abc import Iterator
    from contextlib import contextmanager

    from pinlater import Job, JobContext


    @contextmanager
    def in_transaction(job: Job, context: JobContext) -> Iterator[None]:
        connection = pool.take()
        try:
            with connection.transaction():  # an exception comes through here, and rolls back
                yield
        finally:
            pool.release(connection)

``pinlater-worker my_jobs --middleware my_project.middleware:in_transaction`` uses it for all jobs of a worker.

Code before the ``yield`` runs before the job, code after it when the job has succeeded. Exceptions of the job are
raised at the ``yield``: failures, ``Retry`` and ``Discard``; ``JobInterrupted`` and ``JobSleeps`` when the job goes
back to its queue and continues later; ``JobCancelled``. A middleware that swallows a failure turns it into a success;
swallowing an interruption, a sleep or a cancellation changes nothing. An exception that the middleware itself raises,
before or after the job, is a failed attempt.

A middleware runs in the thread of a plain job and in the task of an ``async def`` job, so the job sees context
variables that it sets. The class's time limits apply to job and middleware together. All jobs of a process share a
middleware, and several may run at once: store data of a single job in local variables only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from pinlater.errors import JobInterrupted, interruption_in
from pinlater.jobs.context import JobContext
from pinlater.jobs.job import Job
from pinlater.jobs.swallowed import swallowed_interruption

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext

Middleware = Callable[[Job, JobContext], AbstractContextManager[object]]
"""Wraps one run of one job."""


@contextmanager
def within(middleware: Sequence[Middleware], job: Job, context: JobContext) -> Iterator[None]:
    """Enter all ``middleware``, the first one outermost.

    Raises:
        TypeError: one of them returned no context manager.
    """
    given_back: JobInterrupted | None = None
    with ExitStack() as stack:
        try:
            for each in middleware:
                stack.enter_context(_checked(each, each(job, context)))
            with _raising_swallowed(context):
                yield
        except BaseException as error:
            given_back = interruption_in(error)
            raise
    if given_back is not None:  # a middleware has swallowed it: the unfinished job would count as succeeded
        raise given_back


@contextmanager
def _raising_swallowed(context: JobContext) -> Iterator[None]:
    """Raise an interruption that the job has swallowed, so that middleware does not see a success."""
    try:
        yield
    except BaseException as error:
        if (why := swallowed_interruption(context, error)) is not None:
            raise why from error
        raise
    if (why := swallowed_interruption(context, None)) is not None:
        raise why


async def run_within(
    middleware: Sequence[Middleware], job: Job, context: WorkflowContext, record: Callable[[object], object]
) -> None:
    """Run an ``async def`` job inside all ``middleware``, in one task; pass what it returned to ``record``."""
    with within(middleware, job, context):
        try:
            record(await job.run(context))
        except JobInterrupted:
            await context.let_steps_end()
            raise


def _checked(middleware: Middleware, made: object) -> AbstractContextManager[object]:
    if isinstance(made, AbstractContextManager):
        return made
    name = getattr(middleware, "__qualname__", repr(middleware))
    raise TypeError(
        f"middleware {name} returned {type(made).__name__}, not a context manager; "
        "decorate it with contextlib.contextmanager, and let it yield once"
    )
