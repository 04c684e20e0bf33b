"""Jobs that send mails in steps, and the ways in which they swallow what the context raises."""

import asyncio
import concurrent.futures
import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pinlater import Discard, Job, retrying

MAILS = range(20)

sent = Counter()


def send(number):
    sent[number] += 1


async def send_later(number):
    await asyncio.sleep(0)
    sent[number] += 1


async def address_and_send(context, number):
    await context.step(f"address {number}", asyncio.sleep, 0)
    await context.step(f"mail {number}", send_later, number)


def branches_of(context):
    return [address_and_send(context, number) for number in MAILS]


class Mails(Job, queue="mails"):
    how: str
    is_done: bool = False

    def run(self, context):
        plain[self.how](context)
        self.is_done = True


class MailsLater(Mails, queue="mails"):
    async def run(self, context):
        await awaited[self.how](context)
        self.is_done = True


# Ways of a plain job


def suppress(context):
    with contextlib.suppress(BaseException):
        for number in MAILS:
            context.step(f"mail {number}", send, number)


def suppress_each(context):
    for number in MAILS:
        with contextlib.suppress(BaseException):
            context.step(f"mail {number}", send, number)


def suppress_checkpoints(context):
    for number in MAILS:
        with contextlib.suppress(BaseException):
            context.checkpoint(flush=True)
            context.step(f"mail {number}", send, number)


def return_in_finally(context):
    try:
        for number in MAILS:
            context.step(f"mail {number}", send, number)
    finally:
        return  # noqa: B012 - what this is about


def raise_another(context):
    try:
        return suppress_none(context)
    except BaseException:
        raise RuntimeError("cannot go on") from None


def raise_discard(context):
    try:
        return suppress_none(context)
    except BaseException:
        raise Discard("something was wrong") from None


def exit_(context):
    try:
        return suppress_none(context)
    except BaseException:
        raise SystemExit(1) from None


def suppress_none(context):
    for number in MAILS:
        context.step(f"mail {number}", send, number)


def pool_that_nobody_asks(context):
    with ThreadPoolExecutor(3) as pool:
        for number in MAILS:
            pool.submit(context.step, f"mail {number}", send, number)


def pool_waited_for(context):
    with ThreadPoolExecutor(3) as pool:
        concurrent.futures.wait([pool.submit(context.step, f"mail {number}", send, number) for number in MAILS])


def within_a_step(context):
    context.step("all", suppress, context)


def pool_within_a_step(context):
    context.step("all", pool_that_nobody_asks, context)


def error_within_a_step(context):
    context.step("all", retrying(raise_another, attempts=1), context)


def generator_within(context):
    def numbers():
        with contextlib.suppress(BaseException):
            for number in MAILS:
                yield context.step(f"mail {number}", send, number)

    for _ in numbers():
        pass


plain = {
    way.__name__: way
    for way in (
        *(suppress, suppress_each, suppress_checkpoints, return_in_finally, raise_another, raise_discard, exit_),
        *(pool_that_nobody_asks, pool_waited_for, within_a_step, pool_within_a_step, error_within_a_step),
        generator_within,
    )
}

# Ways of an ``async def`` job


async def gather(context):
    await asyncio.gather(*branches_of(context), return_exceptions=True)


async def gather_in_threads(context):
    def step(number):
        return context.step(f"mail {number}", send, number)

    await asyncio.gather(*[asyncio.to_thread(step, number) for number in MAILS], return_exceptions=True)


async def a_few_at_a_time(context):
    room = asyncio.Semaphore(3)

    async def one(number):
        async with room:
            await context.step(f"mail {number}", send_later, number)

    await asyncio.gather(*[one(number) for number in MAILS], return_exceptions=True)


async def wait(context):
    await asyncio.wait([asyncio.ensure_future(branch) for branch in branches_of(context)])


async def cancel(context):
    tasks = [asyncio.ensure_future(branch) for branch in branches_of(context)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def cancel_while_one_is_under_way(context):
    gate = asyncio.Event()
    await context.step("mail 0", send_later, 0)
    slow = asyncio.ensure_future(context.step("slow", gate.wait))
    await asyncio.sleep(0)
    await context.step("mail 1", send_later, 1)
    for number in MAILS[2:]:
        other = asyncio.ensure_future(context.step(f"mail {number}", send_later, number))
        await asyncio.wait([other], timeout=0.01 if context.is_draining else None)
        other.cancel()  # in a drain it waits for those under way; who tires of that has not done its work
    gate.set()
    await slow


async def group(context):
    with contextlib.suppress(BaseException):
        async with asyncio.TaskGroup() as tasks:
            for branch in branches_of(context):
                tasks.create_task(branch)


async def group_that_fails_otherwise(context):
    async def fail(branch):
        try:
            await branch
        except BaseException:
            raise ValueError("in the midst of it") from None

    async with asyncio.TaskGroup() as tasks:
        for branch in branches_of(context):
            tasks.create_task(fail(branch))


async def gather_within_a_step(context):
    await context.step("all", gather, context)


async def executor_within_a_step(context):
    await context.step("all", executor, context)


async def executor(context):
    loop = asyncio.get_running_loop()
    calls = [partial(context.step, f"mail {number}", send, number) for number in MAILS]
    await asyncio.gather(*[loop.run_in_executor(None, call) for call in calls], return_exceptions=True)


awaited = {
    way.__name__: way
    for way in (
        *(gather, gather_in_threads, a_few_at_a_time, wait, cancel, cancel_while_one_is_under_way, group),
        *(group_that_fails_otherwise, gather_within_a_step, executor_within_a_step, executor),
    )
}
