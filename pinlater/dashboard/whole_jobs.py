"""Jobs with all results of their steps, including those that are stored outside their bodies."""

from __future__ import annotations

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.kept_results import kept_name, with_results
from pinlater.model.jobs import JobInfo

_MOST_MESSAGES = 1000
"""Most messages with results that are read; a job with more of them is shown without these results."""


async def find_whole(client: AsyncVerbs, descriptor: str, *, include_result: bool = False) -> JobInfo | None:
    """Look up a job with its body and all results of its steps in it; return None if there is no such job.

    Raises:
        PinLaterError: the server does not answer.
    """
    found = await client.lookup([descriptor], include_body=True, include_result=include_result)
    info = found.get(descriptor)
    name = None if info is None else kept_name(info)
    if info is None or name is None:
        return info
    return with_results(info, await client.read_messages(descriptor, name, limit=_MOST_MESSAGES))
