"""The options of an enqueue about the key that jobs share."""

from __future__ import annotations

from pinlater.jobs.enqueue_options import KeyOf
from pinlater.jobs.job import Job
from pinlater.jobs.keys import NO_RULE, checked_key, key_of_class, key_rule
from pinlater.model.keys import JobKey


class KeyOptions:
    """The options of an enqueue about keys, which replace those of the job's class.

    Args:
        key: see ``EnqueueOptions`` for this and the other three.

    Attributes:
        are_given: whether any of them is given.

    Raises:
        ValueError: an option is out of its range, or two contradict each other.
        TypeError: an option is of another type.
    """

    def __init__(
        self, key: str | KeyOf | None, running_per_key: int | None, in_order: bool | None, rate_per_key: str | None
    ) -> None:
        self._text = None if key is None or callable(key) else checked_key(key)
        self._key_of = key if callable(key) else None
        self._rule = key_rule(running_per_key, in_order, rate_per_key)
        self.are_given = key is not None or self._rule is not None

    def key(self, job: Job) -> JobKey | None:
        """Return the key of a job.

        Raises:
            ValueError: there is a rule but no key, or the key is invalid.
            TypeError: the key is not a text.
        """
        if not self.are_given:
            return key_of_class(job)
        rule = self._rule or job.job_options.key_rule or NO_RULE
        if self._text is not None:
            return JobKey(self._text, *rule)
        if self._key_of is not None:
            text = self._key_of(job)
            return None if text is None else JobKey(checked_key(text), *rule)
        if job.job_options.key is None:
            raise ValueError(
                f"running_per_key, rate_per_key and in_order are about a key; {job.job_options.name} has none, so give "
                "key=…"
            )
        found = key_of_class(job)
        return found and JobKey(found.text, *rule)
