"""What the guide of scaling takes for granted."""

from pinlater.testing import run_inline

resized = []


def afterwards(page, server):
    del server
    with run_inline(page["Resize"]) as client:
        client.enqueue(page["Resize"](photo=7))
    assert resized == [7]
