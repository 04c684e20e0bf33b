"""What the guide for those who come from RQ, Dramatiq and Sidekiq takes for granted, and what its jobs do."""

import importlib

import pytest

from pinlater import JobFailed
from pinlater.testing import run_inline

failures, seconds, imported, charged, cancelled = [], [], [], [], []
busy = set()


def fetch(url):
    if not url:
        raise ValueError("there is no page")
    return f"the page {url}"


def rows_of(file):
    return [f"{file} {number}" for number in range(3)]


def import_row(row):
    if row in busy:
        busy.remove(row)
        raise ConnectionError(row)
    imported.append(row)


def charge(order):
    if order in busy:
        raise TimeoutError
    charged.append(order)


def cancel_order(order):
    cancelled.append(order)


def afterwards(page, server):
    of_rq(importlib.import_module("etl"))
    of_dramatiq(page)
    of_sidekiq(page)


def of_rq(etl):
    assert list(map(etl.Intervals(10, 60, 300).delay, (1, 2, 3, 4))) == [10, 60, 300, 300]
    with run_inline(etl.Load, etl.Extract, etl.Tell) as client:
        assert client.enqueue(etl.Load(sources=["a", "b"])).result(0) == ["A", "B"]
        for sources, ended, told in ((["a"], (1, 0), "it is"), (["none"], (0, 1), "it is not")):
            then, on_failure = etl.Tell(what="it is"), etl.Tell(what="it is not")
            assert client.batch([etl.Load(sources=sources)], then=then, on_failure=on_failure).result(0) == ended
            assert client.outcomes[-1].job.what == told


def of_dramatiq(page):
    with run_inline(
        *(page[name] for name in ("Fetch", "CountWords", "CountSite")), middleware=[page["timed"]]
    ) as client:
        assert client.enqueue(page["CountSite"](urls=["a", "b"])).result(0) == 6
        assert not failures
        with pytest.raises(JobFailed, match="there is no page"):
            client.enqueue(page["Fetch"](url="")).result(0)
    assert failures == ["Fetch"]
    assert len(seconds) == len(client.outcomes)


def of_sidekiq(page):
    busy.update({"a.csv 1", 7})
    with run_inline(page["ImportRows"], page["Charge"]) as client:
        client.enqueue(page["ImportRows"](file="a.csv"))
        failed, succeeded = client.outcomes
        assert (failed.retry_delay, failed.job.cursor, succeeded.ending) == (60, 1, "succeeded")
        client.enqueue(page["Charge"](order=7))
        assert [outcome.retry_delay for outcome in client.outcomes[2:7]] == [60, 120, 180, 240, 300]
        client.enqueue(page["Charge"](order=8))
    assert imported == ["a.csv 0", "a.csv 0", "a.csv 1", "a.csv 2"]  # nothing was saved before the failure
    assert (cancelled, charged) == ([7], [8])
