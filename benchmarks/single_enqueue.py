"""Many producers, each storing one job a call and waiting for the answer."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable

import uvloop

from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater import AsyncClient, JobState
from pinlater.jobs.body_codec import encode_body
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import FrameSplitter
from pinlater.protocol.messages import PinLaterEnqueueRequest, PinLaterJob, RequestContext, arguments_of

CALLS = 40_000
PRODUCERS = 16


def measure(setting: Setting) -> list[Figure]:
    """Measure the rate with our client, and with one that does next to nothing."""
    calls = setting.amount(CALLS // setting.rounds, step=PRODUCERS)
    cpu_us: list[float] = []
    with setting.bare() as store, setting.server() as server:

        def bare() -> float:
            body = encode_body(Nothing(number=1))
            started = time.perf_counter()
            for _ in range(calls // 4):  # no producer beside it, so the rate is soon known
                store.insert([body])
            return calls // 4 / (time.perf_counter() - started)

        def raw() -> float:
            cpu = server.cpu_seconds()
            rate = _checked(server, calls, _with_sockets)
            cpu_us.append((server.cpu_seconds() - cpu) / calls * 1e6)
            return rate

        bare_rates, rates, raw_rates = setting.in_turns(bare, lambda: _checked(server, calls, _with_our_client), raw)
    title = f"enqueue, {PRODUCERS} producers, 1 job a call"
    return [
        Figure("single_enqueue", f"{title}, AsyncClient", "calls/s", rates, bare_rates),
        Figure("single_enqueue_raw", f"{title}, plain sockets", "calls/s", raw_rates, bare_rates),
        Figure("single_enqueue_raw_cpu", "  processor time of the server", "us/call", cpu_us),
    ]


def _checked(server: Server, calls: int, enqueue: Callable[[Server, str, int], None]) -> float:
    """Return the rate; every answer counts only if its job is there."""
    queue = server.create_queue(f"nothing_{time.monotonic_ns()}")
    started = time.perf_counter()
    enqueue(server, queue, calls)
    rate = calls / (time.perf_counter() - started)
    with server.client() as client:
        stored = client.count(queue, JobState.PENDING)
    if stored != calls:
        raise ProgramFailed(f"{calls} enqueues were answered, but {stored} jobs are stored")
    return rate


def _with_our_client(server: Server, queue: str, calls: int) -> None:
    async def produce(client: AsyncClient, first: int) -> None:
        for number in range(first, calls, PRODUCERS):
            await client.enqueue(Nothing(number=number), queue=queue)

    async def produce_all() -> None:
        async with AsyncClient(str(server.address), connections=PRODUCERS) as client, asyncio.TaskGroup() as tasks:
            for first in range(PRODUCERS):
                tasks.create_task(produce(client, first))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(produce_all())


def _with_sockets(server: Server, queue: str, calls: int) -> None:
    """Send the same bytes again and again; this costs the machine least, and leaves most to the server."""
    jobs = [PinLaterJob(encode_body(Nothing(number=1)))]
    request = PinLaterEnqueueRequest(queueName=queue, jobs=jobs)
    arguments = arguments_of("enqueueJobs")(RequestContext(source="bench"), request)
    frame = Codec().encode_call("enqueueJobs", 1, arguments)
    to_send = calls
    answers = 0
    with selectors.DefaultSelector() as selector:
        for _ in range(PRODUCERS):
            producer = socket.create_connection(server.address[:2])
            producer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(producer, selectors.EVENT_READ, FrameSplitter())
            producer.sendall(frame)
            to_send -= 1
        while answers < calls:
            for key, _ in selector.select():
                producer = key.fileobj  # type: ignore[assignment] # all of them are sockets
                answered = len(key.data.feed(producer.recv(65536)))
                answers += answered
                if answered and to_send > 0:
                    producer.sendall(frame)
                    to_send -= 1
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
