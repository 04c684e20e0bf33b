"""What the guide for those who come from other workflow systems takes for granted: functions for its steps."""

from pinlater.testing import run_inline

paid, undone = [], []


def fetch(url):
    return f"the page {url}"


def book_flight(city):
    return f"flight to {city}"


def cancel_flight(flight):
    undone.append(flight)


def pay(flight, key):
    paid.append((flight, key))


def pay_back(_):
    raise AssertionError("it was never undone")


def afterwards(page, server):
    kinds = [page[name] for name in ("Fetch", "CountWords", "Total", "BookTrip")]
    _, _, total, trip = kinds
    with run_inline(*kinds) as client:
        assert client.enqueue(total(urls=["a", "b"])).result(0) == 6
        booked, refused = client.enqueue(trip(city="rome")), client.enqueue(trip(city="oslo"))
        booked.send("approval", page["Approval"]("ada", is_granted=True))
        refused.send("approval", {"by": "bob", "is_granted": False})
        assert (booked.result(0), refused.result(0)) == ("flight to rome", "refused")
    assert [flight for flight, _ in paid] == ["flight to rome"]
    assert not undone
