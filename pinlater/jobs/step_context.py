"""The part of a job's context that records what the job has done: steps, sleeps, patches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from pinlater.jobs.saga import Saga

_P = ParamSpec("_P")
_T = TypeVar("_T")


class StepContext(ABC):
    """What ``JobContext`` offers to workflows; everything here is recorded, and skipped when the job runs again."""

    @overload
    def step(
        self, name: str, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Coroutine[Any, Any, _T]: ...

    @overload
    def step(self, name: str, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a step of a workflow and save its result; later attempts return the saved result instead.

        ::

            pages = context.step("list", list_pages, self.site)
            for page in pages:
                context.step("convert", convert, page)

        The result is saved as JSON. If the function has a return annotation, every attempt gets the result in that
        type: dates, enums, sets, bytes, dataclasses and Structs are again what they were. Otherwise the job gets text,
        numbers, booleans, None, lists and dicts. A step that was running when its process died runs again.

        With the result, a fingerprint of the call is saved: the name of the function and its arguments, as far as they
        have a form in JSON. If a later attempt makes another call under the same name, it gets ``StepMismatch``
        instead of a result that belongs elsewhere: a worker puts the job back, without spending an attempt, until code
        that fits runs it, for ``--unknown-after`` (3 days) at most. An argument that is another one in each attempt,
        such as a temporary folder, is not part of the fingerprint if it is bound:
        ``functools.partial(download, folder)``.

        A name may be used more than once: each use within an attempt is a separate step, stored as ``convert``,
        ``convert#2`` and so on. So the n-th use of a name must mean the same step in every attempt. Let loops and
        branches depend only on the record and on results of steps; read clocks, random numbers and other services
        inside steps. Each name is counted separately, so a branch whose step names occur nowhere else may run or not,
        and may be added by a deployment. Use different names in threads that run steps at the same time, and for steps
        inside a step.

        A step whose function is a coroutine function must be awaited; several can run at once::

            await asyncio.gather(*[context.step("fetch", fetch, url) for url in self.urls])

        Their uses are numbered in the order of the calls of ``step``. To retry a single step, see
        ``pinlater.retrying``; to limit its time, ``pinlater.timed``.

        Args:
            name: of the step; it may not end in ``#`` and a number.
            function: what to run; a plain or a coroutine function.
            *args: arguments of the function.
            **kwargs: keyword arguments of the function.

        Raises:
            JobInterrupted: as ``checkpoint`` does, before the step starts.
            JobSleeps: a ``retrying`` step has failed, and this ends the attempt; do not catch it.
            StepMismatch: the step has finished as another call, or its result does not fit the function's type by now.
            ValueError: the name ends in ``#`` and a number.
            BodyInvalid: the result cannot be written as JSON, or the job is a ``RawJob``, whose body cannot hold it.
            BodyTooLarge: as in ``checkpoint``.
        """
        return self._run_step(name, function, args, kwargs)

    @abstractmethod
    def _run_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any: ...

    @abstractmethod
    def saga(self) -> Saga:
        """Return a block whose finished steps are undone, the last one first, if the job gives up before its end.

        ::

            with context.saga() as saga:
                flight = saga.step("book flight", book_flight, self.trip, undo=cancel_flight)
                saga.step("book hotel", book_hotel, self.trip, flight.arrival, undo=cancel_hotel)

        ``undo`` is called with the step's result. An exception that leaves the block is a failed attempt, as without a
        saga: as long as the job has attempts, the next one continues where this one stopped, and nothing is undone. If
        the job catches the exception, the attempt fails all the same.

        The job gives up when its last attempt fails, when it raises ``Discard`` or an exception of ``give_up_on``, or
        when its ``give_up_after`` is over. Then it runs once more, with attempts for that, at least 5, and no
        ``give_up_after``: finished steps return their results, and at the first thing that is not finished
        ``SagaUndone`` is raised. When that leaves the block, each undo runs as a step of its own, ``undo book flight``:
        once, and retried if it fails or its process dies. Then the exception goes on, and the job is FAILED.

        Sleeps, drains, lost claims and cancellations undo nothing. With coroutine functions for ``undo``, write
        ``async with context.saga() as saga``.

        Raises:
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold what is to be undone.
        """

    @abstractmethod
    def key(self, name: str) -> str:
        """Return an idempotency key: the same in all attempts of this run, and another for each run, job and name.

        ::

            context.step("charge", charge, self.card, self.amount, context.key("charge"))

        A service that takes such keys does nothing twice, even if the process died after the call and before its
        result was saved. A job that is retried by hand keeps its keys, also in another queue or store. The first call
        in a run saves the record.

        Args:
            name: what the key is for. Each use of a name returns the same key.

        Returns:
            A UUID as text, 36 characters.

        Raises:
            JobInterrupted: the attempt was interrupted before.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def since(self, patch: str) -> bool:
        """Tell whether this run follows a change of the code: False if it had come past this place before the change.

        ::

            if context.since("vat-2027"):
                context.step("charge with vat", charge_with_vat, order)
            else:
                context.step("charge", charge, order)

        A run has come past if an earlier attempt has finished, or failed at, something that this attempt has not
        reached when it asks: a step, a sleep, a follow-up, a call of other jobs or an event. The answer is recorded: it
        stays the same for the rest of the run. When no run is left that began before the change, the old branch and the
        call can be deleted. Where several steps run at once, ask before they begin.

        Args:
            patch: name of the change. Each use of a name in a run has the same answer.

        Raises:
            JobInterrupted: the attempt was interrupted before.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold the answer.
        """

    @abstractmethod
    def sleep_for(self, seconds: float, *, name: str) -> None:
        """End this attempt and continue in ``seconds``, perhaps in another process or after a deployment.

        The record is saved, and the job is pending again without spending an attempt. When it is due, ``run`` starts
        from the top and skips the finished sleep, so put what comes before the sleep into steps::

            context.step("invite", invite, self.user_id)
            context.sleep_for(3 * 86400, name="time to answer")
            context.step("remind", remind, self.user_id)

        A worker with ``--burst`` does not wait for sleeping jobs.

        Args:
            seconds: counted from the first time that this line is reached.
            name: of this sleep. Each use of a name sleeps once; uses are counted as in ``step``.

        Raises:
            JobSleeps: this ends the attempt; do not catch it.
            ValueError: ``seconds`` is negative or not finite.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold it; or as in ``checkpoint``.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def sleep_until(self, moment: datetime | float, *, name: str) -> None:
        """Sleep like ``sleep_for``, until a point in time; one in the past does not wait.

        Args:
            moment: epoch seconds, or a datetime (a naive one is local time).
            name: as in ``sleep_for``.

        Raises:
            JobSleeps: as in ``sleep_for``, like its other errors.
        """
