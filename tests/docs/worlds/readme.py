"""What the README takes for granted: a module of jobs."""

MY_JOBS = """
from pinlater import Job


class SendEmail(Job, queue="email"):
    def run(self, context):
        pass


class Reindex(Job, queue="reindex"):
    def run(self, context):
        pass
"""


def prepare(sandbox):
    sandbox.write("my_jobs.py", MY_JOBS)
