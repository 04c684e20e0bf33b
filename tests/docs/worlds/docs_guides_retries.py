"""What the guide of retries takes for granted: a bank, a feed, a post office."""

from pinlater import Constant, Exponential, Linear
from pinlater.testing import run_inline

posted, answers, trouble, sent = [], [], [], []


def post(invoice, key):
    posted.append((invoice, key))


def ask_bank(order):
    return answers.pop(0)


def refresh(feed):
    raise trouble.pop(0)


def send_text(phone, code):
    sent.append((phone, code))


def delays(backoff, count):
    return [backoff.delay(number, lambda: 0.0) for number in range(1, count + 1)]


def afterwards(page, server):
    assert delays(Constant(30), 4) == [30, 30, 30, 30]
    assert delays(Linear(first=10, step=20, cap=60), 4) == [10, 30, 50, 60]
    assert delays(Exponential(first=2, cap=600), 4) == [2, 4, 8, 16]
    assert Exponential(first=2, cap=600).delay(1, lambda: 0.999) < 2.2
    assert Exponential(first=2, cap=600).delay(20, lambda: 0.0) == 600
    with run_inline(page["PostInvoice"], page["Refresh"], page["SendCode"]) as client:
        client.enqueue(page["PostInvoice"](invoice=7))
        assert posted == [(7, client.outcomes[0].descriptor)]
        trouble[:] = [ConnectionResetError(), ValueError(), PermissionError()]
        client.enqueue(page["Refresh"](feed="news"))
        endings = [(str(outcome.ending), round(outcome.retry_delay)) for outcome in client.outcomes[1:]]
        assert endings == [("failed", 60), ("failed", 2), ("discarded", 0)]
        client.enqueue(page["SendCode"](phone="112", code="7"))
        assert sent == [("112", "7")]
