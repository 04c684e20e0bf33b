"""What the guide of long jobs takes for granted: a table of orders, a feed, a film."""

from types import SimpleNamespace

from pinlater.testing import run_inline

saved, encoded, rendered, mirrored = [], [], [], []
save = saved.append
encode = encoded.append
render = rendered.append
mirror = mirrored.append
_FEED = {"": SimpleNamespace(items="a", next="2"), "2": SimpleNamespace(items="b", next="")}


def prepare(sandbox):
    sandbox.write("orders.csv", "1,chair\n2,table\n3,lamp\n")


def fetch_page(feed, page):
    return _FEED[page]


def afterwards(page, server):
    del server
    with run_inline(page["CrawlFeed"], page["EncodeFilm"], page["Render"], page["MirrorSite"]) as client:
        client.enqueue(page["CrawlFeed"](feed="news"))
        film = client.enqueue(page["EncodeFilm"](frames=3))
        client.enqueue(page["Render"](scene="sunset"))
        client.enqueue(page["MirrorSite"](pages=["a", "b"]))
        client.assert_succeeded()
        assert client.lookup([film.descriptor])[film.descriptor].state.name == "SUCCEEDED"
    assert saved[-2:] == ["a", "b"]
    assert encoded == [0, 1, 2]
    assert rendered == ["sunset"]
    assert mirrored == ["a", "b"]
