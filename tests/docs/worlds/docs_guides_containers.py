"""What the guide of containers takes for granted."""

from pinlater.testing import run_inline

drawn = []


def afterwards(page, server):
    del server
    assert page["MakeThumbnails"].job_options.latency_target == 30
    with run_inline(page["MakeThumbnails"]) as client:
        client.enqueue(page["MakeThumbnails"](photo="cat.jpg"))
    assert drawn == ["cat.jpg"]
