"""Jobs with all results of their steps, including those that are stored outside their bodies."""

from __future__ import annotations

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.kept_results import kept_name, with_results
from pinlater.model.jobs import JobInfo
from pinlater.model.messages import ReceivedMessage

_MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of results that are read: by default, no call could enqueue a job with more of them in its body."""


async def find_whole(client: AsyncVerbs, descriptor: str, *, include_result: bool = False) -> JobInfo | None:
    """Look up a job with its body and all results of its steps in it; return None if there is no such job.

    If results are missing, or are more than ``_MOST_BYTES``, the body stays as stored, and ``kept_name`` says so.

    Raises:
        PinLaterError: the server does not answer.
    """
    found = await client.lookup([descriptor], include_body=True, include_result=include_result)
    info = found.get(descriptor)
    name = None if info is None else kept_name(info)
    if info is None or name is None:
        return info
    messages: list[ReceivedMessage] = []
    left = _MOST_BYTES
    while page := await client.read_messages(descriptor, name, after=messages[-1].number if messages else 0):
        left -= sum(len(message.payload) for message in page)
        if left < 0:
            return info
        messages += page
    return with_results(info, messages)
