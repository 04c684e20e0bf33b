"""Steps that book something, fail as often as a test says, and can be undone."""

import asyncio

from pinlater.testing import run_inline

done = []
failures = {}


def note(what):
    """Note what is done, or fail as often as the test says."""
    if failures.get(what, 0) > 0:
        failures[what] -= 1
        raise OSError(f"no {what}")
    done.append(what)
    return f"ticket of {what}"


def book(what):
    return note(what)


def cancel(ticket):
    note(f"cancelled {ticket}")


async def book_async(what):
    await asyncio.sleep(0)
    return note(what)


async def cancel_async(ticket):
    await asyncio.sleep(0)
    note(f"cancelled {ticket}")


def undone(*names):
    return [f"cancelled ticket of {name}" for name in names]


def run(job):
    with run_inline(type(job)) as client:
        client.enqueue(job)
    return client
