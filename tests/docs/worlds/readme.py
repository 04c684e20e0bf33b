"""What the README takes for granted: a bank, a board of pins, an album, customers."""

from types import SimpleNamespace

from pinlater import Client, Job, JobContext
from pinlater.testing import run_inline

MY_JOBS = """
from pinlater import Job


class SendEmail(Job, queue="email"):
    def run(self, context):
        pass


class Reindex(Job, queue="reindex"):
    def run(self, context):
        pass
"""

_charged, _indexed, _published = [], [], set()


def prepare(sandbox):
    sandbox.write("my_jobs.py", MY_JOBS)


class bank:
    @staticmethod
    def charge(order, idempotency_key):
        _charged.append(order)
        return SimpleNamespace(is_busy=len(_charged) == 1, is_refused=order == 13)


def pins_after(board_id, cursor):
    return [SimpleNamespace(id=number) for number in (101, 102, 103) if number > cursor]


def index(pin):
    _indexed.append(pin.id)


def list_photos(album_id):
    return ["cat.jpg", "coffee.jpg"]


def resize(photo):
    return f"small-{photo}"


async def upload(photo):
    return f"https://photos.example.com/{photo}"


def is_approved(album_id):
    return True


def publish(album_id):
    _published.add(album_id)


def is_published(album_id):
    return album_id in _published


def bill_everybody(until, after):
    return after + 1


class SendWelcomeEmail(Job):
    user_id: int

    def run(self, context: JobContext) -> None:
        pass


class SendReminder(SendWelcomeEmail, name="SendReminder"):
    pass


def sign_up(address, client: Client):
    client.enqueue(SendWelcomeEmail(user_id=42))


def run_the_bill(page, server):
    assert server.run_worker(page["Bill"]) == []
    server.advance(2 * 24 * 3600)
    [outcome] = server.run_worker(page["Bill"])
    assert outcome.job.last_invoice == 1


def afterwards(page, server):
    """Run what the page has shown."""
    with run_inline(page["Charge"]) as client:
        client.enqueue(page["Charge"](order=12))
        client.enqueue(page["Charge"](order=13))
        assert [str(outcome.ending) for outcome in client.outcomes] == ["failed", "succeeded", "discarded"]
        assert client.outcomes[0].retry_delay == 30
    run_the_bill(page, server)
