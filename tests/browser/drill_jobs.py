"""The jobs of the drill, each in trouble of its own. They are copied beside the worker that runs them."""

import os
import signal
import time

from pinlater import Constant, Job, JobContext

LATER = Constant(3600)
kept = []


class CallMailServer(Job, queue="mail", attempts=5, backoff=LATER):
    to: str

    def run(self, context: JobContext):
        raise ConnectionRefusedError("mail.example.com")


class ReadUpload(Job, queue="uploads", attempts=1):
    number: int

    def run(self, context: JobContext):
        raise KeyError("locale")


class CloseBooks(Job, queue="books", attempts=1, every=1):
    def run(self, context: JobContext):
        raise LookupError("there is no rate for today")


class ResizeHugeImage(Job, queue="images", attempts=2, backoff=Constant(0.1)):
    def run(self, context: JobContext):
        os.kill(os.getpid(), signal.SIGSEGV)


class KeepAll(Job, queue="keep"):
    def run(self, context: JobContext):
        kept.append(os.urandom(16_000_000))
        time.sleep(0.2)  # growth is seen over some seconds


class Export(Job, queue="exports"):
    tenant: str

    def run(self, context: JobContext):
        time.sleep(2)
