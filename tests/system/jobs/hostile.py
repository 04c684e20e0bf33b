"""Jobs that do what jobs should not."""

import asyncio
import contextlib
import ctypes
import locale
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pinlater import Constant, Job

RAN = Path("ran.txt").absolute()


def write(line):
    with RAN.open("a") as file:
        file.write(f"{line}\n")


class Touch(Job, queue="touch"):
    number: int

    def run(self, context):
        write(f"touch {self.number}")


class Nap(Job, queue="touch"):
    async def run(self, context):
        await asyncio.sleep(0.4)
        write("nap")


class Hostile(Job, queue="hostile", attempts=2, backoff=Constant(0.05)):
    how: str

    def run(self, context):
        write(f"{self.how} {context.attempt} {os.getpid()}")
        return globals()[self.how](context)


class HostileLater(Hostile, queue="hostile"):
    async def run(self, context):
        return super().run(context)


# Those that end their process


def segfaults(context):
    ctypes.string_at(0)


def aborts(context):
    os.abort()


def exits_at_once(context):
    os._exit(3)


def runs_out_of_memory(context):
    os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does


def kills_its_group(context):
    subprocess.Popen(["sleep", "1000"])
    os.killpg(0, signal.SIGKILL)


# Those that raise


def fills_memory(context):
    former = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), former[1]))
    try:
        hoard = []
        while True:
            hoard.append(bytearray(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, former)


def recurses(context):
    recurses(context)


def leaves(context):
    sys.exit("no number")


def interrupts(context):
    raise KeyboardInterrupt


def ends_as_a_generator(context):
    raise GeneratorExit


def cancels(context):
    raise asyncio.CancelledError


class Bare(BaseException):
    def __init__(self, lock):
        super().__init__()
        self.lock = lock  # so it cannot be pickled

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


def raises_something_unspeakable(context):
    raise Bare(threading.Lock())


def raises_what_is_no_text(context):
    raise ValueError("caf\udce9 \0 \x1b[31m")


def raises_megabytes(context):
    raise ValueError("x" * 5_000_000)


def closes_its_streams(context):
    sys.stdout.close()
    sys.stderr.close()
    print("nobody reads this")


# Those that succeed, but leave something behind


def returns_what_nobody_can_carry(context):
    return threading.Lock(), (number for number in range(3)), lambda: None


def logs_binary(context):
    sys.stdout.buffer.write(os.urandom(5_000_000))
    sys.stdout.flush()
    context.log.error("%r\udce9\0", os.urandom(1_000_000))
    context.log.error("%d", "no number")


def saves_in_threads(context):
    def save(number):
        for done in range(30):
            context.checkpoint(flush=True)
            context.progress(done)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(save, range(6)))


def saves_after_its_end(context):
    def save():
        ended = time.monotonic() + 0.5
        while time.monotonic() < ended:
            with contextlib.suppress(RuntimeError):
                context.checkpoint(flush=True)

    threading.Thread(target=save, daemon=True).start()


def leaves_threads(context):
    for is_daemon in (True, False):
        threading.Thread(target=time.sleep, args=(10_000,), daemon=is_daemon).start()


def leaves_processes(context):
    for has_left in (False, True):
        write(f"left {subprocess.Popen(['sleep', '10000'], start_new_session=has_left).pid}")
    pid = os.fork()
    if pid == 0:
        time.sleep(10_000)
    write(f"left {pid}")


def blocks_signals(context):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def takes_signals(context):
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)


def closes_the_loop(context):
    asyncio.get_event_loop_policy().get_event_loop().close()


def moves_house(context):
    os.chdir("/")
    os.umask(0o777)
    os.environ.clear()
    locale.setlocale(locale.LC_ALL, "C")
    sys.setrecursionlimit(sys.getrecursionlimit() * 2)


def sets_an_alarm(context):
    signal.setitimer(signal.ITIMER_REAL, 0.2)


def closes_all_files(context):
    os.closerange(0, 4096)


def hoards_files(context):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while True:
        os.open("/dev/null", os.O_RDONLY)


def waits_for_a_process(context):
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(10_000,)).start()
