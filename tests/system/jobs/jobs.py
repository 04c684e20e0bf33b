"""Jobs of many kinds."""

import asyncio
import ctypes
import os
import pathlib
import signal
import sys
import time
import warnings

from trail import write

from pinlater import Client, Constant, Discard, Job, Retry

SOON = Constant(0.1)


with open("imported.txt", "a") as file:
    file.write(f"{os.getpid()}\n")


ballast = []


def hold():
    # No Python code is run, so no signal handler, and no other thread: the second time, the mutex is locked.
    lock, mutex = ctypes.PyDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    while True:
        lock(mutex)


class Touch(Job, queue="touch"):
    number: int

    def run(self, context):
        write(f"touch {self.number}")


class Sleep(Job, queue="sleeps", backoff=SOON):
    name: str
    seconds: float

    def run(self, context):
        write(f"begin {self.name} {context.attempt} {os.getpid()}")
        time.sleep(self.seconds)
        write(f"end {self.name} {context.attempt}")


class Until(Job, queue="sleeps", backoff=SOON):
    "Ends when a file is there, in all attempts."

    name: str
    file: str = "go on"

    def run(self, context):
        write(f"begin {self.name} {context.attempt} {os.getpid()}")
        while not os.path.exists(self.file):
            time.sleep(0.01)
        write(f"end {self.name} {context.attempt}")


class Outlasts(Job, queue="sleeps"):
    "Ends so many seconds after its process was told to stop."

    name: str
    seconds: float

    def run(self, context):
        write(f"begin {self.name} {context.attempt} {os.getpid()}")
        while not context.is_draining:
            time.sleep(0.01)
        time.sleep(self.seconds)


class HoldInterpreter(Job, queue="holds", backoff=SOON):
    "For some seconds, or until a file is there."

    seconds: int = 0
    file: str = "go on"

    def run(self, context):
        write(f"begin hold {context.attempt}")
        library = ctypes.PyDLL(None)
        library.sleep(self.seconds)
        while not self.seconds and library.access(self.file.encode(), os.F_OK):
            library.usleep(10_000)
        write(f"end hold {context.attempt}")


class Fails(Job, queue="fails", attempts=3, backoff=SOON, give_up_on=(LookupError,)):
    how: str

    def run(self, context):
        write(f"{self.how} {context.attempt}")
        if self.how == "raise":
            raise ValueError("the reason")
        if self.how == "retry":
            raise Retry(after=0.05, reason="come back later") if context.attempt == 1 else Retry()
        if self.how == "discard":
            raise Discard("never again")
        if self.how == "give up":
            raise KeyError("nowhere")
        if self.how == "sys.exit":
            sys.exit(3)
        if self.how == "interrupt":
            raise KeyboardInterrupt
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "segfault":
            ctypes.string_at(0)
        if self.how == "_exit":
            os._exit(0)


class Overdue(Job, queue="overdue", attempts=2, backoff=SOON, timeout=0.3):
    how: str

    def run(self, context):
        write(f"{self.how} {context.attempt}")
        if self.how == "hold":
            hold()
        while True:
            try:
                time.sleep(0.01 if self.how == "doze" else 60)  # a thread hears of its timeout between two calls
            except Exception:
                if self.how != "catch":
                    raise


class Heedless(Overdue, queue="overdue", attempts=2, backoff=SOON, timeout=0.3, kill_after=1):
    pass


class Stalls(Job, queue="overdue", attempts=2, backoff=SOON, stall_after=0.3):
    how: str

    def run(self, context):
        write(f"{self.how} {context.attempt}")
        context.checkpoint()
        if self.how == "hold":
            hold()
        time.sleep(60)


class Expires(Job, queue="overdue", backoff=SOON, give_up_after=3):
    def run(self, context):
        write(f"expires {context.attempt}")
        time.sleep(60)


class Prints(Job, queue="touch", backoff=SOON):
    how: str

    def run(self, context):
        write(f"{self.how} {context.attempt}")
        if self.how == "print":
            print("x" * 100_000, flush=True)
        if self.how == "stderr":
            sys.stderr.write("a line\n")
        if self.how == "log":
            context.log.error("a line")
        if self.how == "warn":
            warnings.warn("a line", stacklevel=1)
        if self.how == "buffer":
            sys.stdout.buffer.write(bytes(1_000_000))
            sys.stdout.flush()


class Late(Job, queue="overdue", kill_after=0.5):
    def run(self, context):
        [log] = pathlib.Path().glob("worker-*.log")
        while "then it is killed" not in log.read_text():
            time.sleep(0.01)
        write("late")


class Next(Job, queue="overdue", kill_after=600):
    def run(self, context):
        [log] = pathlib.Path().glob("worker-*.log")
        while "the child is not killed" not in log.read_text():
            time.sleep(0.01)


class OverdueLater(Job, queue="overdue", attempts=2, backoff=SOON, timeout=0.3):
    async def run(self, context):
        await asyncio.sleep(60)


class Hands(Job, queue="holds"):
    server: str

    def run(self, context):
        time.sleep(1)
        with Client(self.server) as client:
            client.enqueue(Touch(number=7))


class Fills(Job, queue="holds", backoff=SOON):
    megabytes: int
    seconds: float = 0
    file: str = "jobs.py"

    def run(self, context):
        write(f"fill {context.attempt} {os.getpid()}")
        while not os.path.exists(self.file):
            time.sleep(0.01)
        ballast.append(b"x" * (self.megabytes * 1_000_000))
        time.sleep(self.seconds)
        write(f"filled {context.attempt}")


class Forks(Job, queue="forks"):
    how: str

    def run(self, context):
        pid = os.fork()
        if pid == 0:
            if self.how == "exits":
                sys.exit(3)
            if self.how == "raises":
                raise ValueError
            return
        _, status = os.waitpid(pid, 0)
        write(f"{self.how} {os.waitstatus_to_exitcode(status)}")


class Count(Job, queue="counts", heartbeat=0, attempts=2):
    to: int
    cursor: int = 0

    def run(self, context):
        write(f"count from {self.cursor} attempt {context.attempt}")
        while self.cursor < self.to:
            time.sleep(0.01)
            self.cursor += 1
            context.checkpoint()
        write("counted")


class March(Job, queue="counts", heartbeat=0.01):
    def run(self, context):
        write("march")
        while not os.path.exists("server.stopped"):
            context.checkpoint()
            time.sleep(0.01)
        for _ in range(40):
            time.sleep(0.05)
            context.checkpoint()
        write("marched")


class Steps(Job, queue="steps", attempts=3, backoff=SOON):
    async def run(self, context):
        first = context.step("first", step, "first", (1, 2))
        second = context.step("second", step, "second", first)
        if context.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        context.step("third", step, "third", second)


def step(name, value):
    write(f"step {name} {value}")
    return value
