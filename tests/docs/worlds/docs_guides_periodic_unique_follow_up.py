"""What the guide of periodic, unique and follow-up jobs takes for granted."""

from pinlater.testing import run_inline

polls, recounted, mailed, looked, resized = [], [], [], [], []


def bill_everybody(until, after):
    assert (until.hour, until.minute) == (3, 0)
    assert str(until.tzinfo) == "Europe/Berlin"
    return after + 1


def poll():
    polls.append(1)


def recount(board):
    recounted.append(board)


def build(month):
    return f"{month}.pdf"


def mail(report):
    mailed.append(report)


def resize(photo):
    resized.append(photo)


def is_paid(order):
    looked.append(order)
    return len(looked) == 3


def afterwards(page, server):
    with run_inline(page["Recount"], page["Build"], page["Mail"]) as client:
        client.enqueue(page["Recount"](board=7))
        client.enqueue(page["Build"](month="May"))
        client.assert_succeeded()
    assert (recounted, mailed) == ([7], ["May.pdf"])
    photos = [page["Resize"](photo=name) for name in ("a.jpg", "b.jpg")]
    with run_inline(page["Resize"], page["Mail"]) as client:
        batch = client.batch(photos, then=page["Mail"](report="the album"))
        assert page["what_became_of"](client, batch.descriptor) == "2 done, 0 failed"
    assert (resized, mailed[1:]) == (["a.jpg", "b.jpg"], ["the album"])
    assert server.run_worker(page["Poll"]) == []
    server.advance(600)
    assert len(server.run_worker(page["Poll"])) == 1
    assert polls == [1]
