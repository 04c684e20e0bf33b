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
    """The methods of ``JobContext`` for workflows; what they have done is recorded, and not done again."""

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

        The result is saved as JSON. If the function has a return annotation, every attempt gets a result of that type:
        dates, enums, sets, bytes, dataclasses and Structs survive. Otherwise every attempt gets text, numbers,
        booleans, None, lists and dicts. A step that was running when its process died runs again.

        A fingerprint of the call is saved with the result: the name of the function and its arguments, if JSON can
        carry them. If a later attempt makes a different call under the same name, it does not get a result that belongs
        to another call: the worker puts the job back without spending an attempt, until a worker with fitting code
        runs it, or until ``--unknown-after`` (3 days) is over and ``StepMismatch`` is raised. An argument that differs
        in each attempt, such as a temporary folder, stays out of the fingerprint if it is bound:
        ``functools.partial(download, folder)``.

        A name may be used more than once: each use within an attempt is a separate step, stored as ``convert``,
        ``convert#2`` and so on. So the n-th use of a name must mean the same step in every attempt. Let loops and
        branches depend only on the job's fields and on results of steps; read clocks, random numbers and other services
        inside steps. Each name is counted separately, so a branch whose step names occur nowhere else may be taken in
        some attempts only, and may be added by a deployment. Use different names in threads that run steps at the same
        time, and for steps inside a step.

        A step whose function is a coroutine function must be awaited, or the attempt fails; several can run at once::

            await asyncio.gather(*[context.step("fetch", fetch, url) for url in self.urls])

        Uses of a name are numbered in the order in which ``step`` is called. To retry a single step, see
        ``pinlater.retrying``; to limit its time, ``pinlater.timed``.

        Args:
            name: name of the step; it must not end in ``#`` and a number.
            function: what to run; a plain or a coroutine function.
            *args: arguments of the function.
            **kwargs: keyword arguments of the function.

        Raises:
            JobInterrupted: as in ``checkpoint``, before the step starts.
            JobSleeps: a ``retrying`` step has failed, or the job waits for fitting code. This ends the attempt; do not
                catch it.
            StepMismatch: the recorded step was another call, or its result does not fit the function's return type any
                more, and the job has waited long enough for fitting code.
            TypeError: ``function`` is no function but, for example, the result of calling one.
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
        """Return a context manager whose finished steps are undone, last first, if the job gives up before its end.

        ::

            with context.saga() as saga:
                flight = saga.step("book flight", book_flight, self.trip, undo=cancel_flight)
                saga.step("book hotel", book_hotel, self.trip, flight.arrival, undo=cancel_hotel)

        ``undo`` is called with the step's result. An exception that leaves the block fails the attempt, as without a
        saga: while attempts remain, the next one continues where this one stopped, and nothing is undone. The attempt
        fails even if the job catches the exception outside the block.

        The job gives up when its last attempt fails, when it raises ``Discard`` or an exception in ``give_up_on``, when
        its ``give_up_after`` is over, or when it is cancelled. Then it runs again to undo, with at least 5 attempts and
        without ``give_up_after``: finished steps return their results, and ``SagaUndone`` is raised at the first thing
        that is not finished. When that leaves the block, each ``undo`` runs as a separate step, named like
        ``undo book flight``, and is retried if it fails or its process dies. Then ``SagaUndone`` is raised again, and
        the job is FAILED.

        Sleeps, drains and lost claims undo nothing. If an ``undo`` is a coroutine function, write
        ``async with context.saga() as saga``.

        Raises:
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold what is to be undone.
        """

    @abstractmethod
    def key(self, name: str) -> str:
        """Return an idempotency key: the same in all attempts of this run, but different for each run, job and name.

        ::

            context.step("charge", charge, self.card, self.amount, context.key("charge"))

        A service that accepts such keys carries out the call once, even if the process dies after the call but before
        its result is saved. A job that is retried by hand keeps its keys, even in another queue or store. The first
        call in a run saves the record.

        Args:
            name: what the key is for. Each use of a name returns the same key.

        Returns:
            A UUID as text, 36 characters.

        Raises:
            JobInterrupted: the attempt was already interrupted.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def since(self, patch: str) -> bool:
        """Return whether this run follows a change of the code: False if it had passed this place before the change.

        ::

            if context.since("vat-2027"):
                context.step("charge with vat", charge_with_vat, order)
            else:
                context.step("charge", charge, order)

        A run has passed this place if an earlier attempt has finished, or failed at, something that this attempt has
        not reached yet: a step, a sleep, a follow-up, a call of other jobs or an event. The answer is recorded and
        stays the same for the rest of the run. When no run from before the change is left, delete the old branch and
        this call. If several steps run at once, call ``since`` before they start.

        Args:
            patch: name of the change. Each use of a name in a run gets the same answer.

        Raises:
            JobInterrupted: the attempt was already interrupted.
            BodyInvalid: the job is a ``RawJob``, whose body cannot hold the answer.
        """

    @abstractmethod
    def sleep_for(self, seconds: float, *, name: str) -> None:
        """End this attempt and continue after ``seconds``, perhaps in another process or after a deployment.

        The record is saved, and the job is pending again without spending an attempt. When it is due, ``run`` starts
        from the top and skips the finished sleep, so put the work before the sleep into steps::

            context.step("invite", invite, self.user_id)
            context.sleep_for(3 * 86400, name="time to answer")
            context.step("remind", remind, self.user_id)

        A worker with ``--burst`` does not wait for sleeping jobs.

        Args:
            seconds: duration, counted from when the run first reaches this call.
            name: name of this sleep. Each use of a name sleeps once; uses are counted as in ``step``.

        Raises:
            JobSleeps: this ends the attempt; do not catch it.
            ValueError: ``seconds`` is negative or not finite.
            BodyInvalid: the job is a ``RawJob``, whose body cannot record the sleep; or as in ``checkpoint``.
            BodyTooLarge: as in ``checkpoint``.
        """

    @abstractmethod
    def sleep_until(self, moment: datetime | float, *, name: str) -> None:
        """Sleep like ``sleep_for``, but until a point in time; return at once if that has passed.

        Args:
            moment: epoch seconds, or a datetime (a naive one is local time).
            name: as in ``sleep_for``.

        Raises:
            JobSleeps: as in ``sleep_for``, which lists the other errors.
        """
