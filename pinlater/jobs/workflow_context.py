"""What a context records of a run, alike in workers and in tests: steps, sleeps, keys and patches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from pinlater.errors import BodyInvalid, SagaUndone
from pinlater.jobs.interruptible import InterruptibleContext, StepRun
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.options import JobOptions
from pinlater.jobs.run_keys import key_of
from pinlater.jobs.saga import Saga
from pinlater.jobs.sleeping import moment_after, sleep_until
from pinlater.jobs.steps import Steps
from pinlater.model.body_metadata import BodyMetadata, SagaMark


class WorkflowContext(InterruptibleContext):
    """A context that keeps what a run has done in the metadata of the job's body."""

    _metadata: BodyMetadata

    @abstractmethod
    def _running_job(self) -> Job:
        """Return the job that runs."""

    @abstractmethod
    def _save_surely(self) -> object:
        """Save the job's body, even if that takes a while."""

    @abstractmethod
    async def _save_awaited(self) -> object:
        """Save the job's body without blocking the event loop."""

    @property
    @abstractmethod
    def _running_options(self) -> JobOptions:
        """The options of the job that runs."""

    def _record_progress(self) -> None:
        """Note that the job makes progress."""

    def _run_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        self._refuse_raw("the results of steps")
        self._record_progress()
        return self._steps.run(name, function, args, kwargs)

    def sleep_for(self, seconds: float, *, name: str) -> None:
        """Sleep without a process; see ``JobContext.sleep_for``."""
        self.sleep_until(moment_after(seconds), name=name)

    def sleep_until(self, moment: datetime | float, *, name: str) -> None:
        """Sleep until a moment; see ``JobContext.sleep_until``."""
        self._refuse_raw("sleeps")
        sleep_until(self, self._metadata.sleeps, self._sleep_names.next(name), moment, self._save_surely)

    def key(self, name: str) -> str:
        """Return an idempotency key; see ``JobContext.key``."""
        self.go_on()
        run_id = self._metadata.run_id
        if not run_id:
            run_id = self._new_run_id()
            if not isinstance(self._running_job(), RawJob):
                self._metadata.run_id = run_id
                self._save_surely()
        return key_of(run_id, name)

    @abstractmethod
    def _new_run_id(self) -> str:
        """Return the identity of this run."""

    def since(self, patch: str) -> bool:
        """Tell whether this run follows a patch; see ``JobContext.since``."""
        self._refuse_raw("patches")
        self.go_on()
        patches, metadata = self._metadata.patches, self._metadata
        if patch not in patches:
            patches[patch] = not (
                self._steps.names.is_ahead(metadata.steps)
                or self._steps.names.is_ahead(metadata.tries)
                or self._sleep_names.is_ahead(metadata.sleeps)
                or self._follow_up_names.is_ahead(metadata.enqueued)
            )
        return patches[patch]

    def saga(self) -> Saga:
        """Return a saga; see ``JobContext.saga``."""
        self._refuse_raw("a saga")
        return Saga(self, self._metadata, self._steps)

    @property
    def saga_mark(self) -> SagaMark | None:
        """What has to be undone if the job gives up."""
        return self._metadata.saga

    def begin(self) -> None:
        """Raise ``SagaUndone`` if the job has given up; what is undone may be done by steps of its own."""
        mark = self.saga_mark
        if mark is not None and mark.why and StepRun.current(self) is None:
            raise SagaUndone(f"the job gave up, and its sagas are undone: {mark.why}")

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self, self._metadata, lambda: self._running_options, self._save_surely, self._save_awaited)

    @cached_property
    def _sleep_names(self) -> NameCounter:
        return NameCounter()

    @cached_property
    def _follow_up_names(self) -> NameCounter:
        return NameCounter()

    def _refuse_raw(self, what: str) -> None:
        if isinstance(self._running_job(), RawJob):
            raise BodyInvalid(f"the body of a RawJob has no place for {what}; use a Job")
